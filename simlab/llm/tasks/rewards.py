"""Rewards in several parts: functions with weights, and functions that return numbers by name."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simlab.errors import InputError, check_range, is_concrete_number
from simlab.llm.tasks.base import Part, Verdict
from simlab.own_files import load
from simlab.reading import reason
from simlab.text import read_value, shortened

VERIFIER = "verifier"  # what names the task's verifier among rewards
Result = float | None | dict[str, float | None]  # None where a number is missing


def call(kind: str, prompt: str, function: Callable[[], Any], allowed: Any, words: str) -> Any:
    """Call a function of the user's, or of another package, whose result must be of a type."""
    name = f"the {kind} function of the problem {shortened(prompt)}"
    try:
        result = function()
    except Exception as error:
        raise InputError(f"{name} raised {type(error).__name__}: {reason(error)}") from None
    if not isinstance(result, allowed) or (isinstance(result, float) and not math.isfinite(result)):
        raise InputError(f"{name} returned {shortened(str(result))}; allowed: {words}")
    return result


def checked_reward(prompt: str, function: Callable[[], Any]) -> float:
    """Call a reward function and return its number for an answer to ``prompt``."""
    reward: float = call("reward", prompt, lambda: _number(function()), float, "finite numbers")
    return reward


def checked_result(prompt: str, function: Callable[[], Any], *, may_miss: bool) -> Result:
    """Call a reward function that may return a dictionary; None or NaN of its parts, or of a number, is missing."""
    words = "finite numbers" + ", or None for a missing one" * may_miss + ", or a dictionary of them"
    allowed = (float, dict, type(None)) if may_miss else (float, dict)
    result: Result = call("reward", prompt, lambda: _result(function(), may_miss), allowed, words)
    return result


def _result(result: Any, may_miss: bool) -> Any:
    if not isinstance(result, Mapping):
        return _or_none(_number(result)) if may_miss else _number(result)
    parts = {str(name): _or_none(_number(value)) for name, value in result.items()}
    bad = [
        value for value in parts.values() if not (value is None or (isinstance(value, float) and abs(value) < math.inf))
    ]
    return str(result) if bad or not parts else parts


def _number(value: Any) -> Any:
    """Return a number of Python's, NumPy's or JAX's as a float, and anything else as it is."""
    value = value.item() if hasattr(value, "item") else value
    is_number = isinstance(value, bool) or is_concrete_number(value)
    return float(value) if is_number else value  # raises for a whole number beyond the floats


def _or_none(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


@dataclass(frozen=True)
class WeightedReward:
    """A function of prompt, completion and answer, or the task's verifier, and what its numbers weigh."""

    reference: str  # FILE.py:NAME, or ``VERIFIER``
    function: Callable[..., object] | None = None  # None for the verifier
    weight: float = 1.0
    weights: Mapping[str, float] = field(default_factory=dict)  # by name, of what it returns in a dictionary

    @classmethod
    def read(cls, text: str) -> "WeightedReward":
        """Read ``FILE.py:NAME``, ``verifier``, and behind ``@`` a weight, or ``PART=WEIGHT,...``.

        >>> WeightedReward.read("verifier@0.5").weight
        0.5
        """
        file, colon, reference_and_weights = text.rpartition(":")
        name, _, weights = reference_and_weights.partition("@")
        reference = file + colon + name
        function = None if reference == VERIFIER else load(reference)
        if function is not None and not callable(function):
            raise InputError(f"reward = {reference!r} is a {type(function).__name__}; allowed: a function")
        pairs = [pair.rpartition("=") for pair in weights.split(",")] if weights else []
        by_name = {part: _weight(text, number) for part, equals, number in pairs}
        return cls(reference, function, by_name.pop("", 1.0), by_name)

    @property
    def name(self) -> str:
        """Name of its number, where it returns one."""
        return self.reference.rpartition(":")[2]

    def parts(self, result: Result) -> tuple[Part, ...]:
        """Return the parts of a reward that make up a result, with their weights."""
        if not isinstance(result, dict):
            result = {self.name: result}
        for name in self.weights.keys() - result.keys():
            raise InputError(f"{self.reference} has a weight for {name!r}; allowed: of its parts {', '.join(result)}")
        return tuple(
            Part(name, self.weights.get(name, self.weight), math.nan if value is None else value)
            for name, value in result.items()
        )


def is_verifier(text: str) -> bool:
    """Tell whether a reward is the task's verifier, with or without a weight."""
    return text.partition("@")[0] == VERIFIER


def _weight(text: str, number: str) -> float:
    value = read_value(number)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"reward {text!r} has the weight {number!r}; allowed: a number")
    check_range(f"the weight of reward {text!r}", value)
    return float(value)


def judged(parts: Sequence[Part], solution: Callable[[], str], correct_from: float) -> Verdict:
    """Judge by parts: the first decides whether a completion is correct; ``InputError`` for two of one name."""
    names = [part.name for part in parts]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two parts of the reward are called {name!r}; allowed: different names")
    present = [part.weight * part.value for part in parts if not math.isnan(part.value)]
    total = math.fsum(present) if present else math.nan
    return Verdict(total, solution() if parts[0].value >= correct_from else None, tuple(parts))
