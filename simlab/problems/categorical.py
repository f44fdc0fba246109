"""One categorical softmax policy: its actions, which of them are correct, and its exact quantities.

N actions; P the correct ones. The exact quantities are array-API functions of the probabilities, so they serve NumPy
and the simulator alike.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace
from jaxtyping import Bool, Float, Shaped

from simlab.errors import InputError, check_range, check_whole
from simlab.problems.classes import LARGEST_COUNT, Classes, check_policy, check_rewards, grouped, hashed
from simlab.problems.reading import numbers
from simlab.rollouts import Array

Total = Callable[[Array], Array]  # a sum over all actions


@dataclass(frozen=True, eq=False)
class Categorical:
    """A softmax policy over N actions with verifiable rewards.

    Attributes:
        logits: (N,) initial logits.
        correct: (N,) true for correct actions.
        target: (N,) true for the target set of the tail-miss rate, a subset of the correct actions.
        reward_correct: reward of a correct action, above 0.
        reward_incorrect: reward of an incorrect action, at most 0.

    Raises:
        InputError: for logits that are not finite, arrays of different lengths, no correct action, a target outside
            the correct set, or rewards of the wrong sign.
    """

    logits: Float[np.ndarray, " N"]
    correct: Bool[np.ndarray, " N"]
    target: Bool[np.ndarray, " N"]
    reward_correct: float = 1.0
    reward_incorrect: float = 0.0

    def __post_init__(self) -> None:
        lengths = {name: len(getattr(self, name)) for name in ("logits", "correct", "target")}
        if len(set(lengths.values())) > 1:
            raise InputError(f"arrays have different lengths {lengths}; allowed: one length, the number of actions")
        check_policy(self.logits, self.correct, self.target)
        check_rewards(self.reward_correct, self.reward_incorrect)

    @property
    def actions(self) -> int:
        """N."""
        return len(self.logits)

    @property
    def shape(self) -> tuple[int, ...]:
        """(N,), the shape of the logits."""
        return (self.actions,)

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of everything that the problem is."""
        return hashed((self.reward_correct, self.reward_incorrect), self.logits, self.correct, self.target)

    @functools.cached_property
    def classes(self) -> Classes:
        """The same policy by classes of equal actions, in the order of their first members."""
        first, counts = grouped(self.logits, self.correct, self.target)
        return Classes(
            self.logits[first],
            counts,
            self.correct[first],
            self.target[first],
            self.reward_correct,
            self.reward_incorrect,
        )


def anchored(
    actions: int = 128_000,
    correct: int = 10_000,
    *,
    anchor_logit: float = 5.0,
    correct_logit: float = 3.0,
    incorrect_logit: float = 0.0,
    target: int = 1,
    reward_correct: float = 1.0,
    reward_incorrect: float = 0.0,
) -> Classes:
    """One likely correct action (the anchor, action 0), many rare ones, and the rest incorrect ``[f-grpo:app-j]``.

    Actions 0 to ``correct`` - 1 are correct. The target set is the ``target`` last of them: one typical rare action by
    default. The paper's rewards are 1 and -1; 1 and 0 differ from them, after centring, by a factor of 2.

    Raises:
        InputError: unless 1 <= target <= correct <= actions, and for what ``Categorical`` refuses.
    """
    check_whole("actions", actions, 1, LARGEST_COUNT)
    check_whole("correct", correct, 1, actions)
    check_whole("target", target, 1, correct)
    for name, logit in (("anchor", anchor_logit), ("correct", correct_logit), ("incorrect", incorrect_logit)):
        check_range(f"{name}_logit", logit)
    logits = [anchor_logit, correct_logit, correct_logit, incorrect_logit]
    counts = [1, correct - 1 - target, target, actions - correct]
    if target == correct:
        counts[1:3] = 0, correct - 1
    kept = np.array(counts) > 0
    return Classes(
        np.array(logits, dtype=float)[kept],
        np.array(counts)[kept],
        np.array([True, True, True, False])[kept],
        np.array([target == correct, False, True, False])[kept],
        reward_correct,
        reward_incorrect,
    )


def custom(
    logits: Sequence[float] | str = (0.0, 0.0),
    correct: Sequence[float] | str = (0,),
    target: Sequence[float] | str = (),
    reward_correct: float = 1.0,
    reward_incorrect: float = 0.0,
) -> Categorical:
    """Any logits and any correct set.

    Args:
        logits: N numbers, or the path of a ``.npy`` file or of a text file of numbers.
        correct: indices of the correct actions, or the path of such a file.
        target: indices of the target set; by default the least likely correct action.

    Raises:
        InputError: for an index outside the action set, an unreadable file, and what ``Categorical`` refuses.
    """
    values = numbers("logits", logits)
    if values.size == 0:
        raise InputError("logits are empty; at least one action is needed")
    is_correct = _members("correct", numbers("correct", correct), values.size)
    chosen = numbers("target", target)
    if chosen.size == 0 and is_correct.any():
        chosen = np.array([np.argmin(np.where(is_correct, values, np.inf))])
    is_target = _members("target", chosen, values.size)
    return Categorical(values, is_correct, is_target, reward_correct, reward_incorrect)


def _members(name: str, indices: np.ndarray, actions: int) -> np.ndarray:
    allowed = (indices >= 0) & (indices < actions) & (indices == np.floor(indices))
    if not allowed.all():
        bad = indices[~allowed][0]
        raise InputError(f"{name} action {bad:.15g} is outside the action set; allowed: 0 to {actions - 1}")
    inside = np.zeros(actions, dtype=bool)
    inside[indices.astype(np.int64)] = True
    return inside


def correct_mass(p: Shaped[Array, " N"], correct: Shaped[Array, " N"], total: Total | None = None) -> Shaped[Array, ""]:
    """Q_pos, the probability of a correct action ``[f-grpo:eq-4]``; ``total`` adds up, by default as ``sum`` does."""
    xp = array_namespace(p)
    return (total or xp.sum)(xp.where(correct, p, xp.zeros_like(p)))


def retained_mass(
    p: Shaped[Array, " N"],
    initial: Shaped[Array, " N"],
    correct: Shaped[Array, " N"],
    members: Shaped[Array, " N"] | float = 1.0,
    total: Total | None = None,
) -> Shaped[Array, ""]:
    """1 - sum over P of max(0, p_0 - p) / sum over P of p_0 ``[f-grpo:eq-26]``.

    Each probability is that of one action and counts as often as there are ``members`` like it; ``total`` adds up.
    """
    xp = array_namespace(p)
    lost = xp.where(correct, members * xp.maximum(initial - p, xp.zeros_like(p)), xp.zeros_like(p))
    return 1 - (total or xp.sum)(lost) / correct_mass(members * initial, correct, total)


def share_kept(
    p: Shaped[Array, " N"],
    initial: Shaped[Array, " N"],
    correct: Shaped[Array, " N"],
    members: Shaped[Array, " N"] | float = 1.0,
    total: Total | None = None,
) -> Shaped[Array, ""]:
    """Share of the correct actions whose probability is at or above its start; the rest as in ``retained_mass``."""
    xp = array_namespace(p)
    each, zero = members * xp.ones_like(p), xp.zeros_like(p)
    add = total or xp.sum
    return add(xp.where(correct & (p >= initial), each, zero)) / add(xp.where(correct, each, zero))


def pass_at_k(correct_probability: Shaped[Array, "*M"], k: int) -> Shaped[Array, "*M"]:
    """1 - (1 - Q_pos)^k, exact for i.i.d. samples, with all its digits where Q_pos is small."""
    xp = array_namespace(correct_probability)
    certain = correct_probability >= 1  # rounding can lift a sum of probabilities above 1
    miss = xp.where(certain, xp.zeros_like(correct_probability), -correct_probability)
    return xp.where(certain, xp.ones_like(correct_probability), -xp.expm1(k * xp.log1p(miss)))
