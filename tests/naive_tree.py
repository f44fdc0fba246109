"""The records of a tree once more, token by token in float64.

It shares nothing with the library: records of the one policy over leaves come from naive_simulator.py, steps from
naive_steps.py.
"""

import math
from dataclasses import replace
from typing import Any

import naive_simulator
import numpy as np
from naive_simulator import Setting
from naive_steps import Naive, Taken, ascent_record, chance, policies
from naive_tokens import Policies, Table, Word, covariances, entropy, tokens_logp


def leaf_logp(naive: Naive, parameters: np.ndarray) -> np.ndarray:
    policy = policies(naive, parameters)[0]
    return np.array([sum(tokens_logp(policy, leaf)) for leaf in naive.words])


def over_leaves(naive: Naive) -> Setting:
    """The setting of the one policy over leaves."""
    initial = leaf_logp(naive, naive.parameters)
    return replace(naive.of_prompt(0), logits=tuple(initial.tolist()), temperature=1.0)


def records(naive: Naive, steps: list[Taken]) -> list[dict[str, Any]]:
    """The record of each step."""
    return [
        policy_record(naive, taken.after.logits) | update_record(naive, taken) | ascent_record(naive, taken)
        for taken in steps
    ]


def policy_record(naive: Naive, logits: np.ndarray) -> dict[str, Any]:
    """The record of the policies."""
    tree, logp, setting = policies(naive, logits)[0], leaf_logp(naive, logits), over_leaves(naive)
    modes = [math.exp(logp[outcome]) for outcome in sorted(setting.correct)]
    shares = [p / sum(modes) for p in modes]
    levels = [[(chance(tree, node), tree[node]) for node in naive.nodes if len(node) == t] for t in range(naive.depth)]
    ranks = np.full(setting.top_n, np.nan)
    for n in range(min(setting.top_n, naive.branching)):
        each = [visits * math.log(sorted(p, reverse=True)[n]) for level in levels for visits, p in level]
        ranks[n] = sum(each) / naive.depth
    return naive_simulator.policy_record(setting, logp) | {
        "mode_probability": np.array(modes),
        "mode_coverage": sum(1 - (1 - p) ** 1000 for p in modes),
        "modes_held": sum(1 for p in modes if p >= 0.01),
        "effective_modes": math.exp(-sum(x * math.log(x) for x in shares)),
        "largest_probability": max(np.exp(logp)),
        "level_entropy": np.array([sum(visits * entropy(p) for visits, p in level) for level in levels]),
        "rank_logp": ranks,
    }


def update_record(naive: Naive, taken: Taken) -> dict[str, Any]:
    """The record of one update and of the group that made it."""
    before, after, group = taken.before.logits, taken.after.logits, taken.groups[0]
    setting, old = over_leaves(naive), policies(naive, before)[0]
    moved = dict(zip(naive.nodes, (after - before) / naive.setting.temperature, strict=True))
    reached = [naive.words.index(leaf) for leaf in group]
    row = naive_simulator.update_record(setting, leaf_logp(naive, before), leaf_logp(naive, after), reached)
    predicted = [
        chance(old, leaf) * sum(moved[leaf[:t]][leaf[t]] - old[leaf[:t]] @ moved[leaf[:t]] for t in range(naive.depth))
        for leaf in naive.words
    ]
    missed = setting.correct - set(reached)
    return row | {
        "d_q_pos_predicted": sum(predicted[i] for i in setting.correct),
        "d_q_upos_predicted": sum(predicted[i] for i in missed),
        "distinct_rollouts": len(set(reached)),
        **token_record(naive, old, group, taken.advantages[0]),
    }


def token_record(naive: Naive, old: Policies, group: list[Word], advantages: Table) -> dict[str, Any]:
    """Mean log-probabilities by rank, and the thresholds of the covariances of either sign."""
    logp = [tokens_logp(old, leaf) for leaf in group]
    ranks = np.full(naive.setting.top_n, np.nan)
    for n in range(min(naive.setting.top_n, naive.branching)):
        ranks[n] = np.mean([[math.log(sorted(old[leaf[:t]])[-1 - n]) for t in range(naive.depth)] for leaf in group])
    c = covariances(advantages, logp).reshape(-1)
    return {
        "group_sample_logp": np.mean(logp),
        "group_rank_logp": ranks,
        "positive_covariance": thresholds(sorted(c[c > 0], reverse=True)),
        "negative_covariance": thresholds(sorted(c[c < 0])),
    }


def thresholds(extreme_first: list[float]) -> np.ndarray:
    """The bounds of the 0.01 %, 1 %, 20 %, 40 % and 100 % most extreme values; of at least one value."""
    if not extreme_first:
        return np.full(5, np.nan)
    shares = (0.0001, 0.01, 0.2, 0.4, 1.0)
    return np.array([extreme_first[math.ceil(share * len(extreme_first)) - 1] for share in shares])
