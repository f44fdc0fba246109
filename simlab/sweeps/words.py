"""Describe a sweep in words: one line on what it ran, the meaning of its parameters, and its choice of storages."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from simlab.plotting import METHODS, grid_dimensions, plain, record_axis
from simlab.simulator.resources import StepCosts, step_costs
from simlab.sweeps.grid import Sweep
from simlab.sweeps.parameter_words import WORDS
from simlab.sweeps.plan import Plan

# Parameters that a reader wants to know even if nobody set them.
ALWAYS = ("estimator.gamma", "problem.actions", "problem.correct", "problem.prompts", "optimizer.learning_rate")


def describe_sweep(dataset: xr.Dataset) -> str:
    """Return one line on the result of a sweep: methods and problem; swept and fixed parameters; seeds and steps."""
    configuration = json.loads(dataset.attrs["configuration"])
    swept = [name for name in grid_dimensions(dataset) if name not in METHODS and dataset.sizes[name] > 1]
    lists = [f"{_short(name)} = {_join_values(dataset[name].values.tolist())}" for name in swept]
    fixed = [f"{_short(name)} = {_format(value)}" for name, value in _notable(dataset, configuration).items()]
    axis = record_axis(dataset)
    length = f"{dataset.sizes['seed']} seeds, {plain(dataset[axis].values[-1])} {axis.replace('step', 'steps')}"
    return f"{_methods(configuration)} on {configuration['problem']}: {'; '.join([*lists, ', '.join(fixed), length])}"


def _methods(configuration: Mapping[str, Any]) -> str:
    if configuration["arms"]:
        return ", ".join(configuration["arms"])
    estimators, surrogates = (", ".join(configuration[name]) for name in ("estimators", "surrogates"))
    return f"{estimators} with {surrogates}"


def _notable(dataset: xr.Dataset, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fixed parameters that somebody set, and those that a reader always wants to know."""
    parameters = json.loads(dataset.attrs.get("settled", "{}"))
    names = ["group_size", *ALWAYS, *configuration["parameters"]]
    return {name: parameters[name] for name in dict.fromkeys(names) if name in parameters}


def _short(name: str) -> str:
    return {"group_size": "G"}.get(name, name.rpartition(".")[2])


def _join_values(values: Sequence[Any]) -> str:
    texts = [_format(value) for value in values]
    return ", ".join(texts if len(texts) <= 8 else [*texts[:3], "...", texts[-1]])


def _format(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} values" if len(value) > 4 else ",".join(map(plain, value))
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else plain(value)


def parameter_table(sweep: Sweep) -> str:
    """List every parameter of a sweep with its default and its meaning, one section after the other."""
    defaults, lines, last = sweep.known_parameters(), list[str](), ""
    width = max(map(len, defaults))
    for name, default in defaults.items():
        section, _, bare = name.partition(".")
        if section != last:
            lines += [""] if lines else ["--param NAME=LIST sets one, by its name with or without the section:", ""]
        last = section
        text = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
        lines.append(f"{name:{width}}  {text or 'none':10}  {WORDS.get(bare, '')}".rstrip())
    return "\n".join(lines)


def describe_storages(plan: Plan) -> list[str]:
    """Return a line for each storage: its group sizes, and what a step takes there by the cost model."""
    costs: dict[str, dict[int, list[StepCosts]]] = {}
    for cell in plan.distinct:
        cost = step_costs(cell.problem, cell.settings, int(cell.steps[-1]))
        costs.setdefault(cell.settings.storage, {}).setdefault(cell.settings.group_size, []).append(cost)
    return [_storage_line(storage, by_size) for storage, by_size in sorted(costs.items())]


def _storage_line(storage: str, by_size: dict[int, list[StepCosts]]) -> str:
    chosen, other = ("lumped", "dense") if storage == "lumped" else ("dense", "lumped")
    costs = [cost for group in by_size.values() for cost in group]
    here, there = ([getattr(cost, name) for cost in costs] for name in (chosen, other))
    sizes = ", ".join(str(size) for size in sorted(by_size))
    expected = f"{_span(here)} us of a core a step by the cost model"
    alternative = f"{other} {_span(there)}" if math.isfinite(max(there)) else f"{other} cannot run it"
    return f"storage {storage} for G = {sizes}: {expected}; {alternative}"


def _span(costs: list[float]) -> str:
    low, high = f"{min(costs):.0f}", f"{max(costs):.0f}"
    return low if low == high else f"{low} to {high}"
