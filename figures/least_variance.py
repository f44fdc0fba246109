"""The baseline of least variance beside that of each weight, at one speed: pass@256 and steps at equal pass@1.

    simlab sweep --preset least-variance --out least-variance.nc    (a quarter of an hour on two cores)
    python -m figures.least_variance least-variance.nc              (condenses least-variance-bank-sgd.nc, ...)
    python -m figures.least_variance --table                        (prints the table of README.md)
    simlab figures least_variance                                   (draws from what is kept here)

Both have one expected update and one learning rate. Differences are paired by seed. What stands out on the first half
of the seeds is judged on the second; what is drawn is the second half alone.
"""

import itertools
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

from figures.shared.chosen import at_level
from figures.shared.condensed import condense_or_print, provenance, results, rounded
from simlab.intervals import over_seeds
from simlab.plotting import STYLE
from simlab.sweeps.presets.interference import BASES

DATA = Path(__file__).parent / "data" / "least_variance.json"
MESSAGE = (
    "At one speed the baseline of least variance spares steps for NSR alone; no other weight\n"
    "comes sooner to a pass@1, and on a linear head nothing is told apart"
)
DIFFERS = "Not in the papers: each weight beside the baseline of least variance for its speed."
PRESET = "least-variance"
PLACES = {"bank-sgd": "bank, plain steps", "linear-sgd": "linear head, plain steps", "network-adam": "network, Adam"}
LEVELS = {"bank-sgd": 0.45, "linear-sgd": 0.4, "network-adam": 0.4}  # pass@1, from .26 and .155
METRICS = ("pass@256", "log2 of the steps")
MARKERS = {4: "o", 16: "s"}


def condense(path: Path) -> dict[str, Any]:
    """Return by setup, weight, group size and rate the differences from the weight on either half of the seeds."""
    sweeps = results(PRESET, path)
    rows = [row for setup, sweep in sweeps.items() for row in rows_of(setup, sweep)]
    return {"provenance": [provenance(sweep) for sweep in sweeps.values()], "levels": LEVELS, "rows": rows}


def rows_of(setup: str, sweep: xr.Dataset) -> Iterator[dict[str, Any]]:
    """Yield a row for each base, group size and learning rate."""
    curves = sweep["pass_at_k"].transpose("arm", "group_size", "learning_rate", "k", "seed", "step")
    for base, size, rate in itertools.product(BASES, sweep.group_size.values, sweep.learning_rate.values):
        cells = curves.sel(group_size=size, learning_rate=rate)
        ours, theirs = (
            reached(cells.sel(arm=f"{name}+reinforce"), LEVELS[setup])
            for name in (f"least_variance(base={base})", base)
        )
        more = ours - theirs  # (2, seeds), NaN where either does not reach the level
        half = more.shape[1] // 2
        row = {"place": setup, "base": base, "group_size": int(size), "learning_rate": float(rate)}
        yield row | {
            name: {kind: interval(gaps) for kind, gaps in (("first", values[:half]), ("second", values[half:]))}
            for name, values in zip(METRICS, more, strict=True)
        }


def reached(cell: xr.DataArray, level: float) -> np.ndarray:
    """(2, seeds) pass@256 and log2 of the steps where pass@1 first is at a level."""
    pass_at_1, many = (cell.sel(k=k).values for k in (1, 256))
    pass_at_256, steps = at_level(pass_at_1[None], many[None], cell.step.values, level)[0]
    return np.stack([pass_at_256, np.log2(np.where(steps > 0, steps, np.nan))])


def interval(values: np.ndarray) -> list[float | None]:
    """Mean and ends of Student's 95 % interval; None where some seed has no number."""
    estimate = over_seeds(values)
    return rounded([estimate.mean, estimate.low, estimate.high], 4)


def is_clear(bounds: list[float | None]) -> bool:
    """Return True if the interval leaves out 0."""
    _, low, high = bounds
    return low is not None and high is not None and (low > 0 or high < 0)


def draw(data: dict[str, Any]) -> Figure:
    """A column for each setup: above pass@256, below the steps; a row for each weight, a mark for each G and rate."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 5.0), layout="constrained")
        panels = figure.subplots(len(METRICS), len(PLACES), sharey=True, sharex="row")
        letters = iter("abcdef")
        for axes_of, metric in zip(panels, METRICS, strict=True):
            for axes, (setup, title) in zip(axes_of, PLACES.items(), strict=True):
                _draw(axes, [row for row in data["rows"] if row["place"] == setup], metric)
                axes.set_title(f"({next(letters)}) {title}", loc="left")
                axes.set_xlabel(f"{metric}: more")
        panels[0][0].invert_yaxis()
        handles = [
            mpl.lines.Line2D([], [], color="0.4", marker=mark, linestyle="", label=f"G = {size}")
            for size, mark in MARKERS.items()
        ]
        handles += [
            mpl.lines.Line2D([], [], color=f"C{number}", label=f"the {word} learning rate")
            for number, word in enumerate(("lower", "higher"))
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def _draw(axes: Axes, rows: list[dict[str, Any]], metric: str) -> None:
    axes.axvline(0, color="0.6", linewidth=0.8)
    rates = sorted({row["learning_rate"] for row in rows})
    for row in rows:
        mean, low, high = row[metric]["second"]
        if mean is None:
            continue
        y = BASES.index(row["base"]) + 0.18 * (2 * rates.index(row["learning_rate"]) + (row["group_size"] > 4) - 1.5)
        style: dict[str, Any] = {"color": f"C{rates.index(row['learning_rate'])}"}
        if low is not None:
            axes.plot([low, high], [y, y], linewidth=1, **style)
        axes.plot(mean, y, MARKERS[row["group_size"]], markersize=3.5, **style)
    axes.set_yticks(range(len(BASES)), BASES)


def table(data: dict[str, Any]) -> str:
    """Count by metric and setup the cells that stood out on the first half of the seeds, and also on the second."""
    lines = ["| place | metric | cells | more on the first half | of these on the second | less | of these |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|")
    for setup, metric in itertools.product(PLACES, METRICS):
        pairs = [row[metric] for row in data["rows"] if row["place"] == setup and row[metric]["second"][0] is not None]
        counts = [str(len(pairs))]
        for sign in (1, -1):
            first = [pair for pair in pairs if is_clear(pair["first"]) and sign * pair["first"][0] > 0]
            second = [pair for pair in first if is_clear(pair["second"]) and sign * pair["second"][0] > 0]
            counts += [str(len(first)), str(len(second))]
        lines.append(f"| {PLACES[setup]} | {metric} | {' | '.join(counts)} |")
    lines += ["", f"| place | weight | G | rate | {' | '.join(METRICS)} |", "|---|---|---:|---:|---:|---:|"]
    for row in data["rows"]:
        cells = [_cell(row[metric]["second"]) for metric in METRICS]
        clear = [is_clear(row[metric]["first"]) and is_clear(row[metric]["second"]) for metric in METRICS]
        cells = [f"**{text}**" if bold else text for text, bold in zip(cells, clear, strict=True)]
        where = (PLACES[row["place"]], f"`{row['base']}`", str(row["group_size"]), f"{row['learning_rate']:g}")
        lines.append(f"| {' | '.join((*where, *cells))} |")
    return "\n".join(lines)


def _cell(bounds: list[float | None]) -> str:
    mean, low, high = bounds
    if mean is None:
        return "-"
    return f"{mean:+.3f}" if low is None else f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"


def main(arguments: list[str]) -> None:
    """Condense results, or print the table of README.md."""
    condense_or_print(arguments, DATA, condense, table)


if __name__ == "__main__":
    main(sys.argv[1:])
