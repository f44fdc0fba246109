"""A bank of prompts of mixed difficulty: a softmax policy of its own for each, with common and rare correct modes."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from simlab.errors import InputError, check_range, check_whole
from simlab.problems.classes import Classes, check_policy, check_rewards, hashed
from simlab.problems.reading import numbers
from simlab.problems.solve_rates import Rates, listed_rates, mixed_rates, moved_inside

LARGEST_BANK = 2**24  # logits
USUAL_PROMPTS = 64


@dataclass(frozen=True, eq=False)
class PromptBank:
    """M prompts, each with a softmax policy over A actions and verifiable rewards.

    Attributes:
        logits: (M, A) initial logits.
        correct: (M, A) true for correct actions.
        target: (M, A) true for the target set of the tail-miss rate, of each prompt a subset of its correct actions.
        reward_correct: reward of a correct action, above 0.
        reward_incorrect: reward of an incorrect action, at most 0.

    Raises:
        InputError: for arrays of different or other shapes, rewards of the wrong sign, or a prompt whose logits are not
            finite, that has no correct action, or whose target is no part of these.
    """

    logits: Float[np.ndarray, "M A"]
    correct: Bool[np.ndarray, "M A"]
    target: Bool[np.ndarray, "M A"]
    reward_correct: float = 1.0
    reward_incorrect: float = 0.0

    def __post_init__(self) -> None:
        shapes = {name: getattr(self, name).shape for name in ("logits", "correct", "target")}
        if len(set(shapes.values())) > 1 or self.logits.ndim != 2 or 0 in self.logits.shape:
            raise InputError(f"arrays have shapes {shapes}; allowed: one shape (prompts, actions)")
        check_rewards(self.reward_correct, self.reward_incorrect)
        if self.correct.dtype != bool or self.target.dtype != bool:
            raise InputError(f"correct and target have dtypes {self.correct.dtype}, {self.target.dtype}; allowed: bool")
        sound = np.isfinite(self.logits).all(1) & self.correct.any(1) & self.target.any(1)
        sound &= ~(self.target & ~self.correct).any(1)
        if not sound.all():
            first = int(np.argmin(sound))
            try:
                check_policy(self.logits[first], self.correct[first], self.target[first])
            except InputError as error:
                raise InputError(f"prompt {first}: {error}") from None

    @property
    def prompts(self) -> int:
        """M."""
        return len(self.logits)

    @property
    def actions(self) -> int:
        """A, the actions of one prompt."""
        return int(self.logits.shape[1])

    @property
    def shape(self) -> tuple[int, ...]:
        """(M, A), the shape of the logits."""
        return (self.prompts, self.actions)

    @property
    def solve_rates(self) -> Rates:
        """(M,) the initial probability of a correct action of each prompt."""
        weights = np.exp(self.logits - self.logits.max(axis=1, keepdims=True))
        rates: Rates = np.where(self.correct, weights, 0).sum(axis=1) / weights.sum(axis=1)
        return rates

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of everything that the problem is."""
        rewards = (self.reward_correct, self.reward_incorrect)
        return hashed(rewards, np.array(self.shape), self.logits, self.correct, self.target)

    @property
    def classes(self) -> Classes:
        """What the lumped engine would carry.

        Raises:
            InputError: always.
        """
        raise InputError("engine = 'lumped' does not run a bank of prompts; allowed: auto, dense")


def prompt_bank(
    prompts: int = 0,
    actions: int = 32,
    *,
    beta_a: float = 0.5,
    beta_b: float = 0.5,
    second_a: float = 1.0,
    second_b: float = 1.0,
    second_share: float = 0.0,
    solve_rates: Sequence[float] | str = (),
    margin: float = 0.0,
    modes: int = 4,
    rare_modes: int = 3,
    rare_ratio: float = 0.01,
    reward_correct: float = 1.0,
    reward_incorrect: float = 0.0,
) -> PromptBank:
    """Prompts whose solve rates stand for a distribution, each with some common and some rare correct modes.

    Actions 0 to ``modes`` - 1 of every prompt are correct. The last ``rare_modes`` of these are ``rare_ratio`` times as
    likely as each of the others (if there are others), and are the target set. The incorrect actions of a prompt are
    alike, at logit 0.

    Solve rates are not random: of a Beta(a, b), or of two, they are the quantiles at (i + 1/2) / M. By default most
    prompts are nearly unsolved or nearly solved, as FADE's Figure 10 shows them.

    Args:
        prompts: M; 0 for as many as solve rates are listed, 64 of a Beta.
        actions: A, of each prompt.
        beta_a, beta_b: the Beta.
        second_a, second_b, second_share: another Beta, and the share of the prompts that are of this one.
        solve_rates: in place of a Beta, numbers, or the path of a ``.npy`` or text file of them, such as measured ones.
            With M above 0 the bank holds M quantiles of these.
        margin: solve rates are moved into [margin, 1 - margin]; measured ones may be 0 or 1, which no softmax policy
            can be.
        modes: correct actions of each prompt.
        rare_modes: how many of these are rare.
        rare_ratio: probability of a rare mode over that of a common one.
        reward_correct, reward_incorrect: see ``PromptBank``.

    Raises:
        InputError: for a number outside its range, an unreadable file, or more than 2^24 logits.

    >>> bank = prompt_bank(solve_rates=[0.1, 0.5, 0.9])
    >>> bank.solve_rates.round(12)
    array([0.1, 0.5, 0.9])
    """
    check_whole("prompts", prompts, 0, LARGEST_BANK)
    check_whole("modes", modes, 1)
    check_whole("actions", actions, modes + 1, LARGEST_BANK)
    check_whole("rare_modes", rare_modes, 1, modes)
    check_range("rare_ratio", rare_ratio, 0, 1, open_low=True)
    listed = numbers("solve_rates", solve_rates)
    if isinstance(solve_rates, str) and not listed.size:
        raise InputError(f"solve_rates = {solve_rates!r} holds no number; allowed: one or more")
    if listed.size:
        rates = listed_rates(listed, prompts)
    else:
        betas = (beta_a, beta_b), (second_a, second_b)
        rates = mixed_rates(prompts or USUAL_PROMPTS, *betas, second_share)
    check_range("prompts x actions", len(rates) * actions, 1, LARGEST_BANK)
    rates = moved_inside(rates, margin)
    place, shape = np.arange(actions), (len(rates), actions)
    correct, rare = place < modes, (place >= modes - rare_modes) & (place < modes)
    weights = np.where(rare, rare_ratio, 1.0)
    odds = np.log(rates) - np.log1p(-rates)
    shares = np.log(weights) - np.log(weights[:modes].sum()) + np.log(actions - modes)
    return PromptBank(
        np.where(correct, odds[:, None] + shares, 0.0),
        np.broadcast_to(correct, shape),
        np.broadcast_to(rare, shape),
        reward_correct,
        reward_incorrect,
    )
