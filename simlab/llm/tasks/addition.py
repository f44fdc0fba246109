"""Addition of two numbers of a fixed width, character by character: one right answer to each problem."""

from dataclasses import dataclass, field
from random import Random

from simlab.errors import check_choice, check_whole
from simlab.llm.tasks.base import DrawnTask, TaskProblem
from simlab.llm.vocabulary import Vocabulary, characters

ORDERS = ("plain", "reversed")


@dataclass(frozen=True)
class AdditionProblem(TaskProblem):
    """The sum of two numbers."""

    first: int
    second: int


@dataclass(frozen=True, kw_only=True)
class Addition(DrawnTask[AdditionProblem]):
    """The answer to ``07+35=`` is ``042``: both numbers and the sum are padded with zeros.

    All prompts have one length and so have all answers. Numbers are uniform. a + b and b + a are one problem to
    the division into training and evaluation.

    Attributes:
        digits: the digits of each number; the answer has one more.
        order: ``"plain"``, or ``"reversed"`` for an answer that begins with the units, which is easier to learn as a
            digit then depends on what stands before it.

    Raises: InputError: unless there are 1 to 18 digits, and for what ``DrawnTask`` refuses.

    >>> task = Addition(digits=2)
    >>> task.solution(AdditionProblem("07+35=", 7, 35), "042")
    '042'
    >>> task.reward(AdditionProblem("07+35=", 7, 35), "42")
    0.0
    """

    digits: int = 2
    order: str = "plain"
    name: str = field(default="addition", init=False)
    vocabulary: Vocabulary = field(default=characters("0123456789+="), init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("digits", self.digits, 1, 18)
        check_choice("order", self.order, ORDERS)

    @property
    def max_new_tokens(self) -> int:
        """The digits of the sum and the end token."""
        return self.digits + 2

    def draw(self, random: Random) -> AdditionProblem:
        """Draw two uniform numbers."""
        first, second = random.randrange(10**self.digits), random.randrange(10**self.digits)
        return AdditionProblem(f"{first:0{self.digits}d}+{second:0{self.digits}d}=", first, second)

    def identity(self, problem: AdditionProblem) -> str:
        """Return the two numbers in increasing order."""
        return "{}+{}".format(*sorted((problem.first, problem.second)))

    def demonstration(self, problem: AdditionProblem) -> str:
        """Return the one right answer."""
        text = f"{problem.first + problem.second:0{self.digits + 1}d}"
        return text if self.order == "plain" else text[::-1]

    def solution(self, problem: AdditionProblem, completion: str) -> str | None:
        """Return the completion itself where it is the right answer, digit by digit."""
        return completion if completion == self.demonstration(problem) else None
