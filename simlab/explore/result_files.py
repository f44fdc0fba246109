"""Open results as labelled datasets: sweeps, training runs, and reports of a diagnosis."""

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from simlab.errors import InputError
from simlab.llm.compare import Run, Training, read_run
from simlab.llm.instruments.pass_at_k import unbiased_pass_at_k
from simlab.llm.training.folder import RUN
from simlab.reading import read_json

ALLOWED = "a result of simlab sweep, a folder of simlab train, or a report of simlab diagnose --json"
# Raised by h5py and xarray for a file that is none of theirs, or a damaged one.
FAILURES = (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError, IndexError)
MOST_K = 256  # pass@k is computed at every k up to it
BOUND, BOUNDS = "bound", ("estimate", "low", "high")

Cells = dict[tuple[str, int], Training]
Labels = dict[str, list[Any]]


def open_dataset(path: str | Path) -> xr.Dataset:
    """Open a result: the folder of a training run, the ``.json`` report of a diagnosis, or the file of a sweep.

    Raises:
        InputError: for a path that is none of the three, or is damaged.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist; allowed: {ALLOWED}")
    if path.is_dir():
        return training_dataset(read_run(path))
    if path.suffix == ".json":
        return training_dataset(read_run(path.parent)) if path.name == RUN else report_dataset(path)
    try:
        return xr.open_dataset(path, engine="h5netcdf", cache=False)
    except FAILURES as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path} cannot be opened ({reason}); allowed: {ALLOWED}") from None


# Training runs


def training_dataset(run: Run) -> xr.Dataset:
    """Return metrics over ``step`` and pass@k over ``evaluation``, by arm and seed; NaN where a run is not there yet.

    Raises:
        InputError: for a run without a step and without an evaluation.
    """
    cells = {(arm, seed): training for arm, seeds in run.arms.items() for seed, training in seeds.items()}
    labels: Labels = {"arm": [*run.arms], "seed": sorted({seed for _, seed in cells})}
    variables = {**_metrics(cells, labels), **_evaluations(run, cells, labels)}
    if not variables:
        raise InputError(f"{run.folder} has neither a step nor an evaluation yet; allowed: a run that has begun")
    return xr.Dataset(variables)


def _metrics(cells: Cells, labels: Labels) -> dict[str, xr.DataArray]:
    steps = sorted({int(step) for training in cells.values() for step in training.metrics["step"]})
    variables: dict[str, xr.DataArray] = {}
    for (arm, seed), training in cells.items():
        for name, values in training.metrics.items():
            if name != "step" and values.ndim == 1 and steps:
                variable = variables.setdefault(name, _empty({**labels, "step": steps}))
                variable.loc[{"arm": arm, "seed": seed, "step": training.metrics["step"]}] = values
    return variables


def _evaluations(run: Run, cells: Cells, labels: Labels) -> dict[str, xr.DataArray]:
    """Return pass@k and different solutions of each evaluation; step 0 is the start that all arms of a seed share."""
    by_cell = {
        (arm, seed): (*(run.starts[seed].evaluations if seed in run.starts else ()), *training.evaluations)
        for (arm, seed), training in cells.items()
    }
    evaluations = [evaluation for of_cell in by_cell.values() for evaluation in of_cell]
    if not evaluations:
        return {}
    ks = [*range(1, min(MOST_K, *(evaluation.samples for evaluation in evaluations)) + 1)]
    coordinates = {**labels, "evaluation": sorted({evaluation.step for evaluation in evaluations})}
    passed, distinct = _empty({**coordinates, "k": ks}), _empty(coordinates)
    for (arm, seed), of_cell in by_cell.items():
        for evaluation in of_cell:
            cell = {"arm": arm, "seed": seed, "evaluation": evaluation.step}
            correct, samples = evaluation.correct, evaluation.samples
            passed.loc[cell] = [float(unbiased_pass_at_k(correct, samples, k).mean()) for k in ks]
            distinct.loc[cell] = evaluation.distinct.mean()
    passed.attrs["long_name"] = "pass@k, mean over problems"
    distinct.attrs["long_name"] = "different correct solutions of a problem"
    return {"pass_at_k": passed, "distinct": distinct}


def _empty(coordinates: Labels) -> xr.DataArray:
    return xr.DataArray(np.full([len(labels) for labels in coordinates.values()], np.nan), coords=coordinates)


# Reports of a diagnosis

GROUP_CURVES = {
    "dead_groups": ("dead", "share of groups that teach nothing"),
    "all_right": ("all_right", "share of groups that are all right"),
    "all_wrong": ("all_wrong", "share of groups that are all wrong"),
    "effective_prompts": ("effective_prompts", "prompts of a step that teach"),
}
SPLIT_CURVES = {"teaching_groups": "teaching", "groups_holding_the_typical_solution": "holding"}


def report_dataset(path: Path) -> xr.Dataset:
    """Return the curves of a report, each with its estimate and the ends of its interval along ``BOUND``.

    Raises:
        InputError: for a file that is no such report.
    """
    report: Any = read_json(path).get("diagnosis")
    try:
        sizes, passed, splits = report["groups"]["at_sizes"], report["pass_at_k"], report["recommendation"]["splits"]
        curves = {name: _curve(sizes, key, "group_size", text) for name, (key, text) in GROUP_CURVES.items()}
        pairs = zip([*passed["k"], *passed["beyond_k"]], [*passed["carried"], *passed["beyond"]], strict=True)
        rows = [{"k": k, "pass": estimate} for k, estimate in pairs]
        curves["pass_at_k"] = _curve(rows, "pass", "k", f"pass@k; beyond k = {passed['k'][-1]} extrapolated")
        words = f"of {report['recommendation']['rollouts']} rollouts a step in groups of this size"
        for name, key in SPLIT_CURVES.items():
            if all(split[key] for split in splits):
                curves[name] = _curve(splits, key, "group_size", f"{name.replace('_', ' ')}, {words}")
        return xr.Dataset(curves)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is no report of a diagnosis ({error}); allowed: {ALLOWED}") from None


def _curve(rows: list[dict[str, Any]], key: str, along: str, words: str) -> xr.DataArray:
    """Return estimates with their intervals, (rows, 3)."""
    values = [
        [np.nan if (end := row[key][name]) is None else float(end) for name in ("value", "low", "high")] for row in rows
    ]
    coordinates: Labels = {along: [row[along] for row in rows], BOUND: [*BOUNDS]}
    return xr.DataArray(np.array(values, dtype=float), coords=coordinates, attrs={"long_name": words})
