"""Tasks: prompts, and verifiers that parse what a language model answers."""

from simlab.llm.tasks.addition import Addition
from simlab.llm.tasks.base import Task, TaskProblem
from simlab.llm.tasks.countdown import Countdown
from simlab.llm.tasks.fewshot import FewShot
from simlab.llm.tasks.from_callable import from_callable
from simlab.llm.tasks.gym import ReasoningGym
from simlab.llm.tasks.maze import Maze
from simlab.llm.tasks.registry import OWN, TASKS, task

__all__ = ["OWN", "TASKS", "Addition", "Countdown", "FewShot", "Maze", "ReasoningGym", "Task", "TaskProblem"]
__all__ += ["from_callable", "task"]
