"""Label the records of runs: the same variables, dimensions and units for one run and for a sweep."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from simlab.errors import check_range, check_whole
from simlab.problems.base import Problem
from simlab.simulator.metrics import DECADES, Metric
from simlab.simulator.settings import LARGEST_INT, Settings

MOST_SEEDS = MOST_RECORDS = 10**6
COORDINATES = {
    "seed": ("seed of the random numbers", "1"),
    "step": ("steps of the policy gradient so far", "1"),
    "k": ("samples of pass@k", "1"),
    "rank": ("place by probability, from 1, the likeliest", "1"),
    "decade": ("probability of a token under the sampler", "1"),
}


def check_seeds(seeds: int) -> None:
    """Raise ``InputError`` unless ``seeds`` is a whole number from 1 to 10^6."""
    check_whole("seeds", seeds, 1, MOST_SEEDS)


def recorded_steps(steps: int, record_every: int) -> np.ndarray:
    """Return the recorded steps: every ``record_every``-th and the last.

    Raises:
        InputError: unless both are whole numbers from 1 up, and there are at most 10^6 records.
    """
    check_whole("steps", steps, 1, LARGEST_INT)
    check_whole("record_every", record_every, 1, LARGEST_INT)
    check_range("steps / record_every", steps / record_every, 0, MOST_RECORDS)
    recorded = np.arange(record_every, steps + 1, record_every)
    return recorded if recorded.size and recorded[-1] == steps else np.append(recorded, steps)


def labels_of(problem: Problem, settings: Settings) -> dict[str, Sequence[Any]]:
    """Return the labels of the dimensions that metrics may have beside seed and step."""
    shared = {"k": settings.pass_at_k, "rank": range(1, settings.top_n + 1), "decade": DECADES}
    return {**shared, **problem.labels()}


def labelled(
    metrics: Sequence[Metric],
    labels: Mapping[str, Sequence[Any]],
    rows: Mapping[str, np.ndarray],
    leading: Mapping[str, Any],
    recorded: np.ndarray,
    *,
    attributes: Mapping[str, str] | None = None,
) -> xr.Dataset:
    """Label records by metric, (leading..., step[, other dimensions]), as a dataset.

    Args:
        labels: of the dimensions of the metrics, see ``labels_of``.
        leading: the leading dimensions and their labels.
        recorded: the steps of the records after that of step 0.
    """
    by_name = {metric.name: metric for metric in metrics}
    used = dict.fromkeys(dimension for name in rows for dimension in by_name[name].dimensions)
    coordinates = dict(leading) | {"step": np.concatenate([[0], recorded])}
    coordinates |= {dimension: list(labels[dimension]) for dimension in labels if dimension in used}
    variables = {
        name: ((*leading, "step", *metric.dimensions), values, {"long_name": metric.description, "units": metric.units})
        for name, values in sorted(rows.items())
        for metric in [by_name[name]]
    }
    dataset = xr.Dataset(variables, coordinates, dict(attributes or {}))
    for name, (meaning, units) in COORDINATES.items():
        if name in dataset.coords:
            dataset[name].attrs = {"long_name": meaning, "units": units}
    return dataset
