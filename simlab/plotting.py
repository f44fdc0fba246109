"""Draw the figure that a sweep ends with, in the style that every figure of the project shares."""

import io
import itertools
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from simlab.errors import InputError
from simlab.files import WRITER, write_output

FORMATS = (".pdf", ".png", ".svg")
STYLE = Path(__file__).with_name("simlab.mplstyle")
METHODS = ("arm", "estimator", "surrogate")  # dimensions whose values need no name beside them
SHARES = ("q_pos", "retained_mass")  # metrics from 0 to 1
LABELS = {
    "group_size": "group size G",
    "learning_rate": "learning rate",
    "q_pos": "correct mass $Q_{pos}$",
    "retained_mass": "retained mass $M_{ret}$",
    "gamma": r"$\gamma$",
}
# No date, so that two files of one figure are the same, byte for byte.
METADATA: dict[str, dict[str, str | None]] = {
    ".svg": {"Date": None, "Creator": WRITER},
    ".pdf": {"CreationDate": None, "Creator": WRITER},
    ".png": {"Software": WRITER},
}
DASHES = ("-", "--", ":", "-.")
MARKERS = "osD^vP"
CHARACTERS = 110  # of the legend's font, side by side in a figure
CLOSE = 0.2  # a share that varies less than this is not shown from 0 to 1


def mean_and_band(values: xr.DataArray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean over seeds, and the half-width of its 95 % band, 1.96 standard errors (0 for a single seed)."""
    seeds = values.sizes["seed"]
    spread = values.std("seed", ddof=1 if seeds > 1 else 0)
    return values.mean("seed").values, 1.96 * spread.values / np.sqrt(seeds)


def draw_band(axes: Axes, x: np.ndarray, values: xr.DataArray, **style: Any) -> None:
    """Draw the mean over seeds in its 95 % band; the dimensions of ``values`` are ``seed`` and that of ``x``."""
    mean, half = mean_and_band(values.transpose(..., "seed"))
    (line,) = axes.plot(x, mean, **style)
    axes.fill_between(x, mean - half, mean + half, color=line.get_color(), alpha=0.2, linewidth=0)


def grid_dimensions(dataset: xr.Dataset) -> list[str]:
    """Return the dimensions of the cells of a sweep, which every variable has before seed and step."""
    first = next(iter(dataset.data_vars.values()))
    names = [str(name) for name in first.dims]
    return names[: names.index("seed")]


def record_axis(dataset: xr.Dataset) -> str:
    """Return the dimension of the records of a run: cost where a sweep has a budget, and else the step."""
    return "cost" if "cost" in dataset.dims else "step"


def chosen_metrics(dataset: xr.Dataset, usual: Sequence[str]) -> list[str]:
    """Choose the usual metrics that a problem records; where it has none, as many others that are one number."""
    axis = record_axis(dataset)
    numbers = [str(name) for name, values in dataset.data_vars.items() if values.dims[-1] == axis]
    return [name for name in usual if name in numbers] or numbers[: len(usual)]


def final_states(datasets: Mapping[str, xr.Dataset], title: str = "") -> Figure:
    """Draw final Q_pos and retained mass against group size, a line for each other cell, with 95 % bands over seeds.

    With one group size, the first swept number takes its place on the axis; with none, the step or the cost. A
    problem that records neither is shown by its first two numbers. Lines of several results begin with their names.
    """
    first = next(iter(datasets.values()))
    metrics = [name for name in chosen_metrics(first, SHARES) if all(name in dataset for dataset in datasets.values())]
    along = record_axis(first)
    axis = _common_axis(list(datasets.values())) or along
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(6.8, 3.1), layout="constrained")
        panels = figure.subplots(1, len(metrics), sharex=True, squeeze=False)[0]
        for panel, metric in zip(panels, metrics, strict=True):
            styles = itertools.count()
            for name, dataset in datasets.items():
                shown = dataset if axis == along else dataset.isel({along: -1})
                _draw_cells(panel, shown[metric], axis, name, styles)
            if axis == "group_size":
                panel.set_xscale("log", base=2)
            panel.set(xlabel=LABELS.get(axis, axis), ylabel=LABELS.get(metric, metric))
            if metric in SHARES:  # from 0 to 1, or closer where all that is drawn would be one line
                low, high = panel.dataLim.intervaly
                if high - low > CLOSE or not np.isfinite(high - low):
                    panel.set_ylim(-0.03, 1.03)
                panel.ticklabel_format(axis="y", useOffset=False)
        when = "" if axis == along else f"{along} {first[along].values[-1]:.12g}, "
        panels[0].set_title(f"{when}{first.sizes['seed']} seeds", loc="left")
        if title:
            figure.suptitle(textwrap.fill(title, 110), fontsize=8, x=0.01, ha="left")
        handles, labels = panels[0].get_legend_handles_labels()
        if any(labels):
            columns = max(1, CHARACTERS // (max(map(len, labels)) + 8))
            figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels)))
    return figure


def _common_axis(datasets: list[xr.Dataset]) -> str | None:
    """Return the group size, or else the first swept number, that varies in all results; None where none does."""

    def varies(dataset: xr.Dataset, name: str) -> bool:
        return dataset.sizes.get(name, 1) > 1 and np.issubdtype(dataset[name].dtype, np.number)

    names = dict.fromkeys(["group_size", *grid_dimensions(datasets[0])])
    return next((name for name in names if all(varies(dataset, name) for dataset in datasets)), None)


def _draw_cells(panel: Axes, values: xr.DataArray, axis: str, result: str, styles: Iterator[int]) -> None:
    """Draw a banded line along ``axis`` for each combination of the other dimensions that vary."""
    inner = [str(name) for name in values.dims if name not in (axis, "seed", "step", "cost")]
    others = [name for name in inner if values.sizes[name] > 1]
    single = [name for name in inner if name not in others]
    for point in itertools.product(*(values[name].values for name in others)):
        chosen = dict(zip(others, point, strict=True))
        absent = lacking(values, chosen)
        if any(values[name].values[0] != chosen[name] for name in absent):
            continue  # it repeats an earlier line: they differ by a parameter that their method lacks
        number = next(styles)
        marker = "" if axis in ("step", "cost") else MARKERS[number % len(MARKERS)]
        style = {"linestyle": DASHES[number % len(DASHES)], "marker": marker}
        named = {name: plain(value) for name, value in chosen.items() if name not in absent}
        parts = [text if name in METHODS else f"{LABELS.get(name, name)} = {text}" for name, text in named.items()]
        label = ", ".join(filter(None, [result, *parts]))
        draw_band(panel, values[axis].values, values.sel(chosen).squeeze(single), label=label, **style)


def lacking(dataset: xr.Dataset | xr.DataArray, labels: Mapping[str, Any]) -> list[str]:
    """Return the dimensions among some labels along which nothing changes: parameters that their method lacks."""
    named = {str(label) for label in labels.values()}
    return [name for name in labels if named & set(json.loads(dataset[name].attrs.get("methods_without_it", "[]")))]


def plain(value: Any) -> str:
    """Write a number or a name as a reader would."""
    return f"{value:g}" if isinstance(value, (float, np.floating)) else str(value)


def check_figure(path: Path) -> None:
    """Raise ``InputError`` for a kind of file that ``save_final_states`` does not write."""
    if path.suffix not in FORMATS:
        raise InputError(f"figure {path} has the suffix {path.suffix!r}; allowed: {', '.join(FORMATS)}")


def save_final_states(datasets: Mapping[str, xr.Dataset], path: Path, title: str = "") -> None:
    """Draw ``final_states`` into a file, of the kind its suffix says; ``InputError`` if it cannot be written."""
    check_figure(path)
    try:
        with matplotlib.style.context(STYLE):
            write_figure(final_states(datasets, title), path)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write {path}: {str(error).splitlines()[0]}; the result is kept") from None


def save_everywhere(figure: Figure, stem: Path) -> None:
    """Write ``stem``.svg, .pdf and .png; two runs give identical bytes, since no date is written."""
    with matplotlib.style.context(STYLE):
        settle(figure)
        for suffix in METADATA:
            write_figure(figure, stem.with_suffix(suffix))


def settle(figure: Figure) -> None:
    """Place the axes once and in round numbers: a constrained layout may differ in the last digit in another run."""
    figure.set_dpi(mpl.rcParams["savefig.dpi"])  # at another resolution letters have other widths
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        axes.set_position(Bbox(axes.get_position(original=True).get_points().round(4)))


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure whole or not at all, without a date, in the kind of file that the suffix says."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix.removeprefix("."), metadata=METADATA[path.suffix])
    write_output(path, drawn.getvalue(), "the result is kept")
