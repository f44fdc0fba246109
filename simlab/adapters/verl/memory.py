"""Keep the state of estimators from batch to batch; verl calls functions, and keeps nothing between calls."""

from collections.abc import Iterator

from simlab.estimators import Estimator
from simlab.estimators.base import State

# Of the estimators of this process, by their text, as the numbers of their states: a checkpoint holds it as JSON.
memory: dict[str, list[float]] = {}


def remembers(chosen: Estimator) -> bool:
    """Whether an estimator has a memory."""
    return bool(_numbers(chosen.init()))


def recall(text: str, chosen: Estimator) -> State:
    """The state that an estimator of this text goes on from: its first, where it has seen no batch."""
    first = chosen.init()
    return _filled(first, iter(memory.get(text, _numbers(first))))


def remember(text: str, state: State) -> None:
    """Keep the state of an estimator of this text, if it has one."""
    if numbers := _numbers(state):
        memory[text] = numbers


def _numbers(state: State) -> list[float]:
    return [number for part in state for number in _numbers(part)] if isinstance(state, tuple) else [float(state)]


def _filled(first: State, numbers: Iterator[float]) -> State:
    """A state of the structure of ``first``, with these numbers in the order of ``_numbers``."""
    if not isinstance(first, tuple):
        return next(numbers)
    parts = [_filled(part, numbers) for part in first]
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
