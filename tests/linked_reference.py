"""Chains of one link a role, as plain loops: what each choice of ``linked`` does to one rollout's advantage."""

import math
from typing import Any

from group_references import Group, deviation, mean, quantile_of, share_correct, without


def centered(group: Group, everyone: Group, i: int, baseline: str) -> float:
    """The reward of rollout i less its baseline; 0 where all that it is compared with are equal."""
    compared = everyone if baseline == "batch_mean" else group
    if baseline == "none":
        return group[i]
    if len(set(compared)) == 1:
        return 0.0
    others = without(group, i) if baseline == "leave_one_out" else compared
    return group[i] - (quantile_of(group, 0.5) if baseline == "median" else mean(others))


def scaled(a: float, group: Group, scale: str, k: int) -> float:
    if scale == "std":
        return a / (deviation(group, 0) + 1e-6)
    if scale == "times_std":
        return a * deviation(group, 0)
    if scale == "mean":
        return a / mean(group) if mean(group) > 0 else 0.0
    if scale == "pass_at_k":
        size, failures = len(group), sum(1 for r in group if r <= 0)
        k = min(k, size)
        all_fail = math.comb(failures, k) / math.comb(size, k)
        if all_fail in (0, 1):
            return 0.0
        return a * math.comb(failures - 1, k - 1) / math.comb(size - 1, k - 1) / math.sqrt(all_fail * (1 - all_fail))
    return a


def weighed(a: float, r: float, group: Group, *, omega: float, past: float, difficulty: str, gamma: float) -> float:
    p, m = share_correct(group), mean(group)
    if difficulty in ("focal", "easy", "asymmetric"):
        return a * {"focal": 1 - p, "easy": m, "asymmetric": 1 - m if r > 0 else m}[difficulty] ** gamma
    if difficulty == "history":
        return a * math.exp(past - m if a > 0 else m - past)
    if difficulty == "none" or not 0 < p < 1:
        return a
    hard, easy = 1 / (2 * math.sqrt(p)), 1 / (2 * math.sqrt(1 - p))
    return a * {"sqrt_hard": hard, "sqrt_easy": easy, "shift": omega * hard + (1 - omega) * easy}[difficulty]


def signed(a: float, omega: float, sign: str, delta: float) -> float:
    if sign == "divide_failures":
        return a / delta if a < 0 else a
    if sign == "relu":
        return max(0.0, a)
    if sign == "attenuate":
        return a * omega if a > 0 else a
    return a


def linked(
    steps: list[Any],
    *,
    baseline: str = "mean",
    scale: str = "none",
    difficulty: str = "none",
    sign: str = "none",
    gamma: float = 1.0,
    delta: float = 0.5,
    k: int = 4,
) -> list[list[Group]]:
    """The four in turn; ``past`` is HA-DW's running mean of the batches before."""
    past, history = 0.5, []
    for step in steps:
        everyone = [r for group in step.rewards for r in group]
        omega, batch = mean(everyone), []
        for group in step.rewards:
            row = []
            for i, r in enumerate(group):
                a = scaled(centered(group, everyone, i, baseline), group, scale, k)
                a = weighed(a, r, group, omega=omega, past=past, difficulty=difficulty, gamma=gamma)
                row.append(signed(a, omega, sign, delta))
            batch.append(row)
        history.append(batch)
        past = 0.9 * past + 0.1 * omega
    return history
