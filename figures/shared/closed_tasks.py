"""Addition in two formats and mazes, whose arms train on the very problems that are evaluated.

    python -m figures.shared.closed_tasks TASK FOLDER SEED ... [--optimizer NAME]   (TASK: addition or maze)

It goes on with FOLDER. The arms are the methods of ``weights-by-optimizer`` by both optimisers, or by ``adamw`` or
``sgd`` alone, at one learning rate each, plain steps in mazes at two. In both tasks problems conflict: what is right
for most is wrong for a few, which are seldom solved at the start.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from figures.shared import by_optimizer
from figures.shared.closed_countdown import Closed, ClosedRun, train_arms
from simlab.errors import check_choice
from simlab.llm.tasks.addition import Addition, AdditionProblem
from simlab.llm.tasks.maze import Maze
from simlab.llm.training.presets import PRESETS, SMALL, WEIGHTS_BY_OPTIMIZER, arms_by_optimizer
from simlab.llm.training.settings import merge_layers

MARK = "="  # before an answer in the second format
MARKED, SHOWN = 0.25, 0.08  # the share of problems that ask for the mark, and of demonstrations that have it


@dataclass(frozen=True)
class FormatProblem(AdditionProblem):
    """A sum whose answer must have the mark if ``level``, uniform on [0, 1), is below ``MARKED``."""

    level: float


def level(problem: AdditionProblem) -> float:
    """Return the level of a problem that has one."""
    assert isinstance(problem, FormatProblem)
    return problem.level


class ClosedAddition(Closed, Addition):
    """Addition in two formats: some answers must stand behind a mark, which no prompt says.

    Demonstrations have the mark in a share ``SHOWN`` of all problems, so that the start writes it as often, whatever
    the problem asks for.
    """

    @property
    def max_new_tokens(self) -> int:
        """The mark, the digits of the sum and the end token."""
        return super().max_new_tokens + len(MARK)

    def draw(self, random: Random) -> FormatProblem:
        """Draw two uniform numbers and a level."""
        plain = super().draw(random)
        return FormatProblem(plain.prompt, plain.first, plain.second, random.random())

    def demonstration(self, problem: AdditionProblem) -> str:
        """Return the sum, with the mark for the lowest levels."""
        return MARK * (level(problem) < SHOWN) + super().demonstration(problem)

    def solution(self, problem: AdditionProblem, completion: str) -> str | None:
        """Return the completion where it is the sum in the format that the problem asks for."""
        right = MARK * (level(problem) < MARKED) + super().demonstration(problem)
        return completion if completion == right else None


class ClosedMaze(Closed, Maze):
    """Mazes, to be answered by the one path."""


TASKS: dict[str, type[Closed]] = {"addition": ClosedAddition, "maze": ClosedMaze}
CHANGES: dict[str, dict[str, Any]] = {
    "addition": {
        "task": {"evaluation_size": 64},
        "rl": {"steps": 240, "prompts": 64, "microbatch": 64},
        "evaluation": {"every": 15, "samples": 128},
        "arms": arms_by_optimizer(adamw=(1.5e-4,), plain=(0.002,)),
    },
    "maze": {
        "task": {"size": 7, "max_new_tokens": 18, "evaluation_size": 24},
        "warm_start": {"steps": 250, "batch": 64, "learning_rate": 1e-3, "warmup": 20},
        "rl": {"steps": 100, "prompts": 24, "microbatch": 64},
        "evaluation": {"every": 10, "samples": 128},
        "arms": arms_by_optimizer(adamw=(1e-4,), plain=(0.005, 0.001)),
    },
}


def closed_run(task: str, seed: int, changes: dict[str, Any] | None = None) -> ClosedRun:
    """Return the run of a seed of ``"addition"`` or ``"maze"``, with changes of the settings."""
    check_choice("task", task, list(TASKS))
    return ClosedRun(seed, merge_layers(CHANGES[task], changes or {}), preset(task), TASKS[task])


def preset(task: str) -> dict[str, Any]:
    """Return the settings of a task before its changes: the small model, trained as by ``weights-by-optimizer``."""
    settings = {name: PRESETS[task][name] for name in ("task", "warm_start")} | {"model": SMALL}
    return merge_layers(settings, {name: WEIGHTS_BY_OPTIMIZER[name] for name in ("rl", "evaluation", "record")})


def main(arguments: list[str]) -> None:
    """Train the arms of some seeds."""
    options = by_optimizer.read_options(arguments, {"task": {"choices": TASKS}, "folder": {"type": Path}})
    gains = by_optimizer.prediction(options.task)["judged_at"]
    for seed in options.seeds:
        for name in train_arms(closed_run(options.task, seed), options.folder, gains, options.optimizer):
            print(f"{options.task}, seed {seed}: {name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
