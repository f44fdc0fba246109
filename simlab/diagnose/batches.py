"""Lay the rollouts of a log out as the estimators read them: a table of groups for each step."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from simlab.diagnose.reading import LoggedRollouts
from simlab.estimators import advantages

CELLS = 2**20  # of all tables: steps are left out, evenly, and groups of a step that is larger


Table = Float[np.ndarray, "P G"]


class Batch(NamedTuple):
    """The groups of one step: the number of each rollout, and true where there is one."""

    rollout: Int[np.ndarray, "P G"]
    mask: Bool[np.ndarray, "P G"]

    def take(self, values: Float[np.ndarray, " N"]) -> Table:
        """Return a column of the log as a table, with 0 in empty cells."""
        return np.where(self.mask, np.nan_to_num(values[self.rollout]), 0.0)


def lay_out(group: Int[np.ndarray, " N"]) -> Batch:
    """Return rollouts as a table of their groups, each in the order of the log."""
    order = np.argsort(group, kind="stable")
    _, index, sizes = np.unique(group[order], return_inverse=True, return_counts=True)
    column = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[index]
    rollout, mask = np.zeros((len(sizes), sizes.max()), int), np.zeros((len(sizes), sizes.max()), bool)
    rollout[index, column], mask[index, column] = order, True
    return Batch(rollout, mask)


def step_batches(rollouts: LoggedRollouts, first_step: int = 0) -> Iterator[Batch]:
    """Yield the groups of steps from ``first_step`` on, of evenly chosen ones where all are more than ``CELLS``."""
    steps, counts = np.unique(rollouts.step, return_counts=True)
    order, ends = np.argsort(rollouts.step, kind="stable"), np.cumsum(counts)
    late = np.flatnonzero(steps >= first_step)
    for index in late[:: 1 + int(counts[late].sum()) // CELLS]:
        numbers = order[ends[index] - counts[index] : ends[index]]
        table = lay_out(rollouts.group[numbers])
        groups = max(1, CELLS // table.mask.shape[1])
        yield Batch(numbers[table.rollout[:groups]], table.mask[:groups])


def recompute(name: str, rewards: Table, mask: Bool[np.ndarray, "P G"], **parameters: float) -> Table:
    """Return a named estimator's advantages, 0 where there is no rollout."""
    return np.where(mask, advantages(name, rewards, mask=mask, **parameters), 0.0)
