"""Tasks by name."""

from collections.abc import Callable
from typing import Any

from simlab.errors import build
from simlab.llm.tasks.addition import Addition
from simlab.llm.tasks.base import Task
from simlab.llm.tasks.countdown import Countdown
from simlab.llm.tasks.fewshot import FewShot
from simlab.llm.tasks.gym import ReasoningGym
from simlab.llm.tasks.maze import Maze

TASKS: dict[str, Callable[..., Task]] = {
    constructor.name: constructor for constructor in (Addition, Countdown, FewShot, Maze, ReasoningGym)
}


def task(name: str, **parameters: Any) -> Task:
    """Build a task by name.

    Raises:
        InputError: for an unknown name or parameter, and what the constructor refuses.

    >>> task("countdown", numbers=3).training(0).numbers
    (10, 3, 8)
    """
    built: Task = build("task", name, TASKS, parameters)
    return built
