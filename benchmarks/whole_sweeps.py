"""Time whole sweeps, each in a process of its own."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def sweep_seconds(options: tuple[str, ...]) -> dict[str, float]:
    """Seconds of wall time of a sweep in a process of its own, compiling everything and compiling nothing."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"XDG_CACHE_HOME": folder}
        seconds = {}
        for cache in ("empty cache", "full cache"):
            out = Path(folder) / f"{cache}.nc"
            command = [sys.executable, "-m", "simlab.cli", "sweep", *options, "--out", str(out)]
            start = time.perf_counter()
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
            seconds[cache] = time.perf_counter() - start
        return seconds
