"""Tell whether one estimator is another one at the pace of another clock: times one number a group."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from simlab.estimators import Estimator
from simlab.rollouts import Rollouts
from simlab.theory.likeness import ALIKE, advantages_in_turn, three_batches


class Clock(NamedTuple):
    """The factor per group that turns one estimator into another.

    Attributes:
        factors: (G + 1,) at each number of successes, in a batch of all 2^G groups; NaN where the other one is 0.
        depends_on: "nothing" for a constant, "p" where the group's solve rate fixes the factor, or "batch" where
            other groups change it.
    """

    factors: Float[np.ndarray, " counts"]
    depends_on: str


def clock(one: Estimator, another: Estimator, group_size: int, *, lengths: int = 1) -> Clock | None:
    """The factor of each group that makes the advantages of ``another`` those of ``one``.

    Both then push every group in the same direction, by different amounts. Rewards are 0 and 1, in the
    ``three_batches``, whose rollouts have from 1 to ``lengths`` tokens. None where some group has no such factor of at
    least 0, where groups of one solve rate in one batch have several, or where ``one`` is 0 everywhere.

    Raises:
        InputError: for a ``group_size`` outside [1, 12].

    >>> from simlab.estimators import estimator
    >>> clock(estimator("maxrl"), estimator("dr_grpo"), 4).factors.round(4)
    array([   nan, 4.    , 2.    , 1.3333,    nan])
    """
    batches = three_batches(group_size, lengths)
    return between(batches, advantages_in_turn(one, batches), advantages_in_turn(another, batches))


def between(batches: list[Rollouts], one: list[np.ndarray], another: list[np.ndarray]) -> Clock | None:
    """``clock``, from the advantages of both in the ``three_batches``."""
    found = []
    for rollouts, own, other in zip(batches, one, another, strict=True):
        factors = _factors(rollouts, _of_tokens(rollouts, own), _of_tokens(rollouts, other))
        if factors is None:
            return None
        found.append(factors)
    first, largest = found[0], np.nanmax(found[0], initial=0)
    if not largest > 0:
        return None
    if not all(_equal(factors, first) for factors in found):
        return Clock(first, "batch")
    return Clock(first, "nothing" if _equal(first, largest) else "p")


def _of_tokens(rollouts: Rollouts, advantages: np.ndarray) -> Float[np.ndarray, "P G T"]:
    """The advantage of each token, 0 where there is none."""
    each = advantages if advantages.ndim == 3 else advantages[..., None]
    return each if rollouts.token_mask is None else np.where(rollouts.token_mask, each, 0)


def _factors(rollouts: Rollouts, one: np.ndarray, another: np.ndarray) -> Float[np.ndarray, " counts"] | None:
    """The factor at each number of successes, NaN where there is none to tell; None where it is not one number."""
    counts, largest = rollouts.rewards.sum(axis=1).round(), np.abs(one).max(initial=0)
    factors = np.full(rollouts.rewards.shape[1] + 1, np.nan)
    for count in range(len(factors)):
        own, other = one[counts == count].ravel(), another[counts == count].ravel()
        square = other @ other
        factor = own @ other / square if square > 0 else 0.0
        if factor < 0 or np.abs(own - factor * other).max(initial=0) > ALIKE * largest:
            return None
        if square > 0:
            factors[count] = factor
    return factors


def _equal(one: np.ndarray, another: np.ndarray | float) -> bool:
    """Whether factors are equal wherever both are numbers."""
    gap = np.abs(one - another)
    return not np.nanmax(gap, initial=0) > ALIKE * np.nanmax(another)
