"""Estimate how much memory a run needs, before it is used: the large arrays count, what XLA adds or shares does not."""

import math
from collections.abc import Mapping

import jax.numpy as jnp

from simlab.errors import InputError
from simlab.llm.config import ModelConfig
from simlab.llm.model import named, shapes
from simlab.llm.sampling import rounded_length, rounded_up
from simlab.llm.training.settings import Settings

FLOAT = 4
KEPT_WIDTHS, KEPT_INNER, KEPT_WEIGHTS = 10, 5, 3  # arrays that a layer keeps for its gradient, by their size
LOGITS = 4  # arrays of the size of the logits at once


def needed_memory(settings: Settings, config: ModelConfig, prompt: int, completion: int) -> dict[str, int]:
    """Bytes of the large arrays of a run, by what they are for.

    Args:
        settings: of the run.
        config: of its model.
        prompt: tokens of the longest prompt.
        completion: most tokens of a completion.
    """
    rl, evaluation = settings.rl, settings.evaluation
    weights = FLOAT * sum(math.prod(shape) for _, shape in named(shapes(config)))
    batch = rounded_up(rl.prompts_at_once), rounded_up(rl.group_size)
    judged = rounded_up(max(1, evaluation.rollouts // evaluation.samples)), rounded_up(evaluation.samples)
    return {
        "parameters, start and update": 3 * weights,
        "gradients": 2 * weights,
        "AdamW": 2 * weights,
        **({"older samplers": rl.lag * weights} if rl.lag else {}),
        # The sampler takes the layers apart, which copies them.
        "sampling": weights + max(_sampling(config, prompt, completion, *places) for places in (batch, judged)),
        "gradient of a microbatch": _microbatch(config, settings, prompt, completion),
    }


def _sampling(config: ModelConfig, prompt: int, completion: int, prompts: int, group_size: int) -> int:
    """Keys and values of prompts and completions, twice while places move, and the logits of a token."""
    own = 2 * config.num_layers * config.num_kv_heads * config.head_dim * FLOAT
    tokens = prompts * (rounded_length(prompt) + group_size * rounded_up(completion))
    return 2 * own * tokens + LOGITS * FLOAT * prompts * group_size * config.vocab_size


def _microbatch(config: ModelConfig, settings: Settings, prompt: int, completion: int) -> int:
    """What the layers keep for the gradient, and the logits."""
    rl = settings.rl
    width = min(rl.group_size, rl.microbatch)
    rows, members = rounded_up(max(1, min(rl.prompts, rl.microbatch // width))), rounded_up(width)
    before, own = rounded_length(prompt), rounded_up(completion)
    size = jnp.dtype(settings.model.dtype).itemsize
    a_token = (KEPT_WIDTHS * config.hidden_size + KEPT_INNER * config.intermediate_size) * size
    seen = config.num_heads * rows * (before**2 + members * own * (before + own)) * FLOAT
    tokens = rows * (before + members * own)
    logits = LOGITS * FLOAT * rows * members * own * config.vocab_size
    return config.num_layers * (tokens * a_token + KEPT_WEIGHTS * seen) + logits


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
