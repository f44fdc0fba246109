"""The axis of actions: all of them on one device, or spread over several.

What a lane does to each action by itself is the same wherever the action lies. What meets actions of all places, such
as a sum or a draw, is a method here, so that one lane serves both.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from simlab.simulate.barrier import barrier
from simlab.simulate.descent import total
from simlab.simulate.sampling import ROWS, draw, draw_block, draw_row, random_pairs

MESH_AXIS = "actions"
UNROLLED = 16  # rows that one pass adds


@jax.tree_util.register_static
@dataclass(frozen=True)
class Axis:
    """All places on one device; the i-th is that of action i."""

    def filled(self, values: Shaped[Array, " n"], free: float) -> Shaped[Array, " n"]:
        """The values, but ``free`` at places of no action, of which there are none."""
        return values

    def once(self, values: Float[Array, " n"]) -> Float[Array, " n"]:
        """The values, which XLA may compute again for each of their uses."""
        return values

    def divided(self, values: Float[Array, " n"], total: Float[Array, ""]) -> Float[Array, " n"]:
        """The values over their total."""
        return values / total

    def largest(self, values: Float[Array, "..."]) -> Float[Array, ""]:
        """The largest value of an action."""
        return jnp.max(values)

    def sum(self, values: Shaped[Array, "..."]) -> Shaped[Array, ""]:
        """The sum over all actions; values are 0 at places of no action."""
        return jnp.sum(values)

    def at(self, values: Shaped[Array, " n"], actions: Int[Array, " G"]) -> Shaped[Array, " G"]:
        """The values of some actions."""
        return values[actions]

    def add(
        self, values: Float[Array, " n"], actions: Int[Array, " G"], more: Float[Array, " G"] | float
    ) -> Float[Array, " n"]:
        """The values, with more added to those of some actions."""
        return values.at[actions].add(more)

    def top(self, values: Float[Array, " n"], count: int) -> tuple[Float[Array, " C"], Int[Array, " C"]]:
        """The ``count`` largest values, the largest first, and their actions, the lower first of equal ones."""
        largest, actions = jax.lax.top_k(values, min(count, len(values)))
        return largest, actions

    def draw(self, key: PRNGKeyArray, weights: Float[Array, " n"], group_size: int) -> Int[Array, " G"]:
        """``sampling.draw``."""
        return draw(key, weights, group_size)


WHOLE = Axis()


@jax.tree_util.register_static
@dataclass(frozen=True)
class ShardedAxis(Axis):
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

    def spread(self, values: Shaped[np.ndarray, " N"]) -> Shaped[np.ndarray, "rows columns"]:
        """Values of all actions in rows of all blocks: to be split along the second axis, one part a device."""
        blocks = np.pad(values, (0, ROWS * self.blocks - self.actions)).reshape(ROWS, self.blocks)
        return np.pad(blocks, ((0, 0), (0, self.shards * self.columns - self.blocks)))

    def filled(self, values: Shaped[Array, " n"], free: float) -> Shaped[Array, " n"]:
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
