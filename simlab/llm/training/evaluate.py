"""Evaluate a model: sample many completions of every evaluation problem, and measure what the papers measure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PRNGKeyArray

from simlab.llm.instruments.histograms import candidate_histogram, entropy_histogram
from simlab.llm.instruments.pass_at_k import interval, powers, unbiased_pass_at_k
from simlab.llm.model import Parameters
from simlab.llm.tasks import Problem
from simlab.llm.training.groups import NO_TRUNCATION, Groups, Reader


class Evaluated(NamedTuple):
    """The samples of an evaluation.

    Attributes:
        line: what is written of it: counts of each problem, pass@k with 95 % intervals over problems, and means and
            histograms over tokens.
        groups: the completions, in parts.
    """

    line: dict[str, Any]
    groups: list[Groups]

    @property
    def solutions(self) -> list[tuple[str | None, ...]]:
        """The canonical forms of the correct completions of each problem."""
        return [forms for part in self.groups for forms in part.solutions]


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
    together = max(1, rollouts // samples)
    parts = [
        reader.sample(
            parameters,
            problems[first : first + together],
            samples,
            key=key,
            first=first,
            temperature=temperature,
            truncation=truncation,
            top_n=top_n,
        )
        for first in range(0, len(problems), together)
    ]
    solutions = [forms for part in parts for forms in part.solutions]
    mask = np.concatenate([part.sampled.mask for part in parts])
    entropy = np.concatenate([part.sampled.entropy for part in parts])
    correct = np.array([sum(form is not None for form in forms) for forms in solutions])
    line = {
        "samples": samples,
        "correct": correct,
        "distinct": [len({form for form in forms if form is not None}) for forms in solutions],
        "pass_at_k": {k: interval(unbiased_pass_at_k(correct, samples, k), seed=0)._asdict() for k in powers(samples)},
        "length": mask.sum(axis=2).mean(),
        "unfinished": float(np.average([reader.unfinished(part) for part in parts], weights=[*map(_size, parts)])),
        "entropy": entropy[mask].mean(),
        "entropy_histogram": entropy_histogram(entropy, mask),
    }
    if top_n:
        line["candidate_histogram"] = sum(map(_candidates, parts))
    return Evaluated(line, parts)


def _candidates(groups: Groups) -> np.ndarray:
    assert groups.sampled.topn_logp is not None
    return candidate_histogram(groups.sampled.topn_logp, groups.sampled.mask)


def _size(groups: Groups) -> int:
    return len(groups.problems)
