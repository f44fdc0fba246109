"""Time a step of one seed: simlab's dense storage, scripts that do the same, and the memory traffic that bounds them.

    python -m benchmarks.dense_storage            # the whole grid, ten minutes on an otherwise idle machine
    python -m benchmarks.dense_storage --quick    # four group sizes, a minute; prints, writes nothing

The problem and settings are the preset f-grpo-fig2, run as ``simlab sweep`` runs it, records included; the peers record
nothing. All use every core, torch in both ways of doing so. Before anything is timed, all must agree.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks import peer_numpy, peer_torch
from benchmarks.arithmetic import least_seconds
from benchmarks.cell import ACTIONS, CORES, TIMED_GAMMA, Cell, step_bytes
from benchmarks.cores import bandwidth
from benchmarks.machine import RESULTS, describe, in_words, table
from benchmarks.processes import Processes
from simlab.sweeps.parameters import expand

SEEDS_A_CORE = 4
Measure = Callable[[int, int], float]  # (group_size, steps) -> seconds per seed-step


def bytes_per_second(actions: int, group_size: int) -> float:
    """Memory bandwidth of all cores together, on arrays as large as a step's working set, which caches may hold.

    The working set is 4 N floats (logits, moments, weights) and 3 G words for each core; a third of it goes to each of
    three arrays.
    """
    return bandwidth((4 * actions + 3 * group_size) // 3)


def agreement(group_size: int = 256, steps: int = 200, seeds: int = 4) -> list[dict[str, float | str]]:
    """Q_pos and retained mass of all three programs: means over seeds, and how many standard errors lie between.

    Raises:
        SystemExit: if a peer's mean is more than 4 combined standard errors from simlab's.
    """
    lines: list[dict[str, float | str]] = []
    for gamma in (0.0, 1.0):
        cell = Cell("dense", group_size, gamma, steps)
        rows = [cell.run(seed) for seed in range(seeds)]
        ours = np.array([[float(row[name][0, -1]) for name in ("q_pos", "retained_mass")] for row in rows])
        for name, peer in (("torch", peer_torch), ("numpy", peer_numpy)):
            theirs = np.array([peer.run(group_size, gamma, steps, seed) for seed in range(seeds)])
            error = np.sqrt((ours.var(axis=0, ddof=1) + theirs.var(axis=0, ddof=1)) / seeds)
            gaps = np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) / error
            for column, quantity in enumerate(("q_pos", "retained_mass")):
                means = {"simlab": float(ours[:, column].mean()), "peer_mean": float(theirs[:, column].mean())}
                gap = {"standard_errors": float(gaps[column])}
                lines.append({"gamma": gamma, "peer": name, "quantity": quantity} | means | gap)
    for line in lines:
        print(json.dumps(line), file=sys.stderr)
    if max(float(line["standard_errors"]) for line in lines) > 4:
        raise SystemExit("the programs disagree: nothing was timed")
    return lines


def peers() -> dict[str, Measure]:
    """The peers in their ways of using every core, each in processes of its own."""

    def measure(loop: Callable[..., float], processes: Processes) -> Measure:
        return lambda group_size, steps: processes.seconds_per_step(loop, group_size, TIMED_GAMMA, steps)

    return {
        "torch_threads": measure(peer_torch.loop_seconds_all_cores, Processes(1)),
        "torch_processes": measure(peer_torch.loop_seconds_one_core, Processes(CORES)),
        "numpy": measure(peer_numpy.loop_seconds, Processes(CORES)),
    }


def measure(group_size: int, steps: int, rounds: int, others: dict[str, Measure]) -> dict[str, object]:
    """One group size: every program in turn, ``rounds`` times over, and the medians."""
    cell = Cell("dense", group_size, TIMED_GAMMA, steps)
    compile_seconds = cell.compile_seconds()
    for other in others.values():
        other(group_size, 2)
    seconds: dict[str, list[float]] = {name: [] for name in ("simlab", *others)}
    bandwidths, arithmetic = [], []
    for _ in range(rounds):
        seconds["simlab"].append(cell.seconds_per_step(CORES * SEEDS_A_CORE))
        for name, other in others.items():
            seconds[name].append(other(group_size, steps))
        bandwidths.append(bytes_per_second(ACTIONS, group_size))
        arithmetic.append(least_seconds(ACTIONS, group_size))
    median = {name: statistics.median(values) for name, values in seconds.items()}
    bandwidth = statistics.median(bandwidths)
    floor, least = step_bytes(ACTIONS, group_size) / bandwidth, statistics.median(arithmetic)
    return {
        "group_size": group_size,
        "steps": steps,
        "compile_seconds": compile_seconds,
        "seconds_per_seed_step": median,
        "ratio_to_simlab": {name: median[name] / median["simlab"] for name in others},
        "bytes_per_second": bandwidth,
        "floor_seconds": floor,
        "times_floor": median["simlab"] / floor,
        "arithmetic_seconds": least,
        "times_larger_limit": median["simlab"] / max(floor, least),
        "every_round": seconds,
    }


def report(cells: list[dict]) -> str:
    """The table of all group sizes, in milliseconds per seed-step."""
    names = ("simlab", "torch_threads", "torch_processes", "numpy")
    header = ["G", "simlab ms", "torch, threads", "torch, processes", "NumPy", "torch, threads / simlab"]
    header += ["torch, processes / simlab", "NumPy / simlab", "floor ms", "simlab / floor", "compile s"]
    rows = []
    for cell in cells:
        times = [f"{1e3 * cell['seconds_per_seed_step'][name]:.3f}" for name in names]
        ratios = [f"{cell['ratio_to_simlab'][name]:.1f}" for name in names[1:]]
        bound = [f"{1e3 * cell['floor_seconds']:.3f}", f"{cell['times_floor']:.1f}", f"{cell['compile_seconds']:.1f}"]
        rows.append([str(cell["group_size"]), *times, *ratios, *bound])
    return table(header, rows)


def main() -> None:
    """Check, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--group-size", metavar="LIST", help="2,4,...,131072 by default")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved repeats (default 3)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="100 steps, one round, four sizes; write nothing")
    options = parser.parse_args()
    sizes = options.group_size or ("2,256,4096,131072" if options.quick else "2,4,...,131072")
    machine = describe("jax", "jaxlib", "torch", "numpy")
    if float(str(machine["load_average"])) > 0.5:
        print("the machine is not idle: times will be too long, torch's threads most of all", file=sys.stderr)
    agreed = agreement()
    others, cells = peers(), []
    for size in map(int, expand(sizes)):
        # The preset's own 1000 steps, but for groups that take a torch script a minute for them.
        steps = 100 if options.quick else 1000 if size <= 4096 else 200
        cells.append(measure(size, steps, 1 if options.quick else options.rounds, others))
        print(report(cells[-1:]), file=sys.stderr)
    text = f"{report(cells)}\n\nMilliseconds per seed-step, medians. {in_words(machine)}.\n"
    print(text)
    if not options.quick:
        options.out.mkdir(parents=True, exist_ok=True)
        content = {"machine": machine, "agreement": agreed, "cells": cells}
        (options.out / "dense_storage.json").write_text(json.dumps(content, indent=1) + "\n")
        (options.out / "dense_storage.md").write_text(text)


if __name__ == "__main__":
    main()
