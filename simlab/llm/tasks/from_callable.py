"""Make a task from listed prompts and any reward function."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from simlab.errors import InputError, check_whole
from simlab.llm.tasks.base import Task, TaskProblem, Verdict
from simlab.llm.tasks.rewards import WeightedReward, call, checked_result, judged
from simlab.llm.vocabulary import Vocabulary
from simlab.text import shortened


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
    weights: Mapping[str, float] = field(default_factory=dict)

    def training(self, index: int) -> TaskProblem:
        """Return the listed problems, over and over; ``InputError`` for a negative index."""
        check_whole("index of a training problem", index, 0)
        return self.problems[index % len(self.problems)]

    def demonstration(self, problem: TaskProblem) -> str:
        """Return the text of the function of demonstrations; ``InputError`` without one, or if it fails."""
        demonstrations = self.demonstrations
        if demonstrations is None:
            raise InputError(f"task {self.name} has no demonstrations; allowed: training without them")
        text: str = call("demonstration", problem.prompt, lambda: demonstrations(problem.prompt), str, "texts")
        return text

    def verdict(self, problem: TaskProblem, completion: str) -> Verdict:
        """Judge by the reward function; ``InputError`` if a function fails or returns what is no finite number."""

        def solution() -> str:
            solutions = self.solutions
            if solutions is None:
                return completion.strip()
            text: str = call("solution", problem.prompt, lambda: solutions(problem.prompt, completion), str, "texts")
            return text

        function = WeightedReward("reward", weights=self.weights)
        result = checked_result(problem.prompt, lambda: self.rewards(problem.prompt, completion), may_miss=False)
        judgement = judged(function.parts(result), solution, self.correct_from)
        return judgement if isinstance(result, dict) else judgement._replace(parts=())

    def reward(self, problem: TaskProblem, completion: str) -> float:
        """Return the number of the reward function, or the weighted sum of its parts."""
        return self.verdict(problem, completion).reward

    def solution(self, problem: TaskProblem, completion: str) -> str | None:
        """Return the canonical form of a completion whose reward is high enough."""
        return self.verdict(problem, completion).solution


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
    weights: Mapping[str, float] | None = None,
) -> CallableTask:
    """Make a task of your own.

    Args:
        reward: a function of prompt and completion; any finite number, True or False, or a dictionary of such parts,
            None where one is missing.
        training: prompts to train on, in this order, over and over.
        evaluation: other prompts.
        max_new_tokens: the longest completion in tokens, the end token included.
        name: the name of the task.
        vocabulary: tokens of a model trained from scratch; None for the model's own.
        demonstration: a correct completion of a prompt, if there are any.
        solution: canonical form of a correct completion; by default the completion without the space around it.
        correct_from: a completion of this reward or more, or whose first part is that, counts as correct.
        stop: see ``Task``.
        weights: of parts by name; others weigh 1.

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
        raise InputError(f"the prompt {shortened(prompt)} is listed for training and evaluation; allowed: for one")
    if len(set(evaluation)) < len(evaluation):
        twice = next(prompt for prompt in evaluation if evaluation.count(prompt) > 1)
        raise InputError(f"the prompt {shortened(twice)} is listed twice for evaluation; allowed: once")
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
        weights=weights or {},
    )
