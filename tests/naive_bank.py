"""A bank of prompts once more, loop by loop in float64: what the engine must agree with.

It shares nothing with the library: the gradient of each prompt and the optimiser are those of naive_simulator.py,
estimators come from references.py, a step being one batch of all its groups.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import naive_simulator
import numpy as np
from naive_simulator import Memory, Setting, probabilities
from references import REFERENCES, Step

Groups = dict[int, list[int]]  # of each prompt of a batch the actions drawn


@dataclass(frozen=True)
class Bank:
    """Prompts of one number of actions, with the same correct and target actions, and how one learns on them.

    The logits of ``setting`` stand for nothing; its other fields hold for every prompt.
    """

    logits: tuple[tuple[float, ...], ...]
    setting: Setting
    prompts_per_step: int

    def of_prompt(self, prompt: int) -> Setting:
        return replace(self.setting, logits=self.logits[prompt])


def start(bank: Bank) -> Memory:
    logits = np.array(bank.logits)
    return Memory(logits, np.zeros_like(logits), np.zeros_like(logits))


def batch_advantages(bank: Bank, memory: Memory, groups: Groups) -> tuple[Step, list[list[float]]]:
    """The batch as estimators see it, and the advantages of its groups."""
    setting, samplers = bank.setting, {m: probabilities(memory.logits[m], bank.setting.temperature) for m in groups}
    rewards = [[setting.rewards[0 if a in bank.of_prompt(m).correct else 1] for a in groups[m]] for m in groups]
    logp = [[[math.log(samplers[m][a])] for a in groups[m]] for m in groups]
    entropy = [[[-sum(x * math.log(x) for x in samplers[m])] for _ in groups[m]] for m in groups]
    batch = Step(rewards, logp, entropy)
    weights = REFERENCES[setting.estimator]([*memory.batches, batch], **setting.estimator_parameters)[-1]
    return batch, [[weight[0] if isinstance(weight, list) else weight for weight in group] for group in weights]


def step(bank: Bank, memory: Memory, groups: Groups) -> Memory:
    """One batch, weighed and learned from: the mean over its prompts of each one's objective is ascended."""
    batch, advantages = batch_advantages(bank, memory, groups)
    samplers = {m: probabilities(memory.logits[m], bank.setting.temperature) for m in groups}
    for _ in range(bank.setting.gradient_steps):
        gradient = np.zeros_like(memory.logits)
        for m, weights in zip(groups, advantages, strict=True):
            own = naive_simulator.objective_gradient(
                bank.of_prompt(m), memory.logits[m], samplers[m], groups[m], weights
            )
            gradient[m] = own / len(groups)
        memory = naive_simulator.optimize(bank.setting, memory, gradient)
    return replace(memory, batches=(*memory.batches, batch))


def in_bin(solve_rate: float) -> int:
    return min(int(solve_rate * 10), 9)


def policy_record(bank: Bank, logits: np.ndarray) -> dict[str, Any]:
    """What is recorded of all policies."""
    rows = [naive_simulator.policy_record(bank.of_prompt(m), own) for m, own in enumerate(logits)]
    means = {name: np.mean([row[name] for row in rows], axis=0) for name in rows[0]}
    histogram = np.zeros(10)
    for row in rows:
        histogram[in_bin(row["q_pos"])] += 1 / len(rows)
    unsolved = sum(1 - (1 - row["q_pos"]) ** 2**20 < 0.5 for row in rows)
    return means | {"solve_rate_histogram": histogram, "unsolved_prompts": float(unsolved)}


def update_record(bank: Bank, before: np.ndarray, after: np.ndarray, groups: Groups) -> dict[str, float]:
    """What is recorded of one update: means over the prompts of its batch."""
    rows = [naive_simulator.update_record(bank.of_prompt(m), before[m], after[m], groups[m]) for m in groups]
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def effective_size(weights: list[float]) -> float:
    return sum(weights) ** 2 / sum(w * w for w in weights) if any(weights) else 0.0


def batch_record(bank: Bank, memory: Memory, groups: Groups) -> dict[str, Any]:
    """What is recorded of one batch's weights, by the policies that drew it."""
    _, advantages = batch_advantages(bank, memory, groups)
    success, failure = np.zeros(10), np.zeros(10)
    correct = {m: bank.of_prompt(m).correct for m in groups}
    for m, weights in zip(groups, advantages, strict=True):
        p = probabilities(memory.logits[m], bank.setting.temperature)
        place, share = in_bin(sum(p[a] for a in correct[m])), 1 / (len(weights) * len(groups))
        for action, weight in zip(groups[m], weights, strict=True):
            if action in correct[m]:
                success[place] += weight * share
            else:
                failure[place] -= weight * share
    sizes = [[abs(weight) for weight in weights] for weights in advantages]
    return {
        "success_mass": success,
        "failure_mass": failure,
        "effective_prompts": effective_size([sum(of_prompt) / len(of_prompt) for of_prompt in sizes]),
        "effective_rollouts": effective_size([size for of_prompt in sizes for size in of_prompt]),
        "unsolved_rate": np.mean([not any(a in correct[m] for a in groups[m]) for m in groups]),
    }
