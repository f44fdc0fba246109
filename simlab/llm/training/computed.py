"""Tell what an arm computes at once, of which its memory is a function."""

import math
from typing import NamedTuple

from simlab.llm.places import Size, batch_size, rounded_length, rounded_up
from simlab.llm.training.microbatches import tokens_at_once, turns
from simlab.llm.training.settings import Settings


class Computed(NamedTuple):
    """What is computed at once.

    Attributes:
        prompts: P; of a gradient, those of one turn.
        members: rollouts of each, G.
        before: tokens of a prompt.
        own: tokens of a rollout.
        dtype: that the model computes in.
        checkpointing: whether a gradient keeps the inputs of layers alone.
        lora_rank: the rank of the adapters that are trained; 0 where all parameters are.
        platform: of JAX, such as "cpu" or "gpu".
        joining: of rollouts, prompts that join at a time where others wait; 0 where none waits.
        turns: of a program, one after the other, each of so many prompts.
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
    turns: int = 1


class AtOnce(NamedTuple):
    """What an arm computes at once.

    Attributes:
        sampled: rollouts of a step.
        judged: rollouts of an evaluation.
        learnt: rollouts whose gradient is computed.
        microbatches: gradients that are summed up for an update.
    """

    sampled: Computed
    judged: Computed
    learnt: Computed
    microbatches: int


def at_once(settings: Settings, prompt: int, completion: int, problems: int, platform: str) -> AtOnce:
    """What an arm computes at once; the arguments are those of ``simlab.llm.training.memory.needed_memory``."""
    rl, evaluation = settings.rl, settings.evaluation
    width = min(rl.group_size, rl.microbatch)
    prompts = rl.prompts // rl.minibatches
    height = max(1, min(prompts, rl.microbatch // width))

    def computed(size: Size, dtype: str) -> Computed:
        return Computed(
            size.rows,
            size.width,
            rounded_length(prompt),
            rounded_up(completion),
            dtype,
            settings.model.gradient_checkpointing,
            rank_of(settings),
            platform,
            size.joining,
        )

    own = settings.model.dtype
    sampler = own if rl.sampler == "exact" else rl.sampler
    return AtOnce(
        sampled=computed(batch_size(rl.prompts, rl.group_size, rl.rollouts), sampler),
        judged=computed(batch_size(problems, evaluation.samples, evaluation.rollouts), own),
        learnt=_in_turns(computed(batch_size(height, width), own)),
        microbatches=math.ceil(prompts / height) * math.ceil(rl.group_size / width),
    )


def _in_turns(one: Computed) -> Computed:
    """A gradient as it is computed: on a CPU a few of its prompts at a time."""
    count = turns((one.prompts, one.members, one.own), tokens_at_once(one.platform))
    return one._replace(prompts=one.prompts // count, turns=count)


def rank_of(settings: Settings) -> int:
    """That of the adapters; a warm start trains all parameters."""
    return 0 if settings.warm_start.steps else settings.model.lora_rank
