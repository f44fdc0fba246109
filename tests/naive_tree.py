"""A tree of softmax policies once more, token by token in float64: what the engine must agree with.

It shares nothing with the library. A node is the tuple of actions that leads to it and a leaf is a tuple of T actions;
estimators come from references.py, optimisers and what is recorded of one policy from naive_simulator.py.
"""

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import naive_simulator
import numpy as np
from naive_simulator import Memory, Setting, probabilities
from references import REFERENCES, Step

Word = tuple[int, ...]
Policies = dict[Word, np.ndarray]
Table = list[list[float]]  # a number of each token of each rollout


class Batch(NamedTuple):
    """The leaves of a group, and of each token its advantage and a random number."""

    group: list[Word]
    advantages: Table
    noise: Table


@dataclass(frozen=True)
class Tree:
    """A tree and how one learns on it.

    The logits of ``setting`` stand for nothing; its correct and target actions are places in ``leaves``.
    """

    depth: int
    branching: int
    logits: tuple[tuple[float, ...], ...]
    setting: Setting
    aggregation: str = "token_mean"

    @property
    def nodes(self) -> list[Word]:
        return [node for level in range(self.depth) for node in itertools.product(range(self.branching), repeat=level)]

    @property
    def leaves(self) -> list[Word]:
        return list(itertools.product(range(self.branching), repeat=self.depth))


def start(tree: Tree) -> Memory:
    logits = np.array(tree.logits)
    return Memory(logits, np.zeros_like(logits), np.zeros_like(logits))


def policies(tree: Tree, logits: np.ndarray) -> Policies:
    return {node: probabilities(own, tree.setting.temperature) for node, own in zip(tree.nodes, logits, strict=True)}


def entropy(p: np.ndarray) -> float:
    return -sum(x * math.log(x) for x in p)


def tokens_logp(own: Policies, leaf: Word) -> list[float]:
    return [math.log(own[leaf[:t]][leaf[t]]) for t in range(len(leaf))]


def leaf_logp(tree: Tree, logits: np.ndarray) -> np.ndarray:
    own = policies(tree, logits)
    return np.array([sum(tokens_logp(own, leaf)) for leaf in tree.leaves])


def advantages_of(tree: Tree, memory: Memory, group: list[Word]) -> tuple[Step, Table]:
    """The group as estimators see it, and the advantage of each of its tokens."""
    setting, own = tree.setting, policies(tree, memory.logits)
    rewards = [setting.rewards[0 if tree.leaves.index(leaf) in setting.correct else 1] for leaf in group]
    logp = [tokens_logp(own, leaf) for leaf in group]
    entropies = [[entropy(own[leaf[:t]]) for t in range(tree.depth)] for leaf in group]
    batch = Step([rewards], [logp], [entropies])
    weights = REFERENCES[setting.estimator]([*memory.batches, batch], **setting.estimator_parameters)[-1][0]
    return batch, [weight if isinstance(weight, list) else [weight] * tree.depth for weight in weights]


def step(tree: Tree, memory: Memory, group: list[Word], noise: Table) -> Memory:
    """One group, weighed and learned from."""
    seen, advantages = advantages_of(tree, memory, group)
    sampler = policies(tree, memory.logits)
    for _ in range(tree.setting.gradient_steps):
        gradient = objective_gradient(tree, memory.logits, sampler, Batch(group, advantages, noise))
        memory = naive_simulator.optimize(tree.setting, memory, gradient)
    return replace(memory, batches=(*memory.batches, seen))


def objective_gradient(tree: Tree, logits: np.ndarray, sampler: Policies, batch: Batch) -> np.ndarray:
    """Gradient of the objective that is ascended, token by token."""
    group = batch.group
    setting, now = tree.setting, policies(tree, logits)
    initial = policies(tree, np.array(tree.logits))
    weight = 1 / len(group) if tree.aggregation == "constant" else 1 / (len(group) * tree.depth)
    gradient = {node: np.zeros(tree.branching) for node in tree.nodes}
    moves = token_moves(setting, now, sampler, batch)
    for leaf, of_rollout in zip(group, moves, strict=True):
        for t, of_token in enumerate(of_rollout):
            node, p = leaf[:t], now[leaf[:t]]
            jacobian = (np.diag(p) - np.outer(p, p)) / setting.temperature
            for action, coefficient in of_token:
                gradient[node] += weight * coefficient * jacobian[action] / p[action]
            gradient[node] += weight * setting.entropy_bonus * -(np.log(p) + 1) @ jacobian
            gradient[node] -= weight * setting.kl * (np.log(p / initial[node]) + 1) @ jacobian
    return np.array([gradient[node] for node in tree.nodes])


def token_moves(
    setting: Setting, now: Policies, sampler: Policies, batch: Batch
) -> list[list[list[tuple[int, float]]]]:
    """Of each token the actions that it moves, and the coefficients of their grad log pi."""
    group, advantages, noise = batch
    logp = [tokens_logp(now, leaf) for leaf in group]
    ratio = [
        [math.exp(new - old) for new, old in zip(row, tokens_logp(sampler, leaf), strict=True)]
        for row, leaf in zip(logp, group, strict=True)
    ]
    if setting.surrogate == "casp":
        return [casp_moves(setting, sampler, leaf, *rows) for leaf, *rows in zip(group, ratio, advantages, strict=True)]
    if setting.surrogate == "clip_cov":
        coefficients = clip_cov(setting, ratio, advantages, logp, noise)
    elif setting.surrogate == "kl_cov":
        coefficients = kl_cov(setting, ratio, advantages, logp)
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
    parameters, found = setting.surrogate_parameters, []
    entropies = [entropy(sampler[leaf[:t]]) for t in range(len(leaf))]
    place = math.ceil(parameters["quantile"] * len(leaf))
    threshold = sorted(entropies)[place - 1] if place else -math.inf
    for t, (action, x, a, h) in enumerate(zip(leaf, ratio, advantage, entropies, strict=True)):
        likeliest = sorted(range(len(sampler[leaf[:t]])), key=lambda i: -sampler[leaf[:t]][i])
        penalised = h > threshold and a < 0 and action == likeliest[0]
        shifted = x * parameters["top_penalty"] if penalised else x
        whole = 0.0 if clipped(shifted, a) else shifted * a
        spread = parameters["alpha"] * whole if h > threshold and a > 0 else 0.0
        count = parameters["candidates"]
        found.append([(action, whole - spread), *((other, spread / count) for other in likeliest[:count])])
    return found


def covariances(advantages: Table, logp: Table) -> np.ndarray:
    x, a = np.array(logp), np.array(advantages)
    return (x - x.mean()) * (a - a.mean())


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
    dropped = sorted(eligible, key=lambda place: noise[place[0]][place[1]])[:count]
    kept = [[0.0] * c.shape[1] for _ in ratio]
    for g, t in tokens:
        if (g, t) not in dropped and not clipped(ratio[g][t], advantages[g][t]):
            kept[g][t] = ratio[g][t] * advantages[g][t]
    return kept


def kl_cov(setting: Setting, ratio: Table, advantages: Table, logp: Table) -> Table:
    """ratio A, and a pull back towards the sampler at the tokens of highest covariance."""
    parameters, c = setting.surrogate_parameters, covariances(advantages, logp)
    tokens = sorted(itertools.product(range(c.shape[0]), range(c.shape[1])), key=lambda place: -c[place])
    chosen = tokens[: max(1, int(parameters["share"] * len(tokens)))]
    found = (np.array(ratio) * np.array(advantages)).tolist()
    for g, t in chosen:
        found[g][t] -= parameters["penalty"] * np.sign(ratio[g][t] - 1)
    return found


def sequence_clip(setting: Setting, ratio: list[float], advantage: list[float]) -> list[float]:
    """GSPO: the geometric mean of the ratios stands for each of them."""
    s = math.exp(sum(math.log(x) for x in ratio) / len(ratio))
    return [naive_simulator.surrogate_coefficient(setting, s, a) for a in advantage]


def over_leaves(tree: Tree) -> Setting:
    """The setting of the one policy over leaves."""
    initial = leaf_logp(tree, np.array(tree.logits))
    return replace(tree.setting, logits=tuple(initial.tolist()), temperature=1.0)


def passing(own: Policies, node: Word) -> float:
    return math.prod(own[node[:t]][action] for t, action in enumerate(node))


def policy_record(tree: Tree, logits: np.ndarray) -> dict[str, Any]:
    """What is recorded of the policies."""
    own, logp, setting = policies(tree, logits), leaf_logp(tree, logits), over_leaves(tree)
    modes = [math.exp(logp[place]) for place in sorted(setting.correct)]
    shares = [p / sum(modes) for p in modes]
    levels = [[(passing(own, node), own[node]) for node in tree.nodes if len(node) == t] for t in range(tree.depth)]
    ranks = np.full(setting.top_n, np.nan)
    for n in range(min(setting.top_n, tree.branching)):
        each = [visits * math.log(sorted(p, reverse=True)[n]) for level in levels for visits, p in level]
        ranks[n] = sum(each) / tree.depth
    return naive_simulator.policy_record(setting, logp) | {
        "mode_probability": np.array(modes),
        "mode_coverage": sum(1 - (1 - p) ** 1000 for p in modes),
        "modes_held": sum(1 for p in modes if p >= 0.01),
        "effective_modes": math.exp(-sum(x * math.log(x) for x in shares)),
        "largest_probability": max(np.exp(logp)),
        "level_entropy": np.array([sum(visits * entropy(p) for visits, p in level) for level in levels]),
        "rank_logp": ranks,
    }


def update_record(
    tree: Tree, memory: Memory, after: np.ndarray, group: list[Word], advantages: Table
) -> dict[str, Any]:
    """What is recorded of one update and of the group that made it."""
    setting, old = over_leaves(tree), policies(tree, memory.logits)
    moved = dict(zip(tree.nodes, (after - memory.logits) / tree.setting.temperature, strict=True))
    reached = [tree.leaves.index(leaf) for leaf in group]
    row = naive_simulator.update_record(setting, leaf_logp(tree, memory.logits), leaf_logp(tree, after), reached)
    predicted = [
        passing(old, leaf) * sum(moved[leaf[:t]][leaf[t]] - old[leaf[:t]] @ moved[leaf[:t]] for t in range(tree.depth))
        for leaf in tree.leaves
    ]
    missed = setting.correct - set(reached)
    return row | {
        "d_q_pos_predicted": sum(predicted[i] for i in setting.correct),
        "d_q_upos_predicted": sum(predicted[i] for i in missed),
        "distinct_rollouts": len(set(reached)),
        **token_record(tree, old, group, advantages),
    }


def token_record(tree: Tree, old: Policies, group: list[Word], advantages: Table) -> dict[str, Any]:
    """Mean log-probabilities by rank, and the thresholds of the covariances of either sign."""
    logp = [tokens_logp(old, leaf) for leaf in group]
    ranks = np.full(tree.setting.top_n, np.nan)
    for n in range(min(tree.setting.top_n, tree.branching)):
        ranks[n] = np.mean([[math.log(sorted(old[leaf[:t]])[-1 - n]) for t in range(tree.depth)] for leaf in group])
    c = covariances(advantages, logp).reshape(-1)
    return {
        "group_sample_logp": np.mean(logp),
        "group_rank_logp": ranks,
        "positive_covariance": thresholds(sorted(c[c > 0], reverse=True)),
        "negative_covariance": thresholds(sorted(c[c < 0])),
    }


def thresholds(extreme_first: list[float]) -> np.ndarray:
    """What the 0.01 %, 1 %, 20 %, 40 % and 100 % most extreme values reach; at least one value."""
    if not extreme_first:
        return np.full(5, np.nan)
    shares = (0.0001, 0.01, 0.2, 0.4, 1.0)
    return np.array([extreme_first[math.ceil(share * len(extreme_first)) - 1] for share in shares])
