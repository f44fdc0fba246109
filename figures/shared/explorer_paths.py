"""Give the explorer pass@k against pass@1, of two representations, two optimisers, two group sizes, and ten weights.

simlab sweep --preset network-paths --out paths.nc           (25 minutes of CPU time)
python -m figures.shared.explorer_paths paths.nc
"""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from figures.shared.condensed import keep, mean_and_error, provenance, results, rounded
from simlab.columns import at_equal_mass
from simlab.explore.in_advance import PATHS
from simlab.explore.weights import read_weight, write_weight

LEVELS = np.round(np.concatenate([np.arange(0.16, 0.505, 0.02), np.arange(0.55, 0.72, 0.05), [0.8, 0.9, 0.95]]), 2)
THOUSAND = 1000
BAND = 1.96  # standard errors
REPRESENTATIONS = {"linear head": "linear", "network": "one"}  # with the names that the preset gives them
SHARED = {"hard_share": 0.5, "overlap": 0.3, "conflict": 1.0, "temperature": 1.0}  # settings of all runs


def condense(path: Path) -> dict[str, Any]:
    """Return the table that ``simlab.explore.in_advance.interference_paths`` describes."""
    sweeps = results("network-paths", path)
    first = next(iter(sweeps.values()))
    begin = first["pass_at_k"].isel(step=0, seed=0, arm=0, group_size=0)
    arms = (str(arm).partition("+")[0] for arm in first["arm"].values)
    return {
        "provenance": provenance(first),
        "seeds": first.sizes["seed"],
        "levels": LEVELS.tolist(),
        "k": first["k"].values.tolist(),
        "group_size": first["group_size"].values.tolist(),
        "hard_rate": first["hard_rate"].values.tolist(),
        "weights": [write_weight(*read_weight(arm)) for arm in arms],
        "shared": SHARED,
        "base": rounded(begin.transpose("hard_rate", "k"), 4),
        "rates": of_each_sweep(sweeps, lambda dataset: provenance(dataset)["settled"]["optimizer.learning_rate"]),
        "paths": of_each_sweep(sweeps, paths_of),
    }


def of_each_sweep(sweeps: dict[str, xr.Dataset], read: Callable[[xr.Dataset], Any]) -> dict[str, dict[str, Any]]:
    """Return the records that are read of each sweep, by representation and optimiser."""
    return {
        representation: {optimizer: read(sweeps[f"{preset}-{optimizer}"]) for optimizer in ("sgd", "adam")}
        for representation, preset in REPRESENTATIONS.items()
    }


def paths_of(dataset: xr.Dataset) -> list[Any]:
    """(group sizes, hard rates, weights) paths of one sweep."""
    runs = dataset[["q_pos", "pass_at_k"]]
    sizes, rates, arms = (range(runs.sizes[name]) for name in ("group_size", "hard_rate", "arm"))
    return [
        [[path_of(runs.isel(group_size=size, hard_rate=rate, arm=arm)) for arm in arms] for rate in rates]
        for size in sizes
    ]


def path_of(runs: xr.Dataset) -> dict[str, Any]:
    """One path: means over seeds at each level for each k above 1, and the half-widths of their 95 % bands."""
    masses = runs["q_pos"].transpose("seed", "step").values
    steps = np.broadcast_to(runs["step"].values.astype(float), masses.shape)
    passed = runs["pass_at_k"].sel(k=runs["k"] > 1).transpose("k", "seed", "step").values
    at_levels = [mean_and_error(THOUSAND * at_equal_mass(masses, values, LEVELS)) for values in passed]
    return {
        "step": whole(round, mean_and_error(at_equal_mass(masses, steps, LEVELS))["mean"]),
        "mean": [whole(round, curve["mean"]) for curve in at_levels],
        "half": [whole(math.ceil, [error and BAND * error for error in curve["error"]]) for curve in at_levels],
    }


def whole(rounded_to: Callable[[float], int], numbers: list[float | None]) -> list[int | None]:
    """Whole numbers up to the last that is not null."""
    last = max((index for index, number in enumerate(numbers) if number is not None), default=-1)
    return [None if number is None else rounded_to(number) for number in numbers[: last + 1]]


if __name__ == "__main__":
    keep(PATHS, condense(Path(sys.argv[1])))
