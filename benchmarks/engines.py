"""The two engines and a PyTorch script on the grid of F-GRPO's Figure 2; the cost model's choices; whole sweeps.

    python -m benchmarks.engines            # an hour on an otherwise idle machine
    python -m benchmarks.engines --quick    # fewer sizes and steps, no sweeps; prints, writes nothing

Settings are those of the preset f-grpo-fig2, records included; the PyTorch script records nothing. The share of correct
actions is the preset's at every number of actions. Compilation is timed apart, by the first run of each cell; it counts
in the sweeps, each a process of its own, once with an empty cache of compiled programs and once with a full one.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import jax

from benchmarks import peer_torch
from benchmarks.dense_engine import CORES, TIMED_GAMMA
from benchmarks.machine import RESULTS, describe, in_words, table
from benchmarks.processes import Processes
from simlab.problems import anchored
from simlab.simulate import run_lanes
from simlab.simulate.engine import step_costs
from simlab.simulate.lanes import lanes_together
from simlab.sweep import Sweep
from simlab.sweep.presets import F_GRPO_FIG2

ACTIONS = 128_000
CORRECT_SHARE = 10 / 128
SIZES = [2**power for power in range(1, 18)]
LARGEST_LUMPED = 2**15  # above it a group takes the lumped engine seconds
ROUNDS = 3
RUNS_A_SIZE = 8 * 1000  # seed-steps of one group size in the preset: two gammas, four seeds, 1000 steps
SWEEPS = {
    "f-grpo-fig2": ("--preset", "f-grpo-fig2"),
    "1000 seeds, G = 32": ("--preset", "f-grpo-fig2", "--group-size", "32", "--gamma", "0", "--seeds", "1000"),
}


class Cell:
    """One group size and number of actions, on one of the engines."""

    def __init__(self, engine: str, group_size: int, actions: int, steps: int):
        parameters = F_GRPO_FIG2["parameters"] | {"estimator.gamma": (TIMED_GAMMA,)}
        sweep = Sweep(**F_GRPO_FIG2 | {"group_sizes": (group_size,), "steps": steps, "parameters": parameters})
        [(_, cell)] = sweep.cells()
        self.place = anchored(actions, round(actions * CORRECT_SHARE), reward_incorrect=-1.0)
        self.program = replace(sweep.program(cell), engine=engine)
        self.steps, self.numbers = sweep.recorded_steps(), sweep.numbers(cell, self.place)
        self.together = lanes_together(self.program, actions, "cpu")

    def run(self, seed: int) -> None:
        """As many seeds as the engine simulates in one call."""
        run_lanes(self.program, self.place, self.steps, [(seed + i, self.numbers) for i in range(self.together)])

    def first_seconds(self) -> float:
        """Seconds of a first run, which compiles."""
        start = time.perf_counter()
        self.run(0)
        return time.perf_counter() - start

    def seconds_per_step(self) -> float:
        """Seconds of one step of one seed, while a thread a core makes a call, as in a sweep."""
        with ThreadPoolExecutor(CORES) as pool:
            start = time.perf_counter()
            list(pool.map(self.run, range(CORES)))
            return (time.perf_counter() - start) / (CORES * self.together * int(self.steps[-1]))


def beside(group_size: int, steps: int, torch: Processes) -> dict[str, float | str]:
    """Both engines and the script, in turn; of each the fastest of some rounds, because others may use the machine."""
    # Of large groups so few steps that they draw as many as there are actions: later steps cost more, not less.
    few = steps if group_size <= 2048 else min(steps, 2**17 // group_size)
    cells = {"dense": Cell("dense", group_size, ACTIONS, steps)}
    if group_size <= LARGEST_LUMPED:
        cells["lumped"] = Cell("lumped", group_size, ACTIONS, few)
    first = {f"{engine}_first_run": cell.first_seconds() for engine, cell in cells.items()}
    rounds: dict[str, list[float]] = {name: [] for name in (*cells, "torch")}
    for _ in range(ROUNDS):
        for engine, cell in cells.items():
            rounds[engine].append(cell.seconds_per_step())
        script = torch.seconds_per_step(peer_torch.loop_seconds_all_cores, group_size, TIMED_GAMMA, min(steps, 200))
        rounds["torch"].append(script)
    seconds = {name: min(values) for name, values in rounds.items()}
    costs = step_costs(cells["dense"].program, cells["dense"].place, steps)
    model = {"dense_model": 1e-6 * costs.dense, "lumped_model": 1e-6 * costs.lumped}
    chosen = "lumped" if costs.lumped < costs.dense else "dense"
    return {"group_size": group_size, **seconds, **first, **model, "chosen": chosen}


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


def report(engines: list[dict]) -> str:
    """The table of all group sizes, in microseconds per seed-step, and how often the choice was right."""
    header = ["G", "lumped us", "dense us", "torch us", "dense / lumped", "torch / chosen", "chosen", "right"]
    header += ["lumped first s", "dense first s"]
    rows, measured, right = [], 0, 0
    for row in engines:
        both = "lumped" in row
        is_right = both and (row["lumped"] < row["dense"]) == (row["chosen"] == "lumped")
        measured, right = measured + both, right + is_right
        rows.append(
            [
                str(row["group_size"]),
                *(f"{1e6 * row[name]:.0f}" if name in row else "not run" for name in ("lumped", "dense", "torch")),
                f"{row['dense'] / row['lumped']:.2f}" if both else "",
                f"{row['torch'] / row[row['chosen']]:.1f}",
                row["chosen"],
                "yes" if is_right else "no" if both else "",
                f"{row['lumped_first_run']:.1f}" if both else "",
                f"{row['dense_first_run']:.1f}",
            ]
        )
    ours = RUNS_A_SIZE * sum(row[row["chosen"]] for row in engines)
    torch = RUNS_A_SIZE * sum(row["torch"] for row in engines)
    total = f"The grid's seed-steps: {ours:.0f} s on the chosen engines, {torch:.0f} s in PyTorch, {torch / ours:.1f}"
    choice = f"The choice is right in {right} of the {measured} cells with both engines."
    return f"{table(header, rows)}\n\n{choice} {total} times as long."


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="200 steps, three group sizes, no sweeps; write nothing")
    options = parser.parse_args()
    jax.config.update("jax_enable_compilation_cache", False)  # first runs are to compile
    machine, torch = describe("jax", "jaxlib", "torch", "numpy"), Processes(1)
    steps, sizes = (200, [2, 32, 512]) if options.quick else (1000, SIZES)
    many = (10**5, 10**9) if options.quick else (10**5, 10**7, 10**9, 10**12, 10**15)
    engines = []
    for size in sizes:
        engines.append(beside(size, steps, torch))
        print(json.dumps(engines[-1]), file=sys.stderr)
    growth = []
    for actions in many:
        cell = Cell("lumped", 32, actions, steps)
        cell.run(0)
        growth.append({"actions": actions, "lumped": min(cell.seconds_per_step() for _ in range(3))})
    sweeps = {} if options.quick else {name: sweep_seconds(chosen) for name, chosen in SWEEPS.items()}
    wide = [[f"{row['actions']:.0e}", f"{1e6 * row['lumped']:.0f}"] for row in growth]
    whole = [[name, *(f"{value:.0f}" for value in seconds.values())] for name, seconds in sweeps.items()]
    text = (
        f"{ACTIONS} actions:\n\n{report(engines)}\n\nG = 32:\n\n{table(['actions', 'lumped us'], wide)}\n\n"
        f"Whole sweeps, seconds of wall time:\n\n{table(['sweep', 'empty cache', 'full cache'], whole)}\n\n"
        f"Microseconds per seed-step over {steps} steps, all cores busy. {in_words(machine)}.\n"
    )
    print(text)
    if not options.quick:
        content = {"machine": machine, "steps": steps, "engines": engines, "growth": growth, "sweeps": sweeps}
        (RESULTS / "engines.json").write_text(json.dumps(content, indent=1) + "\n")
        (RESULTS / "engines.md").write_text(text)


if __name__ == "__main__":
    main()
