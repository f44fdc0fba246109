"""The basis of naive simulators: a setting, optimisers, and the records of one prompt, loop by loop in float64.

It shares nothing with the library. Steps are in naive_steps.py.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from references import Step


@dataclass(frozen=True)
class Setting:
    """A problem and a way to learn on it; parameters that are not given have the library's documented defaults."""

    logits: tuple[float, ...]
    correct: frozenset[int]
    target: frozenset[int]
    group_size: int
    estimator: str = "dr_grpo"
    estimator_parameters: dict[str, Any] = field(default_factory=dict)
    surrogate: str = "ppo_clip"
    surrogate_parameters: dict[str, float] = field(default_factory=dict)
    optimizer: str = "sgd"
    optimizer_parameters: dict[str, float] = field(default_factory=dict)
    update_rule: str = "simulator"
    epochs: int = 1
    minibatches: int = 1
    rewards: tuple[float, float] = (1.0, 0.0)
    temperature: float = 1.0
    kl: float = 0.0
    entropy_bonus: float = 0.0
    supervised: float = 0.0
    update_norm: float = 0.0
    lag: int = 0
    sampler: str = "exact"
    top_p: float = 1.0
    top_k: int = 0
    correction: str = "none"
    correction_unit: str = "token"
    correction_bound: float = 2.0
    isolation: float = 0.0
    teacher: float = 4.0
    pass_at_k: tuple[int, ...] = (1, 3)
    top_n: int = 2


@dataclass(frozen=True)
class Memory:
    """The state between two steps: logits, Adam's two moments and step count, batches so far, older logits."""

    logits: np.ndarray
    first_moment: np.ndarray
    second_moment: np.ndarray
    gradient_steps: int = 0
    batches: tuple[Step, ...] = ()
    older: tuple[np.ndarray, ...] = ()


def probabilities(logits: np.ndarray, temperature: float) -> np.ndarray:
    highest = max(logits)
    weights = np.array([math.exp((logit - highest) / temperature) for logit in logits])
    return weights / weights.sum()


def demonstrations(setting: Setting) -> dict[int, float]:
    """The correct actions, and how often the initial policy takes each when it is right."""
    initial = probabilities(np.array(setting.logits), setting.temperature)
    right = sum(initial[action] for action in setting.correct)
    return {action: initial[action] / right for action in setting.correct}


def surrogate_coefficient(setting: Setting, ratio: float, advantage: float) -> float:
    """d J / d log pi of one rollout."""
    parameters = setting.surrogate_parameters
    if setting.surrogate == "reinforce":
        return advantage
    low, high = 1 - parameters.get("eps_low", 0.2), 1 + parameters.get("eps_high", 0.2)
    clipped = min(max(ratio, low), high) * advantage
    return ratio * advantage if ratio * advantage <= clipped else 0.0  # the minimum is the clipped term: no gradient


def optimize(setting: Setting, memory: Memory, gradient: np.ndarray) -> Memory:
    """Ascend the gradient: plainly, with Adam (Kingma and Ba), or with AdamW (Loshchilov and Hutter).

    A change of the parameters is scaled to ``update_norm`` where that is not 0.
    """
    defaults = {"learning_rate": 0.01, "b1": 0.9, "b2": 0.999, "eps": 1e-8, "weight_decay": 0.01}
    parameters = defaults | setting.optimizer_parameters
    rate, b1, b2 = parameters["learning_rate"], parameters["b1"], parameters["b2"]
    count = memory.gradient_steps + 1
    if setting.optimizer == "sgd":
        logits = memory.logits + normed(setting, rate * gradient)
        return Memory(logits, memory.first_moment, memory.second_moment, count, memory.batches)
    first = b1 * memory.first_moment + (1 - b1) * gradient
    second = b2 * memory.second_moment + (1 - b2) * gradient**2
    direction = (first / (1 - b1**count)) / (np.sqrt(second / (1 - b2**count)) + parameters["eps"])
    if setting.optimizer == "adamw":
        direction = direction - parameters["weight_decay"] * memory.logits
    return Memory(memory.logits + normed(setting, rate * direction), first, second, count, memory.batches)


def normed(setting: Setting, change: np.ndarray) -> np.ndarray:
    length = math.sqrt(sum(entry**2 for entry in change.reshape(-1)))
    return change * setting.update_norm / length if setting.update_norm and length else change


def policy_record(setting: Setting, logits: np.ndarray) -> dict[str, Any]:
    """The record of a policy."""
    p = probabilities(logits, setting.temperature)
    initial = probabilities(np.array(setting.logits), setting.temperature)
    q_pos = sum(p[i] for i in setting.correct)
    lost = sum(max(0.0, initial[i] - p[i]) for i in setting.correct)
    return {
        "q_pos": q_pos,
        "target_mass": sum(p[i] for i in setting.target),
        "retained_mass": 1 - lost / sum(initial[i] for i in setting.correct),
        "share_correct_kept": sum(1 for i in setting.correct if p[i] >= initial[i]) / len(setting.correct),
        "entropy": -sum(x * math.log(x) for x in p),
        "pass_at_k": np.array([1 - (1 - q_pos) ** k for k in setting.pass_at_k]),
        "top_logp": np.array([math.log(x) for x in sorted(p, reverse=True)[: setting.top_n]]),
    }


def update_record(setting: Setting, before: np.ndarray, after: np.ndarray, actions: list[int]) -> dict[str, float]:
    """The record of one update and of the group that made it."""
    old, new = probabilities(before, setting.temperature), probabilities(after, setting.temperature)
    missed = [i for i in setting.correct if i not in actions]
    moved = (after - before) / setting.temperature
    drift = sum(p * dz for p, dz in zip(old, moved, strict=True))
    predicted = [p * (dz - drift) for p, dz in zip(old, moved, strict=True)]
    active = any(a in setting.correct for a in actions) and any(a not in setting.correct for a in actions)
    return {
        "unsampled_correct_mass": sum(old[i] for i in missed),
        "distinct_correct": len(setting.correct) - len(missed),
        "d_q_pos": sum(new[i] - old[i] for i in setting.correct),
        "d_q_pos_predicted": sum(predicted[i] for i in setting.correct),
        "d_q_upos": sum(new[i] - old[i] for i in missed),
        "d_q_upos_predicted": sum(predicted[i] for i in missed),
        "accepted_rate": sum(a in setting.correct for a in actions) / len(actions),
        "active_rate": float(active),
        "tail_miss_rate": float(active and not any(a in setting.target for a in actions)),
    }
