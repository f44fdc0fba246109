"""Judge completions of a data file's problems: by a verifier of a name, or by a reward function of the user's."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from simlab.errors import InputError
from simlab.llm.tasks.from_callable import checked_reward
from simlab.llm.tasks.verifiers import Verifier
from simlab.own_files import load


class Judge(ABC):
    """Interface of the judges of a data file's completions.

    Attributes:
        own_functions: functions of the user's by the text that names them.
    """

    own_functions: Mapping[str, object]

    @abstractmethod
    def right(self, answer: Any) -> str:
        """The right answer in the form that completions are compared with.

        Raises:
            InputError: for an answer that cannot be one; why, in few words.
        """

    @abstractmethod
    def reward(self, prompt: Any, completion: str, answer: Any, right: str) -> float:
        """The reward of a completion."""

    @abstractmethod
    def solution(self, prompt: Any, completion: str, answer: Any, right: str) -> str | None:
        """The canonical form of a correct completion, None for a wrong one."""

    @abstractmethod
    def demonstration(self, answer: Any) -> str:
        """A correct completion.

        Raises:
            InputError: if the answer makes none.
        """


class ByVerifier(Judge):
    """A verifier of a name: 1 or 0."""

    def __init__(self, verifier: Verifier):
        self.verifier, self.own_functions = verifier, dict[str, object]()

    def right(self, answer: Any) -> str:
        """Return the verifier's form of the answer, which is a text or a number."""
        right = self.verifier.right_answer(_as_text(answer))
        if right is None:
            raise InputError("answer that the verifier cannot read")
        return right

    def reward(self, prompt: Any, completion: str, answer: Any, right: str) -> float:
        """1 for the right answer."""
        return float(self.solution(prompt, completion, answer, right) is not None)

    def solution(self, prompt: Any, completion: str, answer: Any, right: str) -> str | None:
        """The right answer, where the completion gives it."""
        return self.verifier.solution(right, completion)

    def demonstration(self, answer: Any) -> str:
        """A completion that gives the answer, as the verifier wants it."""
        return self.verifier.demonstration(_as_text(answer))


class ByFunction(Judge):
    """A function of prompt, completion and answer.

    Args:
        reference: ``FILE.py:NAME``.
        correct_from: a completion of this reward or more counts as correct.

    Raises:
        InputError: for a reference that names no function.
    """

    def __init__(self, reference: str, correct_from: float):
        self.function: Callable[[Any, str, Any], object] = load(reference)
        if not callable(self.function):
            raise InputError(f"reward = {reference!r} is a {type(self.function).__name__}; allowed: a function")
        self.correct_from, self.own_functions = correct_from, {reference: self.function}

    def right(self, answer: Any) -> str:
        """Nothing: the function is given the answer itself, whatever it is."""
        return ""

    def reward(self, prompt: Any, completion: str, answer: Any, right: str) -> float:
        """Return the number of the function.

        Raises:
            InputError: if it raises or returns no finite number.
        """
        return checked_reward(str(prompt), lambda: self.function(prompt, completion, answer))

    def solution(self, prompt: Any, completion: str, answer: Any, right: str) -> str | None:
        """The completion without the space around it, if its reward is high enough."""
        worth = self.reward(prompt, completion, answer, right)
        return completion.strip() if worth >= self.correct_from else None

    def demonstration(self, answer: Any) -> str:
        """The answer, if it is a text or a number."""
        return _as_text(answer)


def _as_text(answer: Any) -> str:
    """A text or a number as a text, a float without an exponent."""
    if isinstance(answer, float) and math.isfinite(answer):
        return format(Decimal(repr(answer)), "f")
    if isinstance(answer, int) and not isinstance(answer, bool):
        return str(answer)
    if not isinstance(answer, str):
        raise InputError("no answer" if answer is None else "answer that is no text or number")
    if not answer.strip():
        raise InputError("empty answer")
    return answer
