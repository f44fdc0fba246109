"""Evaluate a model: sample many completions of every evaluation problem, and measure what the papers measure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PRNGKeyArray

from simlab.llm.instruments.batch_metrics import candidate_histogram, entropy_histogram
from simlab.llm.instruments.pass_at_k import interval, powers, unbiased_pass_at_k
from simlab.llm.model import Parameters
from simlab.llm.tasks import Problem
from simlab.llm.training.groups import NO_TRUNCATION, Groups, Reader


class Evaluated(NamedTuple):
    """The samples of an evaluation.

    Attributes:
        line: what is written of it: counts of each problem, pass@k with 95 % intervals over problems, and means and
            histograms over tokens.
        groups: the completions.
    """

    line: dict[str, Any]
    groups: Groups


def evaluate(
    reader: Reader,
    parameters: Parameters,
    samples: int,
    *,
    problems: Sequence[Problem] | None = None,
    key: PRNGKeyArray,
    temperature: float,
    rollouts: int,
    truncation: Mapping[str, Any] = NO_TRUNCATION,
    top_n: int = 0,
) -> Evaluated:
    """``samples`` completions of each of some problems, by default the task's, at most ``rollouts`` at once.

    With ``top_n`` the probabilities of so many likeliest candidates are counted too.
    """
    problems = reader.task.evaluation if problems is None else problems
    groups = reader.sample(
        parameters,
        problems,
        samples,
        key=key,
        temperature=temperature,
        truncation=truncation,
        top_n=top_n,
        at_once=rollouts,
    )
    mask, solutions = groups.sampled.mask, groups.solutions
    correct = np.array([sum(form is not None for form in forms) for forms in solutions])
    line = {
        "samples": samples,
        "correct": correct,
        "distinct": [len({form for form in forms if form is not None}) for forms in solutions],
        "pass_at_k": {k: interval(unbiased_pass_at_k(correct, samples, k), seed=0)._asdict() for k in powers(samples)},
        "length": mask.sum(axis=2).mean(),
        "unfinished": reader.unfinished(groups),
        "entropy": groups.sampled.entropy[mask].mean(),
        "entropy_histogram": entropy_histogram(groups.sampled.entropy, mask),
    }
    if groups.sampled.topn_logp is not None:
        line["candidate_histogram"] = candidate_histogram(groups.sampled.topn_logp, mask)
    return Evaluated(line, groups)
