"""Tasks: prompts, and verifiers that parse what a language model answers."""

from collections.abc import Callable
from typing import Any

from simlab.errors import InputError, build
from simlab.llm.tasks.addition import Addition
from simlab.llm.tasks.base import Task, TaskProblem
from simlab.llm.tasks.countdown import Countdown
from simlab.llm.tasks.data import data
from simlab.llm.tasks.fewshot import FewShot
from simlab.llm.tasks.from_callable import from_callable
from simlab.llm.tasks.gym import ReasoningGym
from simlab.llm.tasks.maze import Maze

__all__ = ["OWN", "TASKS", "Addition", "Countdown", "FewShot", "Maze", "ReasoningGym", "Task", "TaskProblem"]
__all__ += ["from_callable", "task"]

OWN = "own"  # the name that ``run.json`` has for a task that was handed in from Python
TASKS: dict[str, Callable[..., Task]] = {
    **{constructor.name: constructor for constructor in (Addition, Countdown, FewShot, Maze, ReasoningGym)},
    "data": data,
}


def task(name: str, **parameters: Any) -> Task:
    """Build a task by name.

    Raises: InputError: for a task that was handed in, an unknown name or parameter, and what the constructor refuses.

    >>> task("countdown", numbers=3).training(0).numbers
    (10, 3, 8)
    """
    if name == OWN:
        called, names = parameters.get("called", OWN), ", ".join(TASKS)
        raise InputError(
            f"the task {called!r} was handed in from Python; allowed: train(own_task=...), or a task of {names}"
        )
    built: Task = build("task", name, TASKS, parameters)
    return built
