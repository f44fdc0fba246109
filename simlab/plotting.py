"""The figure that a sweep ends with, and the style that every figure of the project shares."""

import itertools
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simlab.errors import InputError

STYLE = Path(__file__).with_name("simlab.mplstyle")
LABELS = {
    "group_size": "group size G",
    "q_pos": "correct mass $Q_{pos}$",
    "retained_mass": "retained mass $M_{ret}$",
    "gamma": r"$\gamma$",
}
DASHES = ("-", "--", ":", "-.")


def mean_and_band(values: xr.DataArray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over seeds, and the half-width of its 95 % band, 1.96 standard errors (0 for a single seed)."""
    seeds = values.sizes["seed"]
    spread = values.std("seed", ddof=1 if seeds > 1 else 0)
    return values.mean("seed").values, 1.96 * spread.values / np.sqrt(seeds)


def draw_band(axes: Axes, x: np.ndarray, values: xr.DataArray, **style: Any) -> None:
    """A line of the mean over seeds in its 95 % band; the dimensions left are ``seed`` and that of ``x``."""
    mean, half = mean_and_band(values.transpose(..., "seed"))
    (line,) = axes.plot(x, mean, **style)
    axes.fill_between(x, mean - half, mean + half, color=line.get_color(), alpha=0.2, linewidth=0)


def final_state(dataset: xr.Dataset) -> Figure:
    """Final Q_pos and retained mass against group size, a line for each other cell, with 95 % bands over seeds.

    With one group size, the first swept number takes its place on the axis.
    """
    names = [str(name) for name in dataset["q_pos"].dims if name not in ("seed", "step")]
    axis = next((name for name in ("group_size", *names) if _is_axis(dataset, name)), "group_size")
    others = [name for name in names if name != axis and dataset.sizes[name] > 1]
    last = dataset.isel(step=-1)
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(6.8, 2.9), layout="constrained")
        panels = figure.subplots(1, 2, sharex=True)
        for panel, metric in zip(panels, ("q_pos", "retained_mass"), strict=True):
            lines = itertools.product(*(dataset[name].values for name in others))
            for number, point in enumerate(lines):
                chosen = dict(zip(others, point, strict=True))
                values = last[metric].sel(chosen).squeeze([name for name in names if name not in (axis, *others)])
                label = ", ".join(f"{LABELS.get(name, name)} = {_plain(value)}" for name, value in chosen.items())
                draw_band(panel, dataset[axis].values, values, label=label, linestyle=DASHES[number % 4], marker="o")
            if axis == "group_size":
                panel.set_xscale("log", base=2)
            panel.set(xlabel=LABELS.get(axis, axis), ylabel=LABELS[metric], ylim=(-0.03, 1.03))
        panels[0].set_title(f"step {int(dataset['step'][-1])}, {dataset.sizes['seed']} seeds", loc="left")
        if others:
            panels[1].legend()
    return figure


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (float, np.floating)) else str(value)


def _is_axis(dataset: xr.Dataset, name: str) -> bool:
    return dataset.sizes[name] > 1 and np.issubdtype(dataset[name].dtype, np.number)


def save_final_state(dataset: xr.Dataset, path: Path) -> None:
    """Draw ``final_state`` into a file, of the kind its suffix says.

    Raises:
        InputError: for an unknown kind of file, or a path that cannot be written.
    """
    try:
        with matplotlib.style.context(STYLE):
            final_state(dataset).savefig(path)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write {path}: {str(error).splitlines()[0]}; the result is kept") from None


def save_everywhere(figure: Figure, stem: Path) -> None:
    """Write ``stem``.svg, .pdf and .png; two runs give identical bytes, since no date is written."""
    with matplotlib.style.context(STYLE):
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})
        figure.savefig(stem.with_suffix(".pdf"), metadata={"CreationDate": None})
        figure.savefig(stem.with_suffix(".png"))
