"""The records of several prompts once more, loop by loop in float64.

It shares nothing with the library. Records of one prompt come from naive_simulator.py, and steps from naive_steps.py.
"""

from typing import Any

import naive_simulator
import numpy as np
from naive_simulator import probabilities
from naive_steps import Naive, Taken, ascent_record


def in_bin(solve_rate: float) -> int:
    return min(int(solve_rate * 10), 9)


def records(naive: Naive, steps: list[Taken]) -> list[dict[str, Any]]:
    """The record of each step."""
    rows = []
    for taken in steps:
        old, new = (naive.logits_of(memory.logits)[:, 0] for memory in (taken.before, taken.after))
        of_batch = batch_record(naive, old, taken) | ascent_record(naive, taken)
        rows.append(policy_record(naive, new) | update_record(naive, old, new, taken) | of_batch)
    return rows


def policy_record(naive: Naive, logits: np.ndarray) -> dict[str, Any]:
    """The record of all policies."""
    rows = [naive_simulator.policy_record(naive.of_prompt(m), z) for m, z in enumerate(logits)]
    means = {name: np.mean([row[name] for row in rows], axis=0) for name in rows[0]}
    histogram = np.zeros(10)
    for row in rows:
        histogram[in_bin(row["q_pos"])] += 1 / len(rows)
    unsolved = sum(1 - (1 - row["q_pos"]) ** 2**20 < 0.5 for row in rows)
    return means | {"solve_rate_histogram": histogram, "unsolved_prompts": float(unsolved)}


def update_record(naive: Naive, before: np.ndarray, after: np.ndarray, taken: Taken) -> dict[str, float]:
    """The record of one update: means over the prompts of its batch."""
    rows = [
        naive_simulator.update_record(naive.of_prompt(m), before[m], after[m], taken.actions(m)) for m in taken.groups
    ]
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def effective_size(weights: list[float]) -> float:
    return sum(weights) ** 2 / sum(w * w for w in weights) if any(weights) else 0.0


def batch_record(naive: Naive, before: np.ndarray, taken: Taken) -> dict[str, Any]:
    """The record of one batch's weights, by the policies that drew it."""
    success, failure = np.zeros(10), np.zeros(10)
    advantages = {m: [weight for (weight,) in taken.advantages[m]] for m in taken.groups}
    for m, weights in advantages.items():
        p = probabilities(before[m], naive.setting.temperature)
        index, share = in_bin(sum(p[a] for a in naive.correct[m])), 1 / (len(weights) * len(taken.groups))
        for action, weight in zip(taken.actions(m), weights, strict=True):
            if action in naive.correct[m]:
                success[index] += weight * share
            else:
                failure[index] -= weight * share
    sizes = [[abs(weight) for weight in weights] for weights in advantages.values()]
    return {
        "success_mass": success,
        "failure_mass": failure,
        "effective_prompts": effective_size([sum(of_prompt) / len(of_prompt) for of_prompt in sizes]),
        "effective_rollouts": effective_size([size for of_prompt in sizes for size in of_prompt]),
        "unsolved_rate": np.mean([not any(a in naive.correct[m] for a in taken.actions(m)) for m in taken.groups]),
    }
