"""Join the units of a sweep into one labelled dataset, and keep it as a NetCDF file."""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr

from simlab.errors import InputError
from simlab.files import RESULT, write_output
from simlab.reading import check_declared, reason
from simlab.seals import Damaged, sealed, unsealed
from simlab.simulator.runner import labelled
from simlab.sweeps.parameters import WORDS
from simlab.sweeps.plan import Plan, Unit

# Raised by h5py and xarray for a damaged file.
FAILURES = (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError, IndexError)


def assemble(plan: Plan, records: Iterable[tuple[Unit, Mapping[str, np.ndarray]]]) -> xr.Dataset:
    """Put the records of all units into one dataset, whose first dimensions are those of the grid and the seed."""
    sweep, dimensions = plan.sweep, plan.sweep.dimensions()
    names = sweep.labels({name for metric in plan.metrics for name in metric.dimensions})
    shape = tuple(len(values) for values in dimensions.values())
    filled: dict[str, np.ndarray] = {}
    for unit, rows in records:
        for name, values in rows.items():
            if name not in filled:
                filled[name] = np.full((*shape, sweep.seeds, plan.records, *values.shape[2:]), np.nan, values.dtype)
            filled[name][unit.index][unit.seeds.start : unit.seeds.stop] = values[:, unit.resolved.rows]
    cells = {names[name]: _coordinate(values) for name, values in dimensions.items()}
    leading = cells | {"seed": list(range(sweep.seeds))}
    recorded = plan.distinct[0].steps_taken  # the same for all cells, unless there is a budget
    attributes = {"settled": json.dumps(sweep.fixed_parameters())}
    dataset = labelled(plan.metrics, plan.labels, filled, leading, recorded, attributes=attributes)
    for name, label in names.items():
        if words := WORDS.get(name.rpartition(".")[2]):
            dataset[label].attrs["long_name"] = words
        if lacking := sweep.methods_without(name):
            dataset[label].attrs["methods_without_it"] = json.dumps(lacking)
    if sweep.budget is None:
        return dataset
    # Records along steps become records along cost.
    steps, spent = np.zeros((*shape, plan.records), int), np.zeros((*shape, plan.records))
    for index, cell in plan.cells.items():
        steps[index] = np.append(0, cell.steps_taken)
        spent[index] = steps[index] * float(cell.step_cost)
    priced, along = {"units": "rollouts" if sweep.budget.rollout_cost == 1 else "1"}, (*cells, "cost")
    return dataset.rename(step="cost").assign_coords(
        cost=("cost", sweep.budget.costs, {"long_name": "cost", **priced}),
        steps_taken=(along, steps, {"long_name": "steps that the cost has paid for", "units": "1"}),
        spent=(along, spent, {"long_name": "what these steps have cost", **priced}),  # less by a part of a step
    )


def _coordinate(values: tuple[Any, ...]) -> list[Any]:
    return list(values) if all(isinstance(value, (int, float)) for value in values) else list(map(str, values))


def joining_bytes(plan: Plan) -> int:
    """Return the memory that joining takes: the records, and as much again for writing them."""
    sweep = plan.sweep
    runs = math.prod(len(values) for values in sweep.dimensions().values()) * sweep.seeds
    values = sum(math.prod(len(plan.labels[name]) for name in metric.dimensions) for metric in plan.metrics)
    return 2 * runs * plan.records * values * np.dtype(sweep.dtype).itemsize


def write(dataset: xr.Dataset, path: Path) -> None:
    """Write a dataset as NetCDF, whole or not at all, with a seal behind it, which readers of NetCDF do not see."""
    encoding = {name: {"zlib": True, "complevel": 4} for name in dataset.data_vars}
    write_output(path, sealed(bytes(dataset.to_netcdf(engine="h5netcdf", encoding=encoding)), RESULT))


def read(path: Path) -> xr.Dataset:
    """Read a result into memory; ``InputError`` if it is missing, damaged, or not the result of a sweep."""
    configuration(path)
    try:
        with xr.open_dataset(path, engine="h5netcdf") as dataset:
            return dataset.load()
    except FAILURES as error:
        raise InputError(f"{path} is damaged ({reason(error)})") from None


def configuration(path: Path) -> dict[str, Any]:
    """Read the configuration of the sweep whose result is at ``path``; raises as ``read``."""
    try:
        data = path.read_bytes()
        if RESULT.encode() in data[-200:]:  # a seal, which files of earlier versions and of other programs do not have
            unsealed(data, RESULT)
        check_declared(path)
        with h5py.File(path) as file:
            return dict(json.loads(file.attrs["configuration"]))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; allowed: a result that simlab sweep wrote") from None
    except Damaged as error:
        raise InputError(f"{path} is damaged ({error})") from None
    except InputError:
        raise
    except FAILURES as error:
        raise InputError(f"{path} does not hold the result of a sweep ({reason(error)})") from None
