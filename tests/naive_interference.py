"""The records of easy and hard prompts once more, prompt by prompt and k by k in float64.

It shares nothing with the library. Steps come from naive_steps.py, and records of all banks and heads from
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
    policies = [probabilities(row, naive.setting.temperature) for row in logits]
    return [sum(p[a] for a in correct) for p, correct in zip(policies, naive.correct, strict=True)]


def target_surprises(naive: Naive, weights: np.ndarray) -> list[float]:
    """The mean of -log p over the target set of each prompt."""
    logits = naive_linear.logits_of(naive, weights)
    policies = [probabilities(row, naive.setting.temperature) for row in logits]
    return [mean([-math.log(p[a]) for a in target]) for p, target in zip(policies, naive.target, strict=True)]


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def mean_pass_at(k: float, rates: list[float]) -> float:
    return mean([1 - (1 - rate) ** k for rate in rates])


def crossing_k(base: list[float], now: list[float]) -> float:
    """The k from which the policy misses more than the base model, between the first of many and the one before.

    It must miss more even if all its masses are larger by 16 roundings.
    """

    def is_below(k: float) -> bool:
        most = 1 - min(*base, *now)  # divided out, for a large power of it is 0
        at_most = [rate * (1 + 16 * 2.0**-52) for rate in now]
        return mean([((1 - rate) / most) ** k for rate in base]) < mean([((1 - rate) / most) ** k for rate in at_most])

    tried = [2 ** (index / 50) for index in range(1001)]
    first = next((index for index, k in enumerate(tried) if is_below(k)), None)
    if first in {None, 0}:
        return math.inf if first is None else 1.0
    low, high = tried[first - 1], tried[first]
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_below(middle) else (middle, high)
    return high


def moved_by(naive: Naive, taken: Taken, prompts: list[int]) -> np.ndarray:
    """The parameters' gradient from some prompts of a batch, at the parameters before the step."""
    weights, moved = taken.before.logits, np.zeros(taken.before.logits.size)
    for i in set(prompts) & set(taken.gradients):
        moved += np.tensordot(naive.jacobian_at(weights)[:, i], taken.gradients[i], 2) / len(taken.gradients)
    return moved.reshape(weights.shape) * naive.learned


def effects(naive: Naive, taken: Taken, kinds: list[list[int]]) -> tuple[list[list[float]], list[list[float]]]:
    """The effect of each source on each kind: by central differences, and by a step of the learning rate."""
    rate, prompts = naive.setting.optimizer_parameters["learning_rate"], range(len(naive.correct))
    first_order, measured, weights = [], [], taken.before.logits
    before = solve_rates(naive, weights)
    for source in kinds:
        moved = moved_by(naive, taken, source)
        after = solve_rates(naive, weights + rate * moved)
        each = [naive_linear.effect(naive, weights, moved, j) for j in prompts]
        first_order.append([mean([each[j] for j in kind]) for kind in kinds])
        measured.append([mean([(after[j] - before[j]) / rate for j in kind]) for kind in kinds])
    return first_order, measured


def kind_record(naive: Naive, taken: Taken, hard: np.ndarray) -> dict[str, Any]:
    """The record of easy and of hard prompts, whatever they share."""
    kinds = [[m for m, flag in enumerate(hard) if bool(flag) == is_hard] for is_hard in (False, True)]
    base, now, ks = (
        solve_rates(naive, naive.parameters),
        solve_rates(naive, taken.after.logits),
        naive.setting.pass_at_k,
    )
    of_kinds = [[now[m] for m in kind] for kind in kinds]
    surprises = target_surprises(naive, taken.after.logits)
    first_order, measured = effects(naive, taken, kinds)
    return {
        "q_pos_by_kind": [mean(rates) for rates in of_kinds],
        "pass_at_k_by_kind": [[mean_pass_at(k, rates) for k in ks] for rates in of_kinds],
        "target_nll_by_kind": [mean([surprises[m] for m in kind]) for kind in kinds],
        "pass_at_k_gain": [mean_pass_at(k, now) - mean_pass_at(k, base) for k in ks],
        "crossing_k": crossing_k(base, now),
        "effect": first_order,
        "effect_measured": measured,
    }


def records(naive: Naive, steps: list[Taken], hard: np.ndarray) -> list[dict[str, Any]]:
    """The record of each step."""
    rows = naive_bank.records(naive, steps)
    for row, taken in zip(rows, steps, strict=True):
        row.update(naive_linear.interference_record(naive, taken) | kind_record(naive, taken, hard))
    return rows
