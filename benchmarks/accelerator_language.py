"""A language model on an accelerator: rollouts and training steps beside their limit, and the maze model over G."""

import dataclasses
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks import language_limits
from benchmarks.language_cases import Case, maze, smollm2
from benchmarks.language_simlab import Program

GROUP_SIZES = (2, 4, 8, 16, 32)
ROUNDS = 3


def throughput(speeds: dict[str, float], quick: bool) -> list[dict[str, object]]:
    """A row a case: seconds of first calls and of later ones, and how many times the limit these are."""
    with tempfile.TemporaryDirectory() as folder:
        return [_measured(case, speeds) for case in _cases(Path(folder), quick)]


def _cases(folder: Path, quick: bool) -> Iterator[Case]:
    first = maze(folder / "maze", quick)
    yield first
    if quick:
        return
    yield smollm2(folder / "smollm2", quick)
    for group_size in GROUP_SIZES:
        yield _of_group_size(first, group_size)


def _of_group_size(case: Case, group_size: int) -> Case:
    """The case with other groups and as many rollouts: its prompts are repeated, or fewer."""
    count = len(case.prompts) * case.group_size // group_size
    prompts = [case.prompts[index % len(case.prompts)] for index in range(count)]
    completions = case.completions.reshape(count, group_size, -1)
    rewards = (np.arange(count * group_size) % 3 == 0).reshape(count, group_size)
    advantages = (rewards - rewards.mean(axis=1, keepdims=True)).astype(np.float32)
    return dataclasses.replace(
        case,
        name=f"{case.name}, G = {group_size}",
        prompts=tuple(prompts),
        group_size=group_size,
        completions=completions,
        advantages=advantages,
    )


def _measured(case: Case, speeds: dict[str, float]) -> dict[str, object]:
    program = Program(case)
    limits = {
        "rollouts": language_limits.rollouts(case, program.config, speeds),
        "step": language_limits.training_step(case, program.config, speeds, shared=True),
    }
    works: dict[str, Callable[[], object]] = {"rollouts": lambda: program.rollouts(0, ()), "step": program.step}
    row: dict[str, object] = {"case": case.name, "batch": case.shape}
    for name, work in works.items():
        first, later = _seconds(work), min(_seconds(work) for _ in range(ROUNDS))
        row |= {f"{name} s": later, f"{name}, times the limit": later / limits[name], f"first {name} s": first}
    return row


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
