"""What the explorer opens, each as one labelled dataset: sweeps, training runs, and reports of a diagnosis."""

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from simlab.errors import InputError
from simlab.llm.compare import Evaluation, Run, Training, read_run
from simlab.llm.instruments.pass_at_k import unbiased_pass_at_k
from simlab.llm.training.folder import RUN
from simlab.reading import read_json

ALLOWED = "a result of simlab sweep, a folder of simlab train, or a report of simlab diagnose --json"
# What h5py and xarray raise for a file that is none of theirs, or a damaged one.
FAILURES = (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError, IndexError)
MOST_K = 256  # of pass@k, which is told at every k up to it
BOUND, BOUNDS = "bound", ("estimate", "low", "high")

Cells = dict[tuple[str, int], Training]
Labels = dict[str, list[Any]]


def open_dataset(path: str | Path) -> xr.Dataset:
    """The dataset of a result, told by what the path is: a folder, a ``.json`` file, or any other file.

    Raises:
        InputError: for what is none of the three, or is damaged.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist; allowed: {ALLOWED}")
    if path.is_dir():
        return of_run(read_run(path))
    if path.suffix == ".json":
        return of_run(read_run(path.parent)) if path.name == RUN else of_diagnosis(path)
    try:
        return xr.open_dataset(path, engine="h5netcdf", cache=False)
    except FAILURES as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path} cannot be opened ({reason}); allowed: {ALLOWED}") from None


# Training runs


def of_run(run: Run) -> xr.Dataset:
    """Metrics over ``step`` and pass@k over ``evaluation``, by arm and seed; NaN where a run is not there yet.

    Raises:
        InputError: for a run without a step and without an evaluation.
    """
    cells = {(arm, seed): own for arm, seeds in run.arms.items() for seed, own in seeds.items()}
    labels: Labels = {"arm": [*run.arms], "seed": sorted({seed for _, seed in cells})}
    variables = {**_metrics(cells, labels), **_evaluations(run, cells, labels)}
    if not variables:
        raise InputError(f"{run.folder} has neither a step nor an evaluation yet; allowed: a run that has begun")
    return xr.Dataset(variables)


def _metrics(cells: Cells, labels: Labels) -> dict[str, xr.DataArray]:
    steps = sorted({int(step) for own in cells.values() for step in own.metrics["step"]})
    names = dict.fromkeys(
        name for own in cells.values() for name, values in own.metrics.items() if name != "step" and values.ndim == 1
    )
    coordinates = {**labels, "step": steps}
    found = {name: _empty(coordinates) for name in names if steps}
    for (arm, seed), own in cells.items():
        for name in found.keys() & own.metrics.keys():
            found[name].loc[{"arm": arm, "seed": seed, "step": own.metrics["step"]}] = own.metrics[name]
    return found


def _evaluations(run: Run, cells: Cells, labels: Labels) -> dict[str, xr.DataArray]:
    """Pass@k and different solutions of each evaluation; step 0 is the start that all arms of a seed share."""
    of_cells = {
        place: (*(run.starts[place[1]].evaluations if place[1] in run.starts else ()), *own.evaluations)
        for place, own in cells.items()
    }
    every = [one for evaluations in of_cells.values() for one in evaluations]
    if not every:
        return {}
    k = [*range(1, min(MOST_K, *(one.samples for one in every)) + 1)]
    coordinates = {**labels, "evaluation": sorted({one.step for one in every})}
    passed, distinct = _empty({**coordinates, "k": k}), _empty(coordinates)
    for (arm, seed), evaluations in of_cells.items():
        for one in evaluations:
            place = {"arm": arm, "seed": seed, "evaluation": one.step}
            passed.loc[place] = [_pass_at_k(one, own) for own in k]
            distinct.loc[place] = one.distinct.mean()
    passed.attrs["long_name"] = "pass@k, mean over problems"
    distinct.attrs["long_name"] = "different correct solutions of a problem"
    return {"pass_at_k": passed, "distinct": distinct}


def _pass_at_k(one: Evaluation, k: int) -> float:
    return float(unbiased_pass_at_k(one.correct, one.samples, k).mean())


def _empty(coordinates: Labels) -> xr.DataArray:
    return xr.DataArray(np.full([len(own) for own in coordinates.values()], np.nan), coords=coordinates)


# Reports of a diagnosis


def of_diagnosis(path: Path) -> xr.Dataset:
    """The curves of a report, each with its estimate and the ends of its interval along ``BOUND``.

    Raises:
        InputError: for a file that is no such report.
    """
    found = read_json(path).get("diagnosis")
    try:
        if not isinstance(found, dict):
            raise TypeError("it has no diagnosis")
        return xr.Dataset(_groups(found) | _passes(found) | _splits(found))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is no report of a diagnosis ({error}); allowed: {ALLOWED}") from None


def _groups(found: dict[str, Any]) -> dict[str, xr.DataArray]:
    sizes = found["groups"]["at_sizes"]
    names = {
        "dead_groups": ("dead", "share of groups that teach nothing"),
        "all_right": ("all_right", "share of groups that are all right"),
        "all_wrong": ("all_wrong", "share of groups that are all wrong"),
        "effective_prompts": ("effective_prompts", "prompts of a step that teach"),
    }
    return {name: _curve(sizes, key, "group_size", words) for name, (key, words) in names.items()}


def _passes(found: dict[str, Any]) -> dict[str, xr.DataArray]:
    own = found["pass_at_k"]
    rows = [
        {"k": k, "pass": one}
        for k, one in zip([*own["k"], *own["beyond_k"]], [*own["carried"], *own["beyond"]], strict=True)
    ]
    return {"pass_at_k": _curve(rows, "pass", "k", f"pass@k; beyond k = {own['k'][-1]} extrapolated")}


def _splits(found: dict[str, Any]) -> dict[str, xr.DataArray]:
    own = found["recommendation"]
    words = f"of {own['rollouts']} rollouts a step in groups of this size"
    names = {"teaching_groups": "teaching", "groups_holding_the_typical_solution": "holding"}
    return {
        name: _curve(own["splits"], key, "group_size", f"{name.replace('_', ' ')}, {words}")
        for name, key in names.items()
        if all(split[key] for split in own["splits"])
    }


def _curve(rows: list[dict[str, Any]], key: str, along: str, words: str) -> xr.DataArray:
    """Estimates with their intervals, (rows, 3)."""
    values = [[_number(row[key][name]) for name in ("value", "low", "high")] for row in rows]
    coordinates: Labels = {along: [row[along] for row in rows], BOUND: [*BOUNDS]}
    return xr.DataArray(np.array(values, dtype=float), coords=coordinates, attrs={"long_name": words})


def _number(value: Any) -> float:
    return np.nan if value is None else float(value)
