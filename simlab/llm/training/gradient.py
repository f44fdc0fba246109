"""Compute the gradient of the parameters from coefficients of grad log pi, one microbatch after the other."""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from simlab.llm.batch_layout import rounded_length, rounded_up
from simlab.llm.completions import CompletionBatch, target_logp
from simlab.llm.config import ModelConfig
from simlab.llm.lora import with_adapters
from simlab.llm.model import Parameters

# The maze model's gradient of 128 rollouts of 180 tokens takes 7.4 s on two cores in turns of 32 rollouts, 7.8 in turns
# of 64, 8.2 in turns of 16, and 9 to 13 at once: a CPU clears all memory that a program asks for, page by page.
CPU_TOKENS = 8192


class Microbatch(NamedTuple):
    """Rollouts (p, g) of a batch, padded to rounded sizes, with their rows ``prompts`` (p, 1) and columns
    ``rollouts``."""

    batch: CompletionBatch
    prompts: np.ndarray
    rollouts: np.ndarray
    tokens: int

    def gather(self, values: np.ndarray) -> np.ndarray:
        """Return the microbatch of an array (P, G, T, ...), padded with zeros."""
        rows = values[self.prompts, self.rollouts, : self.tokens]
        padded = np.zeros((*self.batch.tokens.shape, *values.shape[3:]), values.dtype)
        padded[: rows.shape[0], : rows.shape[1], : self.tokens] = rows
        return padded

    def scatter(self, values: np.ndarray, target: np.ndarray) -> None:
        """Write values of the microbatch into their entries of an array (P, G, T, ...)."""
        height, width = len(self.prompts), self.rollouts.shape[1]
        target[self.prompts, self.rollouts, : self.tokens] = values[:height, :width, : self.tokens]


def microbatches(batch: CompletionBatch, rollouts: int) -> Iterator[Microbatch]:
    """Cut a batch into microbatches of at most ``rollouts`` rollouts, of prompts with completions of similar length.

    Prompts without a token are left out, and so are rollouts if no rollout of their microbatch has a token.
    """
    lengths = np.asarray(batch.mask).sum(axis=2)
    groups, members = int(np.count_nonzero(lengths.any(axis=1))), batch.tokens.shape[1]
    width = min(members, rollouts)
    height = max(1, min(groups, rollouts // width))
    order = np.argsort(-lengths.max(axis=1), kind="stable")[:groups]
    for first in range(0, groups, height):
        rows = order[first : first + height]
        for start in range(0, members, width):
            columns = np.arange(start, min(start + width, members))
            longest = int(lengths[np.ix_(rows, columns)].max())
            if longest:
                yield _microbatch(batch, rows, columns, longest, (height, width))


def _microbatch(
    batch: CompletionBatch, rows: np.ndarray, columns: np.ndarray, longest: int, shape: tuple[int, int]
) -> Microbatch:
    prompts = np.asarray(batch.prompts)[rows]
    lengths = np.asarray(batch.lengths)[rows]
    height, width = map(rounded_up, shape)
    padded = np.zeros((height, rounded_length(int(lengths.max()))), np.int32)
    padded[: len(rows), : lengths.max()] = prompts[:, : lengths.max()]
    empty = CompletionBatch(
        padded,
        np.concatenate([lengths, np.ones(height - len(rows), lengths.dtype)]).astype(np.int32),
        np.zeros((height, width, rounded_up(longest)), np.int32),
        np.zeros((height, width, rounded_up(longest)), bool),
    )
    microbatch = Microbatch(empty, rows[:, None], columns[None], longest)
    tokens, mask = (microbatch.gather(np.asarray(values)) for values in (batch.tokens, batch.mask))
    return microbatch._replace(batch=empty._replace(tokens=tokens.astype(np.int32), mask=mask))


def tokens_at_once(platform: str) -> int | None:
    """Return the most tokens of completions whose gradient is computed at once; None for no limit."""
    return CPU_TOKENS if platform == "cpu" else None


def turns(shape: Sequence[int], tokens: int | None) -> int:
    """Return the fewest turns of equally many prompts in which a program computes arrays (P, G, T).

    >>> turns((6, 1, 10), 40)  # four of six prompts would fit, but turns of three are equal
    2
    """
    if tokens is None:
        return 1
    prompts, size = shape[0], math.prod(shape[1:3])
    fewest = math.ceil(prompts / max(1, tokens // size))
    return next(count for count in range(fewest, prompts + 1) if prompts % count == 0)


def compute_on_devices(
    devices: Sequence[jax.Device], compute: Callable[..., Any], pieces: Iterable[Any], *arrays: Any
) -> Iterator[Any]:
    """Yield ``compute(piece, *arrays)`` of each piece in order, on devices in turn; bits do not depend on them."""
    if len(devices) == 1:
        yield from (compute(piece, *arrays) for piece in pieces)
        return
    copies, remaining = [arrays], iter(pieces)
    while turn := list(itertools.islice(remaining, len(devices))):
        for device in devices[len(copies) : len(turn)]:
            copies.append(jax.device_put(arrays, device))
        results = [compute(piece, *copy) for piece, copy in zip(turn, copies, strict=False)]
        jax.block_until_ready(results)  # type: ignore[no-untyped-call]
        for result in results:  # NumPy's arrays, as in a microbatch, stay as they are
            yield jax.tree.map(
                lambda leaf: jax.device_put(leaf, devices[0]) if isinstance(leaf, jax.Array) else leaf, result
            )


class Computation(NamedTuple):
    """Static choices of a gradient; ``tokens`` is the most at once (None: no limit), but a prompt's at least."""

    dtype: str
    checkpointing: bool = False
    lora_scale: float = 1.0
    tokens: int | None = None


class DecoderPolicy:
    """A decoder as the trainer computes it: in the dtype of ``compute``, a microbatch of rollouts at a time.

    The gradient is that of the decoder's parameters; if there is a ``base``, that of adapters that are added to it.
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
        return parameters if self.base is None else with_adapters(self.base, parameters, self.computation.lora_scale)

    def logp(self, parameters: Parameters, batch: CompletionBatch) -> np.ndarray:
        """Return log pi of each token of the completions, (P, G, T); 0 where there is none."""
        result = np.zeros(batch.tokens.shape, np.float32)

        def compute(piece: Microbatch, parameters: Parameters, base: Parameters | None) -> tuple[Microbatch, Array]:
            used = piece.batch.mask[..., None].astype(np.float32)
            terms = Terms(piece.batch, piece.batch.tokens[..., None], used, self.temperature)
            return piece, completions_logp(parameters, base, self.config, terms, self.computation)

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
        """Return the gradient of J = sum of coefficient log pi, and J; the same bits for any number of devices."""
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


class Terms(NamedTuple):
    """Terms of J in a microbatch: N tokens at each position, and their coefficients."""

    batch: CompletionBatch
    targets: Int[Any, "P G T N"]
    coefficients: Float[Any, "P G T N"]
    temperature: Float[Array, ""] | float


@functools.partial(jax.jit, static_argnames=("config", "how"))
def completions_logp(
    parameters: Parameters, base: Parameters | None, config: ModelConfig, terms: Terms, how: Computation
) -> Float[Array, "P G T N"]:
    """Compute log pi of the targets, by the decoder's parameters or by adapters to a base."""
    whole = parameters if base is None else with_adapters(base, parameters, how.lora_scale)
    cast = _cast(whole, how.dtype)
    return target_logp(cast, config, terms.batch, terms.targets, terms.temperature, checkpointing=how.checkpointing)


@functools.partial(jax.jit, static_argnames=("config", "how"))
def _gradient(
    parameters: Parameters, base: Parameters | None, *, config: ModelConfig, terms: Terms, how: Computation
) -> tuple[Parameters, Float[Array, ""]]:
    def objective(parameters: Parameters, terms: Terms) -> Float[Array, ""]:
        logp = completions_logp(parameters, base, config, terms, how)
        # A token of probability 0 with coefficient 0 must contribute 0, and not 0 times minus infinity, which is NaN.
        idle = terms.coefficients == 0
        return jnp.sum(jnp.where(idle, 0, terms.coefficients * jnp.where(idle, 0, logp)))

    def slope(batch: CompletionBatch, targets: Array, coefficients: Array) -> tuple[Parameters, Float[Array, ""]]:
        own = Terms(batch, targets, coefficients, terms.temperature)
        value, gradient = jax.value_and_grad(objective)(parameters, own)
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
