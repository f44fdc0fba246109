"""A bank of prompts of mixed difficulty: a softmax policy of its own for each, with common and rare correct modes."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from simlab.errors import InputError, check_range, check_whole
from simlab.problems.base import LARGEST_COUNT, Problem, check_logits, check_sets, numbers

Rates = Float[np.ndarray, " M"]
SMALLEST_RATE = 1e-30
LARGEST_BANK = 2**24  # prompts, and classes of actions of all prompts
USUAL_PROMPTS = 64


def choose_rates(
    prompts: int, solve_rates: Sequence[float] | str, default: Callable[[], Rates], margin: float
) -> Rates:
    """Return the M listed solve rates, or M quantiles of them, or else the default ones, in [margin, 1 - margin].

    ``InputError`` for an unreadable file, a margin or rate outside its range, or a rate that float32 logits cannot
    have.
    """
    rates = numbers("solve_rates", solve_rates)
    if isinstance(solve_rates, str) and not rates.size:
        raise InputError(f"solve_rates = {solve_rates!r} holds no number; allowed: one or more")
    if not rates.size:
        rates = default()
    elif prompts:  # a quantile is the smallest rate that a share of at least (i + 1/2) / M does not exceed
        rates = np.sort(rates)[np.ceil(midpoints(prompts) * len(rates) - 1e-9).astype(int) - 1]
    check_range("margin", margin, 0, 0.5)
    for index, rate in enumerate(rates.tolist()):
        check_range(f"solve rate {index}", rate, 0, 1)
    clipped: Rates = np.clip(rates, margin, 1 - margin)
    for first in np.flatnonzero((clipped < SMALLEST_RATE) | (clipped >= 1)):
        allowed = f"from {SMALLEST_RATE:g} to below 1, or a margin such as margin=1e-6"
        raise InputError(f"solve rate {first} is {clipped[first]:g}; allowed: {allowed}")
    return clipped


def midpoints(count: int) -> Rates:
    """Return the probabilities (i + 1/2) / M, whose quantiles stand for a distribution."""
    return (np.arange(count) + 0.5) / count


def beta_rates(prompts: int, beta_a: float, beta_b: float) -> Rates:
    """Return the M quantiles of Beta(a, b) at the midpoints, in increasing order."""
    from scipy.special import betaincinv  # noqa: PLC0415  # a fifth of a second that other problems do without

    check_range("Beta parameter", beta_a, 0, open_low=True)
    check_range("Beta parameter", beta_b, 0, open_low=True)
    quantiles: Rates = betaincinv(beta_a, beta_b, midpoints(prompts))
    return quantiles


def mixed_rates(prompts: int, first: tuple[float, float], second: tuple[float, float], second_share: float) -> Rates:
    """Return the quantiles of two Betas, sorted: round(``second_share`` M) of the prompts belong to the second."""
    check_range("second_share", second_share, 0, 1)
    of_second = round(second_share * prompts)
    return np.sort(np.concatenate([beta_rates(prompts - of_second, *first), beta_rates(of_second, *second)]))


@dataclass(frozen=True, eq=False)
class PromptBank(Problem):
    """M prompts, each with a softmax policy over A actions; ``InputError`` for arrays that make no problem.

    Prompts interact only in what an estimator or surrogate reads from the whole batch, in an estimator's memory, and in
    the optimiser: Adam goes on moving a prompt outside the batch, and AdamW shrinks its logits; SGD does neither.

    Attributes:
        logits: (M, A) initial logits, or of each class of actions where there are ``counts``; the others likewise.
        correct: (M, A) true for correct actions.
        target: (M, A) true for the target set of the tail-miss rate, of each prompt a subset of its correct actions.
    """

    logits: Float[np.ndarray, "M A"]
    correct: Bool[np.ndarray, "M A"]
    target: Bool[np.ndarray, "M A"]

    over_actions: ClassVar[Mapping[str, int]] = {"logits": 1, "correct": 1, "target": 1}
    metrics_at = "simlab.simulator.metrics:BANK_METRICS"
    has_own_parameters = True

    def __post_init__(self) -> None:
        check_prompts(self.logits, self.correct, self.target)
        super().__post_init__()

    @property
    def prompts(self) -> int:
        """M."""
        return len(self.logits)

    def logits_of(self, parameters: Array, prompts: Int[Array, " P"] | None = None) -> Float[Array, "P A"]:
        """The parameters of some prompts, or of all."""
        return parameters if prompts is None else parameters[prompts]

    def pullback(
        self, gradients: Float[Array, "P A"], parameters: Any, prompts: Int[Array, " P"]
    ) -> Float[Array, "M A"]:
        """Scatter the gradients of the batch's prompts into the rows of all prompts."""
        return jnp.zeros_like(parameters).at[prompts].set(gradients)

    def drawn_logits(self, parameters: Array, prompts: Any, groups: Any, look_up: Any) -> Float[Array, "P G"]:
        """The logits of what each group drew, without those of all other actions."""
        return parameters[prompts[:, None], groups.slots]

    @functools.cached_property
    def solve_rates(self) -> Rates:
        """(M,) the initial probability of a correct action of each prompt."""
        each = 1.0 if self.counts is None else self.counts.astype(float)
        weights = each * np.exp(self.logits - self.logits.max(axis=1, keepdims=True))
        rates: Rates = np.where(self.correct, weights, 0).sum(axis=1) / weights.sum(axis=1)
        return rates

    def labels(self) -> Mapping[str, Sequence[Any]]:
        """The middles of the bins of the solve rate."""
        from simlab.simulator.metrics import BIN_CENTRES  # noqa: PLC0415

        return {"bin": BIN_CENTRES.tolist()}


def check_prompts(logits: np.ndarray, correct: np.ndarray, target: np.ndarray) -> None:
    """Raise ``InputError`` unless these are logits, correct and target sets of prompts, (M, A) each."""
    shapes = {"logits": logits.shape, "correct": correct.shape, "target": target.shape}
    if len(set(shapes.values())) > 1 or logits.ndim != 2 or 0 in logits.shape:
        raise InputError(f"arrays have shapes {shapes}; allowed: one shape (prompts, actions)")
    if correct.dtype != bool or target.dtype != bool:
        raise InputError(f"correct and target have dtypes {correct.dtype}, {target.dtype}; allowed: bool")
    sound = np.isfinite(logits).all(1) & correct.any(1) & target.any(1) & ~(target & ~correct).any(1)
    for first in np.flatnonzero(~sound)[:1]:
        try:
            check_logits(logits[first])
            check_sets(correct[first], target[first])
        except InputError as error:
            raise InputError(f"prompt {first}: {error}") from None


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

    Actions 0 to ``modes`` - 1 are correct; the last ``rare_modes`` of these are the target set. The incorrect actions
    are alike, at logit 0. Solve rates are the quantiles of a Beta(a, b), or of two, at (i + 1/2) / M. By default most
    prompts are nearly unsolved or nearly solved, as in FADE's Figure 10.

    Args:
        prompts: M; 0 for as many as solve rates are listed, 64 of a Beta.
        actions: A, of each prompt.
        second_a, second_b, second_share: a second Beta, and the share of prompts that it describes.
        solve_rates: in place of a Beta, numbers, or the path of a ``.npy`` or text file of them, such as measured ones.
            With M above 0 the bank holds M quantiles of these.
        margin: solve rates are moved into [margin, 1 - margin], as no softmax policy has a rate of 0 or 1.
        rare_ratio: probability of a rare mode over that of a common one.

    >>> bank = prompt_bank(solve_rates=[0.1, 0.5, 0.9])
    >>> bank.solve_rates.round(12)
    array([0.1, 0.5, 0.9])
    """
    check_whole("prompts", prompts, 0, LARGEST_BANK)
    check_whole("modes", modes, 1)
    check_whole("actions", actions, modes + 1, LARGEST_COUNT)
    check_whole("rare_modes", rare_modes, 1, modes)
    check_range("rare_ratio", rare_ratio, 0, 1, open_low=True)

    def betas() -> Rates:
        return mixed_rates(prompts or USUAL_PROMPTS, (beta_a, beta_b), (second_a, second_b), second_share)

    rates = choose_rates(prompts, solve_rates, betas, margin)
    counts = np.array([modes - rare_modes, rare_modes, actions - modes])
    kinds = counts > 0
    check_range("prompts", len(rates), 1, LARGEST_BANK)
    weights = np.array([1.0, rare_ratio])
    odds = np.log(rates) - np.log1p(-rates)
    all_modes = np.repeat(weights, counts[:2]).sum()
    shares = np.log(weights) - np.log(all_modes) + np.log(actions - modes)
    logits = np.concatenate([odds[:, None] + shares, np.zeros((len(rates), 1))], axis=1)[:, kinds]
    correct, rare = (np.broadcast_to(np.array(each)[kinds], logits.shape) for each in ([1, 1, 0], [0, 1, 0]))
    rewards: dict[str, Any] = {"reward_correct": reward_correct, "reward_incorrect": reward_incorrect}
    return PromptBank(logits, correct > 0, rare > 0, counts=counts[kinds], **rewards)
