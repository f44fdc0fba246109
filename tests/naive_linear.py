"""The records of prompts that share a head once more, loop by loop in float64.

It shares nothing with the library: records of the prompts alone come from naive_bank.py, steps from naive_steps.py,
and singular values and vectors from NumPy.
"""

import math
from typing import Any

import naive_bank
import numpy as np
from naive_simulator import probabilities
from naive_steps import Naive, Taken


def features_of(naive: Naive) -> np.ndarray:
    """(M, d): the logit of action 0 is the product of its weights with the feature."""
    units = np.zeros((naive.parameters.shape[1], *naive.parameters.shape))
    for k, unit in enumerate(units):
        unit[0, k] = 1
    return np.array([naive.logits_of(unit)[:, 0, 0] for unit in units]).T


def logits_of(naive: Naive, weights: np.ndarray) -> np.ndarray:
    return naive.logits_of(weights)[:, 0]


def head_gradient(naive: Naive, each: dict[int, np.ndarray]) -> np.ndarray:
    features = features_of(naive)
    return sum(np.outer(gradient[0], features[m]) for m, gradient in each.items()) / len(each)


def absolute_cosine(first, second) -> float:
    first, second = np.ravel(first), np.ravel(second)
    sizes = math.sqrt(first @ first) * math.sqrt(second @ second)
    return abs(first @ second) / sizes if sizes else math.nan


def leading_vectors(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    left, values, right = np.linalg.svd(matrix)
    return (left[:, 0], right[0]) if values[0] else (np.zeros(len(left)), np.zeros(len(right)))


def rank_record(matrix: np.ndarray) -> dict[str, float]:
    values = np.linalg.svd(matrix, compute_uv=False)
    if not values[0]:
        return dict.fromkeys(("leading_share", "singular_gap", "effective_rank"), math.nan)
    rank = next(k for k in range(1, len(values) + 1) if values[:k].sum() >= 0.99 * values.sum())
    gap = values[0] / values[1] if len(values) > 1 else math.nan
    return {"leading_share": values[0] ** 2 / (values**2).sum(), "singular_gap": gap, "effective_rank": float(rank)}


def residual_record(naive: Naive, weights: np.ndarray, direction: np.ndarray, taken: Taken) -> dict[str, float]:
    """Rollout by rollout, and pair by pair."""
    states: dict[str, list[np.ndarray]] = {"correct": [], "failed": []}
    norms, counts = {name: np.zeros_like(weights) for name in states}, dict.fromkeys(states, 0)
    logits, features = logits_of(naive, weights), features_of(naive)
    for m in taken.groups:
        p, feature = probabilities(logits[m], naive.setting.temperature), features[m]
        perpendicular = feature - (feature @ direction) * direction
        for action in taken.actions(m):
            name = "correct" if action in naive.correct[m] else "failed"
            counts[name] += 1
            norms[name] += np.outer(np.eye(len(p))[action] - p, perpendicular)
            if np.linalg.norm(perpendicular) > 1e-7 * np.linalg.norm(feature):
                states[name].append(perpendicular)
    row = {}
    for name, vectors in states.items():
        cosines = [
            first @ second / np.linalg.norm(first) / np.linalg.norm(second)
            for i, first in enumerate(vectors)
            for j, second in enumerate(vectors)
            if i != j
        ]
        defined = bool(direction.any())
        row[f"residual_correlation_{name}"] = np.mean(cosines) if cosines and defined else math.nan
        there = counts[name] and defined
        row[f"residual_norm_{name}"] = np.linalg.norm(norms[name]) / counts[name] if there else math.nan
    ratio = math.sqrt(counts["correct"] / counts["failed"]) if counts["failed"] else math.nan
    return row | {"residual_norm_ratio_predicted": ratio}


def effect(naive: Naive, weights: np.ndarray, direction: np.ndarray, prompt: int, step_size: float = 1e-6) -> float:
    """The derivative of a prompt's Q_pos along a direction of the head, by central differences."""

    def solve_rate(size):
        p = probabilities(logits_of(naive, weights + size * direction)[prompt], naive.setting.temperature)
        return sum(p[a] for a in naive.correct[prompt])

    return (solve_rate(step_size) - solve_rate(-step_size)) / (2 * step_size)


def interference_record(naive: Naive, taken: Taken) -> dict[str, float]:
    """The effect of each prompt's gradient on itself and on the others, pair by pair."""
    diagonal, cross, features = 0.0, 0.0, features_of(naive) * naive.learned
    for i, gradient in taken.gradients.items():
        for j in range(len(features)):
            moved = effect(naive, taken.before.logits, np.outer(gradient[0], features[i]) / len(taken.gradients), j)
            diagonal, cross = (diagonal + moved, cross) if i == j else (diagonal, cross + moved)
    old, new = (logits_of(naive, memory.logits) for memory in (taken.before, taken.after))
    changes = []
    for j in range(len(features)):
        if j not in taken.groups:
            before, later = (probabilities(logits[j], naive.setting.temperature) for logits in (old, new))
            changes.append(sum(later[a] - before[a] for a in naive.correct[j]))
    outside, prompts = float(np.mean(changes)) if changes else math.nan, len(features)
    return {"d_q_pos_outside": outside, "own_effect": diagonal / prompts, "cross_effect": cross / prompts}


def records(naive: Naive, steps: list[Taken]) -> list[dict[str, Any]]:
    """The record of each step, if every step is recorded."""
    first = naive.parameters
    update_before = gradient_before = np.zeros_like(first)
    rows = naive_bank.records(naive, steps)
    for index, taken in enumerate(steps):
        row = rows[index]
        before, after = taken.before.logits, taken.after.logits
        gradient, update, change = head_gradient(naive, taken.gradients), after - before, after - first
        values = np.linalg.svd(change, compute_uv=False)
        values = np.concatenate([values, np.zeros(change.shape[1] - len(values))])[:8]
        row["singular_values"] = np.concatenate([values, np.full(8 - len(values), math.nan)])
        row.update(rank_record(change) | {f"update_{name}": value for name, value in rank_record(update).items()})
        left, left_before = leading_vectors(change)[0], leading_vectors(before - first)[0]
        row["direction_alignment"] = absolute_cosine(left, left_before)
        for name, now, earlier in (("update", update, update_before), ("gradient", gradient, gradient_before)):
            row[f"{name}_alignment"] = absolute_cosine(now, earlier)
            vectors = leading_vectors(now)[1], leading_vectors(earlier)[1]
            row[f"{name}_direction_alignment"] = absolute_cosine(*vectors)
        row.update(residual_record(naive, before, leading_vectors(gradient)[1], taken))
        row.update(interference_record(naive, taken))
        update_before, gradient_before = update, gradient
    return rows
