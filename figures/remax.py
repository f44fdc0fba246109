"""The greedy answer as a baseline (ReMax), beside no baseline, the group's mean and its median, at equal cost.

    simlab sweep --preset remax --out remax.nc    (minutes)
    python -m figures.remax remax.nc              (condenses remax-bank.nc and remax-interference.nc)
    python -m figures.remax --table               (prints the table of README.md)
    simlab figures remax                          (draws from what is kept here)

Bands are 95 % intervals of the mean over seeds.
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.budget import banded
from figures.shared.condensed import condense_or_print, mean_and_error, number_and_error, provenance, results
from simlab.columns import at_equal_mass
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "remax.json"
MESSAGE = "On a bank ReMax keeps the rare answers; where prompts interfere it is one more clock"
DIFFERS = "Not in the paper: ReMax on rewards 0 and 1 with eight rollouts a greedy answer, beside other baselines."
NAMES = {
    "remax": ("ReMax", "C0"),
    "reinforce": ("no baseline", "black"),
    "dr_grpo": ("the group's mean", "C1"),
    "mc_grpo": ("the group's median", "C2"),
    "nsr": ("failures alone", "C4"),
}
NORM, RATE = 1.0, 1.0  # for the curves that are drawn
LEVELS = {"bank": 0.6, "interference": 0.45}  # pass@1 in the table
READ = {"bank": "retained_mass", "interference": "pass_at_256"}  # at equal pass@1
LABELS = {"retained_mass": "retained mass", "pass_at_256": "pass@256"}
PLACES = 15  # at which a curve over pass@1 is read


def condense(path: Path) -> dict[str, Any]:
    """Return curves by cost and by pass@1 of every baseline, and the numbers of the table."""
    sweeps = results("remax", path)
    chosen = {"bank": {"update_norm": NORM}, "interference": {"learning_rate": RATE}}
    data: dict[str, Any] = {"provenance": [provenance(sweep) for sweep in sweeps.values()]}
    for name, sweep in sweeps.items():
        drawn = sweep.sel(chosen[name])
        runs = {weight: runs_of(drawn.sel(estimator=weight), READ[name]) for weight in NAMES}
        start = np.mean([curves["pass_at_1"][:, 0].mean() for curves in runs.values()])
        highest = max(curves["pass_at_1"].mean(axis=0).max() for curves in runs.values())
        levels = np.linspace(start, highest, PLACES)[1:-1]
        data[name] = {
            "cost": sweep["cost"].values.tolist(),
            "levels": levels.tolist(),
            "weights": {weight: of_weight(curves, levels, LEVELS[name]) for weight, curves in runs.items()},
        }
    return data


def runs_of(cell: xr.Dataset, metric: str) -> dict[str, np.ndarray]:
    """(seeds, costs) pass@1, and the metric that is read at equal pass@1."""
    alone = cell.squeeze(drop=True)
    at_k = alone["pass_at_k"].transpose("seed", "cost", "k")
    read = at_k.sel(k=256) if metric == "pass_at_256" else alone[metric].transpose("seed", "cost")
    return {"pass_at_1": at_k.sel(k=1).values, "read": read.values}


def of_weight(runs: dict[str, np.ndarray], levels: np.ndarray, level: float) -> dict[str, Any]:
    """Means and errors over seeds; null at a level that some seed does not reach."""
    pass_at_1 = runs["pass_at_1"]
    return {
        "pass_at_1": mean_and_error(pass_at_1.T),
        "read": mean_and_error(at_equal_mass(pass_at_1, runs["read"], levels)),
        "at_level": mean_and_error(at_equal_mass(pass_at_1, runs["read"], np.array([level]))[0]),
    }


def draw(data: dict[str, Any]) -> Figure:
    """Pass@1 by cost, and what is left at equal pass@1, on both problems."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 5.4), layout="constrained")
        panels = figure.subplots(2, 2)
        for row, name, letters in zip(panels, READ, ("ab", "cd"), strict=True):
            _draw_cost(row[0], data[name])
            _draw_levels(row[1], data[name], LABELS[READ[name]])
            for axes, letter in zip(row, letters, strict=True):
                axes.set_title(f"({letter}) {'a bank' if name == 'bank' else 'prompts that interfere'}", loc="left")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def _draw_cost(axes: Axes, problem: dict[str, Any]) -> None:
    for name, (label, colour) in NAMES.items():
        thousands = np.array(problem["cost"]) / 1000
        banded(axes, thousands, problem["weights"][name]["pass_at_1"], color=colour, label=label)
    axes.set(xlabel="cost in thousands of rollouts", ylabel="pass@1")


def _draw_levels(axes: Axes, problem: dict[str, Any], label: str) -> None:
    for name, (_, colour) in NAMES.items():
        numbers = problem["weights"][name]["read"]
        values = {key: np.array(numbers[key], float) for key in numbers}
        banded(axes, np.array(problem["levels"]), values, color=colour)
    axes.set(xlabel="pass@1, where it is first reached", ylabel=label)


def table(data: dict[str, Any]) -> str:
    """Pass@1 at the end, and what is left at one pass@1, of every baseline."""
    heads = [f"{LABELS[READ[name]]} at {LEVELS[name]:g}" for name in READ]
    lines = [
        f"| baseline | bank: pass@1 | {heads[0]} | interfering: pass@1 | {heads[1]} |",
        "|---|---:|---:|---:|---:|",
    ]
    for weight, (label, _) in NAMES.items():
        cells = []
        for name in READ:
            numbers = data[name]["weights"][weight]
            cells.append(number_and_error(numbers["pass_at_1"]["mean"][-1], numbers["pass_at_1"]["error"][-1]))
            cells.append(number_and_error(numbers["at_level"]["mean"], numbers["at_level"]["error"]))
        lines.append(f"| {label} (`{weight}`) | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Condense results into the numbers kept here, or print the table."""
    condense_or_print(arguments, DATA, condense, table)


if __name__ == "__main__":
    main(sys.argv[1:])
