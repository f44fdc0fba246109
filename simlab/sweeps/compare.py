"""Compare the results of several sweeps: their last records side by side, and differences paired by seed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import xarray as xr

from simlab.errors import InputError
from simlab.plotting import chosen_metrics, grid_dimensions, plain, record_axis
from simlab.sweeps.result import read
from simlab.sweeps.table import ABSENT, CLEAR, COLUMNS, aligned, final_cells, legend, mean_and_error, standard_error
from simlab.sweeps.words import describe_sweep

Cells = dict[tuple[str, ...], xr.Dataset]


def read_results(paths: Sequence[Path]) -> dict[str, xr.Dataset]:
    """Read results; their keys are the names of the files, or the paths where two names are equal.

    Raises:
        InputError: for what is no result, a path given twice, or runs that end at different steps or costs.
    """
    if len(set(paths)) < len(paths):
        raise InputError("a result is given twice; allowed: different files")
    stems = [path.stem for path in paths]
    names = stems if len(set(stems)) == len(stems) else list(map(str, paths))
    results = {name: read(path) for name, path in zip(names, paths, strict=True)}
    ends = {name: _end(dataset) for name, dataset in results.items()}
    if len(set(ends.values())) > 1:
        listed = ", ".join(f"{name} at {end}" for name, end in ends.items())
        raise InputError(f"the results end differently ({listed}); allowed: sweeps of the same length")
    return results


def _end(dataset: xr.Dataset) -> str:
    axis = record_axis(dataset)
    return f"{axis} {plain(dataset[axis].values[-1])}"


def compared(datasets: Mapping[str, xr.Dataset]) -> str:
    """Return a table of every cell of every result, and the paired differences from the first result."""
    names = list(dict.fromkeys(name for dataset in datasets.values() for name in grid_dimensions(dataset)))
    first = next(iter(datasets.values()))
    columns = [name for name in chosen_metrics(first, COLUMNS) if all(name in dataset for dataset in datasets.values())]
    cells = {name: _cells(dataset, names) for name, dataset in datasets.items()}
    rows = [["result", *names, *columns]]
    rows += [
        [result, *labels, *(mean_and_error(cell[column].values) for column in columns)]
        for result, by_labels in cells.items()
        for labels, cell in by_labels.items()
    ]
    seeds = " and ".join(dict.fromkeys(str(dataset.sizes["seed"]) for dataset in datasets.values()))
    lines = [f"{name}: {describe_sweep(dataset)}" for name, dataset in datasets.items()]
    return "\n".join([*lines, "", *aligned(rows), "", legend(seeds, _end(first)), *_differences(cells, names, columns)])


def _cells(dataset: xr.Dataset, names: list[str]) -> Cells:
    """Return the cells of a result by their labels along the dimensions of all results."""
    dimensions = grid_dimensions(dataset)
    fixed = json.loads(dataset.attrs.get("settled", "{}"))
    texts = {name.rpartition(".")[2]: plain(value) for name, value in fixed.items()}
    cells = {}
    for labels, cell in final_cells(dataset, dimensions):
        labelled = texts | dict(zip(dimensions, labels, strict=True))
        cells[tuple(labelled.get(name, ABSENT) for name in names)] = cell
    return cells


def _differences(cells: Mapping[str, Cells], names: list[str], columns: list[str]) -> list[str]:
    """Return the table of differences in the cells that a result shares with the first, and a sentence on it."""
    (reference, base), *others = cells.items()
    if not others:
        return []
    rows, clear = [["result", *names, *columns]], {"higher": 0, "lower": 0}
    for result, by_labels in others:
        for labels in (labels for labels in by_labels if labels in base):
            shared = xr.align(by_labels[labels], base[labels], join="inner", exclude={"k", "rank"})
            less = [(shared[0][column] - shared[1][column]).values for column in columns]
            rows.append([result, *labels, *map(mean_and_error, less)])
            for word, sign in (("higher", 1), ("lower", -1)):
                clear[word] += bool(sign * less[0].mean() > CLEAR * standard_error(less[0]))
    number = len(rows) - 1
    if not number:
        return ["", f"in short: no cell of {reference} stands in another result"]
    return [
        *("", f"difference from {reference}, paired by seed:", *aligned(rows), ""),
        f"in short: compared with {reference}, {columns[0]} is higher in {clear['higher']} and lower in "
        f"{clear['lower']} of {number} cell{'s' * (number > 1)}, each by more than {CLEAR:g} standard errors",
    ]
