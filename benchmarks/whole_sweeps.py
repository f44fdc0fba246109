"""Time whole sweeps, each in a process of its own, with an empty and with a full cache of compiled programs.

python -m benchmarks.whole_sweeps --preset f-grpo-fig2     # the options of a sweep
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import describe, in_words, table


class Times(NamedTuple):
    """Seconds of a sweep."""

    processor: float
    wall: float


def sweep_times(options: tuple[str, ...]) -> dict[str, Times]:
    """Times of a sweep in a process of its own, compiling everything and compiling nothing."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"XDG_CACHE_HOME": folder}
        return {
            cache: _timed([*options, "--out", str(Path(folder) / f"{cache}.nc")], environment)
            for cache in ("empty cache", "full cache")
        }


def sweep_seconds(options: tuple[str, ...]) -> dict[str, float]:
    """Wall times of a sweep."""
    return {cache: times.wall for cache, times in sweep_times(options).items()}


def _timed(options: list[str], environment: dict[str, str]) -> Times:
    """Times of one sweep.

    Raises:
        RuntimeError: if it fails.
    """
    command = [sys.executable, "-m", "simlab.cli", "sweep", *options]
    start = time.perf_counter()
    # Only wait4 gives the processor time of this one child.
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    _, status, usage = os.wait4(os.posix_spawn(sys.executable, command, environment, file_actions=quiet), 0)
    wall = time.perf_counter() - start
    if status:
        raise RuntimeError(f"{' '.join(command)} ends with {os.waitstatus_to_exitcode(status)}")
    return Times(usage.ru_utime + usage.ru_stime, wall)


def main() -> None:
    """Time the sweep of these options, and print the table."""
    results = sweep_times(tuple(sys.argv[1:]))
    rows = [[cache, f"{times.processor:.1f}", f"{times.wall:.1f}"] for cache, times in results.items()]
    print(f"{table(['', 'processor s', 'wall s'], rows)}\n\n{in_words(describe('jax', 'jaxlib', 'numpy'))}")


if __name__ == "__main__":
    main()
