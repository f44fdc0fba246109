"""Estimate how much memory a run needs, before any of it is used."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from simlab.errors import InputError
from simlab.llm.config import ModelConfig
from simlab.llm.model import named, shapes
from simlab.llm.sampling import rounded_length, rounded_up
from simlab.llm.training.settings import Settings

FLOAT = 4
# How many arrays of each kind of ``gradient_parts`` the gradient needs, fitted to XLA's own numbers by
# ``python -m benchmarks.training_memory --fit``; READ is what reading a prompt needs of its inner arrays, fitted too.
KEPT = (7.4, 7.6, 3.1, 1.4, 2.5)
READ = 3.2
DRAWN = 13  # bytes that are kept of a drawn token: itself, its mask, log-probability and entropy
LOGITS = 4  # arrays of the size of a token's logits at once
PROGRAMS = 700 * 2**20  # bytes of a process that computes next to nothing on the CPU: Python, JAX and what it compiles


class Computed(NamedTuple):
    """What is computed at once.

    Attributes:
        prompts: P.
        members: rollouts of each, G.
        before: tokens of a prompt.
        own: tokens of a rollout.
        dtype: that the model computes in.
    """

    prompts: int
    members: int
    before: int
    own: int
    dtype: str


def needed_memory(settings: Settings, config: ModelConfig, prompt: int, completion: int) -> dict[str, int]:
    """Bytes of a run, by what they are for.

    Args:
        settings: of the run.
        config: of its model.
        prompt: tokens of the longest prompt.
        completion: most tokens of a completion.
    """
    rl, evaluation, dtype = settings.rl, settings.evaluation, settings.model.dtype
    weights = FLOAT * parameters_of(config)
    batch = rl.prompts_at_once, rl.group_size
    judged = max(1, evaluation.rollouts // evaluation.samples), evaluation.samples
    width = min(rl.group_size, rl.microbatch)
    learnt = max(1, min(rl.prompts, rl.microbatch // width)), width

    def rounded(places: tuple[int, int]) -> Computed:
        lengths = rounded_length(prompt), rounded_up(completion)
        return Computed(rounded_up(places[0]), rounded_up(places[1]), *lengths, dtype)

    return {
        "parameters, start and update": 3 * weights,
        "gradients": 2 * weights,
        "AdamW": 2 * weights,
        **({"older samplers": rl.lag * weights} if rl.lag else {}),
        # The sampler takes the layers apart, which copies them.
        "sampling": weights + max(sampling_bytes(config, rounded(places)) for places in (batch, judged)),
        "gradient of a microbatch": gradient_bytes(config, rounded(learnt)),
        **({"programs": PROGRAMS} if jax.default_backend() == "cpu" else {}),
    }


def parameters_of(config: ModelConfig) -> int:
    """How many numbers a model has."""
    return sum(math.prod(shape) for _, shape in named(shapes(config)))


def sampling_bytes(config: ModelConfig, one: Computed) -> int:
    """Keys, values and tokens, the logits of a token, and what else is largest.

    That is half of the keys and values again while places move, or the inner arrays of a layer that reads the prompts,
    or on a CPU the bfloat16 weights as float32.
    """
    rollouts, size = one.prompts * one.members, jnp.dtype(one.dtype).itemsize
    token = 2 * config.num_layers * config.num_kv_heads * config.head_dim * size
    kept = (one.prompts * one.before + rollouts * one.own) * token + DRAWN * rollouts * one.own
    read = int(READ * FLOAT * one.prompts * one.before * (config.hidden_size + config.intermediate_size))
    weights = FLOAT * parameters_of(config) if _computed(one.dtype) > size else 0
    return kept + max(kept // 2, read, weights) + LOGITS * FLOAT * rollouts * config.vocab_size


def gradient_bytes(config: ModelConfig, one: Computed) -> int:
    """What the gradient of so many rollouts needs beside parameters and what is summed up."""
    parts = gradient_parts(config, one)
    return int(sum(constant * part for constant, part in zip(KEPT, parts, strict=True)))


def gradient_parts(config: ModelConfig, one: Computed) -> tuple[int, ...]:
    """Bytes of one array of each kind.

    Hidden states and the inner ones of the feed-forward parts, both of all layers; attention weights of all layers; the
    logits of the completions; and the parameters.
    """
    completed = one.prompts * one.members * one.own
    tokens = config.num_layers * (one.prompts * one.before + completed)
    pairs = one.prompts * one.before**2 + completed * (one.before + one.own)
    seen, logits = config.num_layers * config.num_heads * pairs, completed * config.vocab_size
    of_tokens = [tokens * wide * _computed(one.dtype) for wide in (config.hidden_size, config.intermediate_size)]
    return *of_tokens, seen * FLOAT, logits * FLOAT, parameters_of(config) * FLOAT


def _computed(dtype: str) -> int:
    """Bytes of a number in a computation: on a CPU XLA computes in float32 where bfloat16 is asked for."""
    return FLOAT if jax.default_backend() == "cpu" else jnp.dtype(dtype).itemsize


def in_words(needed: Mapping[str, int]) -> str:
    """One line.

    >>> in_words({"parameters": 3 * 2**20, "gradients": 2**20})
    'memory: about 4 MiB (parameters 3 MiB, gradients 1 MiB)'
    """
    parts = ", ".join(f"{name} {_size(size)}" for name, size in needed.items())
    return f"memory: about {_size(sum(needed.values()))} ({parts})"


def _size(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def check_memory(needed: Mapping[str, int], available: int | None) -> None:
    """Raise ``InputError`` if more is needed than there is; what is there may be unknown."""
    if available is not None and sum(needed.values()) > available:
        largest = max(needed, key=lambda name: needed[name])
        raise InputError(
            f"{in_words(needed)}, but {_size(available)} are free; allowed: less (most is for {largest}), by a smaller "
            "rl.microbatch, rl.prompts, evaluation.rollouts or model"
        )
