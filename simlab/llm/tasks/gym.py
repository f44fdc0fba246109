"""Tasks of the package reasoning-gym whose scorers can be trusted to say right or wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from simlab.errors import InputError, check_choice, check_whole, package
from simlab.llm.tasks.base import DrawnTask, TaskProblem
from simlab.llm.tasks.rewards import checked_reward

CORRECT_FROM = 0.99
MOST_ADDED = 4096  # characters by which an answer may be longer than the right one; their scorers take any
INDICES = 2**31 - 1  # reasoning-gym makes a problem from the sum of a seed and an index

# Those of the data sets of reasoning-gym 0.1.25 whose scorers were right about their own answers, about 160 fuzzed
# ones, and about their own answers changed. The others' evaluate an answer as Python, raise, take near numbers, give
# wrong answers 1 or their own 0, or take seconds. The common scorer gives len(right) / len(answer) to an answer that
# contains the right one, 0.99 and more where that has 99 characters, so that long answers are left out, too.
ALLOWED = (
    "ab", "aiw", "base_conversion", "basic_arithmetic", "binary_alternation", "count_bits", "count_primes",
    "course_schedule", "family_relationships", "gcd", "largest_island", "lcm", "leg_counting",
    "letter_counting", "maze", "number_sequence", "path_star", "rotten_oranges", "simple_equations",
    "simple_geometry", "string_splitting", "string_synthesis", "syllogism",
)  # fmt: skip


@dataclass(frozen=True)
class GymProblem(TaskProblem):
    """An item of a data set: question, answer and metadata."""

    item: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ReasoningGym(DrawnTask[GymProblem]):
    """A data set of reasoning-gym: its questions as prompts, and its scorer; anything but full marks counts as wrong.

    Space around an answer does not matter. Training and evaluation are kept apart by the questions.

    Attributes:
        dataset: one of ``ALLOWED``; others have scorers with quirks.
        options: what the data set itself takes, such as ``{"max_value": 50}``.
        max_new_tokens: room for an answer.

    Raises: InputError: for a data set that is not allowed, options that it refuses, without the package, and for what
    ``DrawnTask`` refuses.
    """

    dataset: str = "gcd"
    options: Mapping[str, Any] = field(default_factory=dict)
    max_new_tokens: int = 64
    name: str = field(default="reasoning_gym", init=False)
    vocabulary: None = field(default=None, init=False)
    source: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("max_new_tokens", self.max_new_tokens, 1)
        check_choice("dataset", self.dataset, ALLOWED)
        reasoning_gym = package("reasoning_gym", "reasoning-gym")
        try:
            source = reasoning_gym.create_dataset(self.dataset, **{**self.options, "seed": 0, "size": INDICES})
        except (AssertionError, TypeError, ValueError) as error:
            raise InputError(f"options = {dict(self.options)!r} are refused by {self.dataset}: {error}") from None
        object.__setattr__(self, "source", source)

    def draw(self, random: Random) -> GymProblem:
        """Draw one of two billion items."""
        item = self.source[random.randrange(INDICES)]
        return GymProblem(item["question"], item)

    def identity(self, problem: GymProblem) -> str:
        """Return the question."""
        return problem.prompt

    def demonstration(self, problem: GymProblem) -> str:
        """Return the answer that comes with the question."""
        return str(problem.item["answer"])

    def solution(self, problem: GymProblem, completion: str) -> str | None:
        """Return the stripped completion if it gets full marks; one ``MOST_ADDED`` characters too long gets none."""
        answer = completion.strip()
        if len(answer) > len(self.demonstration(problem)) + MOST_ADDED:
            return None
        score = checked_reward(problem.prompt, lambda: self.source.score_answer(answer, problem.item))
        return answer if score >= CORRECT_FROM else None
