"""What the sharded engine computes on any number of devices, and the dense one beside it; see ``several_devices``."""

import math
import re
from dataclasses import replace

import engine
import jax
import jax.numpy as jnp
import numpy as np
from simlab.simulate.axis import MESH_AXIS, WHOLE, ShardedAxis
from simlab.simulate.lane import Landscape, Lane

from simlab.errors import InputError
from simlab.simulate import lanes, run_lanes, sharded
from simlab.simulate.devices import groups

SEED = 3
DENSE = 0  # in place of a number of devices
STEPS = np.array([1, 2])


def on_engine(setting, dtype, shards):
    """The program on the sharded engine, or on the dense one."""
    return replace(engine.program(setting, dtype), engine="sharded" if shards else "dense")


def records(setting, dtype, recorded, shards):
    """The records of a lane, (R + 1, ...)."""
    program, problem = on_engine(setting, dtype, shards), engine.problem(setting)
    devices = groups(shards)[0] if shards else None
    rows = run_lanes(program, problem, np.array(recorded), [(SEED, engine.numbers(setting))], devices)
    return {metric: values[0] for metric, values in rows.items()}


def all_records(setting, dtype, recorded, counts):
    """``records`` by number of devices."""
    return {shards: records(setting, dtype, recorded, shards) for shards in counts}


def walk(program, place, numbers, axis, steps):
    """The groups that a lane draws, (steps, G), and its last logits as they lie on a device."""
    lane = Lane(program, jax.tree.map(jnp.ravel, place), engine.lane_key(SEED), numbers, axis=axis)

    def step(state, index):
        state = lane.step(index, state)
        return state, state.actions

    state, groups_drawn = jax.lax.scan(step, lane.start(), jnp.arange(steps, dtype=jnp.int32))
    return groups_drawn, state.logits


def drawn_and_learnt(setting, dtype, steps, shards):
    """The groups that a lane draws, and the logits it ends with, action by action."""
    program, problem = on_engine(setting, dtype, shards), engine.problem(setting)
    with jax.enable_x64(dtype == "float64"):
        place, numbers = engine.arrays(setting, dtype)
        if not shards:
            found = jax.jit(lambda place, numbers: walk(program, place, numbers, WHOLE, steps))(place, numbers)
            return tuple(np.asarray(values) for values in found)
        axis, devices = ShardedAxis(problem.actions, shards), groups(shards)[0]
        spread, everywhere = jax.sharding.PartitionSpec(None, MESH_AXIS), jax.sharding.PartitionSpec()
        run = jax.shard_map(
            lambda place, numbers: walk(program, place, numbers, axis, steps),
            mesh=jax.sharding.Mesh(np.array(devices), (MESH_AXIS,)),
            in_specs=(Landscape(spread, spread, spread), everywhere),
            out_specs=(everywhere, jax.sharding.PartitionSpec(MESH_AXIS)),
            check_vma=False,
        )
        actions, logits = jax.jit(run)(sharded.landscape(program, problem, devices), numbers)
        columns = np.asarray(logits).reshape(shards, -1, axis.columns).swapaxes(0, 1).reshape(-1, shards * axis.columns)
        return np.asarray(actions), columns[:, : axis.blocks].reshape(-1)[: problem.actions]


def all_drawn_and_learnt(setting, dtype, steps, counts):
    """``drawn_and_learnt`` by number of devices."""
    return {shards: drawn_and_learnt(setting, dtype, steps, shards) for shards in counts}


def taken(program, problem, numbers, shards):
    """Bytes that a lane takes of each device, and how many numbers the largest array of its program has."""
    code = sharded.compiled(program, problem, len(STEPS), numbers, groups(shards)[0])
    shapes = re.findall(r"\w+\[([\d,]+)\]", code.call.as_text())
    return code.memory, max(math.prod(map(int, shape.split(","))) for shape in shapes)


def room(setting, counts):
    """By number of devices what is ``taken``, and of the host; and over how many of some memory a lane is spread."""
    program, problem, numbers = on_engine(setting, "float32", True), engine.problem(setting), engine.numbers(setting)
    needs = {shards: taken(program, problem, numbers, shards) for shards in counts}
    arrays = lanes.host_bytes(program, problem.actions)
    of_the_host = {
        shards: lanes.needed_bytes(program, problem, STEPS, numbers, 1, devices=groups(shards)[0]) - arrays
        for shards in counts
    }
    whole = needs[1][0]
    rooms = (whole, whole - 1, 0.6 * whole, needs[counts[-1]][0], needs[counts[-1]][0] - 1)
    chosen = [shards_chosen(program, problem, numbers, int(own)) for own in rooms]
    return {"taken": needs, "of_the_host": of_the_host, "chosen": chosen}


def shards_chosen(program, problem, numbers, own_memory):
    """Over how many devices of so much memory a lane is spread, or why it is refused."""
    lanes.own_memory = lambda device: own_memory
    try:
        return lanes.shards_needed(program, problem, STEPS, numbers)
    except InputError as error:
        return str(error)
