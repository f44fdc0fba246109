"""Time the beginning: an import, the help, and the first simulated step in a fresh process.

    python -m benchmarks.start_up

Each is a process of its own, nine times in turns, with a compile cache that is full after the first. Beside them stand
Python that does nothing and ``import jax``, which every program that simulates needs.
"""

import json
import statistics
import subprocess
import sys
import time

from benchmarks.machine import RESULTS, describe, in_words, table

TIMES = 9
FIRST_STEP = (
    "import simlab; from simlab.problems import anchored; "
    "simlab.simulate(anchored(actions=64, correct=8), 'grpo', group_size=8, steps=1, seeds=4)"
)
PROGRAMS = {
    "Python that does nothing": ["-c", "pass"],
    "import jax": ["-c", "import jax"],
    "import simlab": ["-c", "import simlab"],
    "simlab --help": ["-m", "simlab.cli", "--help"],
    "first step of a small problem": ["-c", FIRST_STEP],
}
TARGETS = {"import simlab": 0.2, "simlab --help": 0.3, "first step of a small problem": 2.0}  # seconds


def seconds(arguments: list[str]) -> float:
    """Wall time of a process."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    """Measure, and write the results."""
    machine = describe("jax", "numpy", "xarray")
    seconds(PROGRAMS["first step of a small problem"])  # fills the cache
    times: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(TIMES):
        for name, arguments in PROGRAMS.items():
            times[name].append(round(seconds(arguments), 4))
    text = json.dumps({"machine": machine, "seconds": times, "targets": TARGETS}, indent=1)
    (RESULTS / "start_up.json").write_text(text + "\n", encoding="utf-8")
    rows = [
        [name, f"{statistics.median(values):.2f}", f"{min(values):.2f}", f"{TARGETS.get(name, '')}"]
        for name, values in times.items()
    ]
    report = f"# Start-up\n\n{table(['program', 'median, s', 'fastest, s', 'goal, s'], rows)}\n\n{in_words(machine)}\n"
    (RESULTS / "start_up.md").write_text(report, encoding="utf-8")
    print(report)


if __name__ == "__main__":
    main()
