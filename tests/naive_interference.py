"""What is recorded of easy and hard prompts once more, prompt by prompt and k by k in float64.

It shares nothing with the library. Steps are those of naive_steps.py, and what is of all banks and heads that of
naive_bank.py and naive_linear.py.
"""

import math
from typing import Any

import naive_bank
import naive_linear
import numpy as np
from naive_simulator import probabilities
from naive_steps import Naive, Taken


def solve_rates(naive: Naive, weights: np.ndarray) -> list[float]:
    logits = naive_linear.logits_of(naive, weights)
    policies = [probabilities(own, naive.setting.temperature) for own in logits]
    return [sum(p[a] for a in correct) for p, correct in zip(policies, naive.correct, strict=True)]


def target_surprises(naive: Naive, weights: np.ndarray) -> list[float]:
    """The mean of -log p over the target set of each prompt."""
    logits = naive_linear.logits_of(naive, weights)
    policies = [probabilities(own, naive.setting.temperature) for own in logits]
    return [mean([-math.log(p[a]) for a in target]) for p, target in zip(policies, naive.target, strict=True)]


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def mean_pass_at(k: float, rates: list[float]) -> float:
    return mean([1 - (1 - rate) ** k for rate in rates])


def crossing_k(base: list[float], now: list[float]) -> float:
    """The first of many k at which more is missed than by the base model, and between it and the one before.

    Were all masses larger by 16 roundings, it would have to be so too.
    """

    def is_below(k: float) -> bool:
        most = 1 - min(*base, *now)  # divided out, for a large power of it is 0
        at_most = [rate * (1 + 16 * 2.0**-52) for rate in now]
        return mean([((1 - rate) / most) ** k for rate in base]) < mean([((1 - rate) / most) ** k for rate in at_most])

    tried = [2 ** (place / 50) for place in range(1001)]
    first = next((place for place, k in enumerate(tried) if is_below(k)), None)
    if first in {None, 0}:
        return math.inf if first is None else 1.0
    low, high = tried[first - 1], tried[first]
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_below(middle) else (middle, high)
    return high


def effects(naive: Naive, taken: Taken, kinds: list[list[int]]) -> tuple[list[list[float]], list[list[float]]]:
    """Of each source on each kind: by central differences, and by a step of the learning rate."""
    features, rate = (
        naive_linear.features_of(naive) * naive.learned,
        naive.setting.optimizer_parameters["learning_rate"],
    )
    first_order, measured, weights = [], [], taken.before.logits
    before = solve_rates(naive, weights)
    for source in kinds:
        moved = np.zeros_like(weights)
        for i in set(source) & set(taken.gradients):
            moved += np.outer(taken.gradients[i][0], features[i]) / len(taken.gradients)
        after = solve_rates(naive, weights + rate * moved)
        each = [naive_linear.effect(naive, weights, moved, j) for j in range(len(features))]
        first_order.append([mean([each[j] for j in kind]) for kind in kinds])
        measured.append([mean([(after[j] - before[j]) / rate for j in kind]) for kind in kinds])
    return first_order, measured


def records(naive: Naive, steps: list[Taken], hard: np.ndarray) -> list[dict[str, Any]]:
    """What is recorded of each of some steps."""
    rows = naive_bank.records(naive, steps)
    kinds = [[m for m, own in enumerate(hard) if bool(own) == is_hard] for is_hard in (False, True)]
    base = solve_rates(naive, naive.parameters)
    for row, taken in zip(rows, steps, strict=True):
        row.update(naive_linear.interference_record(naive, taken))
        now, ks = solve_rates(naive, taken.after.logits), naive.setting.pass_at_k
        of_kinds = [[now[m] for m in kind] for kind in kinds]
        row["q_pos_by_kind"] = [mean(rates) for rates in of_kinds]
        row["pass_at_k_by_kind"] = [[mean_pass_at(k, rates) for k in ks] for rates in of_kinds]
        surprises = target_surprises(naive, taken.after.logits)
        row["target_nll_by_kind"] = [mean([surprises[m] for m in kind]) for kind in kinds]
        row["pass_at_k_gain"] = [mean_pass_at(k, now) - mean_pass_at(k, base) for k in ks]
        row["crossing_k"] = crossing_k(base, now)
        row["effect"], row["effect_measured"] = effects(naive, taken, kinds)
    return rows
