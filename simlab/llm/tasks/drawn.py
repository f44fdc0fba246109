"""Tasks whose problems are drawn at random, with training and evaluation kept apart by what the problems are."""

import functools
import hashlib
from abc import abstractmethod
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from simlab.errors import InputError, check_whole
from simlab.llm.tasks.base import Task, TaskProblem

HELD_OUT = 8  # one problem of so many is held out for evaluation
DRAWS_WITHOUT_NEWS = 10_000  # so many draws that bring no new problem show that there are none left
P = TypeVar("P", bound=TaskProblem)


def is_held_out(identity: str) -> bool:
    """Return True if the problem of this identity is for evaluation alone: a hash decides, for every seed."""
    return int.from_bytes(hashlib.blake2b(identity.encode(), digest_size=8).digest()) % HELD_OUT == 0


@dataclass(frozen=True, kw_only=True)
class DrawnTask(Task[P]):
    """Problems that are drawn; each is a pure function of the task, the seed and an index.

    One problem in eight belongs to evaluation, for every seed: no training problem of any seed is an evaluation
    problem of any seed.

    Attributes:
        seed: the seed of all problems.
        evaluation_size: number of evaluation problems.
        training_size: after so many training problems they come again in the same order; None for no end.
    """

    seed: int = 0
    evaluation_size: int = 256
    training_size: int | None = None
    stop: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_whole("seed", self.seed, 0)
        check_whole("evaluation_size", self.evaluation_size, 1)
        if self.training_size is not None:
            check_whole("training_size", self.training_size, 1)

    @abstractmethod
    def draw(self, random: Random) -> P:
        """Draw a problem, which may be held out or not."""

    @abstractmethod
    def identity(self, problem: P) -> str:
        """Return a text that identifies the problem: problems of one identity would teach each other's answers."""

    def training(self, index: int) -> P:
        """Return the training problem of an index from 0 up; none that is held out."""
        check_whole("index of a training problem", index, 0)
        random = self._random("training", index if self.training_size is None else index % self.training_size)
        return self._draw_until(random, held_out=False)

    @functools.cached_property
    def evaluation(self) -> tuple[P, ...]:
        """The evaluation problems: held out, pairwise different; ``InputError`` if there are too few."""
        random, problems, barren = self._random("evaluation", 0), dict[str, P](), 0
        while len(problems) < self.evaluation_size:
            problem = self._draw_until(random, held_out=True)
            barren = barren + 1 if self.identity(problem) in problems else 0
            problems.setdefault(self.identity(problem), problem)
            if barren > DRAWS_WITHOUT_NEWS // HELD_OUT:
                raise InputError(
                    f"evaluation_size = {self.evaluation_size} is more than the {len(problems)} problems of this task "
                    f"that are held out; allowed: up to {len(problems)}, or larger problems"
                )
        return tuple(problems.values())

    def _draw_until(self, random: Random, held_out: bool) -> P:
        for _ in range(DRAWS_WITHOUT_NEWS):
            problem = self.draw(random)
            if is_held_out(self.identity(problem)) == held_out:
                return problem
        purpose = "evaluation" if held_out else "training"
        raise InputError(f"this {self.name} task has no problem for {purpose}; allowed: larger problems")

    def _random(self, purpose: str, index: int) -> Random:
        """Return random numbers of one problem; they depend on nothing that was drawn before."""
        digest = hashlib.blake2b(f"{self.name} {purpose} {self.seed} {index}".encode(), digest_size=16).digest()
        return Random(int.from_bytes(digest))
