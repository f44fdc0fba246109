"""Enumerate the formulas that use each of a few numbers once, and compute their exact values, many at once."""

import functools
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from simlab.llm.tasks.expressions import Expression, Operation

MOST_NUMBERS = 5  # of 6 there are 793,002 formulas
LARGEST_NUMBER = 999  # then numerators and denominators stay below 2^4 999^5 < 2^63
OPERATORS = "+-*/"
PRIME = 2**61 - 1
POINT = tuple(  # a generic one: hashes obey no equation
    int.from_bytes(hashlib.blake2b(bytes([position])).digest()) % PRIME for position in range(MOST_NUMBERS)
)


@dataclass(frozen=True)
class Formulas:
    """The formulas of each set of N places: a row is an operation on two rows before it; row i < N is place i.

    Attributes:
        operators: (R,) places in ``OPERATORS``.
        left, right: (R,) the rows that are joined.
        levels: the rows that use two places, three, and so on; the last are those that use all.
    """

    operators: Int[np.ndarray, " R"]
    left: Int[np.ndarray, " R"]
    right: Int[np.ndarray, " R"]
    levels: tuple[slice, ...]


@functools.cache
def formulas(count: int) -> Formulas:
    """The formulas of all sets of ``count`` places that use each place of their set once.

    Two formulas are one if they are equal as functions. They are told apart by their values at one generic point
    modulo a large prime. Of 1, 2, 3, 4 and 5 numbers there are 1, 6, 68, 1170 and 27142.
    """
    values = list(POINT[:count])
    rows = [(0, 0, 0)] * count
    of_set = {1 << position: range(position, position + 1) for position in range(count)}
    levels = []
    for size in range(2, count + 1):
        start = len(rows)
        for positions in (positions for positions in range(2**count) if positions.bit_count() == size):
            first = len(rows)
            _add_formulas(positions, of_set, rows, values)
            of_set[positions] = range(first, len(rows))
        levels.append(slice(start, len(rows)))
    operators, left, right = np.array(rows).T
    return Formulas(operators, left, right, tuple(levels))


def _add_formulas(
    positions: int, of_set: dict[int, range], rows: list[tuple[int, int, int]], values: list[int]
) -> None:
    """Append the formulas of one set of places, a bit mask, and their values at the point."""
    known_values = set()
    for subset in _subsets(positions):
        others = positions ^ subset
        for i in of_set[subset]:
            for j in of_set[others]:
                for operator in range(4):
                    value = _modular(OPERATORS[operator], values[i], values[j])
                    if value not in known_values:
                        known_values.add(value)
                        values.append(value)
                        rows.append((operator, i, j))


def _subsets(positions: int) -> Iterator[int]:
    """The sets between the empty one and the whole."""
    subset = (positions - 1) & positions
    while subset:
        yield subset
        subset = (subset - 1) & positions


def _modular(operator: str, a: int, b: int) -> int:
    match operator:
        case "+":
            return (a + b) % PRIME
        case "-":
            return (a - b) % PRIME
        case "*":
            return a * b % PRIME
        case _:
            return a * pow(b, -1, PRIME) % PRIME


def fractions(numbers: Sequence[int]) -> tuple[Int[np.ndarray, " F"], Int[np.ndarray, " F"]]:
    """(F,) numerators and (F,) denominators of all formulas of the numbers; 0 below where something is divided by 0.

    Args:
        numbers: 2 to 5 whole numbers from 0 to 999.
    """
    table = formulas(len(numbers))
    above, below = np.ones((2, len(table.operators)), np.int64)
    above[: len(numbers)] = numbers
    for level in table.levels:
        left, right = table.left[level], table.right[level]
        a, b, c, d = above[left], below[left], above[right], below[right]
        above[level] = np.choose(table.operators[level], (a * d + c * b, a * d - c * b, a * c, a * d))
        below[level] = np.choose(table.operators[level], (b * d, b * d, b * d, np.where(d == 0, 0, b * c)))
    return above[table.levels[-1]], below[table.levels[-1]]


def formula(numbers: Sequence[int], index: int) -> Expression:
    """The formula at an index of ``fractions``, with the numbers in it."""
    table = formulas(len(numbers))

    def at(row: int) -> Expression:
        if row < len(numbers):
            return numbers[row]
        return Operation(OPERATORS[table.operators[row]], at(int(table.left[row])), at(int(table.right[row])))

    return at(table.levels[-1].start + index)
