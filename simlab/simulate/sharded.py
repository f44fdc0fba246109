"""Spread the actions of a policy over several devices: sharded storage.

A device holds its share of every array of actions and never a whole one; ``jax.shard_map`` runs a learner on each of them.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from simlab.problems.base import Problem
from simlab.simulate.barrier import barrier
from simlab.simulate.devices import Group as Devices
from simlab.simulate.sampling import ROWS, draw_block, draw_row, random_pairs
from simlab.simulate.storage import Dense, Places, on_device
from simlab.simulate.sum_tree import total

MESH_AXIS = "actions"
UNROLLED = 16  # rows that one pass adds


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
        shards: how many devices there are.
    """

    actions: int
    shards: int

    @property
    def blocks(self) -> int:
        """B."""
        return -(-self.actions // ROWS)

    @property
    def columns(self) -> int:
        """Blocks of each device."""
        return -(-self.blocks // self.shards)

    @property
    def shape(self) -> tuple[int, int]:
        """Of an array of all actions, with its places of no action: the rows, and the blocks of all devices."""
        return ROWS, self.shards * self.columns

    def split(self, values: Shaped[np.ndarray, "..."], axis: int) -> Shaped[np.ndarray, "..."]:
        """Values of all actions, their axis in rows of all blocks: to be split along the second, one part a device."""
        values = np.moveaxis(values, axis, 0)
        missing = ROWS * self.blocks - self.actions
        blocks = np.pad(values, [(0, missing)] + [(0, 0)] * (values.ndim - 1)).reshape(ROWS, self.blocks, *values.shape[1:])
        more = self.shards * self.columns - self.blocks
        whole = np.pad(blocks, [(0, 0), (0, more)] + [(0, 0)] * (values.ndim - 1))
        return np.moveaxis(whole, (0, 1), (axis % values.ndim, axis % values.ndim + 1))

    def laid_out(self, problem: Problem, dtype: str) -> Problem:
        """The problem on the host, its arrays over actions in rows of blocks; see ``specs`` and ``joined``."""
        listed = problem.listed()
        split = {name: self.split(getattr(listed, name), axis) for name, axis in problem.over_actions.items()}
        return dataclasses.replace_fields(listed, **split)

    def filled(self, values: Shaped[Array, " n"], free: float, places: Places = None) -> Shaped[Array, " n"]:
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
        own = jnp.max(self.filled(values, -jnp.inf))
        largest: Float[Array, ""] = jax.lax.pmax(own, MESH_AXIS)  # type: ignore[no-untyped-call]
        return largest

    def sum(self, values: Shaped[Array, " n"]) -> Shaped[Array, ""]:
        """The sum over all actions; values are 0 at places of no action."""
        of_blocks = self._block_sums(values)
        return total(jnp.pad(of_blocks, (0, (1 << (self.blocks - 1).bit_length()) - self.blocks)))

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
        return self._from_here(is_here, draw_row(weights.reshape(ROWS, -1), column, second)) * self.blocks + block

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
