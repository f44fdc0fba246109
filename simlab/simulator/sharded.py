"""Spread the actions of a policy over several devices: sharded storage."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from simlab.problems.base import Problem
from simlab.simulator.resources import Devices
from simlab.simulator.sampling import ROWS, barrier, draw_block, draw_member, random_pairs, tree_sum
from simlab.simulator.state import LearnerState
from simlab.simulator.storage import Dense, Slots, dtype_on_device
from simlab.simulator.trajectory import Inputs, RecordSchedule, RunProgress

MESH_AXIS = "actions"
UNROLLED = 16  # rows that one pass adds
EVERYWHERE: Any = PartitionSpec()  # type: ignore[no-untyped-call]


@jax.tree_util.register_static
@dataclass(frozen=True)
class Sharded(Dense):
    """N actions spread over the devices of a mesh, for functions that ``jax.shard_map`` runs on each of them.

    A device holds as many whole blocks of ``sampling.draw`` as any other, so that devices exchange a number a block, or
    one a draw. Blocks are added up row by row and then among each other by halves: sums do not depend on the number of
    devices. Operations that XLA computes in one way on one device and in another on several are written out.
    """

    actions: int
    devices: Devices
    name = "sharded"

    @property
    def blocks(self) -> int:
        """B."""
        return -(-self.actions // ROWS)

    @property
    def columns(self) -> int:
        """Blocks of each device."""
        return -(-self.blocks // len(self.devices))

    def split(self, values: Shaped[np.ndarray, "..."], axis: int) -> Shaped[np.ndarray, "..."]:
        """Lay the axis of all actions in rows of all blocks, to be split over devices along the second."""
        missing, more = ROWS * self.blocks - self.actions, len(self.devices) * self.columns - self.blocks
        last = np.pad(np.moveaxis(values, axis, -1), [(0, 0)] * (values.ndim - 1) + [(0, missing)])
        rows = last.reshape(*last.shape[:-1], ROWS, self.blocks)
        rows = np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, more)])
        return np.moveaxis(rows, (-2, -1), (axis, axis + 1))

    def load(self, problem: Problem, dtype: str) -> Problem:
        """Put the problem on the devices."""
        host = jax.tree.map(lambda values: np.asarray(values, dtype_on_device(values, dtype)), problem.listed())
        split = _over_actions(host, self.split)
        loaded: Problem = jax.tree.map(
            lambda values, spec: jax.device_put(values, NamedSharding(self.mesh, spec)), split, self.specs(split)
        )
        return loaded

    def specs(self, problem: Problem) -> Any:
        """Return how the arrays of a loaded problem are split."""
        everywhere = jax.tree.map(lambda _: EVERYWHERE, problem)
        return _over_actions(everywhere, lambda _, axis: PartitionSpec(*[None] * (axis + 1), MESH_AXIS))  # type: ignore[no-untyped-call]

    def join(self, problem: Problem) -> Problem:
        """Lay one device's share of a loaded problem row after row of its blocks."""
        return _over_actions(
            problem, lambda values, axis: values.reshape(*values.shape[:axis], -1, *values.shape[axis + 2 :])
        )

    @property
    def mesh(self) -> Mesh:
        """The devices in a row."""
        return Mesh(np.array(self.devices), (MESH_AXIS,))

    def fill_empty(self, values: Shaped[Array, " n"], fill: float, slots: Slots) -> Shaped[Array, " n"]:
        """Replace the values of slots that hold no action."""
        row = jnp.arange(ROWS, dtype=jnp.int32)[:, None]
        block = self._first_block() + jnp.arange(self.columns, dtype=jnp.int32)
        # row * B + block < N, without a product that might leave the range of int32.
        is_action = (block < self.blocks) & (row <= (self.actions - 1 - block) // self.blocks)
        return jnp.where(is_action.reshape(-1), values, fill)

    def compute_once(self, values: Float[Array, " n"]) -> Float[Array, " n"]:
        """Return the values, computed once: another computation of an exponential may round another way."""
        return barrier(values)

    def divide(self, values: Float[Array, " n"], total: Float[Array, ""]) -> Float[Array, " n"]:
        """Multiply values by the inverse of a number: XLA would replace some divisions so, and not others."""
        return barrier(values * barrier(1 / total))

    def largest(self, values: Float[Array, " n"]) -> Float[Array, ""]:
        """Return the largest value of an action."""
        local = jnp.max(self.fill_empty(values, -jnp.inf, None))
        largest: Float[Array, ""] = jax.lax.pmax(local, MESH_AXIS)  # type: ignore[no-untyped-call]
        return largest

    def largest_parameter(self, values: Float[Array, "..."]) -> Float[Array, ""]:
        """Return the largest absolute value of an array of parameters, which are 0 at empty slots."""
        largest: Float[Array, ""] = jax.lax.pmax(jnp.max(jnp.abs(values)), MESH_AXIS)  # type: ignore[no-untyped-call]
        return largest

    def sum_parameters(self, values: Float[Array, "..."]) -> Float[Array, ""]:
        """Return the sum of an array of parameters, whose axis of slots is known by its length."""
        [axis] = [number for number, length in enumerate(values.shape) if length == ROWS * self.columns][-1:]
        each = jax.vmap(self.sum)(jnp.moveaxis(values, axis, -1).reshape(-1, values.shape[axis]))
        return jnp.sum(each)

    def is_finite(self, values: Float[Array, "n ..."], slots: Slots) -> Bool[Array, ""]:
        """Return True if values are finite at all slots, empty ones too."""
        wrong: Array = jax.lax.psum(jnp.sum(~jnp.isfinite(values), dtype=jnp.int32), MESH_AXIS)  # type: ignore[no-untyped-call]
        return wrong == 0

    def sum(self, values: Shaped[Array, " n"]) -> Shaped[Array, ""]:
        """Return the sum over all actions; values are 0 at empty slots."""
        block_sums = self._block_sums(values)
        return tree_sum(jnp.pad(block_sums, (0, (1 << (self.blocks - 1).bit_length()) - self.blocks)))

    def gather(self, values: Shaped[Array, "n ..."]) -> Shaped[Array, "m ..."]:
        """Collect the values of the slots of all devices on each of them."""
        gathered: Shaped[Array, "m ..."] = jax.lax.all_gather(values, MESH_AXIS, tiled=True)
        return gathered

    def at(self, values: Shaped[Array, " n"], actions: Int[Array, " G"]) -> Shaped[Array, " G"]:
        """Look up the values of some actions, on every device."""
        is_here, column = self._column(actions % self.blocks)
        return self._from_here(is_here, values[actions // self.blocks * self.columns + column])

    def add(
        self, values: Float[Array, " n"], actions: Int[Array, " G"], more: Float[Array, " G"] | float
    ) -> Float[Array, " n"]:
        """Add ``more`` to the values of some actions."""
        is_here, column = self._column(actions % self.blocks)
        slots = jnp.where(is_here, actions // self.blocks * self.columns + column, len(values))
        return values.at[slots].add(more, mode="drop")

    def top(self, values: Float[Array, " n"], count: int) -> tuple[Float[Array, " C"], Int[Array, " C"]]:
        """Return the ``count`` largest values, the largest first, and their actions, the lower first of equal ones."""
        if count == 0:
            return super().top(values, count)
        largest, slots = super().top(values, count)
        actions = slots // self.columns * self.blocks + self._first_block() + slots % self.columns
        everyone = (jax.lax.all_gather(local, MESH_AXIS, tiled=True) for local in (-largest, actions))
        falling, actions = jax.lax.sort(tuple(everyone), num_keys=2)
        return -falling[:count], actions[:count]

    def draw(self, key: PRNGKeyArray, weights: Float[Array, " n"], group_size: int) -> Int[Array, " G"]:
        """Draw actions, the same as ``sampling.draw`` draws by the weights of all."""
        first, second = random_pairs(key, group_size, weights.dtype)
        block = draw_block(barrier(self._block_sums(weights)), first)
        is_here, column = self._column(block)
        member = draw_member(weights.reshape(ROWS, -1), column, second)
        return self._from_here(is_here, member // self.columns) * self.blocks + block

    def _first_block(self) -> Int[Array, ""]:
        return jax.lax.axis_index(MESH_AXIS) * self.columns

    def _column(self, block: Int[Array, " G"]) -> tuple[Bool[Array, " G"], Int[Array, " G"]]:
        """Return True for blocks on this device, and the column of each; any column for the others."""
        column = block - self._first_block()
        return (column >= 0) & (column < self.columns), jnp.clip(column, 0, self.columns - 1)

    def _from_here(self, is_here: Bool[Array, " G"], values: Shaped[Array, " G"]) -> Shaped[Array, " G"]:
        """Send values that one device has to every device."""
        local = jnp.where(is_here, values, jnp.zeros_like(values))
        summed: Shaped[Array, " G"] = jax.lax.psum(local, MESH_AXIS)  # type: ignore[no-untyped-call]
        return summed.astype(values.dtype)

    def _block_sums(self, values: Shaped[Array, " n"]) -> Shaped[Array, " B"]:
        """Return the sum of each block, on every device."""

        rows = values.reshape(ROWS, -1)
        zeros = jnp.sum(rows[:0], axis=0)
        sums, _ = jax.lax.scan(lambda above, row: (above + row, None), zeros, rows, unroll=UNROLLED)
        block_sums: Shaped[Array, " B"] = jax.lax.all_gather(sums, MESH_AXIS, tiled=True)[: self.blocks]
        return block_sums


def on_mesh(program: Callable[..., RunProgress], storage: Sharded, problem: Problem) -> Callable[..., RunProgress]:
    """Return a program that runs on each of the devices, on its share of the problem."""

    def local(schedule: RecordSchedule, inputs: Inputs, progress: None) -> RunProgress:
        done = program(schedule, inputs._replace(problem=storage.join(inputs.problem)), progress)
        only_fault = LearnerState._make([None] * len(LearnerState._fields))._replace(fault=done.state.fault)
        return done._replace(state=only_fault)

    inputs = Inputs(storage.specs(problem), None, *[EVERYWHERE] * 3)
    spread: Callable[..., RunProgress] = jax.shard_map(
        local, mesh=storage.mesh, in_specs=(EVERYWHERE, inputs, None), out_specs=EVERYWHERE, check_vma=False
    )
    return spread


def _over_actions(problem: Problem, change: Callable[[Any, int], Any]) -> Problem:
    """Change the arrays over actions of a problem; ``change`` takes an array and its axis of actions."""
    return problem.replaced(**{name: change(getattr(problem, name), axis) for name, axis in problem.axes.items()})
