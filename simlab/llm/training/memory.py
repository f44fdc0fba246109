"""Estimate how much memory a run needs, before any of it is used."""

import functools
import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from simlab.errors import InputError
from simlab.llm.checkpoint import SHARD_BYTES
from simlab.llm.completions import unrolled
from simlab.llm.config import ModelConfig
from simlab.llm.lora import adapter_shapes
from simlab.llm.model import named, shapes
from simlab.llm.output import rows_at_once
from simlab.llm.places import parts_of
from simlab.llm.training.computed import AtOnce, Computed, at_once, rank_of
from simlab.llm.training.process_memory import process_memory
from simlab.llm.training.settings import Settings
from simlab.llm.training.state_files import FILE_BYTES

FLOAT, DOUBLE = 4, 8
READ = 3.2  # times the inner arrays of a layer: what reading a prompt needs
DRAWN = 13  # bytes that are kept of a drawn token: itself, its mask, log-probability and entropy
MALLOC_KEEPS = 32 * 2**20  # bytes below which glibc's malloc may keep a piece that is freed, DEFAULT_MMAP_THRESHOLD_MAX
LOGITS = 4  # arrays of the size of a token's logits at once


class Arrays(NamedTuple):
    """How many arrays of each kind a gradient holds: see ``gradient_bytes``.

    They are fitted to XLA's own numbers by ``python -m benchmarks.training_memory --fit``.

    Attributes:
        hidden: of the size of the hidden states, that the gradient of a layer needs.
        inner: of the size of the inner states of its feed-forward part, that it needs.
        seen: of the size of its attention weights, that it needs.
        hidden_products, inner_products, seen_products: those of them that products of matrices gave: layers in a loop
            keep these.
        passing: of the size of the hidden states, that come and go while one layer's gradient is computed.
        with_adapters: how many times as many there are where adapters stand beside the matrices.
        products_with_adapters: how many times as many products.
    """

    hidden: float = 6.7
    inner: float = 5.2
    seen: float = 3.65
    hidden_products: float = 4.7
    inner_products: float = 1.6
    seen_products: float = 1.4
    passing: float = 5.0
    with_adapters: float = 1.08
    products_with_adapters: float = 1.75


ARRAYS = Arrays()


def needed_memory(
    settings: Settings, config: ModelConfig, prompt: int, completion: int, problems: int, *, platform: str | None = None
) -> dict[str, int]:
    """Bytes of a run while it trains the arm that needs most, by what they are for.

    That is what the arm keeps, and what needs most of all that it does one after the other: see ``phases``. On a CPU
    the process itself counts too. It keeps the programs of all arms.

    Args:
        settings: the settings of the run.
        config: of its model.
        prompt: tokens of the longest prompt.
        completion: most tokens of a completion.
        problems: of the largest evaluation set.
        platform: that the run is on, such as "gpu"; by default that of this process.
    """
    platform = platform or jax.default_backend()
    arms = [settings.of_arm(name) for name in settings.arms]
    each = [at_once(arm, prompt, completion, problems, platform) for arm in arms]
    needed = [_kept(arm, config) | _largest(phases(arm, config, own)) for arm, own in zip(arms, each, strict=True)]
    most = max(needed, key=lambda parts: sum(parts.values()))
    return most | process_memory(config, each) if platform == "cpu" else most


def _largest(parts: Mapping[str, int]) -> dict[str, int]:
    name = max(parts, key=lambda name: parts[name])
    return {name: parts[name]}


def _kept(settings: Settings, config: ModelConfig) -> dict[str, int]:
    """What an arm keeps from its second step to its last."""
    rank = rank_of(settings)
    trained = FLOAT * trained_of(config, rank)
    return {
        **({"model": FLOAT * parameters_of(config)} if rank else {}),
        f"{'adapters' if rank else 'parameters'}, of the start and now": 2 * trained,
        "AdamW": 2 * trained,
        **({"older samplers": settings.rl.lag * trained} if settings.rl.lag else {}),
    }


def phases(settings: Settings, config: ModelConfig, own: AtOnce) -> dict[str, int]:
    """Bytes of each thing that an arm does, beside those that it keeps; one ends before the next begins.

    - Rollouts are sampled with a copy of the layers, see ``sampling_bytes``, and an evaluation's from the merged model
      where there are adapters.
    - A gradient is computed while the sum of the former ones and the last of them are still there.
    - An update writes new parameters over the gradient, by way of one more array of their size.
    - On a CPU the memory of the host is the same. An evaluation measures how the largest matrix has changed, by two
      copies in float64. A checkpoint is written as two copies of its numbers, and so is the model that a run leaves,
      a file's worth at a time. The process still has the memory of the layers that were sampled with.
    """
    rank = rank_of(settings)
    weights, trained = FLOAT * parameters_of(config), FLOAT * trained_of(config, rank)
    merged = weights if rank else 0
    sampling = {
        "sampling": _copied(config, own.sampled) + sampling_bytes(config, own.sampled),
        "sampling of an evaluation": merged + _copied(config, own.judged) + sampling_bytes(config, own.judged),
    }
    others = {
        "gradient of a microbatch": min(own.microbatches - 1, 2) * trained + gradient_bytes(config, own.learnt),
        "an update": 2 * trained,
    }
    if own.learnt.platform != "cpu":
        return sampling | others
    largest = max(math.prod(shape[-2:]) for _, shape in named(shapes(config)))
    state = (3 + settings.rl.lag) * trained
    others |= {
        **({"changes of matrices": merged + 2 * DOUBLE * largest} if settings.record.weight_changes else {}),
        "writing a checkpoint": 2 * min(state, FILE_BYTES),
        **({"writing the model": merged + 2 * min(weights, SHARD_BYTES)} if rank else {}),
    }
    left = max(_left(config, one) for one in (own.sampled, own.judged))
    return sampling | {name: size + left for name, size in others.items()}


def _left(config: ModelConfig, one: Computed) -> int:
    """Bytes of the sampler's layers that are free and still the process's, as malloc gives small pieces back late."""
    size = _itemsize(one)
    pieces: list[int] = [size * math.prod(shape[1:]) for _, shape in named(shapes(config)["layers"])]
    return config.num_layers * sum(piece for piece in pieces if piece < MALLOC_KEEPS)


def _copied(config: ModelConfig, one: Computed) -> int:
    """Bytes of the weights that are copied to be sampled with: the layers, and all where they are cast before."""
    size = _itemsize(one)
    cast = size * parameters_of(config) if size < FLOAT else 0
    layers: int = size * sum(math.prod(shape) for _, shape in named(shapes(config)["layers"]))
    return cast + layers


def _itemsize(one: Computed) -> int:
    return int(jnp.dtype(one.dtype).itemsize)


def parameters_of(config: ModelConfig) -> int:
    """How many numbers a model has."""
    return sum(math.prod(shape) for _, shape in named(shapes(config)))


def trained_of(config: ModelConfig, lora_rank: int) -> int:
    """How many of them are trained: those of adapters, or all."""
    adapters = named(adapter_shapes(config, lora_rank))
    return sum(math.prod(shape) for _, shape in adapters) if lora_rank else parameters_of(config)


def sampling_bytes(config: ModelConfig, one: Computed) -> int:
    """Keys, values and tokens, the logits of a token or a slice of them, and what else is largest.

    That is half of the keys and values again while places move, or the inner arrays of a layer that reads the prompts,
    or on a CPU the bfloat16 weights as float32, and on one without products of bfloat16 what rollouts see of their
    prompts, and one layer's keys and values of their own. Where prompts wait, every row of places has keys and values
    of its prompt, ``joining`` prompts are read at a time, and one layer moves after the other.
    """
    rollouts, size = one.prompts * one.members, _itemsize(one)
    token = 2 * config.num_layers * config.num_kv_heads * config.head_dim * size
    kept = (one.prompts * one.before + rollouts * one.own) * token + DRAWN * rollouts * one.own
    moving = kept // (2 * config.num_layers) if one.joining else kept // 2
    prompts = one.joining or one.prompts
    read = int(READ * FLOAT * prompts * one.before * (config.hidden_size + config.intermediate_size))
    widened = FLOAT * parameters_of(config) if _computed(one) > size else 0
    if widened and not multiplies_bfloat16():
        of_layer = rollouts * one.own // config.num_layers
        widened += FLOAT * (one.prompts * one.before + of_layer) * token // size
    parts = parts_of(one.prompts, one.members) if one.platform == "cpu" else 1
    logits = LOGITS * FLOAT * parts * rows_at_once(-(-rollouts // parts), config.vocab_size) * config.vocab_size
    return kept + max(moving, read + one.joining * one.before * token, widened) + logits


def gradient_bytes(config: ModelConfig, one: Computed, arrays: Arrays = ARRAYS) -> int:
    """What the gradient of so many rollouts needs, itself among it, beside parameters and what is summed up.

    It needs most in the gradient of a layer, or in that of a slice of the logits:

        kept + max(layer, 2 logits) + gradient + weights

    *kept* is what all layers keep: without a loop all that their gradients need; in one what products of matrices gave,
    or with checkpointing their inputs alone. *layer* is what passes through one layer, and in a loop what its gradient
    needs too. Logits have a gradient of their own size. *weights* are those that are cast to bfloat16. Where prompts
    take turns, their sum is one more gradient. A CPU widens to float32, before it comes to them, what all layers keep
    and the weights, but not what is within a layer.
    """
    size, widened = _itemsize(one), _computed(one)
    completed = one.prompts * one.members * one.own
    tokens = one.prompts * one.before + completed
    pairs = one.prompts * one.before**2 + completed * (one.before + one.own)

    def of_layer(bytes_each: int, hidden: float, inner: float, seen: float) -> float:
        of_token = hidden * config.hidden_size + inner * config.intermediate_size
        return tokens * bytes_each * of_token + seen * FLOAT * config.num_heads * pairs

    more, more_products = (arrays.with_adapters, arrays.products_with_adapters) if one.lora_rank else (1.0, 1.0)
    layer = more * of_layer(size, arrays.passing, 0, 0)
    needs = arrays.hidden, arrays.inner, arrays.seen
    if unrolled(config, one.checkpointing):
        kept = more * of_layer(widened, *needs)
    else:
        products = more_products * of_layer(
            widened, arrays.hidden_products, arrays.inner_products, arrays.seen_products
        )
        kept = of_layer(widened, 1, 0, 0) if one.checkpointing else products
        layer += more * of_layer(size, *needs)
    logits = FLOAT * rows_at_once(completed, config.vocab_size) * config.vocab_size
    gradients = (1 + (one.turns > 1)) * FLOAT * trained_of(config, one.lora_rank)
    weights = widened * parameters_of(config) if size < FLOAT else 0
    return int(config.num_layers * kept + max(layer, 2 * logits) + gradients + weights)


def _computed(one: Computed) -> int:
    """Bytes of a number in a computation: on a CPU XLA computes in float32 where bfloat16 is asked for."""
    return FLOAT if one.platform == "cpu" else _itemsize(one)


@functools.cache
def multiplies_bfloat16() -> bool:
    """Whether XLA multiplies bfloat16 as it is on this CPU, or widens it to float32 before."""
    matrices = (jnp.zeros(shape, jnp.bfloat16) for shape in ((2, 8, 64), (2, 64, 32)))
    program = jax.jit(lambda one, other: jnp.einsum("bre,bec->brc", one, other)).lower(*matrices).compile()
    return "f32[2,64,32]" not in str(program.as_text())


def in_words(needed: Mapping[str, int]) -> str:
    """One line.

    >>> in_words({"parameters": 3 * 2**20, "gradients": 2**20})
    'memory: about 4 MiB (parameters 3 MiB, gradients 1 MiB)'
    """
    parts = ", ".join(f"{name} {size_in_words(size)}" for name, size in needed.items())
    return f"memory: about {size_in_words(sum(needed.values()))} ({parts})"


def size_in_words(size: int) -> str:
    """Bytes in MiB or GiB."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def check_memory(needed: Mapping[str, int], available: int | None) -> None:
    """Raise ``InputError`` if more is needed than there is; what is there may be unknown."""
    if available is not None and sum(needed.values()) > available:
        largest = max(needed, key=lambda name: needed[name])
        raise InputError(
            f"{in_words(needed)}, but {size_in_words(available)} are free; allowed: less (most is for {largest}), by a "
            "smaller rl.microbatch, rl.prompts, evaluation.rollouts or model"
        )
