"""Runs of sharded storage on any number of devices, and of dense storage beside it; see ``several_devices``."""

import dataclasses
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import runs

from simlab.errors import InputError
from simlab.simulator import resources, runner
from simlab.simulator.call import Call
from simlab.simulator.resources import devices_by
from simlab.simulator.sharded import EVERYWHERE, MESH_AXIS, Sharded
from simlab.simulator.storage import DENSE as ON_ONE_DEVICE

SEED = 3
DENSE = 0  # in place of a number of devices
STEPS = np.array([1, 2])


def stored(settings, shards):
    """The settings with sharded storage, or with dense."""
    return dataclasses.replace(settings, storage="sharded" if shards else "dense")


def records(problem, settings, recorded, shards):
    """The records of a run, (R + 1, ...)."""
    devices = devices_by(shards)[0] if shards else None
    rows = runner.run(problem, [stored(settings, shards)], [SEED], np.array(recorded), devices)
    return {metric: values[0] for metric, values in rows.items()}


def records_of(problem, settings, recorded, counts):
    """``records`` by number of devices."""
    return {shards: records(problem, settings, recorded, shards) for shards in counts}


def all_records(setting, dtype, recorded, counts):
    """``records_of`` for a setting of the naive simulator."""
    return records_of(runs.problem(setting), runs.settings(setting, dtype), recorded, counts)


def walk(setting, dtype, storage, steps, arrays):
    """The groups that a run draws, (steps, G), and its last logits as they lie on a device."""
    learner = runs.learner(setting, dtype, *arrays, runs.run_key(SEED), storage)

    def step(state, index):
        state = learner.step(index, state)
        return state, state.last.groups.slots[0]

    state, groups_drawn = jax.lax.scan(step, learner.start(), jnp.arange(steps, dtype=jnp.int32))
    return groups_drawn, state.parameters


def drawn_and_learnt(setting, dtype, steps, shards):
    """The groups that a run draws, and the logits it ends with, action by action."""
    problem = runs.problem(setting)
    with jax.enable_x64(dtype == "float64"):
        laid, traced = runs.arrays(setting, dtype)
        if not shards:
            results = jax.jit(lambda laid, traced: walk(setting, dtype, ON_ONE_DEVICE, steps, (laid, traced)))(
                laid, traced
            )
            return tuple(np.asarray(values) for values in results)
        storage = Sharded(problem.actions, devices_by(shards)[0])
        laid = storage.load(problem, dtype)
        run = jax.shard_map(
            lambda laid, traced: walk(setting, dtype, storage, steps, (storage.join(laid), traced)),
            mesh=storage.mesh,
            in_specs=(storage.specs(laid), EVERYWHERE),
            out_specs=(EVERYWHERE, jax.sharding.PartitionSpec(MESH_AXIS)),
            check_vma=False,
        )
        actions, logits = jax.jit(run)(laid, traced)
        by_device = np.asarray(logits).reshape(shards, -1, storage.columns)
        columns = by_device.swapaxes(0, 1).reshape(-1, shards * storage.columns)
        return np.asarray(actions), columns[:, : storage.blocks].reshape(-1)[: problem.actions]


def all_drawn_and_learnt(setting, dtype, steps, counts):
    """``drawn_and_learnt`` by number of devices."""
    return {shards: drawn_and_learnt(setting, dtype, steps, shards) for shards in counts}


def taken(problem, settings, shards):
    """Bytes that a run takes of each device, and how many numbers the largest array of its program has."""
    call = Call(problem, [settings], [SEED], STEPS, devices_by(shards)[0])
    program = call.compiled(call.storage, None)
    usage, shapes = program.memory_analysis(), re.findall(r"\w+\[([\d,]+)\]", program.as_text())
    used = usage.temp_size_in_bytes + usage.argument_size_in_bytes + usage.output_size_in_bytes
    return used, max(math.prod(map(int, shape.split(","))) for shape in shapes)


def room(problem, settings, counts):
    """``taken`` by number of devices; and the number of devices that a run is spread over, by their memory."""
    settings = dataclasses.replace(settings, dtype="float32", storage="sharded")
    needs = {shards: taken(problem, settings, shards) for shards in counts}
    forecasts = [resources.device_bytes(problem, settings, int(STEPS[-1]), devices_by(shards)[0]) for shards in counts]
    alone, least = forecasts[0], forecasts[-1]
    rooms = (alone, alone - 1, 0.6 * alone, least, least - 10)
    chosen = [shards_chosen(problem, settings, int(memory)) for memory in rooms]
    return {"taken": needs, "chosen": chosen}


def shards_chosen(problem, settings, own_memory):
    """The number of devices of some memory that a run is spread over, or the message that refuses it."""
    resources.own_memory = lambda device: own_memory
    try:
        return resources.shards_needed(problem, settings, STEPS)
    except InputError as error:
        return str(error)
