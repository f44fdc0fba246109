"""Estimate the memory and the disk that a run needs, before any of it is used; memory to about 25 %."""

import math
import shutil
from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp

from simlab.errors import InputError
from simlab.llm.batch_layout import batch_size, rounded_length, rounded_up
from simlab.llm.completions import unrolled
from simlab.llm.config import ModelConfig
from simlab.llm.logit_slices import rows_at_once
from simlab.llm.lora import adapter_shapes
from simlab.llm.model import named, shapes
from simlab.llm.training.microbatches import tokens_at_once, turns
from simlab.llm.training.settings import PolicyGradientSettings, TrainingSettings

FLOAT = 4  # bytes
MIB = 2**20
PROCESS, PROCESS_LAYER = 750 * MIB, 25 * MIB  # Python, JAX, the compiler, and compiled programs of each layer
# Arrays of a layer that a gradient needs: of hidden size, of inner size, and of attention weights. A loop over layers
# stores the products of matrices, and computes the rest of a layer a second time.
ALL, PRODUCTS, INPUTS = (6.7, 5.2, 3.65), (4.7, 1.6, 1.4), (1.0, 0.0, 0.0)
ADAPTER_PRODUCTS = 1.75  # times as many products with adapters
PASSING = 5.0  # arrays of hidden size that exist only while one layer's gradient is computed
LOGITS = 4  # arrays of the logits of a token that sampling needs
TEXT = 50  # bytes of a token in a record of rollouts


def count_parameters(config: ModelConfig) -> int:
    """Return the number of parameters of a model."""
    return sum(math.prod(shape) for _, shape in named(shapes(config)))


def count_trained(config: ModelConfig, lora_rank: int) -> int:
    """Return the number of trained parameters: those of adapters, or all."""
    if not lora_rank:
        return count_parameters(config)
    return sum(math.prod(shape) for _, shape in named(adapter_shapes(config, lora_rank)))


def needed_memory(
    settings: TrainingSettings,
    config: ModelConfig,
    prompt: int,
    completion: int,
    problems: int,
    *,
    platform: str | None = None,
) -> dict[str, int]:
    """Return the bytes of a run by their purpose, while it trains the arm that needs most.

        memory = copies of parameters + max(sampling, gradient, update) + process

    Parameters are stored four times: of the start, of now, and as AdamW's two moments. On a CPU the process itself
    counts too.

    Args:
        settings: the settings of the run.
        config: the config of its model.
        prompt: tokens of the longest prompt.
        completion: most tokens of a completion.
        problems: problems of the largest evaluation set.
        platform: platform of the run, such as "gpu"; by default that of this process.
    """
    platform = platform or jax.default_backend()
    model, evaluation = settings.model, settings.evaluation
    rank = 0 if settings.warm_start.steps else model.lora_rank  # a warm start trains all parameters
    weights, trained = FLOAT * count_parameters(config), FLOAT * count_trained(config, rank)
    size = FLOAT if platform == "cpu" else jnp.dtype(model.dtype).itemsize  # XLA widens bfloat16 on a CPU
    cast = 0 if model.dtype == "float32" else size * count_parameters(config)
    copies = size * count_parameters(config) + cast + (weights if rank else 0)  # of layers; of merged adapters
    lengths = rounded_length(prompt), rounded_up(completion)

    def estimate(rl: PolicyGradientSettings) -> dict[str, int]:
        batches = [(rl.prompts, rl.group_size, rl.rollouts), (problems, evaluation.samples, evaluation.rollouts)]
        prompts, members, count = _microbatch_shape(rl, lengths[1], platform)
        phases = {
            "sampling": copies + max(sampling_bytes(config, batch, lengths, size) for batch in batches),
            "gradient of a microbatch": min(count, 3) * trained
            + cast
            + activation_bytes(
                config, (prompts, members), lengths, size, checkpointing=model.gradient_checkpointing, lora_rank=rank
            ),
            "update": 2 * trained,
        }
        largest = max(phases, key=lambda name: phases[name])
        return {
            **({"model": weights} if rank else {}),
            "parameters": (2 + rl.lag) * trained,
            "AdamW": 2 * trained,
            largest: phases[largest],
            **({"process": PROCESS + PROCESS_LAYER * config.num_layers} if platform == "cpu" else {}),
        }

    arms = [estimate(settings.arm_rl(name)) for name in settings.arms]
    return max(arms, key=lambda needed: sum(needed.values()))


def _microbatch_shape(rl: PolicyGradientSettings, completion: int, platform: str) -> tuple[int, int, int]:
    """Return prompts and rollouts whose gradient is computed at once, and the microbatches of an update."""
    members = min(rl.group_size, rl.microbatch)
    prompts = rl.prompts // rl.minibatches
    height = max(1, min(prompts, rl.microbatch // members))
    count = math.ceil(prompts / height) * math.ceil(rl.group_size / members)
    height, members = rounded_up(height), rounded_up(members)
    return height // turns((height, members, completion), tokens_at_once(platform)), members, count


def sampling_bytes(config: ModelConfig, batch: tuple[int, int, int], lengths: tuple[int, int], size: int) -> int:
    """Return the bytes of keys, values and logits while rollouts are sampled.

    Half of the keys and values are copied when rollouts move together.

    Args:
        config: the config of the model.
        batch: prompts, rollouts of each, and the most rollouts at once.
        lengths: tokens of a prompt and of a completion.
        size: bytes of a number.
    """
    rows, width, _ = batch_size(*batch)
    tokens = rows * (lengths[0] + width * lengths[1])
    cache = 2 * config.num_layers * config.num_kv_heads * config.head_dim * size * tokens
    logits = LOGITS * FLOAT * rows_at_once(rows * width, config.vocab_size) * config.vocab_size
    return 3 * cache // 2 + logits


def activation_bytes(
    config: ModelConfig,
    batch: tuple[int, int],
    lengths: tuple[int, int],
    size: int,
    *,
    checkpointing: bool = False,
    lora_rank: int = 0,
) -> int:
    """Return the bytes that a gradient needs beside parameters: what all layers store, and the largest of the others.

    The largest is the gradient of one layer, or the logits with their gradient.

    Args:
        config: the config of the model.
        batch: prompts, and rollouts of each.
        lengths: tokens of a prompt and of a completion.
        size: bytes of a number.
        checkpointing: True if layers store only their inputs.
        lora_rank: the rank of adapters, whose products are stored too; 0 for none.
    """
    prompts, (prompt, completion) = batch[0], lengths
    completed = prompts * batch[1] * completion
    tokens = prompts * prompt + completed
    pairs = prompts * prompt**2 + completed * (prompt + completion)

    def layer(hidden: float, inner: float, attention: float) -> float:
        width = hidden * config.hidden_size + inner * config.intermediate_size
        return size * tokens * width + FLOAT * attention * config.num_heads * pairs

    stored = INPUTS if checkpointing else ALL if unrolled(config, checkpointing) else PRODUCTS
    one_layer = layer(PASSING, 0, 0) + (0 if stored is ALL else layer(*ALL))
    adapters = ADAPTER_PRODUCTS if lora_rank and stored is PRODUCTS else 1.0
    logits = FLOAT * rows_at_once(completed, config.vocab_size) * config.vocab_size
    return int(config.num_layers * adapters * layer(*stored) + max(one_layer, 2 * logits))


def describe_memory(needed: Mapping[str, int]) -> str:
    """Describe the memory in one line.

    >>> describe_memory({"parameters": 3 * 2**20, "gradients": 2**20})
    'memory: about 4 MiB (parameters 3 MiB, gradients 1 MiB)'
    """
    return f"memory: about {format_bytes(sum(needed.values()))} ({_list_bytes(needed)})"


def check_memory(needed: Mapping[str, int], available: int | None) -> None:
    """Raise ``InputError`` if more memory is needed than is available; None for an unknown amount."""
    if available is not None and sum(needed.values()) > available:
        largest = max(needed, key=lambda name: needed[name])
        raise InputError(
            f"{describe_memory(needed)}, but {format_bytes(available)} are free; allowed: less (most is for "
            f"{largest}), by a smaller rl.microbatch, rl.prompts, evaluation.rollouts or model"
        )


def needed_disk(settings: TrainingSettings, config: ModelConfig, completion: int) -> dict[str, int]:
    """Return the bytes of a run's large files: models, checkpoints of parameters and moments, and texts of rollouts.

    A checkpoint is written beside the former one, so that the last one counts twice.

    Args:
        settings: the settings of the run.
        config: the config of its model.
        completion: most tokens of a completion.
    """
    weights, record = FLOAT * count_parameters(config), settings.record
    arms = [settings.arm_rl(name) for name in settings.arms]
    checkpoints = [(3 + rl.lag) * FLOAT * count_trained(config, settings.model.lora_rank) for rl in arms]
    if settings.warm_start.steps:
        checkpoints.append(3 * weights)
    models = settings.seeds * (len(arms) + (settings.warm_start.steps > 0)) * weights
    stored = settings.seeds * sum(checkpoints) if record.keep_checkpoint else max(checkpoints)
    tokens = (
        settings.seeds * completion * sum(rl.steps * min(record.rollouts, rl.prompts * rl.group_size) for rl in arms)
    )
    return {"models": models, "checkpoints": stored + max(checkpoints), "rollouts, up to": TEXT * tokens}


def describe_disk(needed: Mapping[str, int], out: Path) -> str:
    """Describe the disk in one line, and the free space where a folder is or will be."""
    folder = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    free, total = shutil.disk_usage(folder).free, sum(needed.values())
    only = "only " if free < total else ""
    return f"disk: about {format_bytes(total)} ({_list_bytes(needed)}); {only}{format_bytes(free)} are free"


def format_bytes(size: int) -> str:
    """Format a number of bytes in MiB or GiB."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / MIB:.0f} MiB"


def _list_bytes(needed: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {format_bytes(size)}" for name, size in needed.items())
