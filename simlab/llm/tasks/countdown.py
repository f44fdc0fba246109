"""Countdown: reach a target from some numbers; most problems have several solutions, so diversity can be lost."""

import functools
from dataclasses import dataclass, field
from random import Random

import numpy as np

from simlab.errors import InputError, check_whole
from simlab.llm.tasks.base import TaskProblem
from simlab.llm.tasks.drawn import DRAWS_WITHOUT_NEWS, DrawnTask
from simlab.llm.tasks.expressions import (
    LARGEST_NUMBER,
    MOST_NUMBERS,
    canonical,
    formula,
    fractions,
    numbers_in,
    parse,
    value,
    written,
)
from simlab.llm.vocabulary import Vocabulary, characters


@dataclass(frozen=True)
class CountdownProblem(TaskProblem):
    """Numbers, each to be used exactly once, and the value to reach."""

    numbers: tuple[int, ...]
    target: int


@dataclass(frozen=True, kw_only=True)
class Countdown(DrawnTask[CountdownProblem]):
    """One answer to ``1,2,3,4=24:`` is ``(1+2+3)*4``: each number must be used exactly once.

    An answer is an expression of ``+ - * /`` and brackets, with exact fractions on the way. Two answers are one
    solution if they differ only in the order and grouping of their operations, see ``canonical``.

    The numbers of a problem are different, drawn uniformly. Its target is uniform among the whole numbers that they
    can make in enough ways. To the division into training and evaluation their order does not matter.

    Attributes:
        numbers: how many numbers a problem has.
        largest: they run from 1 to this.
        largest_target: targets run from 1 to this.
        least_solutions: how many different solutions every problem has at least.

    Raises:
        InputError: for 1 or more than 5 numbers, fewer different ones than are drawn, ones or targets below 1, and
            for what ``DrawnTask`` refuses.

    >>> task = Countdown()
    >>> problem = CountdownProblem("1,2,3,4=24:", (1, 2, 3, 4), 24)
    >>> task.solution(problem, "4*(3+2+1)"), task.solution(problem, "(1+2+3)*4")
    ('(1+2+3)*4', '(1+2+3)*4')
    >>> sorted(solutions(problem))
    ['(1+2+3)*4', '(1+3)*(2+4)', '1*2*3*4', '2*3*4/1']
    """

    numbers: int = 4
    largest: int = 12
    largest_target: int = 99
    least_solutions: int = 2
    name: str = field(default="countdown", init=False)
    vocabulary: Vocabulary = field(default=characters("0123456789+-*/(),=:"), init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("numbers", self.numbers, 2, MOST_NUMBERS)
        check_whole("largest", self.largest, self.numbers, LARGEST_NUMBER)
        check_whole("largest_target", self.largest_target, 1)
        check_whole("least_solutions", self.least_solutions, 1)

    @property
    def max_new_tokens(self) -> int:
        """Numbers, operations, a pair of brackets around each operation but the outermost, and the end token."""
        return self.numbers * len(str(self.largest)) + 3 * (self.numbers - 1) - 2 + 1

    def draw(self, random: Random) -> CountdownProblem:
        """Draw different numbers and a target within their reach; ``InputError`` if none seems to exist."""
        for _ in range(DRAWS_WITHOUT_NEWS):
            numbers = tuple(random.sample(range(1, self.largest + 1), self.numbers))
            reached, ways = within_reach(tuple(sorted(numbers)))
            targets = reached[(reached <= self.largest_target) & (ways >= self.least_solutions)]
            if len(targets):
                target = random.choice(targets.tolist())
                return CountdownProblem(f"{','.join(map(str, numbers))}={target}:", numbers, target)
        raise InputError(
            f"least_solutions = {self.least_solutions}: no {self.numbers} numbers up to {self.largest} make a target "
            f"up to {self.largest_target} in so many ways; allowed: fewer"
        )

    def identity(self, problem: CountdownProblem) -> str:
        """Return the numbers in increasing order, and the target."""
        return f"{sorted(problem.numbers)} {problem.target}"

    def demonstration(self, problem: CountdownProblem) -> str:
        """Return a solution, uniform among them all: a hash of the problem chooses."""
        hits = np.flatnonzero(_hits(problem))
        return written(formula(problem.numbers, int(Random(self.identity(problem)).choice(hits.tolist()))))

    def solution(self, problem: CountdownProblem, completion: str) -> str | None:
        """Return the canonical form of an expression that uses each number exactly once and makes the target."""
        expression = parse(completion)
        if expression is None or sorted(numbers_in(expression)) != sorted(problem.numbers):
            return None
        return canonical(expression) if value(expression) == problem.target else None


def _hits(problem: CountdownProblem) -> np.ndarray:
    """Mark the formulas of the numbers that make the target."""
    above, below = fractions(problem.numbers)
    hits: np.ndarray = (below != 0) & (above == problem.target * below)
    return hits


def solutions(problem: CountdownProblem) -> frozenset[str]:
    """Return the canonical forms of all solutions, exactly."""
    return frozenset(canonical(formula(problem.numbers, int(index))) for index in np.flatnonzero(_hits(problem)))


@functools.lru_cache(maxsize=4096)
def within_reach(numbers: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the whole numbers from 1 up that numbers can make, in increasing order, and the number of ways of each."""
    above, below = fractions(numbers)
    above, below = above[below != 0], below[below != 0]
    values = above[above % below == 0] // below[above % below == 0]
    return np.unique(values[values >= 1], return_counts=True)
