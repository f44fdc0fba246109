"""Draw the figure that a sweep ends with, in the style that every figure of the project shares."""

import io
import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simlab.columns import grid_dimensions, lacking, plain, record_axis, seed_counts, with_columns
from simlab.errors import InputError
from simlab.files import WRITER, check_outputs, write_output
from simlab.intervals import BAND_SEEDS, Bounds, bounds_of, over_seeds
from simlab.reading import reason

FORMATS = (".pdf", ".png", ".svg")
STYLE = Path(__file__).with_name("simlab.mplstyle")
METHODS = ("arm", "estimator", "surrogate")  # dimensions whose values need no name beside them
SHARES = ("q_pos", "retained_mass")  # metrics from 0 to 1
LABELS = {
    "group_size": "group size G",
    "learning_rate": "learning rate",
    "q_pos": "correct mass $Q_{pos}$",
    "retained_mass": "retained mass $M_{ret}$",
    "pass_at_k": "pass@k",
    "gamma": r"$\gamma$",
}
# No date, so that two files of one figure are the same, byte for byte.
METADATA: dict[str, dict[str, str | None]] = {
    ".svg": {"Date": None, "Creator": WRITER},
    ".pdf": {"CreationDate": None, "Creator": WRITER},
    ".png": {"Software": WRITER},
}
DASHES = ("-", "--", ":", "-.")
COLOURS = 7  # of the style
MARKERS = "osD^vP"
CHARACTERS = 110  # of the legend's font, side by side in a figure
CLOSE = 0.2  # a share that varies less than this is not shown from 0 to 1


def draw_band(axes: Axes, x: np.ndarray, values: xr.DataArray, bounds: Bounds | None = None, **style: Any) -> None:
    """Draw the mean over seeds in its 95 % band; below ``BAND_SEEDS`` seeds, the seeds as thin lines instead.

    The dimensions of ``values`` are ``seed`` and that of ``x``; the band stays inside of ``bounds``, by default what
    the name of ``values`` says. Where all seeds are equal, it has no width. What draws nothing has no label.
    """
    seeds = values.transpose("seed", ...).values
    estimate = over_seeds(seeds, bounds or bounds_of(str(values.name)))
    (line,) = axes.plot(x, estimate.mean, **style)
    shown, marker = estimate.mean[None], line.get_marker()
    if len(seeds) >= BAND_SEEDS:
        low, high = (np.where(estimate.error == 0, estimate.mean, end) for end in (estimate.low, estimate.high))
        axes.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    elif len(seeds) > 1:
        shown, marker = seeds, "." if marker else ""
        axes.plot(x, seeds.T, color=line.get_color(), linewidth=0.6, alpha=0.5, marker=marker)
    if np.isfinite(shown).sum(axis=1).max() < (2 if marker in ("", "None") else 1):  # a point needs a marker
        line.set_label("_")


def final_states(datasets: Mapping[str, xr.Dataset], title: str = "", metrics: Sequence[str] | None = None) -> Figure:
    """Draw final metrics against group size, a line for each other cell, with 95 % bands over seeds.

    With one group size, the first swept number takes its place on the axis; with none, the step or the cost. The
    metrics are by default Q_pos, retained mass and pass@k of the largest recorded k; a problem that records neither of
    the first two is shown by its first two numbers. Lines of several results begin with their names.
    """
    datasets, metrics = with_columns(datasets, metrics, SHARES)
    first = next(iter(datasets.values()))
    along = record_axis(first)
    axis = _common_axis(list(datasets.values())) or along
    with matplotlib.style.context(STYLE):
        figure, panels = panelled(len(metrics))
        for panel, metric in zip(panels, metrics, strict=True):
            styles = itertools.count()
            for name, dataset in datasets.items():
                shown = dataset if axis == along else dataset.isel({along: -1})
                _draw_cells(panel, shown[metric], axis, name, styles)
            if axis == "group_size":
                panel.set_xscale("log", base=2)
            panel.set(xlabel=LABELS.get(axis, axis), ylabel=LABELS.get(metric, metric))
            fit_share(panel, metric)
        when = "" if axis == along else f"{along} {first[along].values[-1]:.12g}, "
        panels[0].set_title(f"{when}{seed_counts(datasets.values())}", loc="left")
        if title:
            figure.suptitle(textwrap.fill(title, 110), fontsize=8, x=0.01, ha="left")
        name_lines(figure)
    return figure


def panelled(number: int) -> tuple[Figure, list[Axes]]:
    """Return a figure of so many panels, two in a row, or three where that fills the rows better."""
    columns = 2 if number == 4 else min(number, 3)
    rows = -(-number // columns)
    figure = Figure(figsize=(6.8 if columns < 3 else 8.4, 0.4 + 2.7 * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel in panels[number:]:
        panel.set_axis_off()
    return figure, panels[:number]


def fit_share(panel: Axes, metric: str) -> None:
    """Show a share from 0 to 1, or closer where all that is drawn would be a single line."""
    if metric in SHARES or metric.startswith("pass@"):
        low, high = panel.dataLim.intervaly
        if high - low > CLOSE or not np.isfinite(high - low):
            panel.set_ylim(-0.03, 1.03)
        panel.ticklabel_format(axis="y", useOffset=False)


def name_lines(figure: Figure) -> None:
    """Put the names of the lines of all panels below them, each once."""
    named = (axes.get_legend_handles_labels() for axes in figure.axes)
    lines = {label: line for handles, labels in named for line, label in zip(handles, labels, strict=True)}
    if any(lines):
        columns = max(1, CHARACTERS // (max(map(len, lines)) + 8))
        figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=min(columns, len(lines)))


def _common_axis(datasets: list[xr.Dataset]) -> str | None:
    """Return the group size, or else the first swept number, that varies in all results; None where none does."""

    def varies(dataset: xr.Dataset, name: str) -> bool:
        return dataset.sizes.get(name, 1) > 1 and np.issubdtype(dataset[name].dtype, np.number)

    names = dict.fromkeys(["group_size", *grid_dimensions(datasets[0])])
    return next((name for name in names if all(varies(dataset, name) for dataset in datasets)), None)


def _draw_cells(panel: Axes, values: xr.DataArray, axis: str, result: str, styles: Iterator[int]) -> None:
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
        style: dict[str, Any] = {"linestyle": DASHES[number % len(DASHES)], "marker": marker}
        named = {name: plain(value) for name, value in chosen.items() if name not in absent}
        parts = [text if name in METHODS else f"{LABELS.get(name, name)} = {text}" for name, text in named.items()]
        label = ", ".join(filter(None, [result, *parts]))
        draw_band(panel, values[axis].values, values.sel(chosen).squeeze(single), label=label, **style)


def line_style(number: int) -> dict[str, Any]:
    """Return the colour and the dashes of a line, the same in every panel."""
    return {"color": f"C{number % COLOURS}", "linestyle": DASHES[number % len(DASHES)]}


def check_figure(path: Path) -> None:
    """Raise ``InputError`` for a kind of file that ``save_figure`` does not write."""
    if path.suffix not in FORMATS:
        raise InputError(f"figure {path} has the suffix {path.suffix!r}; allowed: {', '.join(FORMATS)}")


def check_figures(*paths: Path) -> None:
    """Check figures by ``check_figure`` and as outputs of a command; make their folders."""
    for path in paths:
        check_figure(path)
    check_outputs(*paths)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure of a result, of the kind that the suffix says; ``InputError`` if it cannot be written."""
    check_figure(path)
    try:
        with matplotlib.style.context(STYLE):
            write_figure(figure, path)
    except (OSError, ValueError) as error:  # a name with $ is mathematics to matplotlib
        raise InputError(f"cannot write {path}: {reason(error)}; the result is kept") from None


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure whole or not at all, without a date, in the kind of file that the suffix says."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix.removeprefix("."), metadata=METADATA[path.suffix])
    write_output(path, drawn.getvalue(), "the result is kept")
