"""Define a task: problems to train on and to be evaluated on, listed or drawn at random, and a verifier of answers."""

import functools
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Generic, NamedTuple, TypeVar

from simlab.errors import InputError, check_whole
from simlab.llm.vocabulary import Vocabulary

HELD_OUT = 8  # one drawn problem of so many is held out for evaluation
DRAWS_WITHOUT_NEWS = 10_000  # so many draws that bring no new problem show that there are none left


@dataclass(frozen=True)
class TaskProblem:
    """One prompt, the text that a policy is given; tasks add what their verifier needs to know."""

    prompt: str


class Part(NamedTuple):
    """A part of a reward; its value is NaN where it is missing."""

    name: str
    weight: float
    value: float


class Verdict(NamedTuple):
    """A judgement: the reward, which is NaN where all parts are missing, and the solution, None for a wrong answer."""

    reward: float
    solution: str | None
    parts: tuple[Part, ...] = ()  # whose weighted sum the reward is; none of a plain number


P = TypeVar("P", bound=TaskProblem)


class Task(ABC, Generic[P]):
    """Problems that are a pure function of the task and an index, and a verifier that never raises.

    A completion is the decoded text of the sampled tokens before the end token; whatever else was sampled is in it.

    Attributes:
        name: what the task is called in the registry and in results.
        vocabulary: the tokens of a model trained from scratch on it; None for the model's own.
        stop: a completion also ends behind the first token whose text contains this; None if only the end token ends
            it. What would follow has no part in the reward.
        notes: lines on the problems that a user reads before training.
    """

    name: str
    vocabulary: Vocabulary | None
    stop: str | None
    notes: tuple[str, ...] = ()

    @property
    @abstractmethod
    def max_new_tokens(self) -> int:
        """Enough for every demonstration, the end token included."""

    @abstractmethod
    def training(self, index: int) -> P:
        """Return the training problem of an index from 0 up (else ``InputError``), none of the evaluation problems."""

    @property
    @abstractmethod
    def evaluation(self) -> tuple[P, ...]:
        """The evaluation problems, pairwise different."""

    @property
    def evaluation_sets(self) -> Mapping[str, tuple[P, ...]]:
        """All sets that a model is evaluated on, by name; the first is ``evaluation``."""
        return {"evaluation": self.evaluation}

    @property
    def listed(self) -> tuple[P, ...]:
        """The training problems, where they are a list; nothing where they are drawn."""
        return ()

    @property
    def files(self) -> Mapping[str, str]:
        """The SHA-256 of the files that the problems were read from."""
        return {}

    @property
    def own_functions(self) -> Mapping[str, object]:
        """Functions of the user's own, by the ``FILE.py:NAME`` that names them."""
        return {}

    def put_to(self, vocabulary: Vocabulary, max_positions: int, demonstrated: bool) -> "Task[P]":
        """Return the task as a model with this vocabulary and context sees it; ``InputError`` if nothing is left."""
        return self

    @abstractmethod
    def demonstration(self, problem: P) -> str:
        """Return a correct completion without the end token; ``InputError`` if the task has none."""

    @abstractmethod
    def solution(self, problem: P, completion: str) -> str | None:
        """Return the canonical form of a right answer (one form counts as one solution), None for a wrong one."""

    def reward(self, problem: P, completion: str) -> float:
        """Return 1 for a correct completion, else 0."""
        return float(self.solution(problem, completion) is not None)

    def verdict(self, problem: P, completion: str) -> Verdict:
        """Return reward, solution, and the parts of the reward, the same names for every completion."""
        return Verdict(self.reward(problem, completion), self.solution(problem, completion))


# Problems that are drawn; what they are keeps training and evaluation apart


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
