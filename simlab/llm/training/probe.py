"""Measure while a decoder trains how far prompts move one another, by the features of its rollouts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from simlab.interference.kernel import measure, solve_rate_gradients
from simlab.interference.record import Record, write_record
from simlab.interference.weights import Weights, Without, rollout_weights
from simlab.llm.model import Parameters
from simlab.llm.training.features import Features, features_by, root_preconditioner, sketched
from simlab.llm.training.folder import TrainerState
from simlab.llm.training.groups import RolloutGroups, absent_rollouts, correct_rollouts
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.settings import ProbeSettings

PANEL, NOISE = 4, 5  # purposes of random numbers, beside those of a step


class Gradients(NamedTuple):
    """Gradients of the solve rates of prompts, which wait for a step: features (N, F) of each layer, and M^(1/2)."""

    layers: Features
    root: Parameters | None
    sketch: int

    def change(self, before: Parameters, after: Parameters) -> Float[np.ndarray, " N"]:
        """Change of each solve rate, to first order, from these parameters to those."""
        step = jax.tree.map(jnp.subtract, after, before)
        step = step if self.root is None else jax.tree.map(jnp.divide, step, self.root)
        rows = [np.asarray(row) for layers in sketched(step, self.sketch) for row in layers]
        return np.asarray(sum(layer @ row for layer, row in zip(self.layers, rows, strict=True)))


def probe(
    trainer: Trainer,
    state: TrainerState,
    groups: RolloutGroups,
    settings: ProbeSettings,
    key: PRNGKeyArray,
    *,
    gradients: dict[str, Gradients] | None = None,
) -> list[Record]:
    """Measure a batch before its update, and a panel of evaluation problems; a record for each estimator.

    The rates of the step are not known yet, nor how far it moves the solve rates: ``write_records`` adds them, with the
    ``gradients`` that are put here by the name of the estimator.
    """
    batches = [groups]
    if settings.panel:
        problems = next(iter(trainer.reader.task.evaluation_sets.values()))[: settings.panel]
        sampler = trainer.policy.cast(state.parameters)
        batches.append(trainer.sample(sampler, problems, settings.rollouts, jax.random.fold_in(key, PANEL)))
    scale, records = root_preconditioner(trainer.settings, state.optimizer), []
    width = max(each.rewards.shape[1] for each in batches)
    arrays = [
        (correct_rollouts(each), *_weighed(trainer, state, each, len(groups.problems), key), ~absent_rollouts(each))
        for each in batches
    ]
    correct, weights, without, present = (
        np.concatenate([_widened(values, width) for values in pieces]) for pieces in zip(*arrays, strict=True)
    )
    batch = np.repeat([True, False][: len(batches)], [len(each.problems) for each in batches])
    prompts = [problem.prompt for each in batches for problem in each.problems]
    for name in settings.estimators:
        full = name == "full"
        found = [
            features_by(name, trainer.policy, state.parameters, each.batch, scale=scale, sketch=settings.sketch)
            for each in batches
        ]
        layers, sketch = zip(*(layers for layers, _ in found), strict=True), found[0][1]
        features = [np.concatenate([_widened(rows, width, square=False) for rows in layer]) for layer in layers]
        interference = measure(features, correct, weights, without, batch, present=present, sketch=sketch)
        if full and gradients is not None:
            gradients[name] = Gradients(solve_rate_gradients(features, correct, present), scale, sketch)
        facts = {
            "step": state.step + 1,
            "estimator": name,
            "preconditioner": "adam" if full and scale is not None else "none",
            "optimizer": trainer.settings.optimizer,
            "method": trainer.method.estimator.name,
            "updates": trainer.settings.updates,
            "sketch": sketch,
            "group_size": trainer.settings.group_size,
            "temperature": trainer.settings.temperature,
        }
        count = present.sum(axis=1)
        rates = (correct & present).sum(axis=1) / count
        records.append(Record(facts, prompts, batch, count, rates, interference))
    return records


def _weighed(
    trainer: Trainer, state: TrainerState, groups: RolloutGroups, prompts: int, key: PRNGKeyArray
) -> tuple[Weights, Without]:
    """Weigh rollouts as the loss of a batch of so many prompts does, in groups of the batch's size."""
    number = groups.rewards.shape[1] // trainer.settings.group_size
    cut = _cut(groups, number)
    rollouts = trainer.rollouts(cut, cut.sampled.logp, jax.random.fold_in(key, NOISE))
    method = trainer.method.at(state.surrogate)
    return rollout_weights(method, rollouts, state.estimator, groups=number, prompts=prompts)


def _cut(groups: RolloutGroups, number: int) -> RolloutGroups:
    """Cut the rollouts of each prompt into ``number`` groups, in rows of their own."""
    if number == 1:
        return groups
    size = groups.rewards.shape[1] // number
    prompts = {name: np.repeat(getattr(groups.batch, name), number, axis=0) for name in ("prompts", "lengths")}
    bare = groups._replace(batch=groups.batch._replace(prompts=None, lengths=None))
    arrays = jax.tree.map(lambda values: np.asarray(values).reshape(-1, size, *values.shape[2:]), bare.arrays)
    return groups._replace(**arrays | {"batch": arrays["batch"]._replace(**prompts)})


def _widened(values: np.ndarray, width: int, *, square: bool = True) -> np.ndarray:
    """Fill up the axis of rollouts with 0, both axes of (N, R, R) if ``square``."""
    room = (0, width - values.shape[1])
    return np.pad(values, [(0, 0), room, *[room if square else (0, 0)] * (values.ndim - 2)])


def write_records(
    folder: Path, records: list[Record], line: Mapping[str, Any], max_norm: float, moved: Mapping[str, np.ndarray]
) -> None:
    """Write records, with the learning rate and the clipping of the step's metrics, and ``moved`` by estimator."""
    clip = min(1.0, max_norm / line["grad_norm"]) if line["grad_norm"] else 1.0
    for record in records:
        facts = {**record.facts, "learning_rate": line["learning_rate"], "clip": clip}
        change = moved.get(record.facts["estimator"])
        outside = None if change is None else np.where(record.batch, np.nan, change)
        write_record(folder, record._replace(facts=facts, moved=outside))
