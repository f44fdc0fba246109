"""Write the table that a sweep ends with: the last record of every cell, averaged over seeds, and one sentence."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr

from simlab.plotting import METHODS, chosen_metrics, grid_dimensions, lacking, plain, record_axis

COLUMNS = ("q_pos", "retained_mass", "entropy", "tail_miss_rate")
ABSENT = "-"  # for a parameter that a method lacks
CLEAR = 2.0  # standard errors from which on the table mentions a difference
DECIMALS = 5  # of a mean, at most


def final_table(dataset: xr.Dataset) -> str:
    """Return a table of each cell's last record, its columns in words, and a takeaway.

    Numbers are means over seeds with standard errors. A method without a swept parameter has one row, with a dash.
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
    width = max(len(name) for name, _ in words)
    meanings = [f"{name:{width}}  {meaning}" for name, meaning in words]
    return "\n".join([*lines, "", _legend(dataset, axis), *meanings, "", takeaway(dataset)])


def takeaway(dataset: xr.Dataset) -> str:
    """Say where the first column ends highest and lowest, or from where to where it went."""
    names, axis = grid_dimensions(dataset), record_axis(dataset)
    metric = chosen_metrics(dataset, COLUMNS)[0]
    cells = [(labels, cell[metric].values) for labels, cell in final_cells(dataset, names)]
    if len(cells) == 1:
        start, end = (float(np.nanmean(dataset[metric].isel({axis: record}).values)) for record in (0, -1))
        return f"in short: {metric} went from {start:.4g} to {end:.4g}"
    low, high = (pick(cells, key=lambda cell: float(np.nan_to_num(cell[1].mean()))) for pick in (min, max))
    gap = high[1] - low[1]
    if not abs(gap.mean()) > CLEAR * standard_error(gap):
        return f"in short: no cell's {metric} differs from another's by more than {CLEAR:g} standard errors"
    varied = [index for index, name in enumerate(names) if dataset.sizes[name] > 1]
    ends = []
    for labels, values in (high, low):
        where = ", ".join(_with_name(names[index], labels[index]) for index in varied if labels[index] != ABSENT)
        ends.append(f"{values.mean():.4g} at {where}" + _ties(values, [other for _, other in cells]))
    return f"in short: {metric} ends highest, {ends[0]}, and lowest, {ends[1]}"


def _ties(values: np.ndarray, cells: list[np.ndarray]) -> str:
    """Count the other cells within ``CLEAR`` standard errors, paired by seed; empty if there are none."""
    near = sum(not abs((other - values).mean()) > CLEAR * standard_error(other - values) for other in cells) - 1
    return f" ({near} more within {CLEAR:g} standard errors)" if near else ""


def aligned(rows: list[list[str]]) -> list[str]:
    """Align the columns of a table; return its lines."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def final_cells(dataset: xr.Dataset, names: list[str]) -> Iterator[tuple[list[str], xr.Dataset]]:
    """Yield every cell's last record, with its labels along ``names``.

    A cell that differs from another only by a parameter that its method lacks is left out.
    """
    last = dataset.isel({record_axis(dataset): -1})
    for index in itertools.product(*(range(last.sizes[name]) for name in names)):
        cell = last.isel(dict(zip(names, index, strict=True)))
        labels = {name: plain(cell[name].item()) for name in names}
        absent = lacking(last, labels)
        if all(index[names.index(name)] == 0 for name in absent):
            yield [ABSENT if name in absent else labels[name] for name in names], cell


def _with_name(name: str, label: str) -> str:
    return label if name in METHODS else f"{name} {label}"


def unit(values: xr.DataArray) -> str:
    """Return the unit of a variable, empty for a pure number."""
    units = str(values.attrs.get("units", "1"))
    return {"1": "", "nat": "nats"}.get(units, units)


def _words(dataset: xr.Dataset, names: list[str]) -> list[tuple[str, str]]:
    """Return the dimensions and variables that have a description, with it."""
    return [(name, dataset[name].attrs["long_name"]) for name in names if "long_name" in dataset[name].attrs]


def _legend(dataset: xr.Dataset, axis: str) -> str:
    seeds, end = dataset.sizes["seed"], f"{axis} {dataset[axis].values[-1]:.12g}"
    if seeds == 1:
        return f"one seed at {end}"
    return legend(seeds, end)


def legend(seeds: Any, end: str) -> str:
    """Return the line that explains the numbers of a table."""
    return f"mean over {seeds} seeds at {end}; 0.6534(42) is a mean of 0.6534 with a standard error of 0.0042"


def standard_error(values: np.ndarray) -> float:
    """Return the standard error of a mean over seeds; 0 for one seed."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def mean_and_error(values: np.ndarray) -> str:
    """Write a mean and two digits of its standard error in units of the last decimal, such as ``0.6719(12)``."""
    error = standard_error(values)
    if len(values) < 2 or not np.isfinite(error):  # retained mass is 0 / 0 where the initial correct mass reads 0
        return f"{values.mean():.{DECIMALS}f}"
    exponent = int(f"{error:.1e}".partition("e")[2])  # of the rounded error: 0.0996 is 1.0e-1
    decimals = min(max(1 - exponent, 0), DECIMALS) if error else DECIMALS
    return f"{values.mean():.{decimals}f}({round(error * 10**decimals)})"
