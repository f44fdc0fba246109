"""The sharded engine: the dense one, its arrays over the actions spread over several devices.

A device holds its share of every array of actions and never a whole one: ``ShardedAxis`` is what the devices tell one
another. A lane runs alone.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Key

from simlab.problems import Problem
from simlab.simulate.axis import MESH_AXIS, ShardedAxis
from simlab.simulate.compiled import Compiled, kept
from simlab.simulate.dense import lane_arrays, trajectory
from simlab.simulate.devices import Group
from simlab.simulate.faults import Fault, complain
from simlab.simulate.lane import Landscape
from simlab.simulate.metrics import Row
from simlab.simulate.program import Numbers, Program

SPREAD: Any = PartitionSpec(None, MESH_AXIS)  # type: ignore[no-untyped-call]
EVERYWHERE: Any = PartitionSpec()  # type: ignore[no-untyped-call]


def compiled(program: Program, problem: Problem, records: int, numbers: Numbers, devices: Group) -> Compiled:
    """The program of one lane of a problem's shape on some devices, and what it takes of each."""
    axis, mesh = ShardedAxis(problem.actions, len(devices)), _mesh(devices)
    key = (program, problem.shape, records, jax.tree.structure(numbers), devices)

    def lane(place: Landscape, steps: Array, keys: Key[Array, " 1"], numbers: Numbers) -> tuple[Row, Fault]:
        own_key, own = jax.tree.map(lambda leaf: leaf[0], (keys, numbers))
        return trajectory(program, jax.tree.map(jnp.ravel, place), steps, own_key, own, axis=axis)

    def compile_it() -> Any:
        # From shapes alone: nothing is put on devices that it might not fit.
        spread = NamedSharding(mesh, SPREAD)
        shape: Any = functools.partial(jax.ShapeDtypeStruct, axis.shape, sharding=spread)
        specs = (SPREAD, EVERYWHERE, EVERYWHERE, EVERYWHERE)
        everywhere = jax.shard_map(lane, mesh=mesh, in_specs=specs, out_specs=EVERYWHERE, check_vma=False)
        small = _small_arguments(program, np.arange(1, records + 1), [(0, numbers)], mesh)
        return jax.jit(everywhere).lower(Landscape(shape(program.dtype), shape(bool), shape(bool)), *small).compile()

    return kept(key, compile_it)


def run_sharded(
    program: Program, problem: Problem, steps: np.ndarray, lanes: Sequence[tuple[int, Numbers]], devices: Group
) -> dict[str, np.ndarray]:
    """Simulate one lane on some devices; the records of ``run_lanes``.

    Raises:
        Diverged: if a number of it is not finite.
    """
    code = compiled(program, problem, len(steps), lanes[0][1], devices)
    place = landscape(program, problem, devices)
    rows, fault = code.call(place, *_small_arguments(program, steps, lanes, _mesh(devices)))
    complain(program, lanes, fault)
    return {name: np.asarray(row)[None] for name, row in rows.items()}


def landscape(program: Program, problem: Problem, devices: Group) -> Landscape:
    """The problem on the devices, in the dtype of the program: each array (rows, blocks), split along the blocks."""
    axis, spread = ShardedAxis(problem.actions, len(devices)), NamedSharding(_mesh(devices), SPREAD)
    arrays = (problem.logits.astype(program.dtype), problem.correct, problem.target)
    return Landscape(*(jax.device_put(axis.spread(values), spread) for values in arrays))


def _mesh(devices: Group) -> Mesh:
    return Mesh(np.array(devices), (MESH_AXIS,))


def _small_arguments(
    program: Program, steps: np.ndarray, lanes: Sequence[tuple[int, Numbers]], mesh: Mesh
) -> tuple[Array, Key[Array, " 1"], Numbers]:
    """What every device has: the recorded steps, and key and numbers of the lane."""
    arguments = (jnp.asarray(steps, jnp.int32), *lane_arrays(program, lanes))
    placed: tuple[Array, Key[Array, " 1"], Numbers] = jax.device_put(arguments, NamedSharding(mesh, EVERYWHERE))
    return placed
