"""The estimators transcribed from the papers as plain loops, one formula at a time, sharing nothing with the library.

A batch is a list of groups, a group a list of rewards: ragged, so nothing here knows about masks. Where a formula reads
0 / 0 on a group of equal rewards, the advantages are 0.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

Groups = list[list[float]]


class Step(NamedTuple):
    """One training step's batch: the reward of each rollout, and the log-probability of each of its tokens."""

    rewards: Groups
    logp: list[list[list[float]]]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def reinforce(group: list[float]) -> list[float]:
    return list(group)


def dr_grpo(group: list[float]) -> list[float]:
    return [r - mean(group) for r in group] if len(set(group)) > 1 else [0.0 for _ in group]


def grpo(group: list[float], ddof: int = 0, eps: float = 1e-6) -> list[float]:
    """F-GRPO Eq. 3, with the population's std as FADE derives."""
    if len(set(group)) == 1:
        return [0.0 for _ in group]
    variance = sum((r - mean(group)) ** 2 for r in group) / (len(group) - ddof)
    return [(r - mean(group)) / (math.sqrt(variance) + eps) for r in group]


def rloo(group: list[float]) -> list[float]:
    """The baseline of a rollout is the mean reward of the others."""
    if len(set(group)) == 1:
        return [0.0 for _ in group]
    return [group[i] - mean(group[:i] + group[i + 1 :]) for i in range(len(group))]


def maxrl(group: list[float]) -> list[float]:
    return [a / mean(group) if mean(group) > 0 else 0.0 for a in dr_grpo(group)]


def psr(group: list[float]) -> list[float]:
    return [1.0 if r > 0 else 0.0 for r in group]


def nsr(group: list[float]) -> list[float]:
    return [0.0 if r > 0 else -1.0 for r in group]


def w_reinforce(group: list[float], success: float = 0.1) -> list[float]:
    return [success if r > 0 else -1.0 for r in group]


def f_grpo(group: list[float], gamma: float = 1.0, base: str = "grpo") -> list[float]:
    """F-GRPO Eq. 12 and 13."""
    correct = sum(1 for r in group if r > 0)
    return [(1 - correct / len(group)) ** gamma * a for a in GROUP_FORMULAS[base](group)]


def asym_grpo(group: list[float], delta: float = 1.0) -> list[float]:
    return [a / delta if r < mean(group) else a for r, a in zip(group, dr_grpo(group), strict=True)]


def power_alpha(group: list[float], alpha: float = 2.0) -> list[float]:
    return [(1 - mean(group)) ** (alpha - 1) * a for a in dr_grpo(group)]


def a_grae(
    groups: Groups, alpha: float = 1.0, easy_term: str = "paper", ddof: int = 0, eps: float = 1e-6
) -> list[list[float]]:
    """A-GRAE Eq. 11 (omega), Eq. 12 (or its published code's easy term) and Eq. 13."""
    omega = mean([r for group in groups for r in group])
    advantages = []
    for group in groups:
        p = sum(1 for r in group if r > 0) / len(group)
        shifted = []
        for a in grpo(group, ddof, eps):
            if 0 < p < 1:
                easy = math.sqrt(1 - p) if easy_term == "paper" else 1 - math.sqrt(p) + 1e-6
                a = omega / 2 * a / math.sqrt(p) + (1 - omega) / 2 * a / easy  # noqa: PLW2901
            shifted.append(a * min(1, omega / alpha) if a > 0 else a)
        advantages.append(shifted)
    return advantages


def fade(
    steps: list[Step],
    *,
    alpha_max: float = 3.0,
    delta_min: float = 0.3,
    beta: float = 0.02,
    target_entropy: float | None = None,
    baseline: str = "mean",
) -> list[Groups]:
    """FADE's Algorithm 2, line by line; the initial entropy is the first batch's, and H* by default half of it."""

    def entropy(step: Step) -> float:
        return mean([mean([-logp for logp in tokens]) for group in step.logp for tokens in group])

    p_hat, h_hat = 0.5, entropy(steps[0])
    h_star = h_hat / 2 if target_entropy is None else target_entropy
    history = []
    for step in steps:
        everyone = [r for group in step.rewards for r in group]
        p_hat = beta * p_hat + (1 - beta) * mean(everyone)
        h_hat = beta * h_hat + (1 - beta) * entropy(step)
        alpha = min(max(3 * (1 - p_hat) / (2 * p_hat), 1), alpha_max)
        delta = min(max(1 + h_hat - h_star, delta_min), 1)
        batch = []
        for group in step.rewards:
            compared = everyone if baseline == "batch_mean" else group
            r_bar = mean(compared)
            weights = [(1 - r_bar) ** (alpha - 1) * (r - r_bar) / (1 if r >= r_bar else delta) for r in group]
            batch.append(weights if len(set(compared)) > 1 else [0.0 for _ in group])
        history.append(batch)
    return history


def each_group(formula: Callable[..., list[float]]) -> Callable[..., list[Groups]]:
    """A group's formula applied to every group of every step."""
    return lambda steps, **parameters: [[formula(group, **parameters) for group in step.rewards] for step in steps]


def each_batch(formula: Callable[..., Groups]) -> Callable[..., list[Groups]]:
    """A batch's formula applied to every step."""
    return lambda steps, **parameters: [formula(step.rewards, **parameters) for step in steps]


GROUP_FORMULAS: dict[str, Callable[..., Any]] = {
    formula.__name__: formula
    for formula in (
        reinforce, dr_grpo, grpo, rloo, maxrl, psr, nsr, w_reinforce, f_grpo, asym_grpo, power_alpha
    )
}  # fmt: skip

REFERENCES: dict[str, Callable[..., list[Groups]]] = {
    **{name: each_group(formula) for name, formula in GROUP_FORMULAS.items()},
    "a_grae": each_batch(a_grae),
    "fade": fade,
}
