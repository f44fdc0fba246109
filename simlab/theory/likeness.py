"""Find estimators that are the same, up to a constant factor, on every group of rewards 0 and 1."""

import itertools

import numpy as np
from jaxtyping import Float

from simlab.errors import check_whole
from simlab.estimators import Estimator
from simlab.rollouts import Rollouts

LARGEST_GROUP = 12  # 4096 groups
ALIKE = 1e-4  # distance of two unit vectors; above what an eps of 1e-6 beside a std makes of them


def trace(chosen: Estimator, group_size: int) -> Float[np.ndarray, " n"]:
    """What tells an estimator from others: its advantages in ``three_batches`` in turn, scaled to norm 1 together.

    Zeros where all advantages are 0.

    Raises:
        InputError: for a ``group_size`` outside [1, 12].
    """
    together = np.concatenate([found.ravel() for found in advantages_in_turn(chosen, three_batches(group_size))])
    norm = np.linalg.norm(together)
    return together / norm if norm > 0 else together


def three_batches(group_size: int, lengths: int = 1) -> list[Rollouts]:
    """All 2^G groups of rewards 0 and 1; those with at most a third of successes; those with at least two thirds.

    Estimators may read the whole batch, and remember earlier ones. Rollouts have one token, or from 1 to ``lengths``,
    all tokens of a rollout of a log-probability and an entropy of its own. The greedy answer is right in every third
    group.

    Raises:
        InputError: for a ``group_size`` outside [1, 12].
    """
    check_whole("group_size", group_size, 1, LARGEST_GROUP)
    groups = np.array(list(itertools.product((0.0, 1.0), repeat=group_size)))
    share = groups.mean(axis=1)
    return [_rollouts(rewards, lengths) for rewards in (groups, groups[share <= 1 / 3], groups[share >= 2 / 3])]


def _rollouts(rewards: Float[np.ndarray, "P G"], lengths: int) -> Rollouts:
    place = np.arange(rewards.size).reshape(*rewards.shape, 1)
    token = np.repeat(1 + place % 7 / 7, lengths, axis=-1)
    present = None if lengths == 1 else np.arange(lengths) <= place % lengths
    greedy = np.broadcast_to(np.arange(len(rewards))[:, None] % 3 == 0, rewards.shape).astype(rewards.dtype)
    return Rollouts(rewards, old_logp=-token, entropy=token**2, token_mask=present, greedy_reward=greedy)


def advantages_in_turn(chosen: Estimator, batches: list[Rollouts]) -> list[Float[np.ndarray, "P G ..."]]:
    """The advantages of each batch; what is remembered goes on to the next."""
    state, found = chosen.init(), []
    for rollouts in batches:
        advantages, state = chosen.update(rollouts, state)
        found.append(np.asarray(advantages))
    return found


def alike(one: Estimator, another: Estimator, group_size: int) -> bool:
    """Whether two estimators are the same up to a positive factor, on rewards 0 and 1 in groups of G.

    With updates of equal norm, or learning rates that compensate for the factor, they are the same method.

    Raises:
        InputError: for a ``group_size`` outside [1, 12].

    >>> from simlab.estimators import estimator
    >>> alike(estimator("rloo"), estimator("dr_grpo"), 4), alike(estimator("maxrl"), estimator("dr_grpo"), 4)
    (True, False)
    """
    gap = trace(one, group_size) - trace(another, group_size)
    return float(np.linalg.norm(gap)) <= ALIKE
