"""Choose how many runs one call holds, forecast their memory, and choose over how many devices a run is spread."""

import contextlib
import math
from collections.abc import Iterator

import numpy as np
from jax import local_device_count, local_devices
from jax.errors import JaxRuntimeError
from jaxtyping import Int

from simlab.errors import InputError
from simlab.problems.base import Problem
from simlab.simulator.checks import check
from simlab.simulator.costs import resolved
from simlab.simulator.devices import Devices, devices_by, own_memory, platform_of
from simlab.simulator.draw import counts_suffice
from simlab.simulator.lumped import FEWEST_SLOTS, most_touched, round_up_slots
from simlab.simulator.optimizers import moments_per_parameter
from simlab.simulator.settings import Settings

# Floats of a run, set by hand to what XLA says of programs for a CPU: a number of the state (parameters, moments, older
# parameters) takes so many, and so do a number of the history, a logit of any prompt, one of a drawn prompt, a token.
DENSE_FLOATS = 1, 4, 8, 6, 24
LUMPED_FLOATS = 3, 3, 12, 9, 96
HOST_BYTES_A_NUMBER = 48  # the problem's arrays on the host, and their copies on the way to the device


def batch_size(problem: Problem, settings: Settings, platform: str) -> int:
    """Return how many runs one call holds.

    Fixed by storage, problem size and platform alone, never by the number of seeds or devices or the memory budget, so
    that a run's numbers do not depend on what ran beside it. On a CPU a run of 16384 numbers or more fills the vector
    units and is alone, in a thread of its own; on a GPU some 2^23 numbers fill the device. Lumped storage counts with
    the fewest slots that it has.
    """
    if settings.storage == "sharded":
        return 1
    size = problem.numbers
    if settings.storage == "lumped":
        size = FEWEST_SLOTS * max(1, size // problem.actions)
    if platform == "cpu":
        return 8 if size < 16384 else 1
    return max(1, min(256, 2**23 // size))


def host_bytes(problem: Problem, settings: Settings) -> int:
    """Return the bytes of the problem's arrays on the host.

    Raises:
        InputError: for more actions than can be listed, in a storage that lists them.
    """
    if settings.storage == "lumped":
        return 0
    problem.check_listed()
    return HOST_BYTES_A_NUMBER * problem.numbers


def device_bytes(problem: Problem, settings: Settings, steps: int, devices: Devices) -> int:
    """Forecast the bytes that the runs of one call take of each device, to about a quarter.

    A run of 128,000 actions with Adam has a state of three numbers an action: 128000 x (3 + 8 + 6) x 4 bytes = 8.7 MB.
    """
    drawn, static, size = problem.prompts_a_step(settings), settings.static, problem.actions / len(devices)
    floats = DENSE_FLOATS
    if settings.storage == "lumped":
        size = round_up_slots(problem.by_classes().entries, most_touched(problem, settings, steps))
        floats = LUMPED_FLOATS
    state = 1 + moments_per_parameter(settings.optimizer) + settings.lag
    parameters = np.size(problem.parameters) / problem.entries
    tokens = 0 if counts_suffice(static, settings.build(), problem) else drawn * static.room * problem.tokens
    counts = (
        size * parameters * state,
        size * parameters * problem.histories,
        size * problem.prompts,
        size * drawn,
        tokens,
    )
    runs = batch_size(problem, settings, platform_of(devices))
    return int(runs * np.dot(floats, counts) * np.dtype(settings.dtype).itemsize)


def needed_bytes(
    problem: Problem, settings: Settings, steps: Int[np.ndarray, " R"], devices: Devices | None = None
) -> int:
    """Forecast the bytes of the host's memory that the runs of one call take.

    On CPUs, where several devices share it, that is what all of them take.

    Raises:
        InputError: if the problem cannot be learned so, or a device has too little memory of its own.
    """
    settings = resolved(problem, settings, int(steps[-1]))
    check(problem, settings)
    devices = devices or devices_by(1)[0]
    each = device_bytes(problem, settings, int(steps[-1]), devices)
    host, room = host_bytes(problem, settings), own_memory(devices[0])
    if room is None:
        return host + len(devices) * each
    if each > room:
        raise InputError(f"{_too_large(problem, each, room)}; allowed: fewer actions, or sharded storage")
    return host


def shards_needed(problem: Problem, settings: Settings, steps: Int[np.ndarray, " R"]) -> int:
    """Return over how many devices a run is spread: as few as hold it, and one in other storages.

    Raises:
        InputError: if all devices of the process together do not.
    """
    room = own_memory(local_devices()[0])
    if settings.storage != "sharded" or room is None:
        return 1
    most = min(local_device_count(), problem.actions)
    whole = device_bytes(problem, settings, int(steps[-1]), devices_by(1)[0])
    shards = max(1, math.ceil(whole / room))
    if shards > most:
        raise InputError(f"{_too_large(problem, whole / most, room)} with {most} of them; allowed: more devices")
    return shards


def _too_large(problem: Problem, needed: float, room: int) -> str:
    need, limit = (f"{value / 2**20:.0f}MB" for value in (needed, room))
    return f"a simulation of {problem.actions} actions takes {need} of each device, which has {limit}"


@contextlib.contextmanager
def refuse_out_of_memory(problem: Problem, settings: Settings) -> Iterator[None]:
    """Raise ``InputError`` in place of what JAX or NumPy raise when memory runs out."""
    try:
        yield
    except (JaxRuntimeError, MemoryError) as error:
        if isinstance(error, JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        size = f"{problem.actions} actions of {problem.prompts} prompts, with group_size = {settings.group_size}"
        allowed = "fewer of them, lumped or sharded storage, or fewer simulations at once"
        raise InputError(f"memory ran out while {size}, were simulated; allowed: {allowed}") from error
