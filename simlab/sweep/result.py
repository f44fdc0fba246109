"""The result: one labelled dataset from many parts, and its NetCDF file."""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr

from simlab.errors import InputError
from simlab.files import write_output
from simlab.simulate.bank_metrics import BANK_DESCRIPTIONS, BINNED, BINS
from simlab.simulate.labelled import labelled
from simlab.simulate.linear_metrics import LINEAR_DESCRIPTIONS, SINGULAR_VALUES
from simlab.simulate.metrics import DESCRIPTIONS
from simlab.simulate.tree_metrics import TREE_DESCRIPTIONS
from simlab.sweep.grid import Sweep
from simlab.sweep.parts import Unit
from simlab.theory.covariance import TOP_PERCENT


def assemble(
    sweep: Sweep, records: Iterable[tuple[Unit, Mapping[str, np.ndarray]]], attributes: Mapping[str, str]
) -> xr.Dataset:
    """Put the records of all units of a sweep into one dataset.

    Dimensions: ``estimator``, ``group_size``, each swept parameter, ``seed``, ``step``, and those of ``labelled``.
    Variables are those of ``metrics.DESCRIPTIONS``, of a bank ``bank_metrics.BANK_DESCRIPTIONS``, of prompts that share
    a head ``linear_metrics.LINEAR_DESCRIPTIONS``, of a tree ``tree_metrics.TREE_DESCRIPTIONS``.
    """
    dimensions, labels = sweep.dimensions(), sweep.labels()
    shape = tuple(len(values) for values in dimensions.values())
    filled: dict[str, np.ndarray] = {}
    for unit, rows in records:
        for name, values in rows.items():
            if name not in filled:
                filled[name] = np.full((*shape, sweep.seeds, *values.shape[1:]), np.nan, values.dtype)
            filled[name][unit.index][unit.seeds.start : unit.seeds.stop] = values
    leading = {labels[name]: _coordinate(values) for name, values in dimensions.items()}
    leading["seed"] = list(range(sweep.seeds))
    places = sweep.places() | {"k": sweep.pass_at_k}
    return labelled(filled, leading, sweep.recorded_steps(), places, attributes)


def joining_bytes(sweep: Sweep) -> int:
    """Memory that joining a sweep's records takes: the records, and as much again for writing them."""
    lanes = math.prod(len(values) for values in sweep.dimensions().values()) * sweep.seeds
    values = len(DESCRIPTIONS) + len(sweep.pass_at_k) + sweep.top_n
    if sweep.problem in ("prompt_bank", "linear_softmax"):
        values += len(BANK_DESCRIPTIONS) - len(DESCRIPTIONS) + BINS * len(BINNED)
    if sweep.problem == "linear_softmax":
        values += len(LINEAR_DESCRIPTIONS) - len(BANK_DESCRIPTIONS) + SINGULAR_VALUES
    if sweep.problem == "tree":
        places = sum(len(labels) for labels in sweep.places().values())
        values += len(TREE_DESCRIPTIONS) - len(DESCRIPTIONS) + places + 2 * (sweep.top_n + len(TOP_PERCENT))
    return 2 * lanes * (len(sweep.recorded_steps()) + 1) * values * np.dtype(sweep.dtype).itemsize


def _coordinate(values: tuple[Any, ...]) -> list[Any]:
    return [str(value) for value in values] if any(not isinstance(v, (int, float)) for v in values) else list(values)


def write(dataset: xr.Dataset, path: Path) -> None:
    """Write a dataset as NetCDF, whole or not at all.

    Raises:
        InputError: if it cannot be written.
    """
    encoding = {name: {"zlib": True, "complevel": 4} for name in dataset.data_vars}
    data = bytes(dataset.to_netcdf(engine="h5netcdf", encoding=encoding))
    write_output(path, data)


def read(path: Path) -> xr.Dataset:
    """Read a result into memory.

    Raises:
        InputError: if the file is missing, damaged, or not the result of a sweep.
    """
    configuration(path)
    try:
        with xr.open_dataset(path, engine="h5netcdf") as dataset:
            return dataset.load()
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} is damaged ({str(error).splitlines()[0]})") from None


def configuration(path: Path) -> dict[str, Any]:
    """The configuration of the sweep whose result stands at ``path``.

    Raises:
        InputError: if no result of a sweep stands there.
    """
    try:
        with h5py.File(path) as file:
            return dict(json.loads(file.attrs["configuration"]))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; allowed: a result that simlab sweep wrote") from None
    except (OSError, KeyError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path} does not hold the result of a sweep ({reason})") from None
