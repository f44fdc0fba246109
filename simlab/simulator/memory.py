"""Say how many runs one call holds, how much memory they take, and over how many devices a run has to be spread."""

import math

import jax
import numpy as np
from jaxtyping import Int

from simlab.errors import InputError
from simlab.problems.base import Problem
from simlab.simulator.call import Call, computing
from simlab.simulator.checks import check
from simlab.simulator.costs import resolved
from simlab.simulator.devices import Devices, devices_by, own_memory, platform_of
from simlab.simulator.lumped import FEWEST_PLACES, Lumped, enough_places, most_touched
from simlab.simulator.settings import Settings


def batch_size(problem: Problem, settings: Settings, platform: str) -> int:
    """How many runs one call holds.

    Fixed by storage, problem size and platform alone, never by the number of seeds or devices or the memory budget, so
    that a run's numbers do not depend on what ran beside it. On a CPU a run of 16384 numbers or more fills the vector
    units and is alone, in a thread of its own; on a GPU some 2^23 numbers fill the device. Lumped storage counts with
    the fewest places that it has.
    """
    if settings.storage == "sharded":
        return 1
    size = problem.numbers
    if settings.storage == "lumped":
        size = FEWEST_PLACES * max(1, size // problem.actions)
    if platform == "cpu":
        return 8 if size < 16384 else 1
    return max(1, min(256, 2**23 // size))


# The problem's arrays on the host, and their copies on the way to the device.
HOST_BYTES_A_NUMBER = 48


def host_bytes(problem: Problem, settings: Settings) -> int:
    """Bytes that the problem's own arrays take.

    Raises:
        InputError: for more actions than can be listed, in a storage that lists them.
    """
    if settings.storage == "lumped":
        return 0
    problem.check_listed()
    return HOST_BYTES_A_NUMBER * problem.numbers


def needed_bytes(
    problem: Problem, settings: Settings, steps: Int[np.ndarray, " R"], devices: Devices | None = None
) -> int:
    """Bytes of the host's memory that the runs of one call take, at most; compiles what tells it.

    On CPUs, where several devices share it, that is what all of them take.

    Raises:
        InputError: if the problem cannot be learned so, or a device has too little memory of its own.
    """
    settings = resolved(problem, settings, int(steps[-1]))
    check(problem, settings)
    devices = devices or devices_by(1)[0]
    each = device_bytes(problem, settings, steps, devices)
    host, room = host_bytes(problem, settings), own_memory(devices[0])
    if room is None:
        return host + len(devices) * each
    if each > room:
        raise InputError(f"{_too_large(problem, each, room)}; allowed: fewer actions, or sharded storage")
    return host


def device_bytes(problem: Problem, settings: Settings, steps: Int[np.ndarray, " R"], devices: Devices) -> int:
    """Bytes that the runs of one call take of each device that they are on, at most."""
    together = batch_size(problem, settings, platform_of(devices))
    with computing(settings, devices):
        call = Call(problem, [settings] * together, [0] * together, steps, devices)
        if isinstance(call.storage, Lumped):
            most = enough_places(call.problem.entries, most_touched(problem, settings, int(steps[-1])))
            return call.progress_bytes(Lumped(most))
        return call.compiled(call.storage, None).memory


def shards_needed(problem: Problem, settings: Settings, steps: Int[np.ndarray, " R"]) -> int:
    """Over how many devices a run is spread: as few as hold it, and one in other storages.

    Raises:
        InputError: if all devices of the process together do not.
    """
    room = own_memory(jax.local_devices()[0])
    if settings.storage != "sharded" or room is None:
        return 1
    shards, most = 1, min(jax.local_device_count(), problem.actions)
    while True:
        each = device_bytes(problem, settings, steps, devices_by(shards)[0])
        if each <= room:
            return shards
        if shards == most:
            raise InputError(f"{_too_large(problem, each, room)} with {most} of them; allowed: more devices")
        shards = min(most, max(shards + 1, math.ceil(shards * each / room)))


def _too_large(problem: Problem, needed: int, room: int) -> str:
    need, given = (f"{value / 2**20:.0f}MB" for value in (needed, room))
    return f"a simulation of {problem.actions} actions takes {need} of each device, which has {given}"
