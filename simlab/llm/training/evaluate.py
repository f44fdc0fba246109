"""Evaluate a model: sample many completions of every evaluation problem, and measure what the papers measure."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from simlab.llm.instruments import rare_solutions
from simlab.llm.instruments.batch_metrics import candidate_histogram, entropy_histogram
from simlab.llm.instruments.model_changes import weight_change_metrics
from simlab.llm.instruments.pass_at_k import interval, powers, unbiased_pass_at_k
from simlab.llm.instruments.rare_solutions import Tracked, Trajectories
from simlab.llm.model import Parameters
from simlab.llm.tasks import TaskProblem
from simlab.llm.training.folder import COMPLETIONS, EVALUATIONS, ArmFolder
from simlab.llm.training.groups import RolloutGroups, completion_records, correct_rollouts, hash_word
from simlab.llm.training.setup import EVALUATION_KEY, Setup, step_key


class Start(NamedTuple):
    """The model that the arms of a seed begin from, and the rare solutions and trajectories that are tracked since."""

    parameters: Parameters
    tracked: Tracked
    rare: Trajectories


class EvaluationSample(NamedTuple):
    """Completions of an evaluation set, and their metrics: ``line`` has counts, pass@k with intervals, and
    histograms."""

    line: dict[str, Any]
    groups: RolloutGroups


class Evaluator(NamedTuple):
    """Evaluations of a seed; those of all arms have the run's settings and the same random numbers."""

    setup: Setup
    seed: int

    def write(
        self, folder: ArmFolder, parameters: Parameters, step: int, group_size: int, start: Start | None = None
    ) -> tuple[Start, dict[str, Any]]:
        """Evaluate after a step and write line and texts, tail misses at ``group_size``; return start and line."""
        settings, config = self.setup.settings, self.setup.loaded.config
        samples = self.evaluate(parameters, step)
        first, *others = samples
        groups, line = samples[first].groups, {"step": step, **samples[first].line}
        if others:
            line |= {"set": first, "sets": {name: samples[name].line for name in others}}
        start = start or Start(parameters, rare_solutions.choose_tracked(groups.solutions), _rarest(groups))
        size = min(group_size, settings.evaluation.samples)
        line |= rare_solutions.tracked_metrics(start.tracked, groups.solutions, size)
        if start.rare.prompts:
            line["rare_nll"] = float(rare_solutions.length_normalised_nll(parameters, config, start.rare).mean())
        if step and settings.record.weight_changes:
            before, after = (jax.tree.map(np.asarray, each) for each in (start.parameters, parameters))
            line |= weight_change_metrics(before, after)
        most = settings.record.completions
        texts = {name: completion_records(each.groups, self.setup.reader, most) for name, each in samples.items()}
        if any(texts.values()):
            folder.append(COMPLETIONS, {"step": step, "sets": texts})
        folder.append(EVALUATIONS, line)
        return start, line

    def evaluate(self, parameters: Parameters, step: int) -> dict[str, EvaluationSample]:
        """Sample and measure completions of each evaluation set, by name."""
        key, samples = jax.random.fold_in(step_key(self.seed, EVALUATION_KEY), step), dict[str, EvaluationSample]()
        for name, problems in self.setup.reader.task.evaluation_sets.items():
            of_set = jax.random.fold_in(key, hash_word(name)) if samples else key
            samples[name] = self.evaluate_set(problems, parameters, of_set)
        return samples

    def evaluate_set(
        self, problems: Sequence[TaskProblem], parameters: Parameters, key: PRNGKeyArray
    ) -> EvaluationSample:
        """Sample completions of each problem, and measure them."""
        settings, reader, evaluation = self.setup.settings, self.setup.reader, self.setup.settings.evaluation
        samples = evaluation.samples
        groups = reader.sample(
            self.setup.policy().cast(parameters),
            problems,
            samples,
            key=key,
            temperature=settings.rl.temperature if evaluation.temperature is None else evaluation.temperature,
            at_once=evaluation.rollouts,
            top_n=settings.record.top_n,
            top_p=evaluation.top_p,
            top_k=evaluation.top_k,
            min_p=evaluation.min_p,
        )
        mask = groups.sampled.mask
        correct = correct_rollouts(groups).sum(axis=1)
        pass_at_k = {k: unbiased_pass_at_k(correct, samples, k) for k in powers(samples)}
        line = {
            "samples": samples,
            "correct": correct,
            "distinct": [len({*forms} - {None}) for forms in groups.solutions],
            "pass_at_k": {k: interval(values, seed=0)._asdict() for k, values in pass_at_k.items()},
            "length": mask.sum(axis=2).mean(),
            "unfinished": reader.unfinished(groups),
            "entropy": groups.sampled.entropy[mask].mean(),
            "entropy_histogram": entropy_histogram(groups.sampled.entropy, mask),
        }
        if groups.sampled.topn_logp is not None:
            line["candidate_histogram"] = candidate_histogram(groups.sampled.topn_logp, mask)
        return EvaluationSample(line, groups)


def _rarest(groups: RolloutGroups) -> Trajectories:
    """Return the rarest correct completions, by their likelihood per token at the temperature of sampling."""
    prompts, completions, nll, sampled = list[list[int]](), list[list[int]](), list[float](), groups.sampled
    for row, member in np.argwhere(correct_rollouts(groups)):
        mask = sampled.mask[row, member]
        prompts.append(groups.batch.prompts[row, : groups.batch.lengths[row]].tolist())
        completions.append(sampled.tokens[row, member][mask].tolist())
        nll.append(-float(sampled.logp[row, member][mask].mean()))
    return rare_solutions.rarest_trajectories(Trajectories(prompts, completions), np.array(nll))
