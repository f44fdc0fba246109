"""The curves of a sweep's result against compute, which ``simlab fit`` fits."""

import itertools
import json

import numpy as np
import xarray as xr

from simlab.errors import check_choice
from simlab.plotting import grid_dimensions
from simlab.scaling import Curves
from simlab.sweeps.grid import Sweep
from simlab.sweeps.plan import Plan

UNIT = "rollouts"


def curves(dataset: xr.Dataset, metric: str) -> dict[str, Curves]:
    """Return a metric against compute, the rollouts that steps have drawn (steps times P times G), by the cell's label.

    Args:
        dataset: a result.
        metric: ``pass@K`` for a recorded K, or a variable that is one number a step.

    Raises:
        InputError: for a metric that the result lacks, or that has several numbers a step.
    """
    names, values = grid_dimensions(dataset), _values(dataset, metric)
    varied = [name for name in names if dataset.sizes[name] > 1] or names[:1]
    cells = Plan(Sweep.from_configuration(json.loads(dataset.attrs["configuration"]))).cells
    curves_by_label = {}
    for index in itertools.product(*(range(dataset.sizes[name]) for name in names)):
        cell = values.isel(dict(zip(names, index, strict=True))).transpose("seed", "step")
        resolved = cells[index]
        rollouts = resolved.problem.prompts_a_step(resolved.settings) * resolved.cell.group_size
        series = np.asarray(cell.values, dtype=float)
        label = ", ".join(_label(name, cell[name].item()) for name in varied)
        compute = cell["step"].values[1:].astype(float) * rollouts
        curves_by_label[label] = Curves(cell["seed"].values, compute, series[:, 1:], series[:, 0])
    return curves_by_label


def _label(name: str, value: object) -> str:
    """Write the value of a dimension: ``f_grpo``, ``learning_rate = 0.5``."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if name in ("estimator", "arm") else f"{name} = {text}"


def _values(dataset: xr.Dataset, metric: str) -> xr.DataArray:
    """Return the values of a metric, whose last dimension is the step."""
    name, at, k = metric.partition("@")
    numbers = [str(variable) for variable, values in dataset.data_vars.items() if values.dims[-1] == "step"]
    ks = [str(value) for value in dataset["k"].values] if "pass_at_k" in dataset else []
    if at and name == "pass" and k in ks:
        return dataset["pass_at_k"].sel(k=int(k))
    check_choice("metric", metric, [*(f"pass@{value}" for value in ks), *numbers])
    return dataset[metric]
