"""Estimate how much memory a run needs, before any of it is used."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from simlab.errors import InputError
from simlab.llm.completions import unrolled
from simlab.llm.config import ModelConfig
from simlab.llm.lora import adapter_shapes
from simlab.llm.model import named, shapes
from simlab.llm.output import rows_at_once
from simlab.llm.places import Size, batch_size, parts_of, rounded_length, rounded_up
from simlab.llm.training.settings import Settings

FLOAT = 4
READ = 3.2  # times the inner arrays of a layer: what reading a prompt needs
DRAWN = 13  # bytes that are kept of a drawn token: itself, its mask, log-probability and entropy
LOGITS = 4  # arrays of the size of a token's logits at once
# Bytes of a process on the CPU that computes next to nothing, with no program compiled before.
PROCESS = 375 * 2**20  # when all that the command needs is imported
# That XLA has compiled the first programs with, most of it the gradient's, and does not give back.
COMPILER = 350 * 2**20
SHAPE = 25 * 2**20  # of the programs for each shape of rollouts that are sampled or learnt from


class Arrays(NamedTuple):
    """How many arrays of each kind a gradient holds: see ``gradient_bytes``.

    They are fitted to XLA's own numbers by ``python -m benchmarks.training_memory --fit``.

    Attributes:
        hidden: of the size of the hidden states, that a layer keeps for its gradient.
        inner: of the size of the inner states of its feed-forward part, that it keeps.
        seen: of the size of its attention weights, that it keeps.
        passing: of the size of the hidden states, that come and go while one layer's gradient is computed.
        gradients: of the size of what is trained, where layers are computed in a loop: the gradient, and most of it
            once more while it is summed up.
        with_adapters: how many times as much of the layers' arrays there are where adapters stand beside the matrices.
    """

    hidden: float = 8.0
    inner: float = 5.25
    seen: float = 3.5
    passing: float = 7.5
    gradients: float = 1.85
    with_adapters: float = 1.1


ARRAYS = Arrays()


class Computed(NamedTuple):
    """What is computed at once.

    Attributes:
        prompts: P.
        members: rollouts of each, G.
        before: tokens of a prompt.
        own: tokens of a rollout.
        dtype: that the model computes in.
        checkpointing: whether a gradient keeps the inputs of layers alone.
        lora_rank: the rank of the adapters that are trained; 0 where all parameters are.
        platform: of JAX, such as "cpu" or "gpu".
        joining: of rollouts, prompts that join at a time where others wait; 0 where none waits.
    """

    prompts: int
    members: int
    before: int
    own: int
    dtype: str
    checkpointing: bool = False
    lora_rank: int = 0
    platform: str = "cpu"
    joining: int = 0


class AtOnce(NamedTuple):
    """What an arm computes at once.

    Attributes:
        sampled: rollouts of a step.
        judged: rollouts of an evaluation.
        learnt: rollouts whose gradient is computed.
    """

    sampled: Computed
    judged: Computed
    learnt: Computed


def needed_memory(
    settings: Settings, config: ModelConfig, prompt: int, completion: int, problems: int, *, platform: str | None = None
) -> dict[str, int]:
    """Bytes of a run while it trains the arm that needs most, by what they are for.

    On a CPU those of the process itself count too. It keeps the programs of all arms, one for each shape.

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
    each = [_at_once(arm, prompt, completion, problems, platform) for arm in arms]
    needed = [_of_arm(arm, config, own) for arm, own in zip(arms, each, strict=True)]
    shapes = {(kind, one) for own in each for kind, one in zip(("sample", "sample", "learn"), own, strict=True)}
    most = max(needed, key=lambda parts: sum(parts.values()))
    process = {"Python and JAX": PROCESS, "compiling": COMPILER + SHAPE * len(shapes)}
    return most | process if platform == "cpu" else most


def _at_once(settings: Settings, prompt: int, completion: int, problems: int, platform: str) -> AtOnce:
    rl, evaluation = settings.rl, settings.evaluation
    width = min(rl.group_size, rl.microbatch)

    def computed(size: Size) -> Computed:
        return Computed(
            size.rows,
            size.width,
            rounded_length(prompt),
            rounded_up(completion),
            settings.model.dtype,
            settings.model.gradient_checkpointing,
            _rank(settings),
            platform,
            size.joining,
        )

    return AtOnce(
        sampled=computed(batch_size(rl.prompts, rl.group_size, rl.rollouts)),
        judged=computed(batch_size(problems, evaluation.samples, evaluation.rollouts)),
        learnt=computed(batch_size(max(1, min(rl.prompts, rl.microbatch // width)), width)),
    )


def _rank(settings: Settings) -> int:
    """That of the adapters; a warm start trains all parameters."""
    return 0 if settings.warm_start.steps else settings.model.lora_rank


def _of_arm(settings: Settings, config: ModelConfig, own: AtOnce) -> dict[str, int]:
    rl, rank = settings.rl, _rank(settings)
    weights, trained = FLOAT * parameters_of(config), FLOAT * trained_of(config, rank)
    return {
        **({"model": weights} if rank else {}),
        "adapters, start and update" if rank else "parameters, start and update": 3 * trained,
        "gradients": 2 * trained,
        "AdamW": 2 * trained,
        **({"older samplers": rl.lag * trained} if rl.lag else {}),
        # Adapters are merged to be evaluated.
        **({"merged model": weights} if rank else {}),
        # The sampler takes the layers apart, which copies them.
        "sampling": weights + max(sampling_bytes(config, one) for one in (own.sampled, own.judged)),
        "gradient of a microbatch": gradient_bytes(config, own.learnt),
    }


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
    or on a CPU the bfloat16 weights as float32. Where prompts wait, every row of places has keys and values of its
    prompt, ``joining`` prompts are read at a time, and one layer moves after the other.
    """
    rollouts, size = one.prompts * one.members, jnp.dtype(one.dtype).itemsize
    token = 2 * config.num_layers * config.num_kv_heads * config.head_dim * size
    kept = (one.prompts * one.before + rollouts * one.own) * token + DRAWN * rollouts * one.own
    moving = kept // (2 * config.num_layers) if one.joining else kept // 2
    prompts = one.joining or one.prompts
    read = int(READ * FLOAT * prompts * one.before * (config.hidden_size + config.intermediate_size))
    weights = FLOAT * parameters_of(config) if _computed(one) > size else 0
    parts = parts_of(one.prompts, one.members) if one.platform == "cpu" else 1
    logits = LOGITS * FLOAT * parts * rows_at_once(-(-rollouts // parts), config.vocab_size) * config.vocab_size
    return kept + max(moving, read + one.joining * one.before * token, weights) + logits


def gradient_bytes(config: ModelConfig, one: Computed, arrays: Arrays = ARRAYS) -> int:
    """What the gradient of so many rollouts needs beside parameters and what is summed up.

    It needs most in the gradient of a layer, or in that of a slice of the logits:

        kept + max(layer, 2 logits) + gradients + weights

    *kept* is what all layers keep, or with checkpointing their inputs alone. *layer* is what passes through one layer,
    and with checkpointing what it keeps too. Logits have a gradient of their own size. *weights* are those that are
    cast to bfloat16. A CPU widens to float32, before it comes to them, what all layers keep and the weights, but not
    what is within a layer.
    """
    size, widened = jnp.dtype(one.dtype).itemsize, _computed(one)
    completed = one.prompts * one.members * one.own
    tokens = one.prompts * one.before + completed
    pairs = one.prompts * one.before**2 + completed * (one.before + one.own)

    def kept(bytes_each: int) -> float:
        of_token = arrays.hidden * config.hidden_size + arrays.inner * config.intermediate_size
        return tokens * bytes_each * of_token + arrays.seen * FLOAT * config.num_heads * pairs

    more = arrays.with_adapters if one.lora_rank else 1.0
    layer = more * arrays.passing * tokens * size * config.hidden_size
    if one.checkpointing:
        whole, layer = float(tokens * widened * config.hidden_size), layer + more * kept(size)
    else:
        whole = more * kept(widened)
    logits = FLOAT * rows_at_once(completed, config.vocab_size) * config.vocab_size
    copies = 1.0 if unrolled(config, one.checkpointing) else arrays.gradients
    gradients = copies * FLOAT * trained_of(config, one.lora_rank)
    weights = widened * parameters_of(config) if size < FLOAT else 0
    return int(config.num_layers * whole + max(layer, 2 * logits) + gradients + weights)


def _computed(one: Computed) -> int:
    """Bytes of a number in a computation: on a CPU XLA computes in float32 where bfloat16 is asked for."""
    return FLOAT if one.platform == "cpu" else jnp.dtype(one.dtype).itemsize


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
