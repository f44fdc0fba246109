"""Tell which estimators are the same on rewards 0 and 1, up to a constant factor, or up to one number a group."""

import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from simlab.errors import check_whole
from simlab.estimators import Estimator
from simlab.rollouts import Rollouts

LARGEST_GROUP = 12  # 4096 groups
ALIKE = 1e-4  # distance of two unit vectors; above what an eps of 1e-6 beside a std makes of them


def trace(chosen: Estimator, group_size: int) -> Float[np.ndarray, " n"]:
    """Fingerprint of an estimator: its advantages in ``three_batches`` in turn, scaled together to norm 1 (or all
    0)."""
    together = np.concatenate([values.ravel() for values in advantages_in_turn(chosen, three_batches(group_size))])
    norm = np.linalg.norm(together)
    return together / norm if norm > 0 else together


def three_batches(group_size: int, lengths: int = 1) -> list[Rollouts]:
    """All 2^G groups of rewards 0 and 1, G up to 12; those with at most a third of successes; with at least two thirds.

    Estimators may read the whole batch, and remember earlier ones. Rollouts have from 1 to ``lengths`` tokens; each has
    its own log-probability, entropy and teacher. The greedy answer is right in every third group.
    """
    check_whole("group_size", group_size, 1, LARGEST_GROUP)
    groups = np.array(list(itertools.product((0.0, 1.0), repeat=group_size)))
    share = groups.mean(axis=1)
    return [_rollouts(rewards, lengths) for rewards in (groups, groups[share <= 1 / 3], groups[share >= 2 / 3])]


def _rollouts(rewards: Float[np.ndarray, "P G"], lengths: int) -> Rollouts:
    index = np.arange(rewards.size).reshape(*rewards.shape, 1)
    token = np.repeat(1 + index % 7 / 7, lengths, axis=-1)
    present = None if lengths == 1 else np.arange(lengths) <= index % lengths
    greedy = np.broadcast_to(np.arange(len(rewards))[:, None] % 3 == 0, rewards.shape).astype(rewards.dtype)
    others = {"greedy_reward": greedy, "parts": rewards[..., None], "role": greedy}
    others |= {"collision": np.exp(-token), "teacher_logp": -(token**2)}
    return Rollouts(rewards, old_logp=-token, entropy=token**2, token_mask=present, **others)


def advantages_in_turn(chosen: Estimator, batches: list[Rollouts]) -> list[Float[np.ndarray, "P G ..."]]:
    """Advantages of each batch; the state is carried from one batch to the next."""
    state, history = chosen.init(), []
    for rollouts in batches:
        advantages, state = chosen.update(rollouts, state)
        history.append(np.asarray(advantages))
    return history


def alike(first: Estimator, second: Estimator, group_size: int) -> bool:
    """Return True if two estimators are the same up to a positive factor, on rewards 0 and 1 in groups of G (to 12).

    >>> from simlab.estimators import estimator
    >>> alike(estimator("rloo"), estimator("dr_grpo"), 4), alike(estimator("maxrl"), estimator("dr_grpo"), 4)
    (True, False)
    """
    gap = trace(first, group_size) - trace(second, group_size)
    return float(np.linalg.norm(gap)) <= ALIKE


# The same estimator at the pace of another clock


class Clock(NamedTuple):
    """An estimator's factor on another by successes; ``depends_on`` "nothing", the solve rate "p", or the "batch"."""

    factors: Float[np.ndarray, " counts"]
    depends_on: str


def clock(first: Estimator, second: Estimator, group_size: int, *, lengths: int = 1) -> Clock | None:
    """Find the factor of each group that turns the advantages of ``second`` into those of ``first``, on
    ``three_batches``.

    Both then push every group in the same direction. None where some group has no such factor of at least 0, where
    groups of one solve rate in one batch have several, or where ``first`` is 0 everywhere.

    >>> from simlab.estimators import estimator
    >>> clock(estimator("maxrl"), estimator("dr_grpo"), 4).factors.round(4)
    array([   nan, 4.    , 2.    , 1.3333,    nan])
    """
    batches = three_batches(group_size, lengths)
    return between(batches, advantages_in_turn(first, batches), advantages_in_turn(second, batches))


def between(batches: list[Rollouts], first: list[np.ndarray], second: list[np.ndarray]) -> Clock | None:
    """Find the ``clock`` from the advantages of both estimators in the ``three_batches``."""
    by_batch = []
    for rollouts, mine, other in zip(batches, first, second, strict=True):
        factors = _factors(rollouts, _of_tokens(rollouts, mine), _of_tokens(rollouts, other))
        if factors is None:
            return None
        by_batch.append(factors)
    factors, largest = by_batch[0], np.nanmax(by_batch[0], initial=0)
    if not largest > 0:
        return None
    if not all(_equal(others, factors) for others in by_batch):
        return Clock(factors, "batch")
    return Clock(factors, "nothing" if _equal(factors, largest) else "p")


def _of_tokens(rollouts: Rollouts, advantages: np.ndarray) -> Float[np.ndarray, "P G T"]:
    """The advantage of each token, 0 where there is none."""
    each = advantages if advantages.ndim == 3 else advantages[..., None]
    return each if rollouts.token_mask is None else np.where(rollouts.token_mask, each, 0)


def _factors(rollouts: Rollouts, first: np.ndarray, second: np.ndarray) -> Float[np.ndarray, " counts"] | None:
    """Factor at each number of successes, NaN where ``second`` is 0; None if groups of one number differ."""
    counts, largest = rollouts.rewards.sum(axis=1).round(), np.abs(first).max(initial=0)
    factors = np.full(rollouts.rewards.shape[1] + 1, np.nan)
    for count in range(len(factors)):
        mine, other = first[counts == count].ravel(), second[counts == count].ravel()
        square = other @ other
        factor = mine @ other / square if square > 0 else 0.0
        if factor < 0 or np.abs(mine - factor * other).max(initial=0) > ALIKE * largest:
            return None
        if square > 0:
            factors[count] = factor
    return factors


def _equal(first: np.ndarray, second: np.ndarray | float) -> bool:
    """Return True if factors are equal wherever both are numbers."""
    gap = np.abs(first - second)
    return not np.nanmax(gap, initial=0) > ALIKE * np.nanmax(second)
