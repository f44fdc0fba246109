"""Say how much disk a run needs, before any of it is used."""

import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from simlab.llm.config import ModelConfig
from simlab.llm.training.memory import FLOAT, parameters_of, size_in_words, trained_of
from simlab.llm.training.settings import Settings

ADAMW = 2  # moments of each parameter
ROLLOUT, TOKEN = 100, 50  # bytes of a kept rollout, and of each of its tokens: its text twice and two numbers
COMPLETION, TEXT = 100, 12  # bytes of a kept completion and its prompt, and of each of their tokens


def needed_disk(
    settings: Settings, config: ModelConfig, prompt: int, completion: int, problems: Sequence[int]
) -> dict[str, int]:
    """Bytes of a run by what they are for, at the moment when it needs most.

    A warm start trains all parameters, an arm perhaps adapters alone; a checkpoint has what is trained and its moments,
    and is written beside the former one. Rollouts and completions are counted at their greatest length; what is small,
    such as lines of metrics, is left out.

    Args:
        settings: the settings of the run.
        config: of its model.
        prompt: tokens of the longest prompt.
        completion: most tokens of a completion.
        problems: how many each evaluation set has.
    """
    model, record = FLOAT * parameters_of(config), settings.record
    trained = FLOAT * trained_of(config, settings.model.lora_rank)
    arms = [settings.rl_of(name) for name in settings.arms]
    warm_start = [Part((1 + ADAMW) * model, kept=False)] if settings.warm_start.steps else []
    own = [Part((1 + ADAMW + rl.lag) * trained, record.keep_checkpoint) for rl in arms]
    models, checkpoints = most_needed([*warm_start, *own] * settings.seeds, model)
    kept = [rl.steps * min(record.rollouts // rl.group_size, rl.prompts) * rl.group_size for rl in arms]
    rollouts = settings.seeds * sum(kept) * (ROLLOUT + completion * TOKEN)
    evaluations = settings.seeds * (1 + sum(math.ceil(rl.steps / settings.evaluation.every) for rl in arms))
    of_each = sum(min(record.completions, own * settings.evaluation.samples) for own in problems)
    completions = evaluations * of_each * (COMPLETION + (prompt + completion) * TEXT)
    said = {"rollouts, up to": rollouts, "completions, up to": completions}
    return {"models": models, "checkpoints": checkpoints, **said}


class Part(NamedTuple):
    """A warm start or an arm of one seed.

    Attributes:
        checkpoint: bytes of one.
        kept: whether the last one is kept once the model is written.
    """

    checkpoint: int
    kept: bool


def most_needed(parts: Sequence[Part], model: int) -> tuple[int, int]:
    """Bytes of models and of checkpoints when both together are most, in parts that each leave a model of these bytes.

    >>> most_needed([Part(300, False), Part(20, True)], 100)
    (0, 600)
    >>> most_needed([Part(300, False), Part(20, True)] * 3, 100)
    (400, 640)
    """
    moments, kept = list[tuple[int, int]](), 0
    for number, part in enumerate(parts):
        moments.append((number * model, kept + 2 * part.checkpoint))
        moments.append(((number + 1) * model, kept + part.checkpoint))
        kept += part.checkpoint if part.kept else 0
    return max(moments, key=sum)


def free_disk(out: Path) -> int:
    """Bytes that are free where a folder is, or is to be made."""
    there = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.exists())
    return shutil.disk_usage(there).free


def in_words(needed: Mapping[str, int], free: int) -> str:
    """One line, which says so if less is free.

    >>> in_words({"models": 2**30, "checkpoints": 6 * 2**30}, 2**32)
    'disk: about 7.0 GiB (models 1.0 GiB, checkpoints 6.0 GiB); only 4.0 GiB are free'
    """
    parts, whole = ", ".join(f"{name} {size_in_words(size)}" for name, size in needed.items()), sum(needed.values())
    enough = f"{'only ' if free < whole else ''}{size_in_words(free)} are free"
    return f"disk: about {size_in_words(whole)} ({parts}); {enough}"
