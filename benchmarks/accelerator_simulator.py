"""The simulator on an accelerator: the law of its runs, seed-steps a second, and whole sweeps."""

import time

import jax
import numpy as np

from benchmarks.cell import ACTIONS, TIMED_GAMMA, Cell, step_bytes
from benchmarks.whole_sweeps import sweep_seconds
from simlab.simulator.runner import run

COMPARED = ("q_pos", "retained_mass", "entropy")
SWEEPS = {
    "Figure 2, 4 seeds": ("--preset", "f-grpo-fig2"),
    "Figure 2, 1000 seeds": ("--preset", "f-grpo-fig2", "--seeds", "1000"),
}


def agreement(quick: bool) -> list[dict[str, object]]:
    """The same seeds on the device and on the CPU.

    Equal: the share of the first step's records that are the same bits. Standard errors: how many lie between the means
    of the last records, over seeds; runs that round differently draw other actions sooner or later, by the same law.

    Raises:
        SystemExit: if means are more than 4 combined standard errors apart: nothing is timed then.
    """
    here, cpu = jax.local_devices()[0], jax.local_devices(backend="cpu")[0]
    seeds = list(range(8 if quick else 64))
    rows: list[dict[str, object]] = []
    for storage, group_size in (("dense", 32), ("dense", 8192), ("lumped", 32)):
        cell = Cell(storage, group_size, TIMED_GAMMA, 20 if quick else 200, 2000 if quick else ACTIONS)
        steps = np.array([1, *cell.steps])
        settings = [cell.settings] * len(seeds)
        ours, theirs = (run(cell.problem, settings, seeds, steps, (device,)) for device in (here, cpu))
        for name in COMPARED:
            equal = float(np.mean(ours[name][:, 1] == theirs[name][:, 1]))
            rows.append({"storage": storage, "G": group_size, "quantity": name, "equal after a step": equal})
            rows[-1]["standard errors"] = _gap(ours[name][:, -1], theirs[name][:, -1])
    if max(float(str(row["standard errors"])) for row in rows) > 4:
        raise SystemExit(f"the device's law differs from the CPU's: nothing was timed\n{rows}")
    return rows


def _gap(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Between two means over seeds, in combined standard errors; 0 where nothing differs at all."""
    error = np.sqrt((ours.var(ddof=1) + theirs.var(ddof=1)) / len(ours))
    return float(abs(ours.mean() - theirs.mean()) / error) if error else 0.0


def throughput(speeds: dict[str, float], quick: bool) -> list[dict[str, object]]:
    """Seed-steps a second for many seeds, and of dense storage which share of the memory's speed they need at least."""
    actions, steps = (2000, 20) if quick else (ACTIONS, 100)
    rows: list[dict[str, object]] = []
    for storage, sizes in (("dense", (8, 256, 8192)), ("lumped", (2, 8, 32))):
        for group_size in sizes:
            cell = Cell(storage, group_size, TIMED_GAMMA, steps, actions)
            first = cell.first_seconds()
            for seeds in (16,) if quick else (1000, 10_000):
                rate = seeds * steps / _seconds(cell, seeds)
                row = {"storage": storage, "G": group_size, "seeds": seeds, "runs a call": cell.together}
                moved = rate * step_bytes(actions, group_size) / speeds["bytes"] if storage == "dense" else ""
                rows.append(row | {"seed-steps / s": rate, "share of bandwidth": moved, "first call s": first})
    return rows


def _seconds(cell: Cell, seeds: int) -> float:
    start = time.perf_counter()
    run(cell.problem, [cell.settings] * seeds, list(range(seeds)), cell.steps, cell.devices)
    return time.perf_counter() - start


def sweeps() -> list[dict[str, object]]:
    """Seconds of whole sweeps, each in a process of its own."""
    return [{"sweep": name, **sweep_seconds(options)} for name, options in SWEEPS.items()]
