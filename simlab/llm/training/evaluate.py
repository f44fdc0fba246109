"""Evaluate a model: sample many completions of every evaluation problem, and measure what the papers measure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from simlab.llm.instruments.batch_metrics import candidate_histogram, entropy_histogram
from simlab.llm.instruments.model_changes import weight_change_metrics, weight_changes
from simlab.llm.instruments.pass_at_k import interval, powers, unbiased_pass_at_k
from simlab.llm.instruments.rare_solutions import (
    Tracked,
    Trajectories,
    choose_tracked,
    length_normalised_nll,
    rarest_trajectories,
    tracked_metrics,
)
from simlab.llm.model import Parameters
from simlab.llm.tasks import TaskProblem
from simlab.llm.training.groups import NO_TRUNCATION, Reader, RolloutGroups, completion_records, hash_word
from simlab.llm.training.setup import EVALUATION_KEY, Setup, step_key

CompletionRecords = Mapping[str, list[dict[str, Any]]]  # by evaluation set, see ``completion_records``


class EvaluationSample(NamedTuple):
    """Completions of an evaluation set, and their metrics.

    Attributes:
        line: counts of each problem, pass@k with 95 % intervals over problems, and means and histograms over tokens.
        groups: the completions.
    """

    line: dict[str, Any]
    groups: RolloutGroups


def evaluate(
    reader: Reader,
    parameters: Parameters,
    samples: int,
    *,
    problems: Sequence[TaskProblem] | None = None,
    key: PRNGKeyArray,
    temperature: float,
    rollouts: int,
    truncation: Mapping[str, Any] = NO_TRUNCATION,
    top_n: int = 0,
) -> EvaluationSample:
    """Draw ``samples`` completions of each problem, by default of the task's, at most ``rollouts`` at once.

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
    return EvaluationSample(line, groups)


class Start(NamedTuple):
    """The model that the arms of a seed begin from.

    Attributes:
        parameters: the parameters after the warm start.
        tracked: solutions whose tail-miss rate is tracked.
        rare: correct trajectories that were rare at the start, whose likelihood is tracked.
    """

    parameters: Parameters
    tracked: Tracked
    rare: Trajectories


def choose_start(parameters: Parameters, sample: EvaluationSample) -> Start:
    """Choose from the start's evaluation the solutions and trajectories that its arms track."""
    return Start(parameters, choose_tracked(sample.groups.solutions), _rarest(sample.groups))


def _rarest(groups: RolloutGroups) -> Trajectories:
    """Return the rarest correct completions, by their likelihood per token at the temperature of sampling."""
    prompts, completions, nll = list[list[int]](), list[list[int]](), list[float]()
    for row, forms in enumerate(groups.solutions):
        prompt = groups.batch.prompts[row, : groups.batch.lengths[row]].tolist()
        for member in (member for member, form in enumerate(forms) if form is not None):
            mask = groups.sampled.mask[row, member]
            prompts.append(prompt)
            completions.append(groups.sampled.tokens[row, member][mask].tolist())
            nll.append(-float(groups.sampled.logp[row, member][mask].mean()))
    return rarest_trajectories(Trajectories(prompts, completions), np.array(nll)) if nll else Trajectories([], [])


class Evaluator(NamedTuple):
    """Evaluations of a seed; those of all arms have the run's settings and the same random numbers."""

    setup: Setup
    seed: int

    def evaluate(self, parameters: Parameters, step: int) -> tuple[EvaluationSample, CompletionRecords]:
        """Evaluate all sets; return the sample of the first, whose line includes the others', and records of each.

        Raises:
            InputError: for errors of the task's own reward function, and a model whose probabilities are NaN.
        """
        key = jax.random.fold_in(step_key(self.seed, EVALUATION_KEY), step)
        reader, most = self.setup.reader, self.setup.settings.record.completions
        (first, problems), *others = reader.task.evaluation_sets.items()
        sample = self._evaluate_set(problems, parameters, key)
        lines, records = dict[str, Any](), {first: completion_records(sample.groups, reader, most)}
        for name, set_problems in others:
            other = self._evaluate_set(set_problems, parameters, jax.random.fold_in(key, hash_word(name)))
            lines[name], records[name] = other.line, completion_records(other.groups, reader, most)
        if others:
            sample.line.update(set=first, sets=lines)
        return sample, records

    def _evaluate_set(
        self, problems: Sequence[TaskProblem], parameters: Parameters, key: PRNGKeyArray
    ) -> EvaluationSample:
        settings = self.setup.settings
        evaluation = settings.evaluation
        return evaluate(
            self.setup.reader,
            self.setup.policy().cast(parameters),
            evaluation.samples,
            problems=problems,
            key=key,
            temperature=settings.rl.temperature if evaluation.temperature is None else evaluation.temperature,
            rollouts=evaluation.rollouts,
            truncation=evaluation.truncation,
            top_n=settings.record.top_n,
        )

    def line(
        self, sample: EvaluationSample, parameters: Parameters, *, step: int, group_size: int, start: Start
    ) -> dict[str, Any]:
        """Return the line of an evaluation, with the solutions and trajectories that are tracked since the start.

        Args:
            sample: the evaluation of these parameters.
            parameters: the parameters after ``step`` steps.
            step: finished steps.
            group_size: the group size of the arm, for the tail-miss rate; at most the samples count.
            start: the start of the arm.
        """
        settings, config = self.setup.settings, self.setup.loaded.config
        group_size = min(group_size, settings.evaluation.samples)
        tracked: dict[str, Any] = dict(tracked_metrics(start.tracked, sample.groups.solutions, group_size))
        if start.rare.prompts:
            tracked["rare_nll"] = float(length_normalised_nll(parameters, config, start.rare).mean())
        if step and settings.record.weight_changes:
            before, after = (jax.tree.map(np.asarray, each) for each in (start.parameters, parameters))
            tracked |= weight_change_metrics(weight_changes(before, after))
        return {"step": step, **sample.line, **tracked}
