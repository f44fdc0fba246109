"""Compute the gradient of the parameters from coefficients of grad log pi, and the log-probabilities of a batch."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from simlab.llm.completions import Batch, target_logp
from simlab.llm.config import ModelConfig
from simlab.llm.model import Parameters
from simlab.llm.training.microbatches import microbatches


class Policy:
    """A decoder as the trainer computes with it: in the dtype of ``compute``, at most so many rollouts at a time.

    Attributes:
        config: of the decoder.
        compute: ``"float32"``, ``"float64"`` or ``"bfloat16"``; parameters and gradients keep their own dtype.
        temperature: that rollouts are sampled at; all log-probabilities are those at it.
        microbatch: rollouts that one program computes.
    """

    def __init__(self, config: ModelConfig, compute: str, temperature: float, microbatch: int):
        self.config, self.compute, self.temperature, self.microbatch = config, compute, temperature, microbatch

    def cast(self, parameters: Parameters, sampler: str = "exact") -> Parameters:
        """The parameters as they are computed with; those who sample with these sample from this policy.

        A ``sampler`` that is not exact computes in a dtype of its own.
        """
        return _cast(parameters, self.compute if sampler == "exact" else sampler)

    def logp(self, parameters: Parameters, batch: Batch) -> np.ndarray:
        """log pi of each token of the completions, (P, G, T); 0 where there is none."""
        found = np.zeros(batch.tokens.shape, np.float32)
        for microbatch in microbatches(batch, self.microbatch):
            targets = microbatch.batch.tokens[..., None]
            sampled = microbatch.batch.mask[..., None].astype(np.float32)
            terms = Terms(microbatch.batch, targets, sampled, self.temperature)
            values = np.asarray(_logp(parameters, self.config, terms, self.compute))[..., 0]
            microbatch.scatter(np.where(microbatch.batch.mask, values, 0), found)
        return found

    def gradient(
        self,
        parameters: Parameters,
        batch: Batch,
        coefficients: Float[np.ndarray, "P G T"] | Float[np.ndarray, "P G T N"],
        candidates: Int[np.ndarray, "P G T C"] | None = None,
    ) -> tuple[Parameters, float]:
        """The gradient of J = sum over tokens of coefficient log pi, and J.

        With ``candidates`` the coefficients are (P, G, T, 1 + C), those of the sampled token first, as a ``Surrogate``
        gives them. Rollouts whose coefficients are all 0 cost nothing where their whole group, or the rest of their
        microbatch, are so too: a group of equal rewards has none.
        """
        if coefficients.ndim == 3:
            coefficients = coefficients[..., None]
        batch = batch._replace(mask=batch.mask & np.any(coefficients, axis=(2, 3))[..., None])
        targets = np.asarray(batch.tokens)[..., None]
        if candidates is not None:
            targets = np.concatenate([targets, candidates], axis=-1)[..., : coefficients.shape[-1]]
        total: Any = jax.tree.map(jnp.zeros_like, parameters), jnp.zeros((), jnp.float32)
        for microbatch in microbatches(batch, self.microbatch):
            own_targets, own_coefficients = map(microbatch.gather, (targets.astype(np.int32), coefficients))
            terms = Terms(microbatch.batch, own_targets, own_coefficients, self.temperature)
            total = _add_gradient(total, parameters, self.config, terms, self.compute)
        return total[0], float(total[1])


def _cast(parameters: Parameters, compute: str) -> Parameters:
    cast: Parameters = jax.tree.map(lambda leaf: leaf.astype(compute), parameters)
    return cast


class Terms(NamedTuple):
    """The terms of J that a microbatch contributes: N tokens at each position of it, and their coefficients."""

    batch: Batch
    targets: Int[Any, "P G T N"]
    coefficients: Float[Any, "P G T N"]
    temperature: Float[Array, ""] | float


@functools.partial(jax.jit, static_argnames=("config", "compute"))
def _logp(parameters: Parameters, config: ModelConfig, terms: Terms, compute: str) -> Float[Array, "P G T N"]:
    return target_logp(_cast(parameters, compute), config, terms.batch, terms.targets, terms.temperature)


@functools.partial(jax.jit, static_argnames=("config", "compute"), donate_argnums=0)
def _add_gradient(
    total: tuple[Parameters, Float[Array, ""]],
    parameters: Parameters,
    config: ModelConfig,
    terms: Terms,
    compute: str,
) -> tuple[Parameters, Float[Array, ""]]:
    def objective(parameters: Parameters) -> Float[Array, ""]:
        logp = target_logp(_cast(parameters, compute), config, terms.batch, terms.targets, terms.temperature)
        # Where nothing is weighed, a token of probability 0 must not make NaN of 0 times infinity.
        idle = terms.coefficients == 0
        return jnp.sum(jnp.where(idle, 0, terms.coefficients * jnp.where(idle, 0, logp)))

    value, gradient = jax.value_and_grad(objective)(parameters)
    summed: tuple[Parameters, Float[Array, ""]] = jax.tree.map(jnp.add, total, (gradient, value))
    return summed
