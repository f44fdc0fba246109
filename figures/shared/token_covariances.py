"""The spread over tokens of the covariance of log-probabilities and advantages: simulated, and of a trained model."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import simlab
from figures.shared.advantage_sums import groups as tree_groups
from figures.shared.advantage_sums import tilted
from figures.shared.condensed import rounded
from simlab.estimators.tokens import covariance_terms, covariance_thresholds
from simlab.llm.checkpoint import read_checkpoint
from simlab.llm.tasks import task
from simlab.llm.training.groups import Reader
from simlab.llm.training.settings import TrainingSettings
from simlab.problems import Tree

SHARES = np.geomspace(0.01, 100, 41)  # percentages of the tokens of one sign, the most extreme first
FRESH = 2**39 - 2**20  # the first training problem to sample: between a warm start's and an arm's


class Tokens(NamedTuple):
    """Tokens of P groups: rewards (P, G), log-probabilities (P, G, T), and where there is a token (P, G, T)."""

    rewards: np.ndarray
    logp: np.ndarray
    mask: np.ndarray


def tokens_of_tree(problem: Tree, accuracy: float, group_size: int, count: int, seed: int) -> Tokens:
    """Groups drawn from a tree whose policy is tilted to an accuracy."""
    p = tilted(problem, accuracy)
    leaves = np.random.default_rng(seed).choice(problem.actions, p=p, size=(count, group_size))
    drawn = tree_groups(problem, p, leaves)
    return Tokens(drawn.rewards, drawn.logp, np.ones(drawn.logp.shape, bool))


def tokens_of_model(run: Path, model: str, count: int, seed: int) -> Tokens:
    """Groups drawn from a model of a run folder, on problems that the run has not seen."""
    settings = TrainingSettings.from_data(json.loads((run / "run.json").read_text())["settings"])
    run_task, loaded = task(**settings.task), read_checkpoint(run / model)
    vocabulary = run_task.vocabulary
    if vocabulary is None:
        raise ValueError(f"task {run_task.name} has no vocabulary of its own")
    sampled = Reader(run_task, loaded.config, vocabulary).sample(
        loaded.parameters,
        [run_task.training(FRESH + index) for index in range(count)],
        settings.rl.group_size,
        key=jax.random.key(seed),
        temperature=settings.rl.temperature,
    )
    return Tokens(sampled.rewards.astype(float), sampled.sampled.logp.astype(float), sampled.sampled.mask)


def spreads(tokens: Tokens) -> dict[str, Any]:
    """The spread of c under GRPO's advantages and under CW-GRPO's, and what the tokens are."""
    logp = np.where(tokens.mask, tokens.logp, 0)
    plain = simlab.advantages("grpo", tokens.rewards)
    tamed = simlab.advantages("cw_grpo", tokens.rewards, old_logp=logp, token_mask=tokens.mask)
    return {
        "reward": rounded(tokens.rewards.mean()),
        "mean_logp": rounded(tokens.logp[tokens.mask].mean()),
        "before": _spread(covariance_terms(plain, logp, tokens.mask.astype(float), "group")[tokens.mask]),
        "after": _spread(covariance_terms(tamed, logp, tokens.mask.astype(float), "group")[tokens.mask]),
    }


def _spread(terms: np.ndarray) -> dict[str, Any]:
    """Return for each sign the number of tokens, their thresholds, and the share of their sum in the most extreme."""
    positive, negative = covariance_thresholds(terms)
    return {
        "positive": {"tokens": int((terms > 0).sum()), "at": rounded(positive), "share": _shares(terms[terms > 0])},
        "negative": {"tokens": int((terms < 0).sum()), "at": rounded(negative), "share": _shares(-terms[terms < 0])},
    }


def _shares(sizes: np.ndarray) -> Any:
    """The share of the sum that each percentage of ``SHARES`` of the largest has."""
    running = np.cumsum(np.sort(sizes)[::-1])
    ranks = np.ceil(len(sizes) * SHARES / 100 * (1 - 1e-12)).astype(int)
    return rounded(running[ranks - 1] / running[-1])
