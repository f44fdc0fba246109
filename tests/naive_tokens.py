"""Surrogates of the tokens of a batch once more, loop by loop in float64.

It shares nothing with the library. A node is the tuple of actions that leads to it, and a rollout the tuple of all of
its actions.
"""

import itertools
import math
import statistics
from dataclasses import replace
from typing import NamedTuple

import naive_simulator
import numpy as np
from naive_simulator import Setting
from references import Step

Word = tuple[int, ...]
Policies = dict[Word, np.ndarray]
Table = list[list[float]]  # a number for each token of each rollout


class Batch(NamedTuple):
    """The leaves of a group, and each token's advantage and random number."""

    group: list[Word]
    advantages: Table
    noise: Table


def as_of(setting: Setting, batches: list[Step]) -> Setting:
    """The setting with the surrogate of the last of some batches: one that does not change from then on."""
    parameters = dict(setting.surrogate_parameters)
    if setting.surrogate == "casp" and len(batches) <= parameters.pop("warm_up", 0):
        return replace(setting, surrogate="ppo_clip", surrogate_parameters={})
    if setting.surrogate == "entropy_target_clip":
        widened = widening([step.entropy for step in batches], parameters)
        bounds = {"eps_low": parameters.get("eps_low", 0.2), "eps_high": parameters.get("eps_high", 0.28) + widened}
        return replace(setting, surrogate="ppo_clip", surrogate_parameters=bounds)
    return replace(setting, surrogate_parameters=parameters)


def widening(batches: list[list[Table]], parameters: dict[str, float]) -> float:
    """The move of the upper bound after some batches, by the entropies of the tokens of each."""
    means = [statistics.mean(h for group in batch for row in group for h in row) for batch in batches]
    target, k = parameters.get("target", means[0]), 0.0
    for mean in means:
        towards = 1 if mean < target else -1 if mean > target else 0
        k = k + parameters.get("step", 0.01) * towards
        k = min(max(k, parameters.get("narrowest", 0.0)), parameters.get("widest", 0.08))
    return k


def entropy(p: np.ndarray) -> float:
    return -sum(x * math.log(x) for x in p)


def tokens_logp(policy: Policies, leaf: Word) -> list[float]:
    return [math.log(policy[leaf[:t]][leaf[t]]) for t in range(len(leaf))]


def token_moves(
    setting: Setting, now: list[Policies], sampler: list[Policies], batch: Batch
) -> list[list[list[tuple[int, float]]]]:
    """The actions that each token moves, and the coefficients of their grad log pi; policies are by rollout."""
    group, advantages, noise = batch
    logp = [tokens_logp(policy, leaf) for policy, leaf in zip(now, group, strict=True)]
    ratio = [
        [math.exp(new - old) for new, old in zip(row, tokens_logp(policy, leaf), strict=True)]
        for row, policy, leaf in zip(logp, sampler, group, strict=True)
    ]
    if setting.surrogate == "casp":
        return [casp_moves(setting, *of_one) for of_one in zip(sampler, group, ratio, advantages, strict=True)]
    if setting.surrogate == "clip_cov":
        coefficients = clip_cov(setting, ratio, advantages, logp, noise)
    elif setting.surrogate == "sequence_clip":
        coefficients = [sequence_clip(setting, *rows) for rows in zip(ratio, advantages, strict=True)]
    elif setting.surrogate == "unclipped":
        coefficients = [[x * a for x, a in zip(*rows, strict=True)] for rows in zip(ratio, advantages, strict=True)]
    else:
        coefficients = [
            [naive_simulator.surrogate_coefficient(setting, x, a) for x, a in zip(*rows, strict=True)]
            for rows in zip(ratio, advantages, strict=True)
        ]
    return [[[(a, c)] for a, c in zip(leaf, row, strict=True)] for leaf, row in zip(group, coefficients, strict=True)]


def clipped(ratio: float, advantage: float) -> bool:
    return (advantage > 0 and ratio > 1.2) or (advantage < 0 and ratio < 0.8)


def casp_moves(
    setting: Setting, sampler: Policies, leaf: Word, ratio: list[float], advantage: list[float]
) -> list[list[tuple[int, float]]]:
    """CaSP's Eq. 4 and 5, open where the entropy is above the quantile of the response."""
    parameters, moves = setting.surrogate_parameters, []
    entropies = [entropy(sampler[leaf[:t]]) for t in range(len(leaf))]
    rank = math.ceil(parameters["quantile"] * len(leaf))
    threshold = sorted(entropies)[rank - 1] if rank else -math.inf
    for t, (action, x, a, h) in enumerate(zip(leaf, ratio, advantage, entropies, strict=True)):
        p = sampler[leaf[:t]]
        likeliest = sorted(range(len(p)), key=lambda i: -p[i])
        is_top = math.log(p[action]) >= math.log(p[likeliest[0]]) - 1e-6
        penalised = h > threshold and a < 0 and is_top
        shifted = x * parameters["top_penalty"] if penalised else x
        whole = 0.0 if clipped(shifted, a) else shifted * a
        spread = parameters["alpha"] * whole if h > threshold and a > 0 else 0.0
        count = parameters["candidates"]
        moves.append([(action, whole - spread), *((other, spread / count) for other in likeliest[:count])])
    return moves


def covariances(advantages: Table, logp: Table) -> np.ndarray:
    """With exact means, so that equal values deviate by nothing."""
    x, a = np.array(logp, float), np.array(advantages, float)
    return (x - statistics.mean(x.ravel().tolist())) * (a - statistics.mean(a.ravel().tolist()))


def clip_cov(setting: Setting, ratio: Table, advantages: Table, logp: Table, noise: Table) -> Table:
    """PPO's clip, less a random few of the tokens whose covariance is in between."""
    parameters, c = setting.surrogate_parameters, covariances(advantages, logp)
    tokens = list(itertools.product(range(c.shape[0]), range(c.shape[1])))
    eligible = [
        (g, t)
        for g, t in tokens
        if not clipped(ratio[g][t], advantages[g][t]) and parameters["low"] < c[g, t] < parameters["high"]
    ]
    count = max(1, int(parameters["share"] * len(tokens)))
    dropped = sorted(eligible, key=lambda token: noise[token[0]][token[1]])[:count]
    coefficients = [[0.0] * c.shape[1] for _ in ratio]
    for g, t in tokens:
        if (g, t) not in dropped and not clipped(ratio[g][t], advantages[g][t]):
            coefficients[g][t] = ratio[g][t] * advantages[g][t]
    return coefficients


def sequence_clip(setting: Setting, ratio: list[float], advantage: list[float]) -> list[float]:
    """GSPO: the geometric mean of the ratios stands for each of them."""
    s = math.exp(sum(math.log(x) for x in ratio) / len(ratio))
    return [naive_simulator.surrogate_coefficient(setting, s, a) for a in advantage]
