"""Say how much disk a run needs, before any of it is used."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from simlab.llm.config import ModelConfig
from simlab.llm.training.memory import FLOAT, parameters_of, size_in_words
from simlab.llm.training.settings import Settings

ADAMW = 2  # moments of each parameter
ROLLOUT, TOKEN = 100, 50  # bytes of a kept rollout, and of each of its tokens: its text twice and two numbers


def needed_disk(settings: Settings, config: ModelConfig, completion: int) -> dict[str, int]:
    """Bytes of a run by what they are for, when it needs most: while the last arm trains.

    A checkpoint is written beside the former one. Rollouts are counted at their greatest length; what is small, such as
    lines of metrics, is left out.

    Args:
        settings: the settings of the run.
        config: of its model.
        completion: most tokens of a completion.
    """
    weights, record = FLOAT * parameters_of(config), settings.record
    arms = [settings.rl_of(name) for name in settings.arms]
    checkpoints = [(1 + ADAMW + rl.lag) * weights for rl in arms]
    kept = [rl.steps * min(record.rollouts // rl.group_size, rl.prompts) * rl.group_size for rl in arms]
    finished = settings.seeds * sum(checkpoints) if record.keep_checkpoint else max(checkpoints)
    return {
        "models": settings.seeds * (len(arms) + (settings.warm_start.steps > 0)) * weights,
        "checkpoints": finished + max(checkpoints),
        "rollouts, up to": settings.seeds * sum(kept) * (ROLLOUT + completion * TOKEN),
    }


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
