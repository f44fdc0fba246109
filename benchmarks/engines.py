"""Seconds per seed-step of the lumped engine beside the dense one and a PyTorch script, and how it grows with actions.

    python -m benchmarks.engines            # some ten minutes on an otherwise idle machine
    python -m benchmarks.engines --quick    # fewer sizes and steps; prints, writes nothing

Settings are those of the preset f-grpo-fig2, records included; the PyTorch script records nothing. The share of correct
actions is the preset's at every number of actions. Compilation is timed apart, by the first run of each cell.
"""

import argparse
import json
import time
from dataclasses import replace

from benchmarks import peer_torch
from benchmarks.dense_engine import TIMED_GAMMA, seconds_per_seed_step
from benchmarks.machine import RESULTS, describe, in_words, table
from benchmarks.processes import Processes
from simlab.problems import anchored
from simlab.simulate import run_lanes
from simlab.sweep import Sweep
from simlab.sweep.options import PRESETS

ACTIONS = 128_000
CORRECT_SHARE = 10 / 128


class Cell:
    """One group size and number of actions, on one of the engines."""

    def __init__(self, engine: str, group_size: int, actions: int, steps: int):
        preset = PRESETS["f-grpo-fig2"]
        parameters = preset["parameters"] | {"estimator.gamma": (TIMED_GAMMA,)}
        sweep = Sweep(**preset | {"group_sizes": (group_size,), "steps": steps, "parameters": parameters})
        [(_, cell)] = sweep.cells()
        self.place = anchored(actions, round(actions * CORRECT_SHARE), reward_incorrect=-1.0)
        self.program = replace(sweep.program(cell), engine=engine)
        self.steps, self.numbers = sweep.recorded_steps(), sweep.numbers(cell, self.place)
        start = time.perf_counter()
        self.run(0)
        self.first_seconds = time.perf_counter() - start

    def run(self, seed: int) -> None:
        """One seed."""
        run_lanes(self.program, self.place, self.steps, [(seed, self.numbers)])

    def seconds_per_step(self) -> float:
        """Seconds of one step of one seed."""
        return seconds_per_seed_step(self.run, int(self.steps[-1]))


def beside(group_size: int, steps: int, torch: Processes) -> dict[str, float]:
    """Both engines and the script, in turn."""
    cells = {engine: Cell(engine, group_size, ACTIONS, steps) for engine in ("lumped", "dense")}
    seconds = {engine: cell.seconds_per_step() for engine, cell in cells.items()}
    first = {f"{engine}_first_run": cell.first_seconds for engine, cell in cells.items()}
    script = torch.seconds_per_step(peer_torch.loop_seconds_all_cores, group_size, TIMED_GAMMA, min(steps, 200))
    return {"group_size": group_size, **seconds, "torch": script, **first}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="200 steps, two group sizes; write nothing")
    options = parser.parse_args()
    machine, torch = describe("jax", "jaxlib", "torch", "numpy"), Processes(1)
    steps, sizes = (200, (2, 32)) if options.quick else (1000, (2, 8, 32, 128, 512, 2048))
    many = (10**5, 10**9) if options.quick else (10**5, 10**7, 10**9, 10**12, 10**15)
    engines = [beside(size, steps, torch) for size in sizes]
    growth = [{"actions": n, "lumped": Cell("lumped", 32, n, steps).seconds_per_step()} for n in many]
    rows = [
        [
            str(row["group_size"]),
            *(f"{1e6 * row[name]:.0f}" for name in ("lumped", "dense", "torch")),
            *(f"{row[name] / row['lumped']:.1f}" for name in ("dense", "torch")),
            *(f"{row[name]:.1f}" for name in ("lumped_first_run", "dense_first_run")),
        ]
        for row in engines
    ]
    header = [
        "G",
        "lumped us",
        "dense us",
        "torch us",
        "dense / lumped",
        "torch / lumped",
        "lumped first s",
        "dense first s",
    ]
    wide = [[f"{row['actions']:.0e}", f"{1e6 * row['lumped']:.0f}"] for row in growth]
    text = (
        f"{ACTIONS} actions:\n\n{table(header, rows)}\n\nG = 32:\n\n{table(['actions', 'lumped us'], wide)}\n\n"
        f"Microseconds per seed-step over {steps} steps, two cores busy. {in_words(machine)}.\n"
    )
    print(text)
    if not options.quick:
        content = {"machine": machine, "steps": steps, "engines": engines, "growth": growth}
        (RESULTS / "engines.json").write_text(json.dumps(content, indent=1) + "\n")
        (RESULTS / "engines.md").write_text(text)


if __name__ == "__main__":
    main()
