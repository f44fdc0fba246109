"""List the devices of this process, those of a run, and their memory."""

import itertools
import os

import jax

from simlab.errors import InputError

Devices = tuple[jax.Device, ...]


def devices_by(shards: int) -> list[Devices]:
    """Return the devices of this process in tuples of so many, over which one simulation is spread.

    Raises:
        InputError: if there are fewer devices.
    """
    devices = jax.local_devices()
    if not 1 <= shards <= len(devices):
        raise InputError(f"shard_actions = {shards}; allowed: 1 to {len(devices)}, the devices of this process")
    return [tuple(devices[first : first + shards]) for first in range(0, len(devices) - shards + 1, shards)]


def platform_of(devices: Devices | None) -> str:
    """Return the platform that a run on these devices computes on, JAX's choice if there are none."""
    return devices[0].platform if devices else jax.default_backend()


def stations(shards: int) -> list[Devices]:
    """Return the devices of each simulation that runs at a time.

    A GPU runs one. CPU cores run one each, on the devices in turn; but simulations that are spread over devices wait
    for all of these, and two at a time could wait for one another.
    """
    groups = devices_by(shards)
    if shards > 1 or own_memory(groups[0][0]) is not None:
        return groups
    # CPU cores that this process may use, which a job system may have bound it to.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return list(itertools.islice(itertools.cycle(groups), max(cores, len(groups))))


def own_memory(device: jax.Device) -> int | None:
    """Return the bytes that JAX may take of a device's own memory; None for a CPU, which has the host's."""
    return None if device.platform == "cpu" else int(device.memory_stats()["bytes_limit"])
