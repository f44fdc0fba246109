"""Define a task: problems to train on and to be evaluated on, and a verifier of answers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from simlab.llm.vocabulary import Vocabulary


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
