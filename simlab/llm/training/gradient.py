"""Compute the gradient of the parameters from coefficients of grad log pi, and the log-probabilities of a batch."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from simlab.llm.completions import CompletionBatch, target_logp
from simlab.llm.config import ModelConfig
from simlab.llm.lora import with_adapters
from simlab.llm.model import Parameters
from simlab.llm.training.microbatches import Microbatch, compute_on_devices, microbatches, tokens_at_once, turns


class Computation(NamedTuple):
    """Static choices of a gradient; each combination compiles a program of its own.

    Attributes:
        dtype: ``"float32"``, ``"float64"`` or ``"bfloat16"``, of matrices and their factors.
        checkpointing: store only the inputs of layers for a gradient, and compute the layers a second time.
        lora_scale: factor of the product of adapters.
        tokens: most tokens of completions whose gradient is computed at once, but at least those of one prompt; the
            prompts of a microbatch take turns in one program. None for no limit.
    """

    dtype: str
    checkpointing: bool = False
    lora_scale: float = 1.0
    tokens: int | None = None


class DecoderPolicy:
    """A decoder as the trainer computes it: in the dtype of ``compute``, a microbatch of rollouts at a time.

    The parameters that its methods take, and whose gradient is computed, are the decoder's; or, where there is a
    ``base``, adapters that are added to it.

    Attributes:
        config: the config of the decoder.
        compute: the dtype of a ``Computation``; parameters and gradients keep their own.
        temperature: of sampling; all log-probabilities are those at this temperature.
        microbatch: rollouts that one program computes.
        checkpointing, lora_scale: see ``Computation``.
        base: fixed parameters under the adapters of ``simlab.llm.lora``; None if all parameters are trained.
        devices: all devices of this process; each computes a microbatch at a time.
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
        """Return the decoder's parameters in the dtype of the computation, or in that of an inexact ``sampler``."""
        return _cast(self.merge(parameters), self.computation.dtype if sampler == "exact" else sampler)

    def merge(self, parameters: Parameters) -> Parameters:
        """Return all parameters of the decoder in their own dtype: the base with its adapters where there is one."""
        return _merge(parameters, self.base, self.computation)

    def logp(self, parameters: Parameters, batch: CompletionBatch) -> np.ndarray:
        """Return log pi of each token of the completions, (P, G, T); 0 where there is none."""
        result = np.zeros(batch.tokens.shape, np.float32)

        def compute(
            microbatch: Microbatch, parameters: Parameters, base: Parameters | None
        ) -> tuple[Microbatch, Array]:
            targets = microbatch.batch.tokens[..., None]
            used = microbatch.batch.mask[..., None].astype(np.float32)
            terms = Terms(microbatch.batch, targets, used, self.temperature)
            return microbatch, _logp(parameters, base, self.config, terms, self.computation)

        pieces = microbatches(batch, self.microbatch)
        for microbatch, logp in compute_on_devices(self.devices, compute, pieces, parameters, self.base):
            microbatch.scatter(np.where(microbatch.batch.mask, np.asarray(logp)[..., 0], 0), result)
        return result

    def gradient(
        self,
        parameters: Parameters,
        batch: CompletionBatch,
        coefficients: Float[np.ndarray, "P G T"] | Float[np.ndarray, "P G T N"],
        candidates: Int[np.ndarray, "P G T C"] | None = None,
    ) -> tuple[Parameters, float]:
        """Return the gradient of J = sum over tokens of coefficient log pi, and J.

        With ``candidates`` the coefficients are (P, G, T, 1 + C), those of the sampled token first, as a ``Surrogate``
        returns them. Rollouts whose coefficients are all 0 cost nothing if their whole group, or their whole
        microbatch, has none: a group of equal rewards, for example.

        Each device computes the gradient of a microbatch. They are added up in the order of the microbatches, so that
        the sum has the same bits for any number of devices.
        """
        if coefficients.ndim == 3:
            coefficients = coefficients[..., None]
        batch = batch._replace(mask=batch.mask & np.any(coefficients, axis=(2, 3))[..., None])
        targets = np.asarray(batch.tokens)[..., None]
        if candidates is not None:
            targets = np.concatenate([targets, candidates], axis=-1)[..., : coefficients.shape[-1]]

        def compute(microbatch: Microbatch, parameters: Parameters, base: Parameters | None) -> Any:
            tokens, weights = map(microbatch.gather, (targets.astype(np.int32), coefficients))
            terms = Terms(microbatch.batch, tokens, weights, self.temperature)
            return _gradient(parameters, base, config=self.config, terms=terms, how=self.computation)

        total: Any = None
        pieces = microbatches(batch, self.microbatch)
        for gradient in compute_on_devices(self.devices, compute, pieces, parameters, self.base):
            total = gradient if total is None else _add(total, gradient)
        if total is None:
            return jax.tree.map(jnp.zeros_like, parameters), 0.0
        return total[0], float(total[1])


def _cast(parameters: Parameters, dtype: str) -> Parameters:
    cast: Parameters = jax.tree.map(lambda leaf: leaf.astype(dtype), parameters)
    return cast


def _merge(parameters: Parameters, base: Parameters | None, how: Computation) -> Parameters:
    return parameters if base is None else with_adapters(base, parameters, how.lora_scale)


class Terms(NamedTuple):
    """Terms of J in a microbatch: N tokens at each position, and their coefficients."""

    batch: CompletionBatch
    targets: Int[Any, "P G T N"]
    coefficients: Float[Any, "P G T N"]
    temperature: Float[Array, ""] | float


@functools.partial(jax.jit, static_argnames=("config", "how"))
def _logp(
    parameters: Parameters, base: Parameters | None, config: ModelConfig, terms: Terms, how: Computation
) -> Float[Array, "P G T N"]:
    cast = _cast(_merge(parameters, base, how), how.dtype)
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
        # A token of probability 0 with coefficient 0 must contribute 0, and not 0 times minus infinity, which is NaN.
        idle = terms.coefficients == 0
        return jnp.sum(jnp.where(idle, 0, terms.coefficients * jnp.where(idle, 0, logp)))

    def slope(batch: CompletionBatch, targets: Array, coefficients: Array) -> tuple[Parameters, Float[Array, ""]]:
        value, gradient = jax.value_and_grad(objective)(
            parameters, Terms(batch, targets, coefficients, terms.temperature)
        )
        return gradient, value

    arrays = terms.batch, terms.targets, terms.coefficients
    count = turns(terms.targets.shape, how.tokens)
    if count == 1:
        return slope(*arrays)
    # Prompts take turns: the arrays (P, ...) become (turns, P / turns, ...), and a scan adds up the gradients.
    cut = jax.tree.map(lambda array: jnp.reshape(array, (count, -1, *array.shape[1:])), arrays)

    def add_turn(total: Parameters, turn: tuple[Any, ...]) -> tuple[Parameters, Float[Array, ""]]:
        gradient, value = slope(*turn)
        return jax.tree.map(jnp.add, total, gradient), value

    total, values = jax.lax.scan(add_turn, jax.tree.map(jnp.zeros_like, parameters), cut)
    return total, values.sum()


@functools.partial(jax.jit, donate_argnums=0)
def _add(total: Any, gradient: Any) -> Any:
    return jax.tree.map(jnp.add, total, gradient)
