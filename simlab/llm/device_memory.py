"""Find how much memory is free on the device where arrays are put, and refuse what does not fit."""

from pathlib import Path

import jax

from simlab.errors import InputError


def check_fits(name: str, needed: int) -> None:
    """Refuse what does not fit, before any of it is taken.

    Args:
        name: of what needs the memory, in the complaint.
        needed: bytes.

    Raises:
        InputError: if more bytes are needed than are free; where that cannot be known, nothing is refused.
    """
    free = free_memory()
    if free is not None and needed > free:
        raise InputError(f"{name} needs {needed} bytes of memory; allowed: up to the {free} that are free")


def free_memory() -> int | None:
    """Bytes that are free on the device, None where that cannot be known."""
    device = jax.devices()[0]
    statistics = device.memory_stats() if device.platform != "cpu" else None
    if statistics and "bytes_limit" in statistics:
        return int(statistics["bytes_limit"]) - int(statistics.get("bytes_in_use", 0))
    meminfo = Path("/proc/meminfo")
    if device.platform != "cpu" or not meminfo.exists():
        return None
    line = next((line for line in meminfo.read_text().splitlines() if line.startswith("MemAvailable:")), None)
    return None if line is None else 1024 * int(line.split()[1])
