"""Make a task from listed prompts and any reward function."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from simlab.errors import InputError, check_whole, is_concrete_number
from simlab.llm.tasks.base import Task, TaskProblem
from simlab.llm.vocabulary import Vocabulary
from simlab.reading import reason

LONGEST_SHOWN = 60  # characters of a prompt in a complaint


def shown(text: str) -> str:
    """Write a text in quotes, shortened."""
    return repr(text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "...")


def _call(kind: str, prompt: str, function: Callable[[], Any], allowed: type, words: str) -> Any:
    """Call a function of the user's, or of another package, whose result must be of a type."""
    name = f"the {kind} function of the problem {shown(prompt)}"
    try:
        result = function()
    except Exception as error:
        raise InputError(f"{name} raised {type(error).__name__}: {reason(error)}") from None
    if not isinstance(result, allowed) or (isinstance(result, float) and not math.isfinite(result)):
        raise InputError(f"{name} returned {shown(str(result))}; allowed: {words}")
    return result


def checked_reward(prompt: str, function: Callable[[], Any]) -> float:
    """Call a reward function and return its number for an answer to ``prompt``."""

    def as_float() -> Any:
        result = function()
        result = result.item() if hasattr(result, "item") else result  # of a NumPy or JAX scalar
        is_number = isinstance(result, bool) or is_concrete_number(result)
        return float(result) if is_number else result  # raises for a whole number beyond the floats

    reward: float = _call("reward", prompt, as_float, float, "finite numbers")
    return reward


@dataclass(frozen=True)
class CallableTask(Task[TaskProblem]):
    """Listed prompts and functions of prompt and completion; see ``from_callable``."""

    name: str
    vocabulary: Vocabulary | None
    stop: str | None
    problems: tuple[TaskProblem, ...]
    rewards: Callable[[str, str], object]
    demonstrations: Callable[[str], str] | None
    solutions: Callable[[str, str], str] | None
    correct_from: float
    evaluation: tuple[TaskProblem, ...] = ()
    max_new_tokens: int = 1

    def training(self, index: int) -> TaskProblem:
        """Return the listed problems, over and over; ``InputError`` for a negative index."""
        check_whole("index of a training problem", index, 0)
        return self.problems[index % len(self.problems)]

    def demonstration(self, problem: TaskProblem) -> str:
        """Return the text of the function of demonstrations; ``InputError`` without one, or if it fails."""
        demonstrations = self.demonstrations
        if demonstrations is None:
            raise InputError(f"task {self.name} has no demonstrations; allowed: training without them")
        text: str = _call("demonstration", problem.prompt, lambda: demonstrations(problem.prompt), str, "texts")
        return text

    def reward(self, problem: TaskProblem, completion: str) -> float:
        """Return the number of the reward function; ``InputError`` if it raises or returns no finite number."""
        return checked_reward(problem.prompt, lambda: self.rewards(problem.prompt, completion))

    def solution(self, problem: TaskProblem, completion: str) -> str | None:
        """Return the canonical form of a completion whose reward is high enough; ``InputError`` if a function fails."""
        if self.reward(problem, completion) < self.correct_from:
            return None
        solutions = self.solutions
        if solutions is None:
            return completion.strip()
        text: str = _call("solution", problem.prompt, lambda: solutions(problem.prompt, completion), str, "texts")
        return text


def from_callable(
    reward: Callable[[str, str], object],
    training: Sequence[str],
    evaluation: Sequence[str],
    max_new_tokens: int,
    *,
    name: str = "own",
    vocabulary: Vocabulary | None = None,
    demonstration: Callable[[str], str] | None = None,
    solution: Callable[[str, str], str] | None = None,
    correct_from: float = 1.0,
    stop: str | None = None,
) -> CallableTask:
    """Make a task of your own.

    Args:
        reward: a function of prompt and completion; any finite number, True or False.
        training: prompts to train on, in this order, over and over.
        evaluation: other prompts.
        max_new_tokens: the longest completion in tokens, the end token included.
        name: the name of the task.
        vocabulary: tokens of a model trained from scratch; None for the model's own.
        demonstration: a correct completion of a prompt, if there are any.
        solution: canonical form of a correct completion; by default the completion without the space around it.
        correct_from: a completion of this reward or more counts as correct.
        stop: see ``Task``.

    Raises: InputError: for an empty list, a prompt that is listed in both or twice for evaluation, or no room to
    answer.

    >>> task = from_callable(lambda prompt, answer: answer == prompt[::-1], ["ab", "abc"], ["xyz"], max_new_tokens=8)
    >>> task.reward(task.training(3), "cba"), task.solution(task.evaluation[0], "xyz")
    (1.0, None)
    """
    check_whole("max_new_tokens", max_new_tokens, 1)
    for purpose, prompts in (("training", training), ("evaluation", evaluation)):
        if isinstance(prompts, str) or not prompts:
            raise InputError(f"{purpose} prompts are {prompts!r}; allowed: a list of at least one text")
    for prompt in sorted(set(training) & set(evaluation)):
        raise InputError(f"the prompt {shown(prompt)} is listed for training and evaluation; allowed: for one of them")
    if len(set(evaluation)) < len(evaluation):
        twice = next(prompt for prompt in evaluation if evaluation.count(prompt) > 1)
        raise InputError(f"the prompt {shown(twice)} is listed twice for evaluation; allowed: once")
    return CallableTask(
        name,
        vocabulary,
        stop,
        tuple(map(TaskProblem, training)),
        reward,
        demonstration,
        solution,
        correct_from,
        evaluation=tuple(map(TaskProblem, evaluation)),
        max_new_tokens=max_new_tokens,
    )
