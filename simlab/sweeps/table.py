"""Write the table that a sweep ends with: the last record of every cell, averaged over seeds."""

import itertools

import numpy as np
import xarray as xr

from simlab.plotting import chosen_metrics, grid_dimensions, record_axis

COLUMNS = ("q_pos", "retained_mass", "entropy", "tail_miss_rate")


def final_table(dataset: xr.Dataset) -> str:
    """Mean over seeds of the last record of each cell, with its standard error."""
    names, columns = grid_dimensions(dataset), chosen_metrics(dataset, COLUMNS)
    axis = record_axis(dataset)
    last = dataset.isel({axis: -1})
    rows = [[*names, *columns]]
    for index in itertools.product(*(range(dataset.sizes[name]) for name in names)):
        cell = last.isel(dict(zip(names, index, strict=True)))
        labels = [_plain(cell[name].item()) for name in names]
        rows.append(labels + [_mean_and_error(cell[column].values) for column in columns])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
    seeds, end = dataset.sizes["seed"], f"{axis} {dataset[axis].values[-1]:.12g}"
    return "\n".join([*lines, f"mean over {seeds} seeds at {end}; (standard error of the last digits)"])


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _mean_and_error(values: np.ndarray) -> str:
    """``0.67188(12)``: a mean to five places and its standard error in units of the last of them."""
    if len(values) < 2:
        return f"{values.mean():.5f}"
    error = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    if not np.isfinite(error):  # retained mass is 0 / 0 where the dtype cannot tell the initial correct mass from 0
        return f"{values.mean():.5f}"
    return f"{values.mean():.5f}({round(error * 1e5)})"
