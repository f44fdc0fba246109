"""Estimate the memory of a run before its first step, to about 25 %."""

import dataclasses
import math
from typing import Any

import jax

from simlab.interference.head import PROJECTED
from simlab.llm.batch_layout import batch_size, rounded_length, rounded_up
from simlab.llm.completions import unrolled
from simlab.llm.config import ModelConfig
from simlab.llm.lora import adapter_shapes
from simlab.llm.model import named, rows_at_once, shapes
from simlab.llm.training.features import gradients_at_once
from simlab.llm.training.gradient import tokens_at_once, turns
from simlab.llm.training.settings import PolicyGradientSettings, ProbeSettings, TrainingSettings
from simlab.simulator.settings import NO_REMEDY

FLOAT, MIB = 4, 2**20  # bytes
PROCESS, PROCESS_LAYER = 750 * MIB, 25 * MIB  # Python, JAX, the compiler, and compiled programs of each layer
# Arrays of a layer that a gradient needs: of hidden size, of inner size, and of attention weights. A loop over layers
# stores the products of matrices (with adapters 1.75 times as many), and computes the rest of a layer a second time.
ALL, PRODUCTS, INPUTS = (6.7, 5.2, 3.65), (4.7, 1.6, 1.4), (1.0, 0.0, 0.0)
ADAPTER_PRODUCTS, PASSING, LOGITS = 1.75, 5.0, 4  # PASSING: only in one layer's gradient; LOGITS: while sampling
FEATURES = 3  # times that the features of rollouts are there: of batch and panel, of both, and of those that exist
Sizes = tuple[int, int]


def count_parameters(config: ModelConfig, lora_rank: int = 0) -> int:
    """Return the number of parameters of a model, or of adapters to it."""
    tree = adapter_shapes(config, lora_rank) if lora_rank else shapes(config)
    return sum(math.prod(shape) for _, shape in named(tree))


def needed_memory(
    settings: TrainingSettings, config: ModelConfig, lengths: Sizes, problems: int, platform: str = ""
) -> dict[str, int]:
    """Return the bytes of a run by their purpose, while it trains the arm that needs most.

        memory = model, now and at the start + AdamW's two moments + max(sampling, gradient, update, probe)
                 + process on a CPU

    ``lengths`` are the most tokens of a prompt and a completion, ``problems`` those of the largest evaluation set.
    """
    platform, model, evaluation = platform or jax.default_backend(), settings.model, settings.evaluation
    rank = 0 if settings.warm_start.steps else model.lora_rank  # a warm start trains all parameters
    weights, trained = FLOAT * count_parameters(config), FLOAT * count_parameters(config, rank)
    size = FLOAT if platform == "cpu" or model.dtype == "float32" else 2  # XLA widens bfloat16 on a CPU
    cast = 0 if model.dtype == "float32" else size * count_parameters(config)
    copies = size * count_parameters(config) + cast + (weights if rank else 0)  # of layers; of merged adapters
    lengths = rounded_length(lengths[0]), rounded_up(lengths[1])

    def sampling(prompts: int, samples: int, at_once: int) -> int:
        rows, width, _ = batch_size(prompts, samples, at_once)
        cache = 2 * config.num_layers * config.num_kv_heads * config.head_dim * size
        cache *= rows * (lengths[0] + width * lengths[1])  # and half of it is copied when rollouts move together
        return 3 * cache // 2 + LOGITS * FLOAT * rows_at_once(rows * width, config.vocab_size) * config.vocab_size

    evaluated = sampling(problems, evaluation.samples, evaluation.rollouts)

    def estimate(rl: PolicyGradientSettings) -> dict[str, int]:
        members, prompts = min(rl.group_size, rl.microbatch), rl.prompts // rl.minibatches
        height = max(1, min(prompts, rl.microbatch // members))
        count = math.ceil(prompts / height) * math.ceil(rl.group_size / members)
        height, members = rounded_up(height), rounded_up(members)
        height //= turns((height, members, lengths[1]), tokens_at_once(platform))
        how: Any = {"checkpointing": model.gradient_checkpointing, "lora_rank": rank}
        gradient = min(count, 3) * trained + cast + activation_bytes(config, (height, members), lengths, size, **how)
        samples = [evaluated, sampling(rl.prompts, rl.group_size, rl.rollouts)]
        phases = {"gradient of a microbatch": gradient, "update": 2 * trained}
        probe = settings.probe if settings.probe.every else dataclasses.replace(settings.probe, panel=0)
        if probe.every or rl.remedy != NO_REMEDY:
            samples.append(sampling(probe.panel, probe.rollouts, rl.rollouts))
            rollout = gradients_at_once(trained // FLOAT, rl.microbatch, platform)
            passes = rollout * (2 * trained + activation_bytes(config, (1, 1), lengths, size, **how))
            features = probe_bytes(probe, rl, config, trained // FLOAT)
            phases["probe"] = trained + cast + passes + features
        phases["sampling"] = copies + max(samples)
        largest = max(phases, key=lambda name: phases[name])
        process = PROCESS + PROCESS_LAYER * config.num_layers if platform == "cpu" else 0
        moments = 2 * trained if rl.optimizer == "adamw" else 0
        needed = {"model": weights if rank else 0, "parameters": (2 + rl.lag) * trained, "AdamW": moments}
        return {name: size for name, size in (needed | {largest: phases[largest], "process": process}).items() if size}

    return max(map(estimate, map(settings.arm_rl, settings.arms)), key=lambda needed: sum(needed.values()))


def probe_bytes(probe: ProbeSettings, rl: PolicyGradientSettings, config: ModelConfig, trained: int) -> int:
    """Return the bytes of the features of all rollouts that a probe compares; ``trained`` are the parameters."""
    rollouts = (rl.prompts + probe.panel) * max(rl.group_size, probe.rollouts if probe.panel else 0)
    numbers = {
        "full": probe.sketch * (config.num_layers + 1) or trained,
        "head": config.hidden_size * min(config.vocab_size, PROJECTED),
    }
    return FEATURES * FLOAT * rollouts * max(numbers[name] for name in probe.estimators)


def activation_bytes(
    config: ModelConfig, batch: Sizes, lengths: Sizes, size: int, *, checkpointing: bool = False, lora_rank: int = 0
) -> int:
    """Return the bytes that a gradient of a batch (P, G) needs beside parameters; ``size`` is that of a number."""
    prompts, completed = batch[0] * lengths[0], batch[0] * batch[1] * lengths[1]
    pairs = prompts * lengths[0] + completed * sum(lengths)

    def layer(hidden: float, inner: float, attention: float) -> float:
        width = hidden * config.hidden_size + inner * config.intermediate_size
        return size * (prompts + completed) * width + FLOAT * attention * config.num_heads * pairs

    stored = INPUTS if checkpointing else ALL if unrolled(config, checkpointing) else PRODUCTS
    one_layer = layer(PASSING, 0, 0) + (0 if stored is ALL else layer(*ALL))
    adapters = ADAPTER_PRODUCTS if lora_rank and stored is PRODUCTS else 1.0
    logits = FLOAT * rows_at_once(completed, config.vocab_size) * config.vocab_size
    return int(config.num_layers * adapters * layer(*stored) + max(one_layer, 2 * logits))
