"""Choose columns of a result: its dimensions and cells, its metrics by name, and where pass@1 first reaches a level."""

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Bool, Float

from simlab.errors import InputError, check_choice

ABSENT = "-"  # for a parameter that a method lacks
ALL_SOLVED = 0.9995  # a pass@k that every cell ends above says no more


def grid_dimensions(dataset: xr.Dataset) -> list[str]:
    """Return the dimensions of the cells of a sweep, which every variable has before seed and step."""
    first = next(iter(dataset.data_vars.values()))
    names = [str(name) for name in first.dims]
    return names[: names.index("seed")]


def record_axis(dataset: xr.Dataset) -> str:
    """Return the dimension of the records of a run: cost where a sweep has a budget, and else the step."""
    return "cost" if "cost" in dataset.dims else "step"


def seed_counts(datasets: Iterable[xr.Dataset]) -> str:
    """Write how many seeds results have: ``1 seed``, ``4 seeds``, ``2 and 6 seeds``."""
    counts = list(dict.fromkeys(dataset.sizes["seed"] for dataset in datasets))
    return f"{' and '.join(map(str, counts))} seed{'s' * (counts != [1])}"


def each_cell(dataset: xr.Dataset) -> Iterator[tuple[dict[str, str], xr.Dataset]]:
    """Yield every cell with its labels by dimension; cells that differ by what their method lacks, once."""
    names = grid_dimensions(dataset)
    for index in itertools.product(*(range(dataset.sizes[name]) for name in names)):
        cell = dataset.isel(dict(zip(names, index, strict=True)))
        labels = {name: plain(cell[name].item()) for name in names}
        absent = lacking(dataset, labels)
        if all(index[names.index(name)] == 0 for name in absent):
            yield labels | dict.fromkeys(absent, ABSENT), cell


def lacking(dataset: xr.Dataset | xr.DataArray, labels: Mapping[str, Any]) -> list[str]:
    """Return the dimensions among some labels along which nothing changes: parameters that their method lacks."""
    named = {str(label) for label in labels.values()}
    return [name for name in labels if named & set(json.loads(dataset[name].attrs.get("methods_without_it", "[]")))]


def plain(value: Any) -> str:
    """Write a number or a name as a reader would."""
    return f"{value:g}" if isinstance(value, (float, np.floating)) else str(value)


def usual_metrics(dataset: xr.Dataset, usual: Sequence[str]) -> list[str]:
    """Choose the usual metrics that a problem records, and pass@k of the largest k unless every cell ends at 1.

    A problem that records none of them has as many others, which are one number a record.
    """
    axis = record_axis(dataset)
    numbers = [str(name) for name, values in dataset.data_vars.items() if values.dims[-1] == axis]
    chosen = [name for name in usual if name in numbers] or numbers[: len(usual)]
    if "pass_at_k" in dataset and (k := dataset["k"].values.max()) > 1:
        ends = dataset["pass_at_k"].sel(k=k).isel({axis: -1}).mean("seed")
        chosen += [f"pass@{k}"] * bool((ends < ALL_SOLVED).any())
    return chosen


def _at_each_k(dataset: xr.Dataset) -> dict[str, xr.DataArray]:
    ks = dataset["k"].values if "pass_at_k" in dataset else ()
    return {f"pass@{k}": dataset["pass_at_k"].sel(k=k, drop=True) for k in ks}


def read_metric(dataset: xr.Dataset, metric: str) -> dict[str, xr.DataArray]:
    """Return pass@K, or a variable, by column: one number a record, or one for each label of its further dimensions.

    Raises ``InputError`` for a metric that the result does not hold; of pass@K, with the option that records it.
    """
    at_k = _at_each_k(dataset)
    if metric in at_k or (metric == "pass_at_k" and at_k):
        return {metric: at_k[metric]} if metric in at_k else at_k
    if metric == "pass_at_k" or re.fullmatch(r"pass@[1-9][0-9]*", metric):
        ks = sorted(int(name.partition("@")[2]) for name in {*at_k, metric if "@" in metric else "pass@32"})
        recorded = f"it has {', '.join(at_k)}" if at_k else "it has no pass@k"
        records = f"simlab sweep --pass-at-k {','.join(map(str, ks))} records it"
        raise InputError(f"{metric} is not recorded in the result: {recorded}; {records}")
    check_choice("metric", metric, [*at_k, *map(str, dataset.data_vars)])
    values = dataset[metric]
    further = [str(name) for name in values.dims[values.dims.index(record_axis(dataset)) + 1 :]]
    columns = {}
    for labels in itertools.product(*(values[name].values for name in further)):
        name = " ".join([metric, *map(plain, labels)])
        columns[name] = values.sel(dict(zip(further, labels, strict=True)), drop=True)
    return columns


def with_columns(
    datasets: Mapping[str, xr.Dataset], metrics: Sequence[str] | None, usual: Sequence[str]
) -> tuple[dict[str, xr.Dataset], list[str]]:
    """Return results with a variable for each column of some metrics, and the names of these that all results have.

    Without ``metrics``, those of ``usual_metrics`` of the first result. Raises as ``read_metric``.
    """
    names = [{*map(str, dataset.data_vars), *_at_each_k(dataset)} for dataset in datasets.values()]
    if metrics is None:
        metrics = [
            name for name in usual_metrics(next(iter(datasets.values())), usual) if all(name in of for of in names)
        ]
    columns = [
        {name: values for metric in metrics for name, values in read_metric(dataset, metric).items()}
        for dataset in datasets.values()
    ]
    extended = {name: dataset.assign(more) for (name, dataset), more in zip(datasets.items(), columns, strict=True)}
    return extended, [name for name in columns[0] if all(name in others for others in columns)]


def pass_at_1(dataset: xr.Dataset) -> xr.DataArray:
    """Return pass@1 of every run and record, which is the mean Q_pos of its prompts."""
    if "pass_at_k" in dataset and 1 in dataset["k"]:
        return dataset["pass_at_k"].sel(k=1, drop=True)
    if "q_pos" not in dataset:
        raise InputError("the result holds no pass@1; simlab sweep --pass-at-k 1 records it; allowed: q_pos too")
    return dataset["q_pos"]


def at_equal_mass(
    q_pos: Float[np.ndarray, "S N"], values: Float[np.ndarray, "S N"], levels: Float[np.ndarray, " L"]
) -> Float[np.ndarray, "L S"]:
    """Return what the values of each seed are where its Q_pos (pass@1) first reaches each level.

    Interpolated between the records in which Q_pos is higher than before; NaN where a run begins above the level, or
    does not reach it.
    """
    reached = np.full((len(levels), len(q_pos)), np.nan)
    for seed, (mass, series) in enumerate(zip(q_pos, values, strict=True)):
        higher = _higher_than_before(mass)
        inside = (levels >= mass[0]) & (levels <= mass.max())
        reached[inside, seed] = np.interp(levels[inside], mass[higher], series[higher])
    return reached


def around_equal_mass(
    q_pos: Float[np.ndarray, "S N"], values: Float[np.ndarray, "S N"], level: float
) -> Float[np.ndarray, "2 S"]:
    """Return the values in the two records of each seed between which ``at_equal_mass`` reads a level.

    Both are the same record where its Q_pos is the level; NaN where ``at_equal_mass`` is.
    """
    ends = np.full((2, len(q_pos)), np.nan)
    for seed, (mass, series) in enumerate(zip(q_pos, values, strict=True)):
        if mass[0] <= level <= mass.max():
            higher = _higher_than_before(mass)
            after = np.searchsorted(mass[higher], level)
            ends[:, seed] = series[higher][[after - (mass[higher][after] > level), after]]
    return ends


def _higher_than_before(mass: Float[np.ndarray, " N"]) -> Bool[np.ndarray, " N"]:
    return np.append(True, mass[1:] > np.maximum.accumulate(mass)[:-1])
