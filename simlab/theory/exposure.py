"""How much of the correct mass a group has drawn, given how many of its rollouts are correct.

G rollouts are drawn i.i.d. from a policy p over N actions. Given X = x correct ones, these are x i.i.d. draws from the
policy restricted to the correct actions. Repeats count once.
"""

from typing import cast

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from simlab.errors import InputError, check_range, check_whole

Counts = int | np.integer | Int[np.ndarray, "..."]
Means = np.float64 | Float[np.ndarray, "..."]


def expected_sampled_mass(policy: Float64[np.ndarray, " N"], subset: Bool[np.ndarray, " N"], draws: Counts) -> Means:
    """E[distinct mass of x draws from a subset] = mu sum_a q_a (1 - (1 - q_a)^x), q = p / mu ``[f-grpo:lemma-h.1]``.

    With the correct actions as the subset it is the mean of P_pos given X = x; with the incorrect ones and G - x draws
    that of P_neg. It does not fall with x.

    Args:
        policy: (N,) p, which sums to 1.
        subset: (N,) which actions are drawn from; mu is their mass.
        draws: (...) x, whole numbers from 0 up.

    Returns:
        (...) float64; 0 for a subset without mass.

    Raises:
        InputError: for an argument outside its range, or vectors of different lengths.

    >>> policy, correct = np.array([0.5, 0.25, 0.25]), np.array([True, True, False])
    >>> expected_sampled_mass(policy, correct, np.array([0, 1, 2])).round(4)
    array([0.    , 0.4167, 0.5833])
    """
    _check(policy, subset)
    times = np.asarray(draws)
    if not np.issubdtype(times.dtype, np.integer) or (times < 0).any():
        raise InputError(f"draws = {draws} is not allowed; allowed: whole numbers from 0 up")
    members = policy[subset & (policy > 0)]
    shares = members / members.sum() if members.size else members
    certain = shares >= 1
    missed = np.log1p(-np.where(certain, 0, shares))  # of a certain action it would be -infinity, times 0 for no draw
    seen = np.where(certain, times[..., None] > 0, -np.expm1(times[..., None] * missed))
    return cast(Means, (seen * members).sum(axis=-1)[()])


def expected_baseline(
    policy: Float64[np.ndarray, " N"],
    correct: Bool[np.ndarray, " N"],
    successes: Counts,
    group_size: int,
    *,
    correct_reward: float = 1.0,
    incorrect_reward: float = -1.0,
) -> Means:
    """E[S_R | X = x] = R_c E[P_pos | x] + R_w E[P_neg | x] ``[f-grpo:cor-h.2]``.

    It does not fall with x for R_c > 0 >= R_w.

    Args:
        policy: (N,) p, which sums to 1.
        correct: (N,) which actions are correct.
        successes: (...) x, from 0 to G.
        group_size: G.
        correct_reward: R_c, at least 0.
        incorrect_reward: R_w, at most 0.

    Raises:
        InputError: for an argument outside its range, or vectors of different lengths.

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


def _check(policy: Float64[np.ndarray, " N"], subset: Bool[np.ndarray, " N"]) -> None:
    if policy.ndim != 1 or not ((policy >= 0).all() and abs(policy.sum() - 1) <= 1e-9):
        raise InputError(f"policy has shape {policy.shape} and sum {policy.sum()}; allowed: (N,), none below 0, sum 1")
    if subset.shape != policy.shape or subset.dtype != np.bool_:
        raise InputError(f"subset is {subset.dtype} of shape {subset.shape}; allowed: bool of shape {policy.shape}")
