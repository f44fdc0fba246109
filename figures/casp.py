"""CaSP's toy ``[casp:figure-5-runs]`` over the settings that its paper leaves unstated.

    simlab sweep --preset casp --out casp.nc
    python -m figures.casp casp.nc   (condenses casp-grpo.nc and its siblings)
    simlab figures casp              (draws from the condensed numbers kept here)

A mode is held where its probability is .01 or more. Bars and bands are 95 % of the mean over seeds; comparisons are
seed by seed.
"""

import itertools
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from figures.shared.condensed import each_cell, keep, mean_and_error, provenance, results, rounded
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "casp.json"
DIFFERS = "Every setting that the paper leaves unstated is swept, where the paper shows one run."
METRICS = ("modes_held", "mode_coverage", "effective_modes", "q_pos")
MODES = 6
EXACT, LEAKING = 0.99, 0.9  # accuracy above and below which panels (d) and (c) of the paper's figure are matched
SETTINGS = ("group_size", "learning_rate")
PARAMETERS = (*SETTINGS, "entropy_bonus", "alpha", "candidates", "top_penalty", "quantile")

Cell = dict[str, Any]


def condense(path: Path) -> dict[str, Any]:
    """The ends of every cell, the cells with the paper's outcome, and CaSP beside the bonus."""
    sweeps = results("casp", path)
    return {
        "provenance": [provenance(dataset) for dataset in sweeps.values()],
        "cells": {name: [_cell(runs) for runs in each_cell(dataset)] for name, dataset in sweeps.items()},
        "outcome": {
            "sgd": _outcome(sweeps["grpo"], sweeps["entropy"], sweeps["casp"]),
            "adam": _outcome(
                sweeps["adam"].sel(entropy_bonus=0.0), sweeps["adam"].sel(entropy_bonus=[0.5, 1.0]), sweeps["adam-casp"]
            ),
        },
        "over": {
            "CaSP over bonus .5": _less(sweeps["casp"], sweeps["entropy"].sel(entropy_bonus=0.5, drop=True)),
            "penalty 1.1 over 1": _less(
                sweeps["halves"].sel(top_penalty=1.1, drop=True), sweeps["halves"].sel(top_penalty=1.0, drop=True)
            ),
        },
    }


def _less(more: xr.Dataset, other: xr.Dataset) -> list[Cell]:
    """The ends of every cell's runs, less runs of the other kind in the same setting, seed by seed."""
    other = other.isel(step=-1)
    rows = []
    for runs in each_cell(more):
        same = other.sel({name: runs[name] for name in other.indexes if name in runs.coords and name != "seed"})
        rows.append(
            _point(runs) | {name: mean_and_error((runs[name].isel(step=-1) - same[name]).values) for name in METRICS}
        )
    return rows


def _cell(runs: xr.Dataset) -> Cell:
    """A cell's parameters, its metrics along training, and the share of seeds that ended as the paper says."""
    last = runs.isel(step=-1)
    return (
        _point(runs)
        | {"step": runs["step"].values.tolist()}
        | {name: mean_and_error(runs[name].values.T) for name in METRICS}
        | {"share": {name: rounded(seen.mean()) for name, seen in _endings(last).items()}}
    )


def _point(runs: xr.Dataset) -> dict[str, float]:
    return {name: runs[name].item() for name in PARAMETERS if name in runs.coords}


def _endings(last: xr.Dataset) -> dict[str, np.ndarray]:
    """(seeds,) masks of runs that ended in one mode, in all, in all and leaking, in all and exactly."""
    held, accuracy = last["modes_held"].values, last["q_pos"].values
    six = held == MODES
    return {"one": held == 1, "six": six, "leaking": six & (accuracy < LEAKING), "exact": six & (accuracy > EXACT)}


def _outcome(grpo: xr.Dataset, entropy: xr.Dataset, casp: xr.Dataset) -> list[Cell]:
    """Count, for each bonus and CaSP, the settings in which most seeds have the paper's three endings together.

    Also count the settings with each ending, and those in which the bonus alone ends as the paper says of CaSP.
    """
    first = _by_setting(grpo)
    rows = []
    for bonus, variant in itertools.product(_variants(entropy), _variants(casp)):
        second, third = _by_setting(entropy.sel(bonus)), _by_setting(casp.sel(variant))
        seen = {
            "one": {at: runs["one"] for at, runs in first.items()},
            "leaking": {at: runs["leaking"] for at, runs in second.items()},
            "exact": {at: runs["exact"] for at, runs in third.items()},
            "bonus_exact": {at: runs["exact"] for at, runs in second.items()},
        }
        seen["all"] = {at: seen["one"][at] & seen["leaking"][at] & seen["exact"][at] for at in first}
        counts = {name: sum(bool(runs.mean() > 0.5) for runs in by.values()) for name, by in seen.items()}
        where = [at for at, runs in seen["all"].items() if runs.mean() > 0.5]
        rows.append(bonus | variant | {"settings": len(first), "counts": counts, "where": where})
    return rows


def _variants(dataset: xr.Dataset) -> list[dict[str, float]]:
    """The values of the method's own parameters that a sweep has."""
    names = [name for name in PARAMETERS if name in dataset.dims and name not in SETTINGS]
    return [
        dict(zip(names, point, strict=True))
        for point in itertools.product(*(dataset[name].values.tolist() for name in names))
    ]


def _by_setting(dataset: xr.Dataset) -> dict[tuple[float, ...], dict[str, np.ndarray]]:
    """The endings of the runs of each group size and learning rate."""
    return {tuple(runs[name].item() for name in SETTINGS): _endings(runs.isel(step=-1)) for runs in each_cell(dataset)}


MESSAGE = "An entropy bonus of .5 holds the six modes as well as CaSP over all four actions does"
COLOUR_BARS = {"modes_held": "modes held", "q_pos": "accuracy"}
MAPS = {
    "GRPO": ("grpo", {}),
    "+ bonus .5": ("entropy", {"entropy_bonus": 0.5}),
    "+ bonus 1": ("entropy", {"entropy_bonus": 1.0}),
    r"CaSP $\alpha$ .5, N 3": ("casp", {"candidates": 3}),
    r"CaSP $\alpha$ .5, N 4": ("casp", {"candidates": 4}),
}
ABLATIONS = {
    "GRPO": ("halves", {"alpha": 0.0, "top_penalty": 1.0}),
    "penalty alone": ("halves", {"alpha": 0.0, "top_penalty": 1.1}),
    r"both, $\alpha$ .05": ("halves", {"alpha": 0.05, "top_penalty": 1.1}),
    "smoothing alone": ("halves", {"alpha": 0.5, "top_penalty": 1.0}),
    r"both, $\alpha$ .5": ("halves", {"alpha": 0.5, "top_penalty": 1.1}),
    "both, gated": ("gate", {"quantile": 0.5}),
}
LONG = {
    "GRPO": ("long", {"entropy_bonus": 0.0}),
    "+ bonus .5": ("long", {"entropy_bonus": 0.5}),
    "CaSP, N 3": ("long-casp", {"candidates": 3}),
    "CaSP, N 4": ("long-casp", {"candidates": 4}),
}
ADAM = {
    "GRPO": ("adam", {"entropy_bonus": 0.0}),
    "+ bonus .5": ("adam", {"entropy_bonus": 0.5}),
    "CaSP, N 3": ("adam-casp", {"candidates": 3}),
    "CaSP, N 4": ("adam-casp", {"candidates": 4}),
}
DASHES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))


def chosen(data: dict[str, Any], sweep: str, point: dict[str, float]) -> list[Cell]:
    """The cells of a sweep that have some parameters."""
    return [cell for cell in data["cells"][sweep] if all(cell[name] == value for name, value in point.items())]


def draw(data: dict[str, Any]) -> Figure:
    """Maps of the modes held and of accuracy, and below them the ablations, long runs, and Adam."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 6.2), layout="constrained")
        above, below = figure.subfigures(2, 1, height_ratios=(1.15, 1))
        maps = above.subplots(2, len(MAPS), sharex=True, sharey=True)
        for column, (name, (sweep, point)) in enumerate(MAPS.items()):
            maps[0, column].set_title(name, loc="left", fontsize=8)
            for row, metric in enumerate(("modes_held", "q_pos")):
                image = _draw_map(maps[row, column], chosen(data, sweep, point), metric)
                if column == len(MAPS) - 1:
                    above.colorbar(image, ax=list(maps[row]), label=COLOUR_BARS[metric], aspect=12)
        maps[0, 0].set_ylabel("learning rate")
        maps[1, 0].set_ylabel("learning rate")
        for axes in maps[1]:
            axes.set_xlabel("group size G")
        panels = below.subplots(1, 3)
        _draw_rates(panels[0], data, ABLATIONS, "(a) halves and gate, N 3")
        _draw_long(panels[1], data)
        _draw_rates(panels[2], data, ADAM, "(c) Adam, G = 16")
    return figure


def _draw_map(axes: Axes, cells: list[Cell], metric: str) -> AxesImage:
    """The final means over group size and learning rate, written into their cells."""
    sizes, rates = (sorted({cell[name] for cell in cells}) for name in SETTINGS)
    table = np.full((len(rates), len(sizes)), np.nan)
    for cell in cells:
        table[rates.index(cell["learning_rate"]), sizes.index(cell["group_size"])] = cell[metric]["mean"][-1]
    low, high = (1, MODES) if metric == "modes_held" else (0.4, 1)
    image = axes.imshow(table, cmap="viridis", vmin=low, vmax=high, origin="lower", aspect="auto")
    for (row, column), value in np.ndenumerate(table):
        text = f"{value:.1f}" if metric == "modes_held" else f"{value:.3f}".removeprefix("0")
        dark = value > (low + high) / 2
        axes.text(column, row, text, ha="center", va="center", fontsize=7, color="black" if dark else "white")
    axes.set_xticks(range(len(sizes)), [f"{size}" for size in sizes])
    axes.set_yticks(range(len(rates)), [f"{rate:g}" for rate in rates])
    return image


def _draw_line(axes: Axes, x: list[float], statistics: list[tuple[float, float]], **style: Any) -> None:
    mean, error = np.array(statistics).T
    (line,) = axes.plot(x, mean, **style)
    axes.fill_between(x, mean - 1.96 * error, mean + 1.96 * error, color=line.get_color(), alpha=0.2, linewidth=0)


def _draw_rates(axes: Axes, data: dict[str, Any], lines: dict[str, Any], title: str) -> None:
    """Modes held at the end, against the learning rate."""
    for (name, (sweep, point)), dashes in zip(lines.items(), DASHES, strict=False):
        cells = chosen(data, sweep, point)
        ends = [(cell["modes_held"]["mean"][-1], cell["modes_held"]["error"][-1]) for cell in cells]
        _draw_line(axes, [cell["learning_rate"] for cell in cells], ends, linestyle=dashes, marker="o", label=name)
    rates = sorted({cell["learning_rate"] for sweep, point in lines.values() for cell in chosen(data, sweep, point)})
    axes.set_xscale("log")
    axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
    axes.minorticks_off()
    axes.set(xlabel="learning rate", ylabel="modes held")
    _finish(axes, title)


def _draw_long(axes: Axes, data: dict[str, Any]) -> None:
    """Modes held along longer runs."""
    for (name, (sweep, point)), dashes in zip(LONG.items(), DASHES, strict=False):
        (cell,) = chosen(data, sweep, point)
        along = list(zip(cell["modes_held"]["mean"], cell["modes_held"]["error"], strict=True))
        _draw_line(axes, cell["step"][1:], along[1:], linestyle=dashes, label=name)
    axes.set(xlabel="step", ylabel="modes held")
    _finish(axes, "(b) learning rate 1, G = 16")


def _finish(axes: Axes, title: str) -> None:
    axes.set(ylim=(0.8, MODES + 0.2), yticks=range(1, MODES + 1))
    axes.set_title(title, loc="left")
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.24), ncols=2, fontsize=7, columnspacing=0.6, handlelength=2.2
    )


def main(arguments: list[str]) -> None:
    """Condense results into the numbers kept here."""
    keep(DATA, condense(Path(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
