"""Add up rows by their keys, where the keys are whole numbers and there are millions of rows."""

import numpy as np
from jaxtyping import Float, Int, UInt64

AT_LEAST = 2**18  # rows that wait before they are added up


class Tally:
    """Sums by key, in memory that grows with the different keys and not with the rows.

    Args:
        keys: numbers of a key, K.
        sums: numbers that are added up for each, S.
    """

    def __init__(self, keys: int, sums: int):
        self._keys = [np.zeros((0, keys), np.uint64)]
        self._sums = [np.zeros((0, sums))]
        self._waiting = self._known = 0

    def add(self, keys: UInt64[np.ndarray, "rows K"], sums: Float[np.ndarray, "rows S"]) -> None:
        """Add rows; they are added up when they are as many as the different keys."""
        self._keys.append(keys)
        self._sums.append(sums)
        self._waiting += len(keys)
        if self._waiting > max(AT_LEAST, self._known):
            self.totals()

    def totals(self) -> tuple[UInt64[np.ndarray, "different K"], Float[np.ndarray, "different S"]]:
        """The different keys in ascending order, the first number first, and the sums of each."""
        keys, sums = np.concatenate(self._keys), np.concatenate(self._sums)
        order, first = _in_order(keys)
        starts = np.flatnonzero(first)
        added = np.add.reduceat(sums[order], starts, axis=0) if len(starts) else sums
        self._keys, self._sums = [keys[order[starts]]], [added]
        self._known, self._waiting = len(starts), 0
        return self._keys[0], self._sums[0]


def numbered(keys: UInt64[np.ndarray, "rows K"]) -> Int[np.ndarray, " rows"]:
    """One number for all rows of a key, from 0 in the order of the keys."""
    order, first = _in_order(keys)
    numbers = np.empty(len(keys), np.int64)
    numbers[order] = np.cumsum(first) - 1
    return numbers


def _in_order(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places of the rows in ascending order, and of each there whether its key is not that of the row before."""
    order = np.lexsort(keys.T[::-1])
    ordered = keys[order]
    first = np.ones(len(keys), bool)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return order, first
