"""Decide which row and column of a batch holds which completion; on the host, in whole numbers.

A row holds completions of one prompt, which share its keys and values. Completions that go on move when half of the
batch is empty, or when prompts wait and find room. Rows are short then (``row_width``), so that a few late completions
block little; the completions of a prompt move together into as few rows as they fill, and the next prompts take the
free rows. Where no prompt waits the number of rows is rounded up to a power of two, so that few programs are compiled.
An example of two columns and groups of four, so that a group takes two rows; x marks completions that have ended::

    prompt 0   a x        prompt 0   a d
    prompt 0   x d        prompt 1   c x     of four rows two are free,
    prompt 1   x x   ->   prompt 2   a b     and the next group takes them
    prompt 1   c x        prompt 2   c d
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

POWERS = 2 ** np.arange(25)
SIZES = np.array(sorted({1, *(2**power for power in range(1, 25)), *(3 * 2**power for power in range(24))}))
# Of 64 prompts with 16 completions each, 128 at once, with lengths of three kinds: rows of 4 and a quarter of the rows
# at a time take .61 to .94 of the time of batches one after the other, rows of 2 take .53 to .85 and hold every
# prompt's keys and values twice as often, rows of a whole group take .83 to 1.77.
WIDEST = 4
SHARE = 4  # the next prompts come when they fill one row in so many
# 32 rollouts of SmolLM2 take .9 of the time in two parts of 16, though each part reads all weights.
FEWEST_OF_A_PART = 16
INTEGERS = Int[np.ndarray, "Q H"]
BOOLEANS = Bool[np.ndarray, "Q H"]


class BatchLayout(NamedTuple):
    """The completion in each row and column of a batch, if there is one. Q rows of H columns."""

    prompt: INTEGERS  # the number of its prompt, the same in a row
    member: INTEGERS  # its number in the group
    filled: BOOLEANS  # true where there is one

    @classmethod
    def of(cls, prompts: int, members: int, prompt_places: int, member_places: int) -> "BatchLayout":
        """Return the layout of a new batch, a row for each prompt."""
        prompt, member = np.indices((prompt_places, member_places))
        return cls(prompt, member, (prompt < prompts) & (member < members))

    def moved(self, old_rows: INTEGERS, old_columns: INTEGERS, filled: BOOLEANS) -> "BatchLayout":
        """Return the layout after a move."""
        return BatchLayout(self.prompt[old_rows, old_columns], self.member[old_rows, old_columns], filled)

    @property
    def group(self) -> Int[np.ndarray, " Q"]:
        """The same small number for the rows of one prompt."""
        _, numbers = np.unique(self.prompt[:, 0], return_inverse=True)
        return numbers.astype(np.int32)

    def with_rows(self, first: int, new: "BatchLayout") -> "BatchLayout":
        """Put new groups, cut into rows of this width, in place of the rows from ``first`` on."""

        def put(target: np.ndarray, new: np.ndarray) -> np.ndarray:
            rows = new.reshape(-1, target.shape[1])
            return np.concatenate([target[:first], rows, target[first + len(rows) :]])

        return BatchLayout(*map(put, self, new))


class Move(NamedTuple):
    """A move of completions."""

    rows: INTEGERS  # the old row of each new place, the same prompt's in a row
    columns: INTEGERS  # the old column in it
    filled: BOOLEANS  # true where the new place has a completion that goes on; the others hold one that has ended


def regrouped(layout: BatchLayout, alive: BOOLEANS, shape: tuple[int, int]) -> Move:
    """Move the completions that go on, grouped by prompt, into as few rows as they fill, of a batch of this shape.

    >>> batch = BatchLayout.of(0, 0, 4, 2).with_rows(0, BatchLayout.of(2, 4, 2, 4))
    >>> move = regrouped(batch, np.array([[True, False], [False, True], [False, False], [True, False]]), (4, 2))
    >>> move.rows.tolist(), move.columns.tolist()
    ([[0, 1], [3, 3], [0, 0], [0, 0]], [[0, 1], [0, 0], [0, 0], [0, 0]])
    """
    width = shape[1]
    rows, columns = np.nonzero(alive)
    order = np.argsort(layout.prompt[rows, columns], kind="stable")
    rows, columns = rows[order], columns[order]
    _, counts = np.unique(layout.prompt[rows, columns], return_counts=True)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    needed = -(-counts // width)
    to = np.repeat(np.cumsum(needed) - needed, counts) + within // width, within % width
    filled = np.zeros(shape, bool)
    filled[to] = True
    from_rows, from_columns = np.zeros(shape, int), np.zeros(shape, int)
    from_rows[to], from_columns[to] = rows, columns
    # A place that is left over copies the row's first one, whose prompt it is of.
    empty = np.nonzero(~filled)
    from_rows[empty], from_columns[empty] = from_rows[empty[0], 0], from_columns[empty[0], 0]
    return Move(from_rows, from_columns, filled)


def smaller_shape(layout: BatchLayout, alive: BOOLEANS) -> tuple[int, int]:
    """Return the shape of the batch that the completions that go on move into where no prompt waits."""
    width = row_width(alive.shape[1])
    return int(POWERS[np.searchsorted(POWERS, rows_needed(alive, layout.prompt, width))]), width


def rounded_up(size: int) -> int:
    """Return the next of 1, 2, 3, 4, 6, 8, 12, ...: a size that programs are compiled for."""
    return int(SIZES[np.searchsorted(SIZES, size)])


def rounded_length(tokens: int) -> int:
    """Return the next of 1 to 16, 18, 20, ..., 32, 36, ...: lengths of prompts differ less than sizes do."""
    step = 1 << max(0, tokens.bit_length() - 4)
    return -(-tokens // step) * step


class BatchSize(NamedTuple):
    """The rows and columns of a batch, and the prompts that join at a time (0 where none waits)."""

    rows: int
    width: int
    joining: int = 0


def batch_size(prompts: int, group_size: int, at_once: int | None = None) -> BatchSize:
    """Return the size of the batch for groups of completions, of which ``at_once`` are sampled at a time.

    >>> batch_size(5, 8), batch_size(64, 16, 128)
    (BatchSize(rows=6, width=8, joining=0), BatchSize(rows=32, width=4, joining=2))
    """
    if at_once is None or prompts * group_size <= at_once:
        return BatchSize(rounded_up(prompts), rounded_up(group_size))
    width = row_width(group_size)
    group_rows = group_size // width
    rows = max(at_once // width, group_rows)
    return BatchSize(rows, width, max(1, rows // SHARE // group_rows))


def part_count(prompts: int, group_size: int, at_once: int | None = None) -> int:
    """Return the number of parts of a batch that are sampled side by side; it does not depend on the number of
    cores."""
    completions = prompts * group_size if at_once is None else min(at_once, prompts * group_size)
    return 2 if prompts > 1 and completions >= 2 * max(FEWEST_OF_A_PART, group_size) else 1


def row_width(group_size: int) -> int:
    """Return the columns of a row where prompts wait: the largest divisor of the group's size up to ``WIDEST``."""
    return next(width for width in range(min(WIDEST, group_size), 0, -1) if group_size % width == 0)


def rows_needed(alive: BOOLEANS, prompt: INTEGERS, width: int) -> int:
    """Return how many rows of ``width`` columns the completions that go on fill, grouped by prompt."""
    counts = np.bincount(prompt[:, 0], weights=alive.sum(axis=1))
    return sum(math.ceil(count / width) for count in counts)
