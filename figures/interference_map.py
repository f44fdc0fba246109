"""Maps of pass@256 below the base model's although pass@1 rises, by the overlap of features and one thing more.

    simlab sweep --preset interference --out interference.nc     (minutes)
    python -m figures.interference_map interference.nc           (condenses interference-conflict.nc, ...)
    simlab figures interference_map                              (draws from the condensed numbers kept here)
    python -m figures.interference_map --explorer                (gives the explorer the same numbers)

Every run is read where its pass@1 first reaches one level, linearly between records: pass@k at equal pass@1.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared.condensed import keep, mean_and_error, provenance, results, rounded
from simlab.columns import at_equal_mass
from simlab.explore.in_advance import MAP
from simlab.plotting import STYLE
from simlab.problems.interference import overlap_edge

DATA = Path(__file__).parent / "data" / "interference_map.json"
MESSAGE = "Training on pass@1 costs pass@256 where prompts overlap and disagree"
NOTE = (
    "Red: lower than the base model's; by more than 2 standard errors where a number says from which k on.\n"
    "Grey: not all runs reach the level. Black lines: the overlap beyond which the first step harms hard prompts, by\n"
    "first-order theory (of plain steps: there is none for Adam)."
)
DIFFERS = "Not in the papers: easy and hard prompts that share features, under GRPO with plain steps or Adam."
LEVEL, SHOWN_K = 0.4, 256
ERRORS = 2  # by which pass@k is below the base model's where a cell has a number
DIMENSIONS = {
    "conflict": "conflict",
    "group-size": "group_size",
    "hard-rate": "hard_rate",
    "temperature": "temperature",
    "learning-rate": "learning_rate",
    "adam": "learning_rate",
}
LABELS = {
    "conflict": "hard prompts in conflict",
    "group-size": "group size G",
    "hard-rate": "solve rate of hard prompts",
    "temperature": "temperature",
    "learning-rate": "learning rate, plain steps",
    "adam": "learning rate, Adam",
}
MISSED = "0.82"  # the grey of cells that do not reach the level


def condense(path: Path) -> dict[str, Any]:
    """The gain of every cell at the level, the k where pass@k crosses the base model's, and the theory's threshold."""
    sweeps = results("interference", path)
    first = next(iter(sweeps.values()))
    return {
        "provenance": [provenance(dataset) for dataset in sweeps.values()],
        "level": LEVEL,
        "k": SHOWN_K,
        "overlap": first["overlap"].values.tolist(),
        "maps": {name: condensed_map(name, dataset) for name, dataset in sweeps.items()},
    }


def condensed_map(name: str, dataset: xr.Dataset) -> dict[str, Any]:
    """(values, overlaps) of one sweep; null where a seed does not reach the level."""
    dimension = DIMENSIONS[name]
    runs = dataset.squeeze(
        [key for key in dataset.dims if key not in (dimension, "overlap") and dataset.sizes[key] == 1]
    )
    gains = np.array(
        [
            [gains_at_level(runs.sel({dimension: value, "overlap": overlap})) for overlap in runs["overlap"].values]
            for value in runs[dimension].values
        ]
    )
    k = runs["k"].values
    return {
        "values": runs[dimension].values.tolist(),
        "seeds": np.isfinite(gains[:, :, 0]).sum(axis=-1).tolist(),
        **mean_and_error(gains[:, :, list(k).index(SHOWN_K)]),
        "crossing": [[rounded(crossing(k, cell.mean(axis=-1))) for cell in row] for row in gains],
        "threshold": None if name == "adam" else [thresholds(dimension, value) for value in runs[dimension].values],
    }


def gains_at_level(runs: xr.Dataset) -> np.ndarray:
    """(k, seeds) mean pass@k less the base model's where pass@1 first reaches the level."""
    masses = runs["q_pos"].transpose("seed", "step").values
    gains = runs["pass_at_k_gain"].transpose("k", "seed", "step").values
    return np.stack([at_equal_mass(masses, gain, np.array([LEVEL]))[0] for gain in gains])


def crossing(k: np.ndarray, gains: np.ndarray) -> float:
    """The k, linear in log k between those recorded, from which on mean pass@k is below the base model's; or NaN."""
    below = np.flatnonzero((gains[1:] < 0) & (gains[:-1] >= 0))
    if not len(below):
        return np.nan
    first = below[0]
    share = gains[first] / (gains[first] - gains[first + 1])
    return float(k[first] * (k[first + 1] / k[first]) ** share)


def thresholds(dimension: str, value: float) -> list[Any]:
    """The overlaps, of either sign, beyond which the first expected step harms a hard prompt; null for none."""
    if dimension == "learning_rate":
        return thresholds("group_size", 8)  # any rate has the edge of the usual setting
    setting = {dimension: int(value) if dimension == "group_size" else value}
    return rounded([sign * overlap_edge(sign, **setting) for sign in (-1, 1)])


def draw(data: dict[str, Any]) -> Figure:
    """Six maps, with a bar of their colours."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 7.6), layout="constrained")
        panels = figure.subplots(3, 2).flat
        largest = max(np.nanmax(np.abs(np.array(record["mean"], dtype=float))) for record in data["maps"].values())
        for letter, axes, (name, record) in zip("abcdef", panels, data["maps"].items(), strict=True):
            mesh = draw_map(axes, data["overlap"], record, largest)
            axes.set_title(f"({letter}) {LABELS[name]}", loc="left")
        for axes in figure.axes[4:]:
            axes.set_xlabel("overlap of features")
        bar = figure.colorbar(mesh, ax=figure.axes, orientation="horizontal", shrink=0.5, aspect=30)
        bar.set_label(f"pass@{data['k']} less the base model's, where pass@1 has risen to {data['level']:g}")
        figure.supxlabel(NOTE, x=0.01, ha="left", fontsize=7.5, color="0.3")
    return figure


def draw_map(axes: Axes, overlaps: list[float], record: dict[str, Any], largest: float) -> Any:
    """Cells of one size, coloured by their gain, with the crossing where pass@k falls."""
    mean, error, crossings = (np.array(record[key], dtype=float) for key in ("mean", "error", "crossing"))
    edges = [np.arange(size + 1) - 0.5 for size in mean.shape[::-1]]
    axes.set_facecolor(MISSED)
    mesh = axes.pcolormesh(
        *edges, np.ma.masked_invalid(mean), cmap="RdBu", vmin=-largest, vmax=largest, edgecolors="white", linewidth=0.4
    )
    for row, column in np.argwhere(mean < -ERRORS * error):
        light = "white" if mean[row, column] < -0.6 * largest else "black"
        number = two_digits(crossings[row, column])
        # In front of a line of theory, which would strike the number through.
        cell = {"facecolor": mesh.to_rgba(mean[row, column]), "edgecolor": "none", "pad": 0.6}
        axes.text(column, row, number, ha="center", va="center", size=7, color=light, zorder=4, bbox=cell)
    for row, pair in enumerate(record["threshold"] or []):
        for bound in pair:
            if bound is not None and overlaps[0] <= bound <= overlaps[-1]:
                axes.plot([np.interp(bound, overlaps, range(len(overlaps)))] * 2, [row - 0.5, row + 0.5], "-k", lw=1.6)
    axes.set_xticks(range(len(overlaps)), [f"{overlap:g}" for overlap in overlaps], fontsize=7)
    axes.set_yticks(range(len(record["values"])), [f"{value:g}" for value in record["values"]])
    return mesh


def two_digits(number: float) -> str:
    """A number to two significant digits, without an exponent."""
    return "" if np.isnan(number) else f"{float(f'{number:.2g}'):g}"


def of_explorer(data: dict[str, Any]) -> dict[str, Any]:
    """The condensed numbers that the explorer shows, see ``simlab.explore.in_advance.interference_map``."""
    keys = ("values", "mean", "error", "crossing", "threshold")
    return {
        **{name: data[name] for name in ("level", "k", "overlap")},
        "maps": {
            name: {
                "label": LABELS[name],
                "setting": DIMENSIONS[name],
                "settings": {"optimizer": "adam" if name == "adam" else "sgd"},
                **{key: record[key] for key in keys},
            }
            for name, record in data["maps"].items()
        },
    }


def main(arguments: list[str]) -> None:
    """Condense results into the numbers kept here, or give these to the explorer."""
    if arguments == ["--explorer"]:
        keep(MAP, of_explorer(json.loads(DATA.read_text())))
    else:
        keep(DATA, condense(Path(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
