"""First-order change of a softmax policy in one step of the linear surrogate.

G rollouts are drawn i.i.d. from a policy p over N actions. The *distinct* sampled actions get reward R_c if correct
and R_w if not, R_c >= 0 >= R_w, and every unsampled action gets 0: multiplicity does not count. A and B are the
sampled correct and incorrect actions, U the unsampled; X_2 is the sum of p^2 over a set X, and
S_R = R_c P_pos + R_w P_neg, with P_pos and P_neg the masses of A and B.
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from simlab.errors import InputError, check_range, check_whole

Vector = Float64[np.ndarray, "N"]
Subset = Bool[np.ndarray, "N"]


def logit_update(
    policy: Vector,
    correct: Subset,
    sampled: Subset,
    *,
    correct_reward: float = 1.0,
    incorrect_reward: float = -1.0,
    learning_rate: float,
    group_size: int,
) -> Vector:
    """dz_j = (eta / G) p_j (R_j - S_R), with R_j = 0 on unsampled actions ``[f-grpo:eq-5]``.

    >>> policy, correct = np.array([0.5, 0.25, 0.25]), np.array([True, True, False])
    >>> sampled = np.array([True, False, True])
    >>> logit_update(policy, correct, sampled, learning_rate=1.0, group_size=2)
    array([ 0.1875 , -0.03125, -0.15625])
    """
    check_policy(policy, correct=correct, sampled=sampled)
    check_range("correct_reward", correct_reward, 0)
    check_range("incorrect_reward", incorrect_reward, high=0)
    check_range("learning_rate", learning_rate)
    check_whole("group_size", group_size, 1)
    if not 1 <= sampled.sum() <= group_size:
        raise InputError(f"sampled holds {sampled.sum()} distinct actions; allowed: 1 to group_size = {group_size}")
    rewards = np.where(sampled, np.where(correct, correct_reward, incorrect_reward), 0.0)
    return learning_rate / group_size * policy * (rewards - float(policy @ rewards))


def first_order_change(policy: Vector, logit_change: Vector) -> Vector:
    """dp_i = p_i (dz_i - sum_j p_j dz_j), the softmax Jacobian applied to dz ``[f-grpo:eq-18]``; it sums to 0.

    >>> first_order_change(np.array([0.5, 0.25, 0.25]), np.array([1.0, 0.0, 0.0]))
    array([ 0.25 , -0.125, -0.125])
    """
    check_policy(policy, logit_change=logit_change)
    return policy * (logit_change - float(policy @ logit_change))


def subset_change(policy: Vector, logit_change: Vector, subset: Subset) -> float:
    """dQ_S = sum over S of p_i dz_i - Q_S sum_j p_j dz_j, with Q_S the mass of S ``[f-grpo:eq-19]``.

    >>> subset_change(np.array([0.5, 0.25, 0.25]), np.array([1.0, 0.0, 0.0]), np.array([True, True, False]))
    0.125
    """
    check_policy(policy, logit_change=logit_change, subset=subset)
    direct = policy[subset] @ logit_change[subset]
    return float(direct - policy[subset].sum() * (policy @ logit_change))


def correct_mass_change(policy: Vector, correct: Subset, sampled: Subset, **step: Any) -> float:
    """First-order change of the correct mass Q_pos under ``logit_update``, of the same arguments ``[f-grpo:eq-17]``.

    dQ_pos = (eta/G) [ (R_c - S_R) Q_neg A_2 + (S_R - R_w) Q_pos B_2 + S_R (Q_pos U_neg2 - Q_neg U_pos2) ],
    with U_pos2 and U_neg2 the sums of p^2 over the unsampled correct and incorrect actions.

    >>> policy, correct = np.array([0.5, 0.25, 0.25]), np.array([True, True, False])
    >>> correct_mass_change(policy, correct, np.array([True, False, True]), learning_rate=1.0, group_size=2)
    0.05078125
    """
    return subset_change(policy, logit_update(policy, correct, sampled, **step), correct)


def unsampled_correct_mass_change(policy: Vector, correct: Subset, sampled: Subset, **step: Any) -> float:
    """First-order change of the unsampled correct mass under ``logit_update``, likewise ``[f-grpo:prop-3.2]``.

    dQ_upos = (eta/G) { -S_R U_pos2 - Q_upos [ (R_c - S_R) A_2 + (R_w - S_R) B_2 - S_R U_2 ] } ``[f-grpo:eq-10]``,
    with Q_upos = Q_pos - P_pos ``[f-grpo:eq-9]`` and U_pos2 the sum of p^2 over the unsampled correct actions.

    The correct mass of this group grows while the correct action that it missed shrinks:

    >>> policy, correct = np.array([0.5, 0.25, 0.25]), np.array([True, True, False])
    >>> unsampled_correct_mass_change(policy, correct, np.array([True, False, True]), learning_rate=1.0, group_size=2)
    -0.01953125
    """
    return subset_change(policy, logit_update(policy, correct, sampled, **step), correct & ~sampled)


def check_policy(policy: Vector, logit_change: Vector | None = None, **subsets: Subset) -> None:
    """Raise ``InputError`` unless a policy sums to 1, and the other vectors have its length."""
    if policy.ndim != 1 or policy.dtype != np.float64:
        raise InputError(f"policy is {policy.dtype} of shape {policy.shape}; allowed: float64 of shape (N,)")
    if not ((policy >= 0).all() and abs(policy.sum() - 1) <= 1e-9):
        least, total = policy.min(initial=np.inf), policy.sum()
        raise InputError(f"policy has least entry {least} and sum {total}; allowed: none below 0, sum 1 to 1e-9")
    if logit_change is not None and logit_change.shape != policy.shape:
        raise InputError(f"logit_change has shape {logit_change.shape}; allowed: {policy.shape}, that of policy")
    if logit_change is not None and not np.isfinite(logit_change).all():
        raise InputError("logit_change holds NaN or infinity; allowed: finite numbers")
    for name, subset in subsets.items():
        if subset.shape != policy.shape or subset.dtype != np.bool_:
            raise InputError(f"{name} is {subset.dtype} of shape {subset.shape}; allowed: bool of shape {policy.shape}")
