"""Chance that a group misses a rare correct target, and the mass of the distinct actions that it draws.

mu is the probability that a rollout is correct, and tau <= mu that it lies in the target, a subset of the correct
actions; a group is *active* when it holds both a correct and an incorrect rollout. All functions broadcast, and raise
``InputError`` for arguments outside their ranges or shapes that do not fit.
"""

from typing import cast

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Shaped

from simlab.errors import InputError, check_range, check_shares, check_whole
from simlab.theory.redistribution import check_policy

Numbers = int | float | np.number | Shaped[np.ndarray, "*#shape"]
Probabilities = np.float64 | Float[np.ndarray, "..."]


def active(group_size: Numbers, correct_mass: Numbers) -> Probabilities:
    """Pr(active) = 1 - mu^G - (1 - mu)^G ``[f-grpo:eq-7]``; exactly 0 for groups of one and where mu is 0 or 1.

    >>> active(np.array([1, 2, 4]), 0.5)
    array([0.   , 0.5  , 0.875])
    """
    size, correct, _ = _checked(group_size, correct_mass, 0.0)
    return _active(size, correct, 1 - correct)


def tail_miss(group_size: Numbers, correct_mass: Numbers, target_mass: Numbers) -> Probabilities:
    """Pr(active and target missed) = (1 - tau)^G - (mu - tau)^G - (1 - mu)^G ``[f-grpo:lemma-3.1]``.

    Computed without cancellation as (1 - tau)^G Pr(active | target missed): outside the target a rollout is correct
    with probability (mu - tau) / (1 - tau). The relative error stays below 1e-15 (1 - G log(1 - tau)).

    >>> tail_miss(np.array([1, 2, 4]), 0.5, 0.25)
    array([0.  , 0.25, 0.25])
    """
    size, correct, target = _checked(group_size, correct_mass, target_mass)
    missable = np.where(target < 1, target, 0.0)  # a target of mass 1 is never missed: both shares below are 0
    missed: Probabilities = np.exp(size * np.log1p(-missable))
    return missed * _active(size, (correct - target) / (1 - missable), (1 - correct) / (1 - missable))


def conditional_tail_miss(group_size: Numbers, correct_mass: Numbers, target_mass: Numbers) -> Probabilities:
    """Pr(target missed | active) ``[f-grpo:lemma-3.1]``; NaN where no group is ever active.

    >>> conditional_tail_miss(np.array([1, 2, 4]), 0.5, 0.25)
    array([       nan, 0.5       , 0.28571429])
    """
    missed, possible = tail_miss(group_size, correct_mass, target_mass), active(group_size, correct_mass)
    defined = possible > 0
    return np.where(defined, missed / np.where(defined, possible, 1.0), np.nan)[()]


def _active(size: Probabilities, correct: Probabilities, incorrect: Probabilities) -> Probabilities:
    """1 - correct^G - incorrect^G for two masses that sum to 1, both given so that the smaller keeps its digits."""
    rarer = np.minimum(correct, incorrect)
    return np.where(size > 1, -np.expm1(size * np.log1p(-rarer)) - rarer**size, 0.0)[()]


def _checked(group_size: Numbers, correct_mass: Numbers, target_mass: Numbers) -> list[Float[np.ndarray, "..."]]:
    """The three arguments as float64 arrays of one shape."""
    arguments = [np.asarray(argument, dtype=np.float64) for argument in (group_size, correct_mass, target_mass)]
    try:
        size, correct, target = arrays = list(np.broadcast_arrays(*arguments))
    except ValueError:
        shapes = ", ".join(str(argument.shape) for argument in arguments)
        raise InputError(
            f"group_size, correct_mass, target_mass have shapes {shapes}, which do not broadcast"
        ) from None
    valid = np.isfinite(size) & (size >= 1) & (size == np.floor(size))
    if not valid.all():
        raise InputError(f"group_size = {size[~valid][0]} is not allowed; allowed: whole numbers from 1 up")
    check_shares("correct_mass", correct)
    inside = (target >= 0) & (target <= correct)
    if not inside.all():
        low, high = target[~inside][0], correct[~inside][0]
        raise InputError(f"target_mass = {low} is outside its range [0, correct_mass = {high}]")
    return arrays


Counts = int | np.integer | Int[np.ndarray, "..."]
Means = np.float64 | Float[np.ndarray, "..."]


def expected_sampled_mass(policy: Float64[np.ndarray, " N"], subset: Bool[np.ndarray, " N"], draws: Counts) -> Means:
    """E[distinct mass of x draws from a subset] = mu sum_a q_a (1 - (1 - q_a)^x), q = p / mu ``[f-grpo:lemma-h.1]``.

    With the correct actions as the subset it is the mean of P_pos given X = x; with the incorrect ones and G - x draws
    that of P_neg. It does not fall with x.

    >>> policy, correct = np.array([0.5, 0.25, 0.25]), np.array([True, True, False])
    >>> expected_sampled_mass(policy, correct, np.array([0, 1, 2])).round(4)
    array([0.    , 0.4167, 0.5833])
    """
    check_policy(policy, subset=subset)
    times = np.asarray(draws)
    if not np.issubdtype(times.dtype, np.integer) or (times < 0).any():
        raise InputError(f"draws = {draws} is not allowed; allowed: whole numbers from 0 up")
    members = policy[subset & (policy > 0)]
    shares = members / members.sum() if members.size else members
    certain = shares >= 1
    missed = np.log1p(-np.where(certain, 0, shares))  # of a certain action it would be -infinity, times 0 for no draw
    drawn = np.where(certain, times[..., None] > 0, -np.expm1(times[..., None] * missed))
    return cast(Means, (drawn * members).sum(axis=-1)[()])


def expected_baseline(
    policy: Float64[np.ndarray, " N"],
    correct: Bool[np.ndarray, " N"],
    successes: Counts,
    group_size: int,
    *,
    correct_reward: float = 1.0,
    incorrect_reward: float = -1.0,
) -> Means:
    """E[S_R | X = x] = R_c E[P_pos | x] + R_w E[P_neg | x] ``[f-grpo:cor-h.2]``; R_c >= 0 >= R_w.

    It does not fall with x for R_c > 0.

    >>> policy, correct = np.array([0.5, 0.25, 0.25]), np.array([True, True, False])
    >>> expected_baseline(policy, correct, np.array([0, 1, 2]), 2).round(4)
    array([-0.25  ,  0.1667,  0.5833])
    """
    check_whole("group_size", group_size, 1)
    check_range("correct_reward", correct_reward, 0)
    check_range("incorrect_reward", incorrect_reward, high=0)
    if np.any(np.asarray(successes) > group_size):
        raise InputError(f"successes = {successes} is not allowed; allowed: whole numbers from 0 to G = {group_size}")
    right = expected_sampled_mass(policy, correct, successes)
    wrong = expected_sampled_mass(policy, ~correct, group_size - np.asarray(successes))
    return correct_reward * right + incorrect_reward * wrong
