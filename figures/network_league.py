"""Every weight where prompts share a linear head or a network: pass@256 at equal pass@1, by optimiser and solve rate.

    simlab sweep --preset network-league --out network-league.nc       (some three hours on two cores)
    python -m figures.network_league network-league.nc                 (adds what is finished to what is kept)
    python -m figures.network_league --table [COLUMN=VALUE ...]        (prints the rows, best first, tab-separated)
    simlab figures network_league                                      (draws from what is kept here)

The learning rate is chosen on half of the seeds and judged on the other half.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared.chosen import judge
from figures.shared.condensed import decoded, finished, keep, origins, rounded
from simlab.plotting import STYLE
from simlab.sweeps.presets.interference import METHODS

DATA = Path(__file__).parent / "data" / "network_league.json"
PRESET = "network-league"
MESSAGE = "Weights part where hard prompts are solved often enough: with Adam sooner than with plain steps"
DIFFERS = (
    "Not in the papers: their weights at equal pass@1 on a linear head and on networks, with plain steps and Adam."
)
ROWS = {"linear": "linear head", "one": "one hidden layer", "two": "two hidden layers"}
LABELS = {"sgd": "plain steps", "adam": "Adam"}
SHOWN = 0.45  # one of LEVELS
DRAWN = ("grpo", "f_grpo(gamma=2)", "power_alpha(alpha=3)", "nsr", "easy_power(alpha=3)", "pass_at_k_chen")
FADING = ("pass_at_k_chen", "reject_easy(threshold=0.25)")  # weights that stop teaching solved prompts
LEVELS = (0.25, 0.3, 0.35, 0.4, 0.45)  # pass@1; with half of the prompts easy, .5 is where these are solved
CONDITIONS = ("representation", "optimizer", "group_size", "hard_rate", "prompts", "prompts_per_step")
CELL = (*CONDITIONS, "method", "beside")  # the key of a cell
AT_LEVELS = ("pass@256", "error", "step", "learning_rate")
COLUMNS = (*CELL, "level", *AT_LEVELS, "base", "most")
USUAL_PROMPTS = 32
SAME = {"f_grpo": "f_grpo(gamma=1)"}  # one method by two names
BESIDE = ("entropy_bonus", "kl", "supervised", "epochs", "tempering", "allocation")  # settings beside a weight


def conditions(name: str, dataset: xr.Dataset) -> dict[str, Any]:
    """Return the conditions of a sweep that all its cells share."""
    sweep = decoded(dataset.attrs["configuration"])
    fixed = {key.partition(".")[2]: values[0] for key, values in sweep["parameters"].items() if len(values) == 1}
    rate = "log-uniform" if fixed.get("solve_rates") == "log-uniform" else 0.01
    shared = {"representation": name.split("-")[-2], "optimizer": sweep["optimizer"], "hard_rate": rate}
    shared |= {"prompts": USUAL_PROMPTS, "prompts_per_step": fixed.get("prompts_per_step", 0)}
    return shared | {key: fixed[key] for key in BESIDE if key in fixed}


def cells(name: str, dataset: xr.Dataset) -> Iterator[dict[str, Any]]:
    """Yield each method and condition of a sweep: numbers at each level, at the learning rate that is best there."""
    shared = conditions(name, dataset)
    curves = dataset.pass_at_k
    others = [dim for dim in curves.dims if dim not in ("learning_rate", "seed", "step", "k")]
    for cell in curves.stack(cell=others).transpose("cell", "k", "learning_rate", "seed", "step"):
        labels = {dim: cell[dim].item() for dim in others}
        values = {k: cell.sel(k=k).values for k in (1, 256)}
        record = shared | {key: labels[key] for key in labels if key in (*CONDITIONS, *BESIDE)}
        beside = ", ".join(f"{key} = {_written(record.pop(key))}" for key in BESIDE if key in record)
        arm = str(labels["arm"]).removesuffix("+reinforce")
        numbers = []
        for level in LEVELS:
            best = judge(values[1], values[256], dataset.step.values, level)
            rate = None if best is None else float(cell.learning_rate.values[best.setting])
            read = (None,) * 3 if best is None else map(rounded, (best.mean, best.error, best.step), (4, 2, 3))
            numbers.append((*read, rate))
        at_levels = dict(zip(AT_LEVELS, map(list, zip(*numbers, strict=True)), strict=True))
        start = {"base": rounded(values[256][:, :, 0].mean(), 4), "most": rounded(values[1].mean(axis=1).max(), 4)}
        yield record | {"method": SAME.get(arm, arm), "beside": beside} | at_levels | start


def _written(value: float | str) -> str:
    """Return a setting as text."""
    return value if isinstance(value, str) else f"{value:g}"


def by_row(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Return columns as rows."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def condense(path: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Return the kept data with the cells of finished sweeps, which replace cells and sweeps of their like.

    ``columns`` have a value for each cell; columns of ``AT_LEVELS`` have a list, over ``levels``.
    """
    sweeps = finished(PRESET, path)
    new = [cell for name, dataset in sweeps.items() for cell in cells(name, dataset)]
    every = {tuple(cell[key] for key in CELL): cell for cell in (*by_row(data["columns"]), *new)}
    columns = {name: [cell[name] for cell in every.values()] for name in COLUMNS if name != "level"}
    return {"provenance": origins(data, sweeps), "levels": LEVELS, "columns": columns}


def selected(data: dict[str, Any], conditions: dict[str, str]) -> list[dict[str, Any]]:
    """Return the rows, one for each cell and level, whose columns have these values; the largest pass@256 first."""
    every = (
        cell | {"level": level} | {name: cell[name][index] for name in AT_LEVELS}
        for cell in by_row(data["columns"])
        for index, level in enumerate(data["levels"])
    )
    chosen = [row for row in every if all(str(row[name]) == value for name, value in conditions.items())]
    return sorted(chosen, key=lambda row: -(row["pass@256"] or 0))


def table(rows: list[dict[str, Any]]) -> str:
    """Return rows as tab-separated text, with a heading."""
    lines = ["\t".join("" if row[name] is None else str(row[name]) for name in COLUMNS) for row in rows]
    return "\n".join(["\t".join(COLUMNS), *lines])


def draw(data: dict[str, Any]) -> Figure:
    """Pass@256 at equal pass@1 against the solve rate of hard prompts, G = 8."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 8.2), layout="constrained")
        figure.suptitle(MESSAGE, x=0.01, ha="left", fontsize=10, fontweight="bold")
        panels = figure.subplots(len(ROWS), len(LABELS), sharex=True, sharey=True)
        for axes, (row, column) in zip(panels.flat, ((row, column) for row in ROWS for column in LABELS), strict=True):
            conditions = {"representation": row, "optimizer": column, "group_size": "8", "prompts_per_step": "0"}
            _draw_panel(axes, selected(data, conditions | {"level": str(SHOWN), "prompts": "32", "beside": ""}))
            axes.set_title(f"{ROWS[row]}, {LABELS[column]}", loc="left", fontsize=9)
        for axes in panels[:, 0]:
            axes.set_ylabel(f"pass@256 at pass@1 = {SHOWN:g}")
        for axes in panels[-1]:
            axes.set_xlabel("solve rate of hard prompts")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=7)
    return figure


def _draw_panel(axes: Axes, rows: list[dict[str, Any]]) -> None:
    """Draw six methods over the solve rates with 95 % intervals, the range of all but two, and the base model."""
    rates = sorted({row["hard_rate"] for row in rows if isinstance(row["hard_rate"], float)})
    cells = {(row["method"], row["hard_rate"]): row for row in rows}
    ten = [[cells[name, rate]["pass@256"] or np.nan for name in METHODS if name not in FADING] for rate in rates]
    axes.fill_between(rates, np.nanmin(ten, axis=1), np.nanmax(ten, axis=1), color="0.9", label="ten weights")
    for number, method in enumerate(DRAWN):
        curve = [cells[method, rate] for rate in rates]
        means, errors = (np.array([row[name] or np.nan for row in curve]) for name in ("pass@256", "error"))
        style = {"color": f"C{number}", "marker": "o", "markersize": 3, "linewidth": 1}
        axes.errorbar(rates, means, yerr=1.96 * errors, label=method, **style)
    base = [cells[DRAWN[0], rate]["base"] for rate in rates]
    axes.plot(rates, base, "--", color="0.5", linewidth=0.8, label="base model")
    axes.set_xscale("log")


def main(arguments: list[str]) -> None:
    """Condense results, or print the rows that are kept."""
    if arguments[:1] == ["--table"]:
        wanted = dict(argument.split("=", 1) for argument in arguments[1:])
        print(table(selected(json.loads(DATA.read_text()), wanted)))
    else:
        keep(DATA, condense(Path(*arguments), json.loads(DATA.read_text())))


if __name__ == "__main__":
    main(sys.argv[1:])
