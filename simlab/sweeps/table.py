"""Write the table that a sweep ends with: the last record of every cell, averaged over seeds, and what it says."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr

from simlab.plotting import METHODS, chosen_metrics, grid_dimensions, lacking, plain, record_axis

COLUMNS = ("q_pos", "retained_mass", "entropy", "tail_miss_rate")
ABSENT = "-"  # in place of a parameter that a method has not
# Differences of fewer standard errors than this are not called any.
CLEAR = 2.0
PLACES = 5  # of a mean, at most


def final_table(dataset: xr.Dataset) -> str:
    """The mean over seeds of the last record of each cell, with its standard error; the columns in words; a takeaway.

    A method without a swept parameter is listed once, with a dash in its place.
    """
    names, columns = grid_dimensions(dataset), chosen_metrics(dataset, COLUMNS)
    axis = record_axis(dataset)
    units = [*("" for _ in names), *(unit(dataset[column]) for column in columns)]
    rows = [[*names, *columns], *([units] if any(units) else [])]
    rows += [
        labels + [mean_and_error(cell[column].values) for column in columns]
        for labels, cell in final_cells(dataset, names)
    ]
    lines = aligned(rows)
    words = _words(dataset, [*(name for name in names if name not in METHODS), *columns])
    wide = max(len(name) for name, _ in words)
    told = [f"{name:{wide}}  {meaning}" for name, meaning in words]
    return "\n".join([*lines, "", _legend(dataset, axis), *told, "", takeaway(dataset)])


def takeaway(dataset: xr.Dataset) -> str:
    """One sentence on the first column: where it ends highest and lowest, or from where to where it went."""
    names, axis = grid_dimensions(dataset), record_axis(dataset)
    metric = chosen_metrics(dataset, COLUMNS)[0]
    cells = [(labels, cell[metric].values) for labels, cell in final_cells(dataset, names)]
    if len(cells) == 1:
        start, end = (float(np.nanmean(dataset[metric].isel({axis: place}).values)) for place in (0, -1))
        return f"in short: {metric} went from {start:.4g} to {end:.4g}"
    low, high = (pick(cells, key=lambda cell: float(np.nan_to_num(cell[1].mean()))) for pick in (min, max))
    gap = high[1] - low[1]
    if not abs(gap.mean()) > CLEAR * standard_error(gap):
        return f"in short: no cell's {metric} differs from another's by more than {CLEAR:g} standard errors"
    varied = [place for place, name in enumerate(names) if dataset.sizes[name] > 1]
    ends = [
        f"{values.mean():.4g} at {', '.join(_named(names[at], labels[at]) for at in varied if labels[at] != ABSENT)}"
        + _ties(values, [other for _, other in cells])
        for labels, values in (high, low)
    ]
    return f"in short: {metric} ends highest, {ends[0]}, and lowest, {ends[1]}"


def _ties(values: np.ndarray, cells: list[np.ndarray]) -> str:
    """How many other cells cannot be told from one, paired by seed; nothing of none."""
    near = sum(not abs((own - values).mean()) > CLEAR * standard_error(own - values) for own in cells) - 1
    return f" ({near} more within {CLEAR:g} standard errors)" if near else ""


def aligned(rows: list[list[str]]) -> list[str]:
    """Rows of a table as lines, each column as wide as its widest text."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def final_cells(dataset: xr.Dataset, names: list[str]) -> Iterator[tuple[list[str], xr.Dataset]]:
    """The last record of every cell, with its labels along some dimensions.

    A cell that differs from another only by a parameter that its method lacks is left out.
    """
    last = dataset.isel({record_axis(dataset): -1})
    for index in itertools.product(*(range(last.sizes[name]) for name in names)):
        cell = last.isel(dict(zip(names, index, strict=True)))
        labels = {name: plain(cell[name].item()) for name in names}
        absent = lacking(last, labels)
        if all(index[names.index(name)] == 0 for name in absent):
            yield [ABSENT if name in absent else labels[name] for name in names], cell


def _named(name: str, label: str) -> str:
    return label if name in METHODS else f"{name} {label}"


def unit(values: xr.DataArray) -> str:
    """The unit of a variable, empty for a pure number."""
    units = str(values.attrs.get("units", "1"))
    return {"1": "", "nat": "nats"}.get(units, units)


def _words(dataset: xr.Dataset, names: list[str]) -> list[tuple[str, str]]:
    """What names of dimensions or variables mean, of those that say it."""
    return [(name, dataset[name].attrs["long_name"]) for name in names if "long_name" in dataset[name].attrs]


def _legend(dataset: xr.Dataset, axis: str) -> str:
    seeds, end = dataset.sizes["seed"], f"{axis} {dataset[axis].values[-1]:.12g}"
    if seeds == 1:
        return f"one seed at {end}"
    return legend(seeds, end)


def legend(seeds: Any, end: str) -> str:
    """The line that says what the numbers of a table are: means over so many seeds at their end."""
    return f"mean over {seeds} seeds at {end}; 0.6534(42) is a mean of 0.6534 with a standard error of 0.0042"


def standard_error(values: np.ndarray) -> float:
    """Of the mean of some seeds; 0 of one."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def mean_and_error(values: np.ndarray) -> str:
    """``0.6719(12)``: a mean and two digits of its standard error, in units of the last place; five places at most."""
    error = standard_error(values)
    if len(values) < 2 or not np.isfinite(error):  # retained mass is 0 / 0 where the initial correct mass reads 0
        return f"{values.mean():.{PLACES}f}"
    exponent = int(f"{error:.1e}".partition("e")[2])  # of the rounded error: 0.0996 is 1.0e-1
    places = min(max(1 - exponent, 0), PLACES) if error else PLACES
    return f"{values.mean():.{places}f}({round(error * 10**places)})"
