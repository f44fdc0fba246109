"""Say in one line what a sweep ran: its methods, its problem, what was swept, and what was not."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from simlab.plotting import METHODS, grid_dimensions, plain, record_axis

ALWAYS = ("estimator.gamma", "problem.actions", "problem.correct", "problem.prompts", "optimizer.learning_rate")


def in_words(dataset: xr.Dataset) -> str:
    """One line for the result of a sweep: methods and problem; what was swept; what was not; seeds and steps."""
    asked = json.loads(dataset.attrs["configuration"])
    swept = [name for name in grid_dimensions(dataset) if name not in METHODS and dataset.sizes[name] > 1]
    lists = [f"{_short(name)} = {_listed(dataset[name].values.tolist())}" for name in swept]
    fixed = [f"{_short(name)} = {_value(value)}" for name, value in _notable(dataset, asked).items()]
    axis = record_axis(dataset)
    length = f"{dataset.sizes['seed']} seeds, {plain(dataset[axis].values[-1])} {axis.replace('step', 'steps')}"
    return f"{_methods(asked)} on {asked['problem']}: {'; '.join([*lists, ', '.join(fixed), length])}"


def _methods(asked: Mapping[str, Any]) -> str:
    if asked["arms"]:
        return ", ".join(asked["arms"])
    estimators, surrogates = (", ".join(asked[name]) for name in ("estimators", "surrogates"))
    return f"{estimators} with {surrogates}"


def _notable(dataset: xr.Dataset, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Of what was not swept: what was asked for, and what a reader wants to know in any case."""
    parameters = json.loads(dataset.attrs.get("settled", "{}"))
    wanted = ["group_size", *ALWAYS, *asked["parameters"]]
    return {name: parameters[name] for name in dict.fromkeys(wanted) if name in parameters}


def _short(name: str) -> str:
    return {"group_size": "G"}.get(name, name.rpartition(".")[2])


def _listed(values: Sequence[Any]) -> str:
    shown = [_value(value) for value in values]
    return ", ".join(shown if len(shown) <= 8 else [*shown[:3], "...", shown[-1]])


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} values" if len(value) > 4 else ",".join(map(plain, value))
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else plain(value)
