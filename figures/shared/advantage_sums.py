"""The sum of the advantages under CW-GRPO's normalisation ``[cw-grpo:expected-loss]``, and how tokens share c.

The policies are those of a tree tilted towards its rewarded leaves, p(leaf) proportional to p_0 exp(beta r): the
optimum of the reward with a KL penalty, at each accuracy. Groups are enumerated on a small tree and drawn on that of
the preset.
"""

import itertools
from typing import Any, NamedTuple

import numpy as np

import simlab
from figures.shared.condensed import mean_and_error, rounded
from simlab.problems import Tree, tree

ACCURACIES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95)
GROUPS, GROUP_SIZE, SMALL_GROUP_SIZE = 4000, 16, 4
PERCENT = (0.01, 1.0, 20.0, 40.0, 100.0)  # the rows of CW-GRPO's Table 1
CURVE = (0.1, 0.3, 1.0, 3.0, 10.0, 20.0, 40.0, 70.0, 100.0)
SHOWN = (0.05, 0.5)  # accuracies at which the covariances are shown


class Groups(NamedTuple):
    """Groups of rollouts: leaves and rewards are (P, G), log-probabilities and advantages of tokens (P, G, T)."""

    leaves: np.ndarray
    rewards: np.ndarray
    logp: np.ndarray
    before: np.ndarray
    after: np.ndarray


def small_tree() -> Tree:
    """Two choices of two, unequal, and one leaf of four rewarded."""
    return tree(2, 2, rewarded=("BB",), logits=(0.7, 0.0, 0.3, 0.0, 0.5, 0.0))


def tilted(problem: Tree, accuracy: float) -> np.ndarray:
    """(leaves,) the probabilities of the leaves, tilted to an accuracy."""
    p, mass = np.exp(problem.leaf_logp), np.exp(problem.leaf_logp)[problem.correct].sum()
    moved: np.ndarray = np.where(problem.correct, p * accuracy / mass, p * (1 - accuracy) / (1 - mass))
    return moved


def groups(problem: Tree, p: np.ndarray, leaves: np.ndarray) -> Groups:
    """Return groups of leaves under a policy over leaves, with the advantages of both methods."""
    shape = (problem.branching,) * problem.depth
    reached = np.unravel_index(leaves, shape)
    mass = [p.reshape(shape).sum(axis=tuple(range(level, problem.depth))) for level in range(problem.depth + 1)]
    passed = np.stack([mass[level][reached[:level]] * np.ones(leaves.shape) for level in range(problem.depth + 1)], -1)
    logp, rewards = np.diff(np.log(passed), axis=-1), problem.correct[leaves].astype(float)
    before = simlab.advantages("grpo", rewards)[..., None] + np.zeros_like(logp)
    return Groups(leaves, rewards, logp, before, simlab.advantages("cw_grpo", rewards, old_logp=logp))


def sums(batch: Groups) -> dict[str, np.ndarray]:
    """(P,) each mixed group's sums over tokens as a share of sum abs(A), and its sums over first tokens alone.

    ``success`` and ``failure`` are the shares of their advantages that successes and failures keep.
    """
    size, right = np.abs(batch.before).sum(axis=(1, 2)), batch.rewards[..., None] > 0
    return {
        "before": batch.before.sum(axis=(1, 2)) / size,
        "after": batch.after.sum(axis=(1, 2)) / size,
        "first_after": batch.after[:, :, 0].sum(axis=1) / np.abs(batch.before[:, :, 0]).sum(axis=1),
        "success": 2 * np.where(right, batch.after, 0).sum(axis=(1, 2)) / size,
        "failure": -2 * np.where(right, 0, batch.after).sum(axis=(1, 2)) / size,
    }


def mixed(batch: Groups) -> np.ndarray:
    """(P,) mask of the groups that have both outcomes."""
    solved = batch.rewards.mean(axis=1)
    both: np.ndarray = (solved > 0) & (solved < 1)
    return both


def enumerated(accuracy: float) -> dict[str, Any]:
    """Exact expectations over the mixed groups of the small tree, and over those without an action at the root.

    ``unsampled`` is the expected change of the logit of the absent action, per learning rate and its probability.
    """
    problem = small_tree()
    p = tilted(problem, accuracy)
    leaves = np.array(list(itertools.product(range(problem.actions), repeat=SMALL_GROUP_SIZE)))
    batch = groups(problem, p, leaves)
    mask = mixed(batch)
    batch, chance = Groups(*(values[mask] for values in batch)), p[leaves[mask]].prod(axis=1)
    numbers = {name: rounded((values * chance).sum() / chance.sum()) for name, values in sums(batch).items()}
    absent = np.all(batch.leaves >= problem.actions // 2, axis=1)  # action A of the root, which leads to no reward
    for name, values in (("before", batch.before), ("after", batch.after)):
        change = -values[absent, :, 0].mean(axis=1)
        numbers[f"unsampled_{name}"] = rounded((change * chance[absent]).sum() / chance[absent].sum())
    return numbers


def sampled(problem: Tree, accuracy: float) -> dict[str, Any]:
    """The same by groups drawn from the tree of the preset, with standard errors; covariances of all tokens."""
    p = tilted(problem, accuracy)
    leaves = np.random.default_rng(0).choice(problem.actions, p=p, size=(GROUPS, GROUP_SIZE))
    batch = groups(problem, p, leaves)
    batch = Groups(*(values[mixed(batch)] for values in batch))
    numbers: dict[str, Any] = {"mixed": len(batch.leaves)}
    for name, values in sums(batch).items():
        numbers[name] = mean_and_error(values) | {"std": rounded(values.std(ddof=1))}
    root = batch.leaves // (problem.actions // problem.branching)
    missing = np.array([[not np.any(row == action) for action in range(problem.branching)] for row in root]).any(axis=1)
    for name, values in (("before", batch.before), ("after", batch.after)):
        numbers[f"unsampled_{name}"] = mean_and_error(-values[missing, :, 0].mean(axis=1))
    return numbers | {"without_an_action": int(missing.sum())}


def covariances(problem: Tree, accuracy: float) -> dict[str, Any]:
    """Table 1 of the tokens of many groups, before and after the kernel, and the share of all c > 0 of the largest."""
    p = tilted(problem, accuracy)
    batch = groups(problem, p, np.random.default_rng(1).choice(problem.actions, p=p, size=(GROUPS, GROUP_SIZE)))
    numbers: dict[str, Any] = {}
    for name, each in (("before", batch.before), ("after", batch.after)):
        c = (batch.logp - batch.logp.mean(axis=(1, 2), keepdims=True)) * (each - each.mean(axis=(1, 2), keepdims=True))
        positive, negative = np.sort(c[c > 0])[::-1], np.sort(c[c < 0])
        numbers[name] = {
            "positive": rounded([_at(positive, percent) for percent in PERCENT]),
            "negative": rounded([_at(negative, percent) for percent in PERCENT]),
            "share": rounded([positive[: _count(positive, percent)].sum() / positive.sum() for percent in CURVE]),
        }
    return numbers


def _count(values: np.ndarray, percent: float) -> int:
    return max(1, round(len(values) * percent / 100))


def _at(values: np.ndarray, percent: float) -> float:
    return float(values[_count(values, percent) - 1])


def measured(problem: Tree) -> dict[str, Any]:
    """All of this at each accuracy."""
    return {
        "accuracy": ACCURACIES,
        "percent": PERCENT,
        "curve": CURVE,
        "enumerated": [enumerated(accuracy) for accuracy in ACCURACIES],
        "sampled": [sampled(problem, accuracy) for accuracy in ACCURACIES],
        "covariance": {f"{accuracy:g}": covariances(problem, accuracy) for accuracy in SHOWN},
    }
