"""Choose a storage by the cost of its step, how many runs share a call, and over how many devices a run is spread.

A dense step passes over all numbers of a problem; a lumped step over the slots that the run has come to need.
"""

import contextlib
import dataclasses
import itertools
import math
import os
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np
from jax.errors import JaxRuntimeError
from jaxtyping import Int

from simlab.errors import InputError
from simlab.problems.base import LARGEST_ARRAY, Problem
from simlab.simulator.draw import counts_suffice
from simlab.simulator.lumped import FEWEST_SLOTS, most_touched, round_up
from simlab.simulator.optimizers import moments_per_parameter
from simlab.simulator.settings import Settings

# Nanoseconds of a core, set by hand to measurements of benchmarks/storages.py, which counts how often the choice is
# right: in all 15 cells of benchmarks/results/storages.json, whose processor is twice as fast in either storage.
DENSE_STEP, DENSE_NUMBER, DENSE_TOKEN = 4_000.0, 3.0, 30.0
PRODUCT = 0.2  # of two numbers in a product of matrices, by hand and roughly
LUMPED_STEP, LUMPED_SLOT, LUMPED_ROLLOUT = 20_000.0, 4.2, 600.0

# Smaller problems fit any device. The choice is by the size alone, so that it is the same on every machine.
SHARDED_FROM = 2**24

# Floats of a run, set by hand to what XLA says of programs for a CPU: a number of the state (parameters, moments, older
# parameters) takes so many, and so do a number of the history, a logit of any prompt, one of a drawn prompt, a token.
DENSE_FLOATS = 1, 4, 8, 6, 24
LUMPED_FLOATS = 3, 3, 12, 9, 96
HOST_BYTES_A_NUMBER = 48  # the problem's arrays on the host, and their copies on the way to the device
Devices = tuple[jax.Device, ...]


def devices_by(shards: int) -> list[Devices]:
    """Return the devices of this process in tuples of so many, over which one simulation is spread."""
    devices = jax.local_devices()
    if not 1 <= shards <= len(devices):
        raise InputError(f"shard_actions = {shards}; allowed: 1 to {len(devices)}, the devices of this process")
    return [tuple(devices[first : first + shards]) for first in range(0, len(devices) - shards + 1, shards)]


def platform_of(devices: Devices | None) -> str:
    """Return the platform that a run on these devices computes on, JAX's choice if there are none."""
    return devices[0].platform if devices else jax.default_backend()


def stations(shards: int) -> list[Devices]:
    """Return the devices of each simulation that runs at a time: one a GPU, or one a CPU core, on devices in turn."""
    groups = devices_by(shards)
    if shards > 1 or own_memory(groups[0][0]) is not None:  # two that share devices could wait for one another
        return groups
    # CPU cores that this process may use, which a job system may have bound it to.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return list(itertools.islice(itertools.cycle(groups), max(cores, len(groups))))


def own_memory(device: jax.Device) -> int | None:
    """Return the bytes that JAX may take of a device's own memory; None for a CPU, which has the host's."""
    return None if device.platform == "cpu" else int(device.memory_stats()["bytes_limit"])


class StepCosts(NamedTuple):
    """Microseconds of a core that a step of one run takes in each storage; infinite where it cannot run."""

    dense: float
    lumped: float


def step_costs(problem: Problem, settings: Settings, steps: int) -> StepCosts:
    """Return the costs that the model predicts for a run of so many steps."""
    batch = problem.prompts_a_step(settings)
    rollouts = batch * settings.group_size
    passes, products = problem.step_numbers(batch)
    dense = lumped = math.inf
    if problem.actions * problem.prompts <= LARGEST_ARRAY:
        dense = DENSE_STEP + DENSE_NUMBER * passes + DENSE_TOKEN * rollouts * problem.tokens + PRODUCT * products
    if problem.lumps and not settings.dense_alone:
        drawn = rollouts / (problem.prompts if problem.has_own_parameters else 1)  # of each set of slots, in the mean
        slots = problem.by_classes().entries + touched(problem.actions, drawn, steps)
        numbers = slots * passes / problem.actions  # a slot has as many as an action
        lumped = LUMPED_STEP + LUMPED_SLOT * numbers + LUMPED_ROLLOUT * rollouts
    return StepCosts(dense / 1000, lumped / 1000)


def touched(actions: int, drawn: float, steps: int) -> float:
    """Return the mean over the steps t of how many actions were sampled, if all alike: N (1 - exp(-G t / N))."""
    rounds = drawn * steps / actions
    if rounds < 1e-6:  # where the difference below loses all digits
        return drawn * steps / 2
    return actions * (1 + math.expm1(-rounds) / rounds)


def resolved(problem: Problem, settings: Settings, steps: int) -> Settings:
    """Replace the storage ``auto`` by the cheaper one, and dense by sharded where the problem is large."""
    if settings.storage != "auto":
        return settings
    storage = "dense"
    if settings.allocation == "even":
        dense, lumped = step_costs(problem, settings, steps)
        if lumped < dense:
            storage = "lumped"
        elif problem.shards and not settings.dense_alone and problem.actions * problem.prompts >= SHARDED_FROM:
            storage = "sharded"
    return dataclasses.replace(settings, storage=storage)


def batch_size(problem: Problem, settings: Settings, platform: str) -> int:
    """Return how many runs one call holds, by storage, problem size and platform: numbers depend on no run beside it.

    On a CPU a run of 16384 numbers or more fills the vector units and is alone; on a GPU some 2^23 numbers fill the
    device.
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
    """Return the bytes of the problem's arrays on the host; refuse more actions than can be listed where they are."""
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
        size = round_up(problem.by_classes().entries + most_touched(problem, settings, steps))
        floats = LUMPED_FLOATS
    state = 1 + moments_per_parameter(settings.optimizer) + settings.lag
    tokens = 0 if counts_suffice(static, settings.build(), problem) else drawn * static.room * problem.tokens
    numbers = size * problem.parameters_an_action
    counts = numbers * state, numbers * problem.histories, size * problem.prompts, size * drawn, tokens
    runs = batch_size(problem, settings, platform_of(devices))
    return int(runs * np.dot(floats, counts) * np.dtype(settings.dtype).itemsize)


def needed_bytes(
    problem: Problem, settings: Settings, steps: Int[np.ndarray, " R"], devices: Devices | None = None
) -> int:
    """Forecast the bytes of the host's memory that the runs of a call take; ``InputError`` if a device has too few."""
    devices = devices or devices_by(1)[0]
    each = device_bytes(problem, settings, int(steps[-1]), devices)
    host, room = host_bytes(problem, settings), own_memory(devices[0])
    if room is None:
        return host + len(devices) * each
    if each > room:
        raise InputError(f"{_too_large(problem, each, room)}; allowed: fewer actions, or sharded storage")
    return host


def shards_needed(problem: Problem, settings: Settings, steps: Int[np.ndarray, " R"]) -> int:
    """Return over how many devices a run is spread: as few as hold it, and one in other storages; or refuse it."""
    room = own_memory(jax.local_devices()[0])
    if settings.storage != "sharded" or room is None:
        return 1
    most = min(jax.local_device_count(), problem.actions)
    for shards in range(1, most + 1):
        each = device_bytes(problem, settings, int(steps[-1]), devices_by(shards)[0])
        if each <= room:
            return shards
    raise InputError(f"{_too_large(problem, each, room)} with {most} of them; allowed: more devices")


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
