"""Arrange rows of an engine's batch into groups, as estimators read them, and write states as JSON holds them."""

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain

from array_api_compat import array_namespace

from simlab.errors import InputError
from simlab.estimators.base import State
from simlab.rollouts import Array

MEMORY = "simlab_estimator.json"  # in the folder of a checkpoint: the states of estimators


class Grouping:
    """The groups of a batch: the rows of one prompt, which may lie anywhere; groups may differ in size.

    Attributes:
        shape: (P, G), prompts in the order of their first rows, and rollouts of the largest group.

    Raises: InputError: for no rows.

    >>> grouping = Grouping(["a", "b", "a"])
    >>> grouping.groups(np.array([1.0, 2.0, 3.0])).tolist()
    [[1.0, 3.0], [2.0, 0.0]]
    >>> grouping.rows(np.array([[1.0, 3.0], [2.0, 0.0]])).tolist()
    [1.0, 2.0, 3.0]
    """

    def __init__(self, prompts: Sequence[Hashable]):
        members: dict[Hashable, list[int]] = {}
        for row, prompt in enumerate(prompts):
            members.setdefault(prompt, []).append(row)
        if not members:
            raise InputError("a batch has no rows; allowed: one or more")
        largest = max(map(len, members.values()))
        self.shape = len(members), largest
        self._group_rows = [rows + [-1] * (largest - len(rows)) for rows in members.values()]
        slots = {row: slot for slot, row in enumerate(chain(*self._group_rows))}
        self._row_slots = [slots[row] for row in range(len(prompts))]

    def mask(self, like: Array) -> Array:
        """Return (P, G), true where a rollout exists: an array of the kind and device of ``like``."""
        xp = array_namespace(like)
        return xp.asarray([[row >= 0 for row in rows] for rows in self._group_rows], device=like.device)

    def groups(self, rows: Array) -> Array:
        """Arrange (rows, ...) into (P, G, ...); 0 where no rollout is."""
        xp = array_namespace(rows)
        index = xp.asarray([max(row, 0) for row in chain(*self._group_rows)], device=rows.device)
        spread = xp.reshape(xp.take(rows, index, axis=0), (*self.shape, *rows.shape[1:]))
        mask = xp.reshape(self.mask(rows), (*self.shape, *(1 for _ in rows.shape[1:])))
        return xp.where(mask, spread, xp.zeros_like(spread))

    def rows(self, groups: Array) -> Array:
        """Arrange (P, G, ...) back into (rows, ...)."""
        xp = array_namespace(groups)
        flat = xp.reshape(groups, (-1, *groups.shape[2:]))
        return xp.take(flat, xp.asarray(self._row_slots, device=groups.device), axis=0)


def state_numbers(state: State) -> list[float]:
    """Return the numbers of a state, tuples within tuples."""
    return [number for item in state for number in state_numbers(item)] if isinstance(state, tuple) else [float(state)]


def read_state(first: State, numbers: Iterable[float]) -> State:
    """Return a state of the structure of ``first`` with these numbers, in the order of ``state_numbers``."""
    if not isinstance(first, tuple):
        return next(iter(numbers))
    remaining = iter(numbers)
    items = [read_state(item, remaining) for item in first]
    return type(first)(*items) if hasattr(first, "_fields") else tuple(items)
