"""Measure while a decoder trains how far prompts move one another: features of rollouts by two estimators.

``full`` has the gradient of each rollout's log-probability by all trained parameters (adapters alone where these are
trained), times M^(1/2) of the optimiser, projected layer by layer onto ``sketch`` numbers by random signs: a
count-sketch (Charikar et al. 2002) whose buckets take turns, so that inner products are right in expectation with a
standard error of about sqrt(2 / sketch) of the product of norms at most. ``head`` is ``simlab.interference.head``.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from simlab.interference.head import head_features, projected_size, projection, residuals
from simlab.interference.kernel import measure, solve_rate_gradients
from simlab.interference.record import Record, write_record
from simlab.interference.weights import rollout_weights
from simlab.llm.completions import CompletionBatch, completion_states
from simlab.llm.config import ModelConfig
from simlab.llm.model import Parameters, map_logits
from simlab.llm.training.gradient import Computation, DecoderPolicy, Terms, completions_logp, microbatches
from simlab.llm.training.groups import RolloutGroups, absent_rollouts
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.settings import ProbeSettings
from simlab.llm.training.state import TrainerState

PANEL, NOISE = 4, 5  # purposes of random numbers, beside those of a step
# Numbers of the gradients of rollouts that are there at once: on a CPU those of the countdown model take half as long
# with 4 MiB as with 256 MiB.
CPU_NUMBERS, NUMBERS = 2**20, 2**28
Features = list[Float[np.ndarray, "N R _"]]


# Features of a decoder


def full_features(
    policy: DecoderPolicy, parameters: Parameters, batch: CompletionBatch, scale: Parameters | None, sketch: int
) -> Features:
    """Return for each layer (the first: outside of all) the features of all rollouts; all numbers for a sketch of 0.

    ``scale`` are the factors M^(1/2) of each parameter, None for 1.
    """
    trained = sum(leaf.size for leaf in jax.tree.leaves(parameters))
    most, result = CPU_NUMBERS if jax.default_backend() == "cpu" else NUMBERS, Features()
    at_once = max(1, min(policy.microbatch, most // trained))
    for piece in microbatches(batch, policy.microbatch):
        found = _gradient_features(
            parameters, policy.base, scale, config=policy.config, batch=piece.batch, temperature=policy.temperature,
            how=policy.computation, sketch=sketch, at_once=at_once,
        )  # fmt: skip
        result = _scattered(result, found, piece.prompts, piece.rollouts, batch)
    return result


def head_features_of(policy: DecoderPolicy, parameters: Parameters, batch: CompletionBatch) -> Features:
    """Return the features of all rollouts by the last layer alone."""
    whole, onto, result = policy.cast(parameters), jnp.asarray(projection(policy.config.vocab_size)), Features()
    for piece in microbatches(batch, policy.microbatch):
        found = _head_features(whole, policy.config, piece.batch, policy.temperature, onto)
        result = _scattered(result, [found], piece.prompts, piece.rollouts, batch)
    return result


def _scattered(
    result: Features, found: list[Array], prompts: np.ndarray, rollouts: np.ndarray, batch: CompletionBatch
) -> Features:
    """Write the features of a microbatch into their rows; a rollout without tokens has zeros."""
    if not result:
        result = [np.zeros((*batch.tokens.shape[:2], layer.shape[-1]), np.float32) for layer in found]
    for target, layer in zip(result, found, strict=True):
        target[prompts, rollouts] = np.asarray(layer)[: len(prompts), : rollouts.shape[1]]
    return result


@functools.partial(jax.jit, static_argnames=("config", "how", "sketch", "at_once"))
def _gradient_features(
    parameters: Parameters,
    base: Parameters | None,
    scale: Parameters | None,
    *,
    config: ModelConfig,
    batch: CompletionBatch,
    temperature: Float[Array, ""] | float,
    how: Computation,
    sketch: int,
    at_once: int,
) -> list[Float[Array, "P G _"]]:
    shape = batch.tokens.shape[:2]
    prompts = jnp.repeat(jnp.asarray(batch.prompts), shape[1], axis=0)
    lengths = jnp.repeat(jnp.asarray(batch.lengths), shape[1])
    tokens, mask = (jnp.reshape(jnp.asarray(each), (-1, 1, 1, each.shape[-1])) for each in (batch.tokens, batch.mask))

    def features(rollout: tuple[Array, ...]) -> list[Array]:
        prompt, length, own, used = rollout
        one = CompletionBatch(prompt[None], length[None], own, used)

        def objective(parameters: Parameters) -> Float[Array, ""]:
            terms = Terms(one, own[..., None], used[..., None], temperature)
            return jnp.sum(jnp.where(used[..., None], completions_logp(parameters, base, config, terms, how), 0))

        gradient = jax.grad(objective)(parameters)
        scaled = gradient if scale is None else jax.tree.map(jnp.multiply, gradient, scale)
        return sketched(scaled, sketch)

    found = jax.lax.map(features, (prompts, lengths, tokens, mask), batch_size=at_once)
    return [layers[:, i].reshape(*shape, -1) for layers in found for i in range(layers.shape[1])]


def sketched(tree: Parameters, size: int) -> list[Float[Array, "L F"]]:
    """Project each layer's numbers onto ``size`` by random signs, bucket after bucket; all numbers for a size of 0.

    Returns: the numbers outside of the layers, (1, F), and those of the layers, (L, F). Inner products are right in
    expectation over the signs. The size is best a prime: a power of two has columns of a matrix in one bucket.
    """
    outside = [leaf.reshape(1, -1) for name, leaf in sorted(tree.items()) if name != "layers"]
    inside = [leaf.reshape(len(leaf), -1) for _, leaf in sorted(tree["layers"].items())]
    return [_folded(leaves, size, seed) for seed, leaves in enumerate((outside, inside)) if leaves]


def _folded(leaves: list[Array], size: int, seed: int) -> Float[Array, "L F"]:
    if not size:
        return jnp.concatenate(leaves, axis=1)
    total, first = jnp.zeros((len(leaves[0]), size), jnp.float32), 0
    for leaf in leaves:
        layers, count = leaf.shape
        filling = -count % size
        position = jnp.arange(layers * (count + filling), dtype=jnp.uint32).reshape(layers, -1)
        values = jnp.pad(leaf.astype(jnp.float32), ((0, 0), (0, filling))) * _signs(position + jnp.uint32(first), seed)
        total, first = total + values.reshape(layers, -1, size).sum(axis=1), first + layers * (count + filling)
    return total


def _signs(position: Array, seed: int) -> Float[Array, "..."]:
    """1 or -1 by a hash of a position, the last steps of MurmurHash3: no table of signs is kept."""
    word = position + jnp.uint32(0x9E3779B9 * (seed + 1) % 2**32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        word = (word ^ (word >> shift)) * jnp.uint32(factor)
    signs: Array = 1.0 - 2.0 * (word & 1).astype(jnp.float32)
    return signs


@functools.partial(jax.jit, static_argnums=1)
def _head_features(
    parameters: Parameters,
    config: ModelConfig,
    batch: CompletionBatch,
    temperature: Float[Array, ""] | float,
    onto: Array,
) -> Float[Array, "P G F"]:
    def projected(logits: Array, tokens: Array) -> Array:
        found: Array = residuals(logits, tokens, temperature, onto)
        return found

    hidden = completion_states(parameters, config, batch)
    residual = map_logits(projected, parameters, hidden, jnp.asarray(batch.tokens))
    found: Array = head_features(hidden.astype(residual.dtype), residual, jnp.asarray(batch.mask))
    return found


def root_preconditioner(trainer: Trainer, state: TrainerState) -> Parameters | None:
    """M^(1/2) of each parameter: of Adam (sqrt(v) + eps)^(-1/2) before the step; None for the identity."""
    adam = [part for part in jax.tree.leaves(state.optimizer, is_leaf=_is_adam) if _is_adam(part)]
    if not adam or not int(adam[0].count):
        return None
    unbiased = 1 - trainer.settings.b2 ** int(adam[0].count)
    root: Parameters = jax.tree.map(lambda v: (jnp.sqrt(v / unbiased) + trainer.settings.eps) ** -0.5, adam[0].nu)
    return root


def _is_adam(part: Any) -> bool:
    return isinstance(part, optax.ScaleByAdamState)


# What the trainer calls


class Measured(NamedTuple):
    """Groups of rollouts, R of each prompt, with their weights in the loss."""

    groups: RolloutGroups
    weights: Float[np.ndarray, "N R"]
    without: Float[np.ndarray, "N R R"]

    @property
    def correct(self) -> Bool[np.ndarray, "N R"]:
        """Mask of correct rollouts."""
        return np.asarray(self.groups.rewards > 0 if self.groups.correct is None else self.groups.correct)


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
    parts = [_weighed(trainer, state, groups, len(groups.problems), key)]
    if settings.panel:
        problems = next(iter(trainer.reader.task.evaluation_sets.values()))[: settings.panel]
        sampler = trainer.policy.cast(state.parameters)
        panel = trainer.sample(sampler, problems, settings.rollouts, jax.random.fold_in(key, PANEL))
        parts.append(_weighed(trainer, state, panel, len(groups.problems), key))
    scale, records = root_preconditioner(trainer, state), []
    width = max(part.weights.shape[1] for part in parts)
    correct, weights, without, present = (
        np.concatenate([_widened(values, width) for values in arrays])
        for arrays in zip(*((p.correct, p.weights, p.without, ~absent_rollouts(p.groups)) for p in parts), strict=True)
    )
    batch = np.repeat([True, False][: len(parts)], [len(part.weights) for part in parts])
    prompts = [problem.prompt for part in parts for problem in part.groups.problems]
    for name in settings.estimators:
        full = name == "full"
        sketch = settings.sketch if full else projected_size(trainer.policy.config.vocab_size)
        layers = zip(
            *(
                full_features(trainer.policy, state.parameters, part.groups.batch, scale, sketch)
                if full
                else head_features_of(trainer.policy, state.parameters, part.groups.batch)
                for part in parts
            ),
            strict=True,
        )
        features = [np.concatenate([_widened(rows, width, square=False) for rows in layer]) for layer in layers]
        found = measure(features, correct, weights, without, batch, present=present, sketch=sketch)
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
        records.append(Record(facts, prompts, batch, count, rates, found))
    return records


def _weighed(trainer: Trainer, state: TrainerState, groups: RolloutGroups, prompts: int, key: PRNGKeyArray) -> Measured:
    """Weigh rollouts as the loss of a batch of so many prompts does, in groups of the batch's size."""
    number = groups.rewards.shape[1] // trainer.settings.group_size
    cut = _cut(groups, number)
    rollouts = trainer.rollouts(cut, cut.sampled.logp, jax.random.fold_in(key, NOISE))
    method = trainer.method.at(state.surrogate)
    return Measured(groups, *rollout_weights(method, rollouts, state.estimator, groups=number, prompts=prompts))


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
