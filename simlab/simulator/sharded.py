"""Spread the actions of a policy over several devices: sharded storage.

A device holds its share of every array of actions and never a whole one; ``on_mesh`` has a program run on each of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from simlab.problems.base import Problem
from simlab.simulator.barrier import barrier
from simlab.simulator.devices import Devices
from simlab.simulator.sampling import ROWS, draw_block, draw_member, random_pairs
from simlab.simulator.state import State
from simlab.simulator.storage import Dense, Places, dtype_of
from simlab.simulator.sum_tree import total
from simlab.simulator.trajectory import Inputs, Progress, Schedule

MESH_AXIS = "actions"
UNROLLED = 16  # rows that one pass adds
EVERYWHERE: Any = PartitionSpec()  # type: ignore[no-untyped-call]


@jax.tree_util.register_static
@dataclass(frozen=True)
class Sharded(Dense):
    """N actions spread over the devices of a mesh, for functions that ``jax.shard_map`` runs on each of them.

    A device holds whole blocks of ``sampling.draw``, which numbers B blocks so that action a is in row a // B of block
    a % B: the same number of blocks each, row after row, 0s where there is no action. So a block is added up and
    searched where it lies, and what devices tell one another is a number a block, or one a draw.

    Sums do not depend on how many devices there are: blocks are added up row by row and then among each other by
    halves. What XLA was seen to compute in one way on one device and in another on several is written out.

    Attributes:
        actions: N.
        devices: those that they are spread over.
    """

    actions: int
    devices: Devices
    name = "sharded"

    @property
    def shards(self) -> int:
        """How many devices there are."""
        return len(self.devices)

    @property
    def blocks(self) -> int:
        """B."""
        return -(-self.actions // ROWS)

    @property
    def columns(self) -> int:
        """Blocks of each device."""
        return -(-self.blocks // self.shards)

    # Arrays over actions: whole ones, in rows of blocks that are split over devices, and what a device holds

    def split(self, values: Shaped[np.ndarray, "..."], axis: int) -> Shaped[np.ndarray, "..."]:
        """Values of all actions, their axis in rows of all blocks: to be split along the second, one part a device."""
        missing, more = ROWS * self.blocks - self.actions, self.shards * self.columns - self.blocks
        before, after = values.shape[:axis], values.shape[axis + 1 :]
        rows = np.pad(values, _at(axis, values.ndim, missing)).reshape(*before, ROWS, self.blocks, *after)
        return np.pad(rows, _at(axis + 1, rows.ndim, more))

    def laid_out(self, problem: Problem, dtype: str) -> Problem:
        """The problem on the devices."""
        host = jax.tree.map(lambda values: np.asarray(values, dtype_of(values, dtype)), problem.listed())
        laid = _over_actions(host, self.split)
        placed: Problem = jax.tree.map(jax.device_put, laid, self._shardings(laid))
        return placed

    def shapes(self, problem: Problem, dtype: str) -> Problem:
        """The shapes of the problem on the devices, on which nothing is put: it might not fit."""
        listed = problem.listed()
        laid = _over_actions(listed, self.split)
        found: Problem = jax.tree.map(
            lambda values, sharding: jax.ShapeDtypeStruct(np.shape(values), dtype_of(values, dtype), sharding=sharding),  # type: ignore[no-untyped-call]
            laid,
            self._shardings(laid),
        )
        return found

    def joined(self, problem: Problem) -> Problem:
        """What one device holds of a problem that is laid out, its rows of blocks one after the other."""

        def join(values: Array, axis: int) -> Array:
            return values.reshape(*values.shape[:axis], -1, *values.shape[axis + 2 :])

        return _over_actions(problem, join)

    def specs(self, problem: Problem) -> Any:
        """How the arrays of a problem that is laid out are split."""
        everywhere = jax.tree.map(lambda _: EVERYWHERE, problem)
        return _over_actions(everywhere, lambda _, axis: PartitionSpec(*[None] * (axis + 1), MESH_AXIS))  # type: ignore[no-untyped-call]

    def _shardings(self, laid: Problem) -> Any:
        return jax.tree.map(
            lambda spec: NamedSharding(self.mesh, spec),
            self.specs(laid),
            is_leaf=lambda leaf: leaf is not laid and isinstance(leaf, PartitionSpec),
        )

    @property
    def mesh(self) -> Mesh:
        """The devices in a row."""
        return Mesh(np.array(self.devices), (MESH_AXIS,))

    # What meets all places

    def filled(self, values: Shaped[Array, " n"], free: float, places: Places) -> Shaped[Array, " n"]:
        """The values, but ``free`` at places of no action."""
        row = jnp.arange(ROWS, dtype=jnp.int32)[:, None]
        block = self._first_block() + jnp.arange(self.columns, dtype=jnp.int32)
        # row * B + block < N, without a product that might leave the range of int32.
        is_action = (block < self.blocks) & (row <= (self.actions - 1 - block) // self.blocks)
        return jnp.where(is_action.reshape(-1), values, free)

    def once(self, values: Float[Array, " n"]) -> Float[Array, " n"]:
        """The values, computed once: another computation of an exponential may round another way."""
        return barrier(values)

    def divided(self, values: Float[Array, " n"], total: Float[Array, ""]) -> Float[Array, " n"]:
        """The values times the inverse of their total: XLA would replace some divisions so, and not others."""
        return barrier(values * barrier(1 / total))

    def largest(self, values: Float[Array, " n"]) -> Float[Array, ""]:
        """The largest value of an action."""
        own = jnp.max(self.filled(values, -jnp.inf, None))
        largest: Float[Array, ""] = jax.lax.pmax(own, MESH_AXIS)  # type: ignore[no-untyped-call]
        return largest

    def largest_size(self, values: Float[Array, "..."]) -> Float[Array, ""]:
        """The largest absolute value of an array of parameters, which are 0 at places of no action."""
        largest: Float[Array, ""] = jax.lax.pmax(jnp.max(jnp.abs(values)), MESH_AXIS)  # type: ignore[no-untyped-call]
        return largest

    def sum_of_all(self, values: Float[Array, "..."]) -> Float[Array, ""]:
        """The sum of an array of parameters, its axis of places the one of this length."""
        [axis] = [place for place, length in enumerate(values.shape) if length == ROWS * self.columns][-1:]
        each = jax.vmap(self.sum)(jnp.moveaxis(values, axis, -1).reshape(-1, values.shape[axis]))
        return jnp.sum(each)

    def is_finite(self, values: Float[Array, "n ..."], places: Places) -> Bool[Array, ""]:
        """Whether values are finite at all places, those of no action too."""
        wrong: Array = jax.lax.psum(jnp.sum(~jnp.isfinite(values), dtype=jnp.int32), MESH_AXIS)  # type: ignore[no-untyped-call]
        return wrong == 0

    def sum(self, values: Shaped[Array, " n"]) -> Shaped[Array, ""]:
        """The sum over all actions; values are 0 at places of no action."""
        of_blocks = self._block_sums(values)
        return total(jnp.pad(of_blocks, (0, (1 << (self.blocks - 1).bit_length()) - self.blocks)))

    def whole(self, values: Shaped[Array, "n ..."]) -> Shaped[Array, "m ..."]:
        """Values of the places of all devices, on each of them."""
        gathered: Shaped[Array, "m ..."] = jax.lax.all_gather(values, MESH_AXIS, tiled=True)
        return gathered

    def at(self, values: Shaped[Array, " n"], actions: Int[Array, " G"]) -> Shaped[Array, " G"]:
        """The values of some actions, on every device."""
        is_here, column = self._column(actions % self.blocks)
        return self._from_here(is_here, values[actions // self.blocks * self.columns + column])

    def add(
        self, values: Float[Array, " n"], actions: Int[Array, " G"], more: Float[Array, " G"] | float
    ) -> Float[Array, " n"]:
        """The values, with more added to those of some actions."""
        is_here, column = self._column(actions % self.blocks)
        places = jnp.where(is_here, actions // self.blocks * self.columns + column, len(values))
        return values.at[places].add(more, mode="drop")

    def top(self, values: Float[Array, " n"], count: int) -> tuple[Float[Array, " C"], Int[Array, " C"]]:
        """The ``count`` largest values, the largest first, and their actions, the lower first of equal ones."""
        if count == 0:
            return super().top(values, count)
        largest, places = super().top(values, count)
        actions = places // self.columns * self.blocks + self._first_block() + places % self.columns
        everyone = (jax.lax.all_gather(own, MESH_AXIS, tiled=True) for own in (-largest, actions))
        falling, actions = jax.lax.sort(tuple(everyone), num_keys=2)
        return -falling[:count], actions[:count]

    def draw(self, key: PRNGKeyArray, weights: Float[Array, " n"], group_size: int) -> Int[Array, " G"]:
        """What ``sampling.draw`` draws of the weights of all actions."""
        first, second = random_pairs(key, group_size, weights.dtype)
        block = draw_block(barrier(self._block_sums(weights)), first)
        is_here, column = self._column(block)
        place = draw_member(weights.reshape(ROWS, -1), column, second)
        return self._from_here(is_here, place // self.columns) * self.blocks + block

    def _first_block(self) -> Int[Array, ""]:
        return jax.lax.axis_index(MESH_AXIS) * self.columns

    def _column(self, block: Int[Array, " G"]) -> tuple[Bool[Array, " G"], Int[Array, " G"]]:
        """Whether each block lies on this device, and where; any of its columns if not."""
        column = block - self._first_block()
        return (column >= 0) & (column < self.columns), jnp.clip(column, 0, self.columns - 1)

    def _from_here(self, is_here: Bool[Array, " G"], values: Shaped[Array, " G"]) -> Shaped[Array, " G"]:
        """Values that one device each has, on every device."""
        own = jnp.where(is_here, values, jnp.zeros_like(values))
        summed: Shaped[Array, " G"] = jax.lax.psum(own, MESH_AXIS)  # type: ignore[no-untyped-call]
        return summed.astype(values.dtype)

    def _block_sums(self, values: Shaped[Array, " n"]) -> Shaped[Array, " B"]:
        """The sum of each block, on every device."""

        def add(above: Array, row: Array) -> tuple[Array, None]:
            return above + row, None

        rows = values.reshape(ROWS, -1)
        sums, _ = jax.lax.scan(add, jnp.sum(rows[:0], axis=0), rows, unroll=UNROLLED)
        of_all: Shaped[Array, " B"] = jax.lax.all_gather(sums, MESH_AXIS, tiled=True)[: self.blocks]
        return of_all


def on_mesh(program: Callable[..., Progress], storage: Sharded, problem: Problem) -> Callable[..., Progress]:
    """A program that runs on each of the devices, on what that one holds of the problem."""

    def here(schedule: Schedule, inputs: Inputs, unbegun: None) -> Progress:
        progress = program(schedule, inputs._replace(problem=storage.joined(inputs.problem)), unbegun)
        nothing = State._make([None] * len(State._fields))
        only_fault = nothing._replace(fault=progress.state.fault)
        return progress._replace(state=only_fault)

    inputs = Inputs(storage.specs(problem), None, *[EVERYWHERE] * 3)
    spread: Callable[..., Progress] = jax.shard_map(
        here, mesh=storage.mesh, in_specs=(EVERYWHERE, inputs, None), out_specs=EVERYWHERE, check_vma=False
    )
    return spread


def _over_actions(problem: Problem, change: Callable[[Any, int], Any]) -> Problem:
    """The problem with its arrays over actions changed, each with its axis of actions."""
    return problem.replaced(
        **{name: change(getattr(problem, name), axis) for name, axis in problem.over_actions.items()}
    )


def _at(axis: int, axes: int, more: int) -> list[tuple[int, int]]:
    return [(0, more if place == axis else 0) for place in range(axes)]
