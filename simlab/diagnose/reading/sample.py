"""Keep a uniform sample of a stream of rows whose length is not known beforehand."""

import numpy as np

SAMPLE = 100_000  # rollouts; the standard error of a share is then at most 0.0016


class UniformSample:
    """The rows with the smallest of random numbers, one drawn for each row in its order.

    The numbers are independent and alike, so that every set of rows of that size is equally likely; and the sample is
    the same however the rows are cut into batches.

    Args:
        columns: numbers of a row.
        size: rows that are kept at most.
        seed: the seed of the random numbers.
    """

    def __init__(self, columns: int, size: int = SAMPLE, seed: int = 0):
        self._rows = np.zeros((0, columns))
        self._keys = np.zeros(0)
        self._size, self._random = size, np.random.default_rng(seed)

    def add(self, rows: np.ndarray) -> None:
        """Offer rows, (rows, columns)."""
        self._rows = np.concatenate([self._rows, rows])
        self._keys = np.concatenate([self._keys, self._random.random(len(rows))])
        if len(self._keys) > 2 * self._size:
            self._cut()

    def rows(self) -> np.ndarray:
        """The sample, (kept, columns), in the order of the rows."""
        self._cut()
        return self._rows

    def _cut(self) -> None:
        if len(self._keys) > self._size:
            kept = np.sort(np.argpartition(self._keys, self._size - 1)[: self._size])
            self._rows, self._keys = self._rows[kept], self._keys[kept]
