"""Evaluate the model of an arm on all evaluation sets of a run, and follow what is followed since its start."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from simlab.llm.instruments.model_changes import weight_change_metrics, weight_changes
from simlab.llm.instruments.rare_solutions import length_normalised_nll, tracked_metrics
from simlab.llm.model import Parameters
from simlab.llm.tasks import Problem
from simlab.llm.training.evaluate import Evaluated, evaluate
from simlab.llm.training.groups import word
from simlab.llm.training.kept_completions import Kept, kept_completions
from simlab.llm.training.seeds import EVALUATION_KEY, key_of
from simlab.llm.training.setup import Setup
from simlab.llm.training.start import Start


class Evaluator(NamedTuple):
    """The evaluations of a seed, those of all arms by the run's settings and with the same random numbers.

    Attributes:
        setup: what the run shares.
        seed: see above.
    """

    setup: Setup
    seed: int

    def evaluate(self, parameters: Parameters, step: int) -> tuple[Evaluated, Kept]:
        """The first evaluation set, with what is found of the others in its line; and what is kept of each.

        Raises:
            InputError: for what the task's own reward function does wrong, and a model whose probabilities are none.
        """
        key = jax.random.fold_in(key_of(self.seed, EVALUATION_KEY), step)
        (name, problems), *others = self.setup.reader.task.evaluation_sets.items()
        found = self._evaluate_set(problems, parameters, key)
        lines, kept = dict[str, Any](), {name: self._kept(found)}
        for other, own in others:
            one = self._evaluate_set(own, parameters, jax.random.fold_in(key, word(other)))
            lines[other], kept[other] = one.line, self._kept(one)
        if others:
            found.line.update(set=name, sets=lines)
        return found, kept

    def _kept(self, found: Evaluated) -> list[dict[str, Any]]:
        return kept_completions(found.groups, self.setup.reader, self.setup.settings.record.completions)

    def _evaluate_set(self, problems: Sequence[Problem], parameters: Parameters, key: PRNGKeyArray) -> Evaluated:
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
        self, found: Evaluated, parameters: Parameters, *, step: int, group_size: int, start: Start
    ) -> dict[str, Any]:
        """What is written of an evaluation, with what is followed since the start.

        Args:
            found: the evaluation of these parameters.
            parameters: after ``step`` steps.
            step: see above.
            group_size: the group size of the arm, for the tail-miss rate; no more than the samples count.
            start: what the arm began from.
        """
        settings, config = self.setup.settings, self.setup.loaded.config
        tracked, rare = start.followed
        group_size = min(group_size, settings.evaluation.samples)
        followed: dict[str, Any] = dict(tracked_metrics(tracked, found.groups.solutions, group_size))
        if rare.prompts:
            followed["rare_nll"] = float(length_normalised_nll(parameters, config, rare).mean())
        if step and settings.record.weight_changes:
            before, after = (jax.tree.map(np.asarray, each) for each in (start.parameters, parameters))
            followed |= weight_change_metrics(weight_changes(before, after))
        return {"step": step, **found.line, **followed}
