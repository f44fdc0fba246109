"""Features of a decoder's rollouts, whose inner products say how far prompts move one another, by two estimators.

``full`` has the gradient of each rollout's log-probability by all trained parameters (adapters alone where these are
trained), times M^(1/2) of the optimiser, projected layer by layer onto ``sketch`` numbers by random signs: a
count-sketch (Charikar et al. 2002) whose buckets take turns, so that inner products are right in expectation with a
standard error of about sqrt(2 / sketch) of the product of norms at most. ``head`` is ``simlab.interference.head``.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from simlab.interference.head import head_features, projected_size, projection, residuals
from simlab.llm.completions import CompletionBatch, completion_states
from simlab.llm.config import ModelConfig
from simlab.llm.model import Parameters, map_logits
from simlab.llm.training.gradient import Computation, DecoderPolicy, Terms, completions_logp, microbatches
from simlab.llm.training.settings import OptimizerSettings

# Numbers of the gradients of rollouts that are there at once: on a CPU those of the countdown model take half as long
# with 4 MiB as with 256 MiB.
CPU_NUMBERS, NUMBERS = 2**20, 2**28
Features = list[Float[np.ndarray, "N R _"]]


def full_features(
    policy: DecoderPolicy, parameters: Parameters, batch: CompletionBatch, scale: Parameters | None, sketch: int
) -> Features:
    """Return for each layer (the first: outside of all) the features of all rollouts; all numbers for a sketch of 0.

    ``scale`` are the factors M^(1/2) of each parameter, None for 1.
    """
    trained = sum(leaf.size for leaf in jax.tree.leaves(parameters))
    compute = functools.partial(
        _gradient_features, parameters, policy.base, scale, config=policy.config, temperature=policy.temperature,
        how=policy.computation, sketch=sketch,
        at_once=gradients_at_once(trained, policy.microbatch, jax.default_backend()),
    )  # fmt: skip
    return _by_microbatch(compute, policy, batch)


def features_by(
    estimator: str,
    policy: DecoderPolicy,
    parameters: Parameters,
    batch: CompletionBatch,
    *,
    scale: Parameters | None,
    sketch: int,
) -> tuple[Features, int]:
    """Return the features of all rollouts by an estimator, ``"full"`` or ``"head"``, and the size of its projection."""
    if estimator == "full":
        return full_features(policy, parameters, batch, scale, sketch), sketch
    return head_features_of(policy, parameters, batch), projected_size(policy.config.vocab_size)


def gradients_at_once(trained: int, microbatch: int, platform: str) -> int:
    """Return how many rollouts' gradients by so many parameters are there at once."""
    return max(1, min(microbatch, (CPU_NUMBERS if platform == "cpu" else NUMBERS) // trained))


def head_features_of(policy: DecoderPolicy, parameters: Parameters, batch: CompletionBatch) -> Features:
    """Return the features of all rollouts by the last layer alone."""
    onto = jnp.asarray(projection(policy.config.vocab_size))
    compute = functools.partial(
        _head_features, policy.cast(parameters), policy.config, temperature=policy.temperature, onto=onto
    )
    return _by_microbatch(compute, policy, batch)


def _by_microbatch(compute: Callable[..., list[Array]], policy: DecoderPolicy, batch: CompletionBatch) -> Features:
    """Compute the features of each microbatch; a rollout without tokens has zeros."""
    result = Features()
    for piece in microbatches(batch, policy.microbatch):
        layers = compute(batch=piece.batch)
        result = result or [np.zeros((*batch.tokens.shape[:2], each.shape[-1]), np.float32) for each in layers]
        for target, layer in zip(result, layers, strict=True):
            target[piece.prompts, piece.rollouts] = np.asarray(layer)[: len(piece.prompts), : piece.rollouts.shape[1]]
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
) -> list[Float[Array, "P G F"]]:
    def projected(logits: Array, tokens: Array) -> Array:
        found: Array = residuals(logits, tokens, temperature, onto)
        return found

    hidden = completion_states(parameters, config, batch)
    residual = map_logits(projected, parameters, hidden, jnp.asarray(batch.tokens))
    return [head_features(hidden.astype(residual.dtype), residual, jnp.asarray(batch.mask))]


def root_preconditioner(settings: OptimizerSettings, optimizer: Any) -> Parameters | None:
    """M^(1/2) of each parameter, of the optimiser's state: of Adam (sqrt(v) + eps)^(-1/2); None for the identity."""
    adam = optax.tree_utils.tree_get(optimizer, "ScaleByAdamState")
    if adam is None or not int(adam.count):
        return None
    unbiased = 1 - settings.b2 ** int(adam.count)
    root: Parameters = jax.tree.map(lambda v: (jnp.sqrt(v / unbiased) + settings.eps) ** -0.5, adam.nu)
    return root
