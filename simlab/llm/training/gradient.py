"""Compute the gradient of the parameters from coefficients of grad log pi, and the log-probabilities of a batch."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from simlab.llm.completions import Batch, target_logp
from simlab.llm.config import ModelConfig
from simlab.llm.lora import with_adapters
from simlab.llm.model import Parameters
from simlab.llm.training.device_turns import on_each
from simlab.llm.training.microbatches import Microbatch, microbatches, tokens_at_once, turns


class Computation(NamedTuple):
    """How a gradient is computed; a program is compiled for each.

    Attributes:
        dtype: ``"float32"``, ``"float64"`` or ``"bfloat16"``, of matrices and what they are multiplied with.
        checkpointing: whether a gradient keeps the inputs of layers alone and computes the layers a second time.
        lora_scale: what the product of adapters is multiplied with.
        tokens: most tokens of completions whose gradient is computed at once, but at least those of one prompt; the
            prompts of a microbatch take turns in one program. None where they never do.
    """

    dtype: str
    checkpointing: bool = False
    lora_scale: float = 1.0
    tokens: int | None = None


class Policy:
    """A decoder as the trainer computes with it: in the dtype of ``compute``, at most so many rollouts at a time.

    The parameters that its methods take, and whose gradient is computed, are the decoder's; or, where there is a
    ``base``, adapters that are added to it.

    Attributes:
        config: the config of the decoder.
        compute: the dtype of a ``Computation``; parameters and gradients keep their own.
        temperature: that rollouts are sampled at; all log-probabilities are those at it.
        microbatch: rollouts that one program computes.
        checkpointing, lora_scale: see ``Computation``.
        base: parameters that stay as they are, of ``simlab.llm.lora``; None if all parameters are trained.
        devices: that microbatches are computed on, each on one of them: all of this process.
    """

    def __init__(
        self,
        config: ModelConfig,
        compute: str,
        temperature: float,
        microbatch: int,
        *,
        checkpointing: bool = False,
        lora_scale: float = 1.0,
        base: Parameters | None = None,
    ):
        self.config, self.temperature, self.microbatch, self.base = config, temperature, microbatch, base
        self.computation = Computation(compute, checkpointing, lora_scale, tokens_at_once(jax.default_backend()))
        self.devices = jax.local_devices()

    def cast(self, parameters: Parameters, sampler: str = "exact") -> Parameters:
        """The parameters as they are computed with; those who sample with these sample from this policy.

        A ``sampler`` that is not exact computes in a dtype of its own.
        """
        return _cast(self.whole(parameters), self.computation.dtype if sampler == "exact" else sampler)

    def whole(self, parameters: Parameters) -> Parameters:
        """All that the decoder computes with, in its own dtype: the base with its adapters where there is one."""
        return _whole(parameters, self.base, self.computation)

    def logp(self, parameters: Parameters, batch: Batch) -> np.ndarray:
        """log pi of each token of the completions, (P, G, T); 0 where there is none."""
        found = np.zeros(batch.tokens.shape, np.float32)

        def values(microbatch: Microbatch, parameters: Parameters, base: Parameters | None) -> tuple[Microbatch, Array]:
            targets = microbatch.batch.tokens[..., None]
            sampled = microbatch.batch.mask[..., None].astype(np.float32)
            terms = Terms(microbatch.batch, targets, sampled, self.temperature)
            return microbatch, _logp(parameters, base, self.config, terms, self.computation)

        parts = microbatches(batch, self.microbatch)
        for microbatch, logp in on_each(self.devices, values, parts, parameters, self.base):
            microbatch.scatter(np.where(microbatch.batch.mask, np.asarray(logp)[..., 0], 0), found)
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

        Each device computes the gradient of a microbatch. They are added up in the order of the microbatches, so that
        the sum has the same bits however many devices there are.
        """
        if coefficients.ndim == 3:
            coefficients = coefficients[..., None]
        batch = batch._replace(mask=batch.mask & np.any(coefficients, axis=(2, 3))[..., None])
        targets = np.asarray(batch.tokens)[..., None]
        if candidates is not None:
            targets = np.concatenate([targets, candidates], axis=-1)[..., : coefficients.shape[-1]]

        def slope(microbatch: Microbatch, parameters: Parameters, base: Parameters | None) -> Any:
            own_targets, own_coefficients = map(microbatch.gather, (targets.astype(np.int32), coefficients))
            terms = Terms(microbatch.batch, own_targets, own_coefficients, self.temperature)
            return _gradient(parameters, base, config=self.config, terms=terms, how=self.computation)

        total: Any = None
        parts = microbatches(batch, self.microbatch)
        for part in on_each(self.devices, slope, parts, parameters, self.base):
            total = part if total is None else _added(total, part)
        if total is None:
            return jax.tree.map(jnp.zeros_like, parameters), 0.0
        return total[0], float(total[1])


def _cast(parameters: Parameters, compute: str) -> Parameters:
    cast: Parameters = jax.tree.map(lambda leaf: leaf.astype(compute), parameters)
    return cast


def _whole(parameters: Parameters, base: Parameters | None, how: Computation) -> Parameters:
    return parameters if base is None else with_adapters(base, parameters, how.lora_scale)


class Terms(NamedTuple):
    """The terms of J that a microbatch contributes: N tokens at each position of it, and their coefficients."""

    batch: Batch
    targets: Int[Any, "P G T N"]
    coefficients: Float[Any, "P G T N"]
    temperature: Float[Array, ""] | float


@functools.partial(jax.jit, static_argnames=("config", "how"))
def _logp(
    parameters: Parameters, base: Parameters | None, config: ModelConfig, terms: Terms, how: Computation
) -> Float[Array, "P G T N"]:
    cast = _cast(_whole(parameters, base, how), how.dtype)
    return target_logp(cast, config, terms.batch, terms.targets, terms.temperature, checkpointing=how.checkpointing)


@functools.partial(jax.jit, static_argnames=("config", "how"))
def _gradient(
    parameters: Parameters,
    base: Parameters | None,
    *,
    config: ModelConfig,
    terms: Terms,
    how: Computation,
) -> tuple[Parameters, Float[Array, ""]]:
    def objective(parameters: Parameters, terms: Terms) -> Float[Array, ""]:
        logp = _logp(parameters, base, config, terms, how)
        # Where nothing is weighed, a token of probability 0 must not make NaN of 0 times infinity.
        idle = terms.coefficients == 0
        return jnp.sum(jnp.where(idle, 0, terms.coefficients * jnp.where(idle, 0, logp)))

    def slope(batch: Batch, targets: Array, coefficients: Array) -> tuple[Parameters, Float[Array, ""]]:
        value, gradient = jax.value_and_grad(objective)(
            parameters, Terms(batch, targets, coefficients, terms.temperature)
        )
        return gradient, value

    of_prompts = terms.batch, terms.targets, terms.coefficients
    count = turns(terms.targets.shape, how.tokens)
    if count == 1:
        return slope(*of_prompts)
    cut = jax.tree.map(lambda array: jnp.reshape(array, (count, -1, *array.shape[1:])), of_prompts)

    def add(so_far: Parameters, own: tuple[Any, ...]) -> tuple[Parameters, Float[Array, ""]]:
        gradient, value = slope(*own)
        return jax.tree.map(jnp.add, so_far, gradient), value

    total, values = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, parameters), cut)
    return total, values.sum()


@functools.partial(jax.jit, donate_argnums=0)
def _added(total: Any, part: Any) -> Any:
    return jax.tree.map(jnp.add, total, part)
