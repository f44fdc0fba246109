"""Time work that all cores do at once."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks.cell import CORES


def passes_per_second(begin: Callable[[], Callable[[], object]], seconds: float = 0.2) -> float:
    """Passes that all cores together make in a second.

    ``begin`` is called once for each core, before its time counts, and returns the call of a pass.
    """

    def repeat(_: int) -> float:
        work = begin()
        start, passes = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            work()
            passes += 1
        return passes / (time.perf_counter() - start)

    with ThreadPoolExecutor(CORES) as pool:
        return sum(pool.map(repeat, range(CORES)))


def bandwidth(size: int) -> float:
    """Bytes a second of c = a + b on all cores; each reads two arrays of ``size`` float32 numbers and writes one."""

    def begin() -> Callable[[], object]:
        a, b, c = np.ones(size, np.float32), np.ones(size, np.float32), np.ones(size, np.float32)
        return lambda: np.add(a, b, out=c)

    return 3 * size * np.dtype(np.float32).itemsize * passes_per_second(begin)
