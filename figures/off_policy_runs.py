"""The rare correct actions that corrections keep, and their cost, in runs from old, imprecise and truncated samplers.

    simlab sweep --preset lag --out lag.nc               (minutes)
    simlab sweep --preset mismatch --out mismatch.nc     (minutes)
    python -m figures.off_policy_runs lag.nc mismatch.nc (condenses)
    simlab figures off_policy_runs                       (draws)

Runs are compared where their pass@1 first reaches one level, linearly between records, and at their end.
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

from figures.off_policy import LOOKS
from figures.shared.condensed import keep, mean_and_error, provenance, results
from figures.shared.end_labels import end_labels
from simlab.columns import at_equal_mass
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "off_policy_runs.json"
MESSAGE = "Decoupled weights bring rare actions back at lag\u00a016; a truncating sampler stops learning early"
DIFFERS = "Not in the papers: GRPO on a bank of prompts from samplers that are not the policy, by correction."
LEVEL = 0.6  # pass@1, from .26: on-policy runs reach it in a fifth of their steps
NAMES = {"ratio": "ratio, clipped"}  # the name of a correction in off_policy.py
QUANTITIES = {
    "rare": "mass of rare at pass@1 = .6",
    "step": "steps to pass@1 = .6",
    "end": "pass@1 at the end",
    "rare_end": "mass of rare at the end",
}
AXES = {"lag": "lag", "precision": "sampler", "top-p": "top_p", "top-k": "top_k"}


def of_cell(cell: xr.Dataset) -> dict[str, np.ndarray]:
    """Each quantity of each seed; NaN where a seed does not reach the level."""
    mass, rare = (cell[name].transpose("seed", "step").values for name in ("q_pos", "target_mass"))
    steps = np.broadcast_to(cell.step.values.astype(float), mass.shape)
    at_level = [at_equal_mass(mass, values, np.array([LEVEL]))[0] for values in (rare, steps)]
    return dict(zip(QUANTITIES, (*at_level, mass[:, -1], rare[:, -1]), strict=True))


def condensed_sweep(dataset: xr.Dataset, along: str) -> dict[str, Any]:
    """Return the quantities of each correction at the values of one parameter."""
    runs = dataset.squeeze([name for name in dataset.dims if dataset.sizes[name] == 1 and name not in (along, "step")])
    data: dict[str, Any] = {"values": runs[along].values.tolist()}
    for correction in runs.correction.values.tolist():
        cells = [of_cell(runs.sel({"correction": correction, along: value})) for value in runs[along].values]
        data[NAMES.get(correction, correction)] = {
            quantity: mean_and_error(np.array([cell[quantity] for cell in cells])) for quantity in QUANTITIES
        }
    return data


def condensed_tree(dataset: xr.Dataset) -> dict[str, Any]:
    """Return steps to the level, and pass@1 and modes at the end, on the tree, where tokens and sequences differ."""
    runs = dataset.squeeze([name for name in dataset.dims if dataset.sizes[name] == 1])
    data: dict[str, Any] = {}
    for correction in runs.correction.values.tolist():
        for unit in runs.correction_unit.values.tolist():
            cell = runs.sel(correction=correction, correction_unit=unit)
            numbers = of_cell(cell)
            row = {name: mean_and_error(numbers[name]) for name in ("step", "end")}
            row["modes"] = mean_and_error(cell.mode_coverage.transpose("seed", "step").values[:, -1])
            data[f"{NAMES.get(correction, correction)}, {unit}"] = row
    return data


def condense(lag: Path, mismatch: Path) -> dict[str, Any]:
    """Return the numbers of the figure and of the tree, with the provenance of all sweeps."""
    lags, mismatches = results("lag", lag), results("mismatch", mismatch)
    sweeps = {"lag": lags["bank"], **mismatches}
    return {
        "provenance": [provenance(dataset) for dataset in (*lags.values(), *mismatches.values())],
        "level": LEVEL,
        **{name: condensed_sweep(dataset, AXES[name]) for name, dataset in sweeps.items()},
        "tree": condensed_tree(lags["tree"]),
    }


def draw(data: dict[str, Any]) -> Figure:
    """A row for the lag and one for samplers, a column for each quantity."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        rows = figure.subplots(2, len(QUANTITIES))
        for (lag, sampler), (quantity, label) in zip(rows.T, QUANTITIES.items(), strict=True):
            _draw_lag(lag, data["lag"], quantity)
            _draw_samplers(sampler, data, quantity)
            for axes in (lag, sampler):
                axes.set_ylabel(label, fontsize=8)
                if quantity.startswith("rare"):
                    axes.set_ylim(bottom=0)
        rows[0, 0].set_title("(a) lag", loc="left")
        rows[1, 0].set_title("(b) sampler", loc="left")
        end_labels(rows[0, -1], size=7.5)
    return figure


def _draw_lag(axes: Axes, sweep: dict[str, Any], quantity: str) -> None:
    """Lines over the lag."""
    _draw_lines(axes, np.array(sweep["values"], float), sweep, quantity)
    axes.set_xscale("symlog", base=2, linthresh=1)
    axes.set_xticks(sweep["values"], [str(value) for value in sweep["values"]])
    axes.set_xlabel("lag k")


def _draw_samplers(axes: Axes, data: dict[str, Any], quantity: str) -> None:
    """Lines over the samplers, one for each kind."""
    labels: list[str] = []
    for kind, prefix in (("precision", ""), ("top-p", "p = "), ("top-k", "k = ")):
        sweep = data[kind]
        order = sorted(range(len(sweep["values"])), key=lambda i, values=sweep["values"]: values[i], reverse=True)
        _draw_lines(axes, len(labels) + np.arange(len(order)), sweep, quantity, order)
        labels += [f"{prefix}{sweep['values'][i]}" for i in order]
    axes.set_xticks(range(len(labels)), labels, rotation=90, fontsize=7)


def _draw_lines(
    axes: Axes, positions: np.ndarray, sweep: dict[str, Any], quantity: str, order: list[int] | None = None
) -> None:
    """Means and 95 % intervals over seeds; nothing where a seed does not reach the level.

    In an ``order`` of samplers corrections stand side by side, since most of their numbers are the same.
    """
    for number, (name, (colour, dashes)) in enumerate(LOOKS.items()):
        mean, error = (np.array(sweep[name][quantity][key], float) for key in ("mean", "error"))
        if order is None:
            axes.plot(positions, mean, linestyle=dashes, color=colour, label=name, marker=".", markersize=3, lw=1.1)
            axes.fill_between(positions, mean - 1.96 * error, mean + 1.96 * error, color=colour, alpha=0.2, lw=0)
        else:
            aside = positions + 0.15 * (number - (len(LOOKS) - 1) / 2)
            axes.errorbar(aside, mean[order], 1.96 * error[order], color=colour, fmt=".", markersize=3, lw=0.7)


if __name__ == "__main__":
    keep(DATA, condense(*map(Path, sys.argv[1:])))
