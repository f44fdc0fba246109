"""Tell what a sweep has found: one line on what ran, a table of its last records, and comparisons with other sweeps."""

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from simlab.columns import (
    ABSENT,
    each_cell,
    grid_dimensions,
    plain,
    read_metric,
    record_axis,
    seed_counts,
    with_columns,
)
from simlab.errors import InputError
from simlab.intervals import BAND_SEEDS, over_seeds, sign_of, too_few
from simlab.placebo import Excess, Paid, pair, verdict
from simlab.plotting import METHODS
from simlab.scaling import Curves
from simlab.simulator.resources import StepCosts, step_costs
from simlab.simulator.settings import TRUE_REWARD
from simlab.sweeps.grid import Sweep
from simlab.sweeps.plan import Plan
from simlab.sweeps.result import read
from simlab.text import aligned, plain_number

COLUMNS = ("q_pos", "retained_mass", "entropy", "tail_miss_rate")
# Parameters that a reader wants to know even if nobody set them.
ALWAYS = ("estimator.gamma", "problem.actions", "problem.correct", "problem.prompts", "optimizer.learning_rate")
DECIMALS = 5  # of a mean, at most
ROUNDING = 16  # resolutions of a number's type by which the sums of two records of one policy may differ
Cells = dict[tuple[str, ...], xr.Dataset]


def describe_sweep(dataset: xr.Dataset) -> str:
    """Return one line on the result of a sweep: methods and problem; swept and fixed parameters; seeds and steps."""
    configuration = json.loads(dataset.attrs["configuration"])
    estimators, surrogates = (", ".join(configuration[name] or ()) for name in ("estimators", "surrogates"))
    methods = ", ".join(configuration["arms"]) or f"{estimators} with {surrogates}"
    swept = [name for name in grid_dimensions(dataset) if name not in METHODS and dataset.sizes[name] > 1]
    lists = [_set_to(name, dataset[name].values.tolist()) for name in swept]
    # The fixed parameters that somebody set, and those that a reader always wants to know.
    settled = json.loads(dataset.attrs.get("settled", "{}"))
    notable = [name for name in dict.fromkeys(["group_size", *ALWAYS, *configuration["parameters"]]) if name in settled]
    notable = [name for name in notable if (name, settled[name]) != ("problem.prompts", 0)]  # as many as fit the bank
    fixed = ", ".join(_set_to(name, [settled[name]]) for name in notable)
    axis = record_axis(dataset)
    last = plain(dataset[axis].values[-1])
    length = f"{dataset.sizes['seed']} seeds, {f'{last} steps' if axis == 'step' else f'a budget of {last}'}"
    return f"{methods} on {configuration['problem']}: {'; '.join([*lists, fixed, length])}"


def _set_to(name: str, values: Sequence[Any]) -> str:
    texts = [_format(value) for value in values]
    shown = ", ".join(texts if len(texts) <= 8 else [*texts[:3], "...", texts[-1]])
    return f"{'G' if name == 'group_size' else name.rpartition('.')[2]} = {shown}"


def _format(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} values" if len(value) > 4 else ",".join(map(plain, value))
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else plain(value)


def describe_storages(plan: Plan) -> list[str]:
    """Return a line for each storage: its group sizes, and what a step takes there by the cost model."""
    costs: dict[str, list[tuple[int, StepCosts]]] = {}
    for cell in plan.distinct:
        cost = step_costs(cell.problem, cell.settings, int(cell.steps[-1]))
        costs.setdefault(cell.settings.storage, []).append((cell.settings.group_size, cost))
    lines = []
    for storage, by_size in sorted(costs.items()):
        chosen, other = ("lumped", "dense") if storage == "lumped" else ("dense", "lumped")
        here, there = ([getattr(cost, name) for _, cost in by_size] for name in (chosen, other))
        sizes = ", ".join(str(size) for size in sorted({size for size, _ in by_size}))
        alternative = f"{other} {_span(there)}" if math.isfinite(max(there)) else f"{other} cannot run it"
        lines.append(
            f"storage {storage} for G = {sizes}: {_span(here)} us of a core a step by the cost model; {alternative}"
        )
    return lines


def _span(costs: list[float]) -> str:
    low, high = f"{min(costs):.0f}", f"{max(costs):.0f}"
    return low if low == high else f"{low} to {high}"


def final_table(dataset: xr.Dataset) -> str:
    """Return a table of each cell's last record, means over seeds with standard errors, and what it says in short."""
    names, axis = grid_dimensions(dataset), record_axis(dataset)
    extended, columns = with_columns({"": dataset}, None, COLUMNS)
    dataset = extended[""]
    units = {column: dataset[column].attrs.get("units", "1") for column in columns}
    units = {column: {"1": "", "nat": "nats"}.get(unit, unit) for column, unit in units.items()}
    rows = [dict.fromkeys(names, "") | units] if any(units.values()) else []
    rows += [labels | _row(cell, columns) for labels, cell in final_cells(dataset)]
    described = [*(name for name in names if name not in METHODS), *columns]
    words = {name: dataset[name].attrs["long_name"] for name in described if "long_name" in dataset[name].attrs}
    width = max(map(len, words), default=0)
    meanings = [f"{name:{width}}  {meaning}" for name, meaning in words.items()]
    if "problem.prompts" in json.loads(dataset.attrs.get("settled", "{}")):
        meanings.append("each metric is a mean over the prompts")
    explained = legend(seed_counts([dataset]), f"{axis} {dataset[axis].values[-1]:.12g}")
    in_short = [takeaway(dataset, columns[0]), *_at_equal_steps(dataset), *_unmoved(dataset, columns)]
    in_short += beside_placebos({"": dataset}, columns)
    return "\n".join([*aligned(rows), "", explained, *meanings, "", *in_short])


def _unmoved(dataset: xr.Dataset, columns: Sequence[str]) -> list[str]:
    """Name the cells that have learned nothing: in no seed does the policy move by more than its numbers are rounded.

    A record is summed in another order than the start, so that the two may differ by ``ROUNDING`` times the resolution.
    """
    axis, whys, cells = record_axis(dataset), dict[str, str](), list(each_cell(dataset))
    of_policy = [name for name in ("q_pos", "entropy") if name in dataset] or columns[:1]
    for labels, cell in cells:
        if all(_stays(cell[name].transpose(axis, ...).values) for name in of_policy):
            own_baseline = json.loads(dataset.attrs.get("settled", "{}")).get("group_size") == 1
            own_baseline |= labels.get("group_size") == "1"
            why = "a group of one is its own baseline, and its advantage 0" if own_baseline else "no record differs"
            whys[_where(dataset, labels) or "any step"] = why
    if len(whys) == len(cells) > 1 and len(set(whys.values())) == 1:
        whys = {"any step of any cell": next(iter(whys.values()))}
    return [f"nothing was learned at {where}: {why}" for where, why in whys.items()]


def _stays(values: Float[np.ndarray, "N ..."]) -> bool:
    """Say if all records are the first, but for rounding."""
    resolution = np.finfo(values.dtype).eps if np.issubdtype(values.dtype, np.floating) else 0
    return bool((np.abs(values - values[0]) <= ROUNDING * resolution * np.abs(values[0])).all())


def _where(dataset: xr.Dataset, labels: Mapping[str, str]) -> str:
    """Name a cell by its labels that vary, and that its method has."""
    varied = {name: label for name, label in labels.items() if dataset.sizes[name] > 1 and label != ABSENT}
    return ", ".join(label if name in METHODS else f"{name} {label}" for name, label in varied.items())


def _at_equal_steps(dataset: xr.Dataset) -> list[str]:
    sizes = dataset.get("group_size", xr.DataArray([1])).values
    small, large = np.min(sizes), np.max(sizes)
    if small == large or record_axis(dataset) != "step":
        return []
    ratio = f"groups of {large:,} draw {plain_number(large / small, 4)} times the rollouts of groups of {small:,}"
    return [f"at equal steps {ratio}; --budget ROLLOUTS in place of --steps gives all the same"]


def takeaway(dataset: xr.Dataset, metric: str) -> str:
    """Say where a metric ends highest and lowest, or from where to where it went."""
    axis, cells = record_axis(dataset), [(labels, cell[metric].values) for labels, cell in final_cells(dataset)]
    if len(cells) == 1:
        start, end = (float(np.nanmean(dataset[metric].isel({axis: record}).values)) for record in (0, -1))
        return f"in short: {metric} went from {plain_number(start, 4)} to {plain_number(end, 4)}"
    low, high = (pick(cells, key=lambda cell: float(np.nan_to_num(cell[1].mean()))) for pick in (min, max))
    least, most = (plain_number(values.mean(), 4) for _, values in (low, high))
    if least == most:
        return f"in short: {metric} ends at {most} in every cell"
    if (seeds := len(high[1])) < BAND_SEEDS:
        return f"in short: {too_few(seeds, f'where {metric} ends highest')}"
    if not sign_of(high[1] - low[1]):
        return (
            f"in short: these seeds do not tell any cell's {metric} from another's, by 95 % intervals of the difference"
        )
    ends = []
    for labels, values in (high, low):
        near = sum(not sign_of(other - values) for _, other in cells) - 1
        ties = f" ({near} more that these seeds do not tell from it)" if near else ""
        ends.append(f"{plain_number(values.mean(), 4)} at {_where(dataset, labels)}{ties}")
    return f"in short: {metric} ends highest, {ends[0]}, and lowest, {ends[1]}"


def _row(cell: xr.Dataset, columns: Sequence[str]) -> dict[str, str]:
    return {column: mean_and_error(cell[column].values) for column in columns}


def final_cells(dataset: xr.Dataset) -> Iterator[tuple[dict[str, str], xr.Dataset]]:
    """Yield every cell's last record, with its labels; cells that differ by what their method lacks, once."""
    return each_cell(dataset.isel({record_axis(dataset): -1}))


def legend(seeds: str, end: str) -> str:
    """Return the line that explains the numbers of a table; ``seeds`` is what ``seed_counts`` returns."""
    if seeds == "1 seed":
        return f"one seed at {end}"
    return f"mean over {seeds} at {end}; 0.6534(42) is a mean of 0.6534 with a standard error of 0.0042"


def mean_and_error(values: np.ndarray) -> str:
    """Write a mean and two digits of its standard error in units of the last decimal, such as ``0.6719(12)``."""
    error = float(over_seeds(values).error)
    if not np.isfinite(error):  # retained mass is 0 / 0 where the initial correct mass reads 0
        return f"{values.mean():.{DECIMALS}f}"
    exponent = int(f"{error:.1e}".partition("e")[2])  # of the rounded error: 0.0996 is 1.0e-1
    decimals = min(max(1 - exponent, 0), DECIMALS) if error else DECIMALS
    return f"{values.mean():.{decimals}f}({round(error * 10**decimals)})"


def signed(differences: np.ndarray) -> str:
    """Write a mean difference as ``mean_and_error`` does, with its sign."""
    text = mean_and_error(differences)
    return text if text.startswith(("-", "nan")) else f"+{text}"


def read_results(paths: Sequence[Path]) -> dict[str, xr.Dataset]:
    """Read results; their keys are the names of the files, or the paths where two names are equal."""
    if len(set(paths)) < len(paths):
        raise InputError("a result is given twice; allowed: different files")
    stems = [path.stem for path in paths]
    names = stems if len(set(stems)) == len(stems) else list(map(str, paths))
    return {name: read(path) for name, path in zip(names, paths, strict=True)}


def compared(datasets: Mapping[str, xr.Dataset], metrics: Sequence[str] | None = None) -> str:
    """Return a table of every cell of every result, and the differences from the first result, paired by seed.

    Its columns are the metrics (see ``read_metric``), by default those of a sweep's table that all results have.
    Raises ``InputError`` for results of different lengths.
    """
    axes = {name: record_axis(dataset) for name, dataset in datasets.items()}
    ends = {name: f"{axis} {plain(datasets[name][axis].values[-1])}" for name, axis in axes.items()}
    if len(set(ends.values())) > 1:
        listed = ", ".join(f"{name} at {end}" for name, end in ends.items())
        allowed = "sweeps of the same length, or --at pass@1=NUMBER"
        raise InputError(f"the results end differently ({listed}); allowed: {allowed}")
    datasets, columns = with_columns(datasets, metrics, COLUMNS)
    names = list(dict.fromkeys(name for dataset in datasets.values() for name in grid_dimensions(dataset)))
    cells = {name: _cells(dataset, names) for name, dataset in datasets.items()}
    rows = [
        {"result": result, **dict(zip(names, labels, strict=True)), **_row(cell, columns)}
        for result, by_labels in cells.items()
        for labels, cell in by_labels.items()
    ]
    lines = [f"{name}: {describe_sweep(dataset)}" for name, dataset in datasets.items()]
    lines += ["", *aligned(rows), "", legend(seed_counts(datasets.values()), next(iter(ends.values())))]
    return "\n".join([*lines, *beside_placebos(datasets, columns), *_differences(cells, names, columns)])


def _cells(dataset: xr.Dataset, names: list[str]) -> Cells:
    settled = json.loads(dataset.attrs.get("settled", "{}"))
    texts = {name.rpartition(".")[2]: plain(value) for name, value in settled.items()}
    cells = {}
    for labels, cell in final_cells(dataset):
        cells[tuple((texts | labels).get(name, ABSENT) for name in names)] = cell
    return cells


def _differences(cells: Mapping[str, Cells], names: list[str], columns: list[str]) -> list[str]:
    (reference, base), *others = cells.items()
    if not others:
        return []
    rows, signs, seeds = [], list[int](), 0
    for result, by_labels in others:
        for labels in (labels for labels in by_labels if labels in base):
            ours, theirs = xr.align(by_labels[labels], base[labels], join="inner", exclude={"k", "rank"})
            less = ours[columns] - theirs[columns]
            rows.append({"result": result, **dict(zip(names, labels, strict=True)), **_row(less, columns)})
            signs.append(sign_of(less[columns[0]].values))
            seeds = max(seeds, less.sizes["seed"])
    if not signs:
        return ["", f"in short: no cell of {reference} stands in another result"]
    in_short = difference_in_short(reference, columns[0], signs, seeds)
    return ["", f"difference from {reference}, paired by seed:", *aligned(rows), "", in_short]


def difference_in_short(base: str, column: str, told: Sequence[int], seeds: int) -> str:
    """Say in how many cells a column is higher and lower than in ``base``, by the ``sign_of`` of each."""
    if seeds < BAND_SEEDS:
        return f"in short: {too_few(seeds, f'in which cells {column} differs from {base}')}"
    return (
        f"in short: compared with {base}, {column} is higher in {told.count(1)} and lower in {told.count(-1)} of "
        f"{len(told)} cell{'s' * (len(told) > 1)}, by intervals over seeds without 0"
    )


# Placebos


def named_cells(results: Mapping[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """Return every cell by its name: its result where there are several, and its labels that vary there."""
    return {name: cell for name, _, _, cell in _each_named_cell(results)}


def _each_named_cell(results: Mapping[str, xr.Dataset]) -> Iterator[tuple[str, str, dict[str, str], xr.Dataset]]:
    for result, dataset in results.items():
        for labels, cell in each_cell(dataset):
            varied = {name: text for name, text in labels.items() if dataset.sizes[name] > 1 and text != ABSENT}
            words = [text if name in METHODS else f"{name} = {text}" for name, text in varied.items()]
            yield ", ".join([result] * (len(results) > 1 or not words) + words), result, labels, cell


def placebo_pairs(results: Mapping[str, xr.Dataset]) -> list[tuple[str, str]]:
    """Return the names of each cell and of each of its placebos (``simlab.placebo``), which its result holds.

    All but the method is equal.
    """
    named = [(name, _paid(result, results[result], labels)) for name, result, labels, _ in _each_named_cell(results)]
    return [(named[arm][0], named[placebo][0]) for arm, placebo in pair([paid for _, paid in named])]


def _paid(result: str, dataset: xr.Dataset, labels: Mapping[str, str]) -> Paid:
    """Tell a cell's method from its setting: result, problem, group size, and all else that a sweep can vary."""
    configuration = json.loads(dataset.attrs["configuration"])
    parameters = list(configuration["parameters"])
    full = {short: name for name in parameters for short in (name.rpartition(".")[2], name.replace(".", "_"))}
    values = {"surrogate": ", ".join(configuration["surrogates"] or ())}
    values |= {name: str(configuration.get(name)) for name in ("problem", "optimizer")}
    values |= {name: plain(value) for name, value in json.loads(dataset.attrs.get("settled", "{}")).items()}
    values |= {full.get(name, name): text for name, text in labels.items() if text != ABSENT}
    reward = values.pop("run.reward", TRUE_REWARD)
    of_method = {name for name in values if name in METHODS or name.startswith(("estimator.", "surrogate."))}
    method = {(name, values[name]) for name in of_method if name in METHODS or name in parameters}
    setting = {(name, text) for name, text in values.items() if name not in of_method} | {("result", result)}
    return Paid(reward != TRUE_REWARD, frozenset(method), frozenset(setting))


def beside_placebos(results: Mapping[str, xr.Dataset], columns: Sequence[str]) -> list[str]:
    """Say of each cell if its last record is told from its placebos', by the first and the last rate of success.

    A rate of success is Q_pos or pass@k; where no column is one, by all columns. The results hold the columns.
    """
    last = {name: cell.isel({record_axis(cell): -1}) for name, cell in named_cells(results).items()}
    rates = [column for column in columns if column == "q_pos" or column.startswith("pass@")]
    shown = [rates[0], rates[-1]] if rates else columns
    return [beside_placebo(arm, placebo, last, shown) for arm, placebo in placebo_pairs(results)]


def beside_placebo(arm: str, placebo: str, cells: Mapping[str, xr.Dataset], columns: Sequence[str]) -> str:
    """Say in one sentence if a cell is told from a placebo by columns that are a number a seed, paired by seed."""
    ours, theirs = xr.align(cells[arm], cells[placebo], join="inner", exclude={"k", "rank"})
    more = {column: (ours[column] - theirs[column]).values for column in columns if ours.sizes["seed"]}
    differences = {column: Excess(signed(values), sign_of(values) != 0) for column, values in more.items()}
    return verdict(arm, placebo, differences, ours.sizes["seed"])


def curves(dataset: xr.Dataset, metric: str) -> dict[str, Curves]:
    """Return a metric, ``pass@K`` or a variable, against the rollouts that steps have drawn, by the cell's label."""
    columns = read_metric(dataset, metric)
    if list(columns) != [metric]:
        raise InputError(f"metric {metric!r} has several numbers a record; allowed: one, as pass@1 or q_pos")
    values = columns[metric]
    names = grid_dimensions(dataset)
    varied = [name for name in names if dataset.sizes[name] > 1] or names[:1]
    cells = Plan(Sweep.from_configuration(json.loads(dataset.attrs["configuration"]))).cells
    curves_by_label = {}
    for index in itertools.product(*(range(dataset.sizes[name]) for name in names)):
        cell = values.isel(dict(zip(names, index, strict=True))).transpose("seed", "step")
        rollouts = cells[index].problem.prompts_a_step(cells[index].settings) * cells[index].cell.group_size
        texts = {name: plain(cell[name].item()) for name in varied}
        label = ", ".join(text if name in ("estimator", "arm") else f"{name} = {text}" for name, text in texts.items())
        series, compute = np.asarray(cell.values, dtype=float), cell["step"].values[1:].astype(float) * rollouts
        curves_by_label[label] = Curves(cell["seed"].values, compute, series[:, 1:], series[:, 0])
    return curves_by_label
