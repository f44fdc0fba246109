"""Prompts that share a head once more, loop by loop in float64: what the engine must agree with.

It shares nothing with the library: what happens in one prompt is that of naive_bank.py and naive_simulator.py, given
the logits W h of each; singular values and vectors are those of NumPy.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import naive_bank
import naive_simulator
import numpy as np
from naive_bank import Bank, Groups
from naive_simulator import Memory, Setting, probabilities


@dataclass(frozen=True)
class Linear(Bank):
    """Prompts with features of their own, one head for all, and correct and target actions of their own.

    ``logits`` are those before the first step, W h.
    """

    weights: tuple[tuple[float, ...], ...] = ()
    features: tuple[tuple[float, ...], ...] = ()
    correct: tuple[frozenset[int], ...] = ()

    def of_prompt(self, prompt: int) -> Setting:
        correct = self.correct[prompt]
        return replace(super().of_prompt(prompt), correct=correct, target=frozenset({min(correct)}))


def linear(weights, features, correct, setting: Setting, prompts_per_step: int) -> Linear:
    logits = tuple(tuple(sum(w * h for w, h in zip(row, own, strict=True)) for row in weights) for own in features)
    return Linear(logits, setting, prompts_per_step, weights, features, correct)


def start(place: Linear) -> Memory:
    weights = np.array(place.weights)
    return Memory(weights, np.zeros_like(weights), np.zeros_like(weights))


def logits_of(place: Linear, weights: np.ndarray) -> np.ndarray:
    logits = np.zeros((len(place.features), len(weights)))
    for m, feature in enumerate(place.features):
        for a, row in enumerate(weights):
            logits[m, a] = sum(w * h for w, h in zip(row, feature, strict=True))
    return logits


def seen(place: Linear, memory: Memory) -> Memory:
    """The memory as a bank of the same policies has it."""
    return replace(memory, logits=logits_of(place, memory.logits))


def prompt_gradients(place: Linear, weights: np.ndarray, samplers, groups: Groups, advantages) -> dict[int, np.ndarray]:
    """The gradient of each prompt's objective with respect to its logits."""
    logits = logits_of(place, weights)
    return {
        m: naive_simulator.objective_gradient(place.of_prompt(m), logits[m], samplers[m], groups[m], own)
        for m, own in zip(groups, advantages, strict=True)
    }


def head_gradient(place: Linear, each: dict[int, np.ndarray]) -> np.ndarray:
    return sum(np.outer(own, place.features[m]) for m, own in each.items()) / len(each)


def batch_of(place: Linear, memory: Memory, groups: Groups):
    """The batch as estimators see it, its advantages, and the policies that drew it."""
    batch, advantages = naive_bank.batch_advantages(place, seen(place, memory), groups)
    logits = logits_of(place, memory.logits)
    return batch, advantages, {m: probabilities(logits[m], place.setting.temperature) for m in groups}


def step(place: Linear, memory: Memory, groups: Groups) -> Memory:
    """One batch, weighed and learned from."""
    batch, advantages, samplers = batch_of(place, memory, groups)
    for _ in range(place.setting.gradient_steps):
        each = prompt_gradients(place, memory.logits, samplers, groups, advantages)
        memory = naive_simulator.optimize(place.setting, memory, head_gradient(place, each))
    return replace(memory, batches=(*memory.batches, batch))


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


def residual_record(place: Linear, weights: np.ndarray, direction: np.ndarray, groups: Groups) -> dict[str, float]:
    """Rollout by rollout, and pair by pair."""
    states: dict[str, list[np.ndarray]] = {"correct": [], "failed": []}
    norms, counts = {name: np.zeros_like(weights) for name in states}, dict.fromkeys(states, 0)
    logits = logits_of(place, weights)
    for m, actions in groups.items():
        p, feature = probabilities(logits[m], place.setting.temperature), np.array(place.features[m])
        perpendicular = feature - (feature @ direction) * direction
        for action in actions:
            name = "correct" if action in place.correct[m] else "failed"
            counts[name] += 1
            norms[name] += np.outer(np.eye(len(p))[action] - p, perpendicular)
            if np.linalg.norm(perpendicular) > 1e-7 * np.linalg.norm(feature):
                states[name].append(perpendicular)
    row = {}
    for name, own in states.items():
        cosines = [
            one @ other / np.linalg.norm(one) / np.linalg.norm(other)
            for i, one in enumerate(own)
            for j, other in enumerate(own)
            if i != j
        ]
        defined = bool(direction.any())
        row[f"residual_correlation_{name}"] = np.mean(cosines) if cosines and defined else math.nan
        there = counts[name] and defined
        row[f"residual_norm_{name}"] = np.linalg.norm(norms[name]) / counts[name] if there else math.nan
    ratio = math.sqrt(counts["correct"] / counts["failed"]) if counts["failed"] else math.nan
    return row | {"residual_norm_ratio_predicted": ratio}


def effect(place: Linear, weights: np.ndarray, direction: np.ndarray, prompt: int, step_size: float = 1e-6) -> float:
    """By how much Q_pos of a prompt changes along a direction of the head, by central differences."""

    def solve_rate(size):
        p = probabilities(logits_of(place, weights + size * direction)[prompt], place.setting.temperature)
        return sum(p[a] for a in place.correct[prompt])

    return (solve_rate(step_size) - solve_rate(-step_size)) / (2 * step_size)


def interference_record(place: Linear, memory: Memory, after: np.ndarray, groups: Groups, each) -> dict[str, float]:
    """Pair by pair: what the gradient of one prompt does to itself and to the others."""
    own, cross = 0.0, 0.0
    for i, gradient in each.items():
        for j in range(len(place.features)):
            moved = effect(place, memory.logits, np.outer(gradient, place.features[i]) / len(each), j)
            own, cross = (own + moved, cross) if i == j else (own, cross + moved)
    old, new = logits_of(place, memory.logits), logits_of(place, after)
    changes = []
    for j in range(len(place.features)):
        if j not in groups:
            before, later = (probabilities(logits[j], place.setting.temperature) for logits in (old, new))
            changes.append(sum(later[a] - before[a] for a in place.correct[j]))
    outside = float(np.mean(changes)) if changes else math.nan
    prompts = len(place.features)
    return {"d_q_pos_outside": outside, "own_effect": own / prompts, "cross_effect": cross / prompts}


def records(place: Linear, batches: list[Groups]) -> tuple[list[np.ndarray], list[dict[str, Any]]]:
    """The head after each of some steps, and what is recorded of each if every step is."""
    memory, heads, rows = start(place), [], []
    first = memory.logits
    update_before = gradient_before = np.zeros_like(first)
    for groups in batches:
        following = step(place, memory, groups)
        _, advantages, samplers = batch_of(place, memory, groups)
        each = prompt_gradients(place, memory.logits, samplers, groups, advantages)
        gradient, update = head_gradient(place, each), following.logits - memory.logits
        old, new = seen(place, memory), logits_of(place, following.logits)
        row = naive_bank.policy_record(place, new) | naive_bank.batch_record(place, old, groups)
        row |= naive_bank.update_record(place, old.logits, new, groups)
        change = following.logits - first
        values = np.linalg.svd(change, compute_uv=False)[:8]
        row["singular_values"] = np.concatenate([values, np.full(8 - len(values), math.nan)])
        row |= rank_record(change) | {f"update_{name}": value for name, value in rank_record(update).items()}
        left, left_before = leading_vectors(change)[0], leading_vectors(memory.logits - first)[0]
        row["direction_alignment"] = absolute_cosine(left, left_before)
        for name, now, before in (("update", update, update_before), ("gradient", gradient, gradient_before)):
            row[f"{name}_alignment"] = absolute_cosine(now, before)
            vectors = leading_vectors(now)[1], leading_vectors(before)[1]
            row[f"{name}_direction_alignment"] = absolute_cosine(*vectors)
        row |= residual_record(place, memory.logits, leading_vectors(gradient)[1], groups)
        row |= interference_record(place, memory, following.logits, groups, each)
        heads.append(following.logits)
        rows.append(row)
        memory, update_before, gradient_before = following, update, gradient
    return heads, rows
