"""Open results for the page: as labelled datasets, described, read in slices, and with controls of their own."""

import math
import shlex
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from simlab.diagnose.estimate import LEVEL
from simlab.diagnose.interference import mean_changes
from simlab.diagnose.interference_map import NOISE, short_text, sorted_moves
from simlab.diagnose.reading.files import PACKED, SUFFIXES, read_probe
from simlab.errors import InputError, check_choice
from simlab.explore.controls import Control, rounded
from simlab.interference import Record
from simlab.interference.record import FOLDER
from simlab.intervals import BAND_SEEDS, Bounds, change_of, sign_of, student, too_few
from simlab.llm.compare import Run, Training, read_run
from simlab.llm.compare.run_arms import measure_bounds
from simlab.llm.instruments.pass_at_k import unbiased_pass_at_k
from simlab.llm.training.folder import RUN
from simlab.reading import check_declared, read_json, reason

ALLOWED = (
    "a result of simlab sweep, a folder of simlab train or with measurements of a probe, "
    "or a report of simlab diagnose --json"
)
# Raised by h5py and xarray for a file that is none of theirs, or a damaged one.
FAILURES = (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError, IndexError)
MOST_K = 256  # pass@k is computed at every k up to it
BOUND, BOUNDS = "bound", ("estimate", "low", "high")
MOST = "valid_max"  # an attribute of NetCDF: what a variable can be at most
MOST_FILES = 6
LONGEST_DIMENSION = 4096  # labels of a dimension on the page; of a longer one, places evenly apart
LARGEST_READ = 2**22  # values of one slice
AVERAGED = "seed"
UNTOLD = {"told": False, "untold": ""}  # of a single line, or of numbers without seeds

Labels = dict[str, list[Any]]


def open_dataset(path: str | Path) -> xr.Dataset:
    """Open a result: the folder of a training run, the ``.json`` report of a diagnosis, or the file of a sweep.

    Measurements of a probe that are damaged are left out, with a line for each.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist; allowed: {ALLOWED}")
    if path.is_dir():
        near = [path, path.parent] if path.name == FOLDER else [path]
        records, damaged = ((), []) if (path / RUN).exists() else read_probe(near, [])
        if damaged and not records:
            raise InputError(f"{damaged[0]}; allowed: {ALLOWED}")
        for line in damaged:
            print(line, file=sys.stderr)
        return probe_dataset(records) if records else training_dataset(read_run(path))
    refuse_log(str(path))
    if path.suffix == ".json":
        return training_dataset(read_run(path.parent)) if path.name == RUN else report_dataset(path)
    try:
        check_declared(path)
        return xr.open_dataset(path, engine="h5netcdf", cache=False)
    except InputError:
        raise
    except FAILURES as error:
        raise InputError(f"{path} cannot be opened ({reason(error)}); allowed: {ALLOWED}") from None


def refuse_log(name: str) -> None:
    """Raise ``InputError`` for the name of a log, which another command reads."""
    if Path(name).suffix in {*SUFFIXES, *PACKED} - {".json"}:
        command = f"simlab diagnose {shlex.quote(name)}"
        raise InputError(f"{name} is named as a log, which {command} reads; allowed: {ALLOWED}")


def training_dataset(run: Run) -> xr.Dataset:
    """Return metrics over ``step`` and pass@k over ``evaluation``, by arm and seed; NaN where none is yet."""
    cells: dict[tuple[str, int], Training] = {
        (arm, seed): training for arm, seeds in run.arms.items() for seed, training in seeds.items()
    }
    labels: Labels = {"arm": [*run.arms], "seed": sorted({seed for _, seed in cells})}
    steps = sorted({int(step) for training in cells.values() for step in training.metrics["step"]})
    variables: dict[str, xr.DataArray] = {}
    for (arm, seed), training in cells.items():
        for name, values in training.metrics.items():
            if name != "step" and values.ndim == 1 and steps:
                variable = variables.setdefault(name, _empty({**labels, "step": steps}))
                variable.loc[{"arm": arm, "seed": seed, "step": training.metrics["step"]}] = values
    evaluations = [
        ({"arm": arm, "seed": seed, "evaluation": evaluation.step}, evaluation)
        for (arm, seed), training in cells.items()
        for evaluation in (*(run.starts[seed].evaluations if seed in run.starts else ()), *training.evaluations)
    ]
    if evaluations:
        ks = [*range(1, min(MOST_K, *(evaluation.samples for _, evaluation in evaluations)) + 1)]
        labels["evaluation"] = sorted({evaluation.step for _, evaluation in evaluations})
        passed, distinct = _empty({**labels, "k": ks}), _empty(labels)
        for cell, evaluation in evaluations:
            means = [float(unbiased_pass_at_k(evaluation.correct, evaluation.samples, k).mean()) for k in ks]
            passed.loc[cell], distinct.loc[cell] = means, evaluation.distinct.mean()
        passed.attrs["long_name"] = "pass@k, mean over problems"
        distinct.attrs["long_name"] = "different correct solutions of a problem"
        distinct.attrs[MOST] = max(evaluation.samples for _, evaluation in evaluations)
        variables |= {"pass_at_k": passed, "distinct": distinct}
    if not variables:
        raise InputError(f"{run.folder} has neither a step nor an evaluation yet; allowed: a run that has begun")
    return xr.Dataset(variables)


def _empty(coordinates: Labels) -> xr.DataArray:
    return xr.DataArray(np.full([len(labels) for labels in coordinates.values()], np.nan), coords=coordinates)


def probe_dataset(records: Sequence[Record]) -> xr.Dataset:
    """Return who moves whom, by ``source`` and ``target``, in the order in which ``sorted_moves`` has them.

    ``clear_change`` is 0 within a standard error; ``net_change`` of a target has the ends of its interval along
    ``BOUND``.
    """
    moves, changes = sorted_moves(records), mean_changes(records)
    ends = dict(zip(changes.prompts, changes.ends(LEVEL), strict=True))
    coordinates: Labels = {
        "source": [short_text(text) for text in moves.sources], "target": [short_text(text) for text in moves.targets],
    }  # fmt: skip
    words = "predicted change of a solve rate by a step"
    clear = np.where(np.isnan(moves.change) | (np.abs(moves.change) > NOISE * moves.error), moves.change, 0.0)
    net = xr.DataArray(
        [ends[text] for text in moves.targets],
        coords={"target": coordinates["target"], BOUND: [*BOUNDS]},
        attrs={"long_name": f"{words}, most in danger first"},
    )
    maps = {
        "clear_change": (clear, f"{words}, 0 within its error: worst first"),
        "change": (moves.change, words),
        "error": (moves.error, "its standard error"),
    }
    drawn = {
        name: xr.DataArray(values, coords=coordinates, attrs={"long_name": text})
        for name, (values, text) in maps.items()
    }
    return xr.Dataset(drawn | {"net_change": net})


GROUP_CURVES = {
    "dead_groups": ("dead", "share of groups that teach nothing"),
    "all_right": ("all_right", "share of groups that are all right"),
    "all_wrong": ("all_wrong", "share of groups that are all wrong"),
    "effective_prompts": ("effective_prompts", "prompts of a step that teach"),
}
SPLIT_CURVES = {"teaching_groups": "teaching", "groups_holding_the_typical_solution": "holding"}


def report_dataset(path: Path) -> xr.Dataset:
    """Return the curves of a report, each with its estimate and the ends of its interval along ``BOUND``."""
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
        other = f"simlab diagnose {shlex.quote(str(path))} reads a log"
        raise InputError(f"{path} is no report of a diagnosis ({error}); allowed: {ALLOWED}; {other}") from None


def _curve(rows: list[dict[str, Any]], key: str, along: str, words: str) -> xr.DataArray:
    values = np.array([[row[key][name] for name in ("value", "low", "high")] for row in rows], dtype=float)
    coordinates: Labels = {along: [row[along] for row in rows], BOUND: [*BOUNDS]}
    return xr.DataArray(values, coords=coordinates, attrs={"long_name": words})


# Slices


class Result:
    """A result that is open; of a dimension longer than ``LONGEST_DIMENSION`` every n-th place is taken, ``every``."""

    def __init__(self, path: Path):
        self.name = path.name
        dataset = open_dataset(path)
        long = {name: size for name, size in dataset.sizes.items() if size > LONGEST_DIMENSION and name != AVERAGED}
        self.every = {str(name): math.ceil(size / LONGEST_DIMENSION) for name, size in long.items()}
        self.dataset = dataset.isel({name: slice(None, None, step) for name, step in self.every.items()})
        self.variables = {
            str(name): variable
            for name, variable in self.dataset.data_vars.items()
            if variable.dims and variable.dtype.kind in "fiub"
        }
        if not self.variables:
            raise InputError(f"{path} holds no variable of numbers with a dimension; allowed: a result with one")
        used = {str(name) for variable in self.variables.values() for name in variable.dims}
        self.dimensions = [str(name) for name in self.dataset.dims if name in used]

    def describe(self) -> dict[str, Any]:
        """Return its ``name``, the labels of its ``dimensions``, every how many are taken, and its ``variables``."""
        return {
            "name": self.name,
            "every": self.every,
            "dimensions": {name: self._labels(name) for name in self.dimensions},
            "variables": {
                name: {
                    "dimensions": [str(dimension) for dimension in variable.dims],
                    "units": str(variable.attrs.get("units", "1")),
                    "description": str(variable.attrs.get("long_name", name)),
                }
                for name, variable in self.variables.items()
            },
        }

    def _labels(self, name: str) -> list[float | str]:
        if name not in self.dataset.coords:
            return [float(self.every.get(name, 1) * index) for index in range(self.dataset.sizes[name])]
        labels = self.dataset[name].values
        return [float(label) if labels.dtype.kind in "fiu" else str(label) for label in labels]

    def slice(self, variable: str, across: str, lines: str, at: dict[str, Any]) -> dict[str, Any]:
        """Read (L, A) means over seeds with 95 % bands, or estimates with intervals; ``at`` has places elsewhere.

        Two or three seeds have no band, but themselves, as ``each`` (L, S, A). ``told`` is whether the last numbers of
        the highest and the lowest line differ by more than seeds do, and ``untold`` why they do not.
        """
        check_choice("variable", variable, sorted(self.variables))
        array = self.variables[variable]
        check_choice("across", across, array.dims)
        if lines:
            check_choice("lines", lines, [name for name in array.dims if name != across])
        shown = [lines, across] if lines else [across]
        averaged = [name for name in (AVERAGED, BOUND) if name in array.dims and name not in shown][:1]
        places = {name: at.get(str(name), 0) for name in array.dims if name not in (*shown, *averaged)}
        selected = array.isel(places).transpose(*shown, *averaged)
        if selected.size > LARGEST_READ:
            raise InputError(f"{variable} has {selected.size} values there; allowed: up to {LARGEST_READ} at a time")
        depth = selected.shape[-1] if averaged else 1
        values = selected.values.astype(np.float64).reshape(-1 if lines else 1, array.sizes[across], depth)
        if averaged == [BOUND]:
            mean, low, high = np.moveaxis(values, -1, 0)
            return dict(rounded({"mean": mean, "low": low, "high": high, "each": [], "seeds": 0})) | UNTOLD
        bounds = measure_bounds(variable, values, array.attrs.get(MOST, np.inf))
        return _summary(values, bounds) | ({} if averaged else UNTOLD)


def _summary(values: Float[np.ndarray, "L A S"], bounds: Bounds) -> dict[str, Any]:
    finite = np.isfinite(values)
    count = finite.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(finite, values, 0.0).sum(axis=-1) / count
        scatter = np.where(finite, (values - mean[..., None]) ** 2, 0.0).sum(axis=-1)
        low, high = student(mean, np.sqrt(scatter / (count * (count - 1.0))), count, bounds)
    seeds = values.shape[-1]
    low, high = (np.where(count >= BAND_SEEDS, end, np.nan) for end in (low, high))
    each = values.swapaxes(1, 2) if 1 < seeds < BAND_SEEDS else values[:0]
    numbers = {"mean": mean, "low": low, "high": high, "each": each, "seeds": seeds}
    return dict(rounded(numbers)) | _told_by_seeds(values, mean, bounds)


def _told_by_seeds(
    values: Float[np.ndarray, "L A S"], mean: Float[np.ndarray, "L A"], bounds: Bounds
) -> dict[str, Any]:
    """Return if the highest and the lowest line end apart, paired by seed, and else why that is not told."""
    lines = [row for row in range(len(mean)) if np.isfinite(mean[row]).any()]
    last = {row: int(np.flatnonzero(np.isfinite(mean[row]))[-1]) for row in lines}
    if len(lines) < 2:
        return UNTOLD
    low, high = (pick(lines, key=lambda row: mean[row, last[row]]) for pick in (min, max))
    differences = values[high, last[high]] - values[low, last[low]]
    differences = differences[np.isfinite(differences)]
    told = sign_of(differences, change_of(bounds)) != 0
    few = len(differences) < BAND_SEEDS
    why = too_few(len(differences), "which ends highest") if few else "these seeds do not tell one from another"
    return {"told": told, "untold": "" if told else why}


class Results:
    """The results that the command line names, and those dropped on the page; a request names them by number."""

    def __init__(self, paths: tuple[Path, ...] = ()):
        if len(paths) > MOST_FILES:
            raise InputError(f"{len(paths)} results are named; allowed: up to {MOST_FILES}")
        self.all = [Result(path) for path in paths]
        self.reading = threading.Lock()  # HDF5 takes one reader at a time

    def add(self, path: Path) -> int:
        """Open one result more; return its place."""
        with self.reading:
            if len(self.all) >= MOST_FILES:
                raise InputError(f"{MOST_FILES} results are open; allowed: no more; start the explorer anew")
            self.all.append(Result(path))
            return len(self.all) - 1

    def describe(self) -> list[dict[str, Any]]:
        """Return the description of each."""
        return [result.describe() for result in self.all]

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the ``Result.slice`` that a request names, of the result with the number ``file``."""
        with self.reading:
            result: Result = self.all[body.get("file", 0)]
            return result.slice(body["variable"], body["across"], body.get("lines", ""), body.get("at", {}))


# Controls

NONE = "none"
SCALES = ("linear", "logarithmic across", "logarithmic up", "logarithmic")
USUAL_COLUMNS = ("step", "cost", "evaluation", "k", "group_size")
USUAL_VARIABLES = ("q_pos", "pass_at_k", "clear_change")


def result_controls(results: list[dict[str, Any]]) -> list[Control]:
    """Return the controls of described results; dimensions become sliders over their places."""
    if not results:
        return []
    names = tuple(f"{number}: {result['name']}" for number, result in enumerate(results, start=1))
    variables = sorted({name for result in results for name in result["variables"]})
    first = results[0]["dimensions"]
    longest: dict[str, list[float | str]] = {}
    for result in results:
        for name, labels in result["dimensions"].items():
            longest[name] = max(longest.get(name, []), labels, key=len)
    variable = next((name for name in USUAL_VARIABLES if name in variables), variables[0])
    drawn = results[0]["variables"].get(variable, {"dimensions": [*first]})["dimensions"]
    across = next((name for name in USUAL_COLUMNS if name in drawn), drawn[-1])
    lines = next((name for name in drawn if name not in (across, AVERAGED, BOUND) and len(first[name]) > 1), NONE)

    is_of_words = lines != NONE and all(isinstance(label, str) for name in (across, lines) for label in first[name])

    def text(label: float | str) -> str:
        return f"{label:g}" if isinstance(label, float) and math.isfinite(label) else str(label)

    choices = (
        ("file", "result", names[0], names, "the result that is drawn"),
        ("second", "beside it", NONE, (NONE, *names), "another result, at the same place"),
        ("variable", "variable", variable, tuple(variables), "the variable that is drawn"),
        ("across", "across", across, tuple(longest), "the dimension of the x axis"),
        ("lines", "lines", lines, (NONE, *longest), "a line for each label"),
        ("view", "drawn as", "map" if is_of_words else "curves", ("curves", "map"), "a map has no bands"),
        ("axes", "axes", SCALES[0], SCALES, "logarithms show numbers above 0"),
    )
    controls = [
        Control(f"results.{name}", "choice", label, default, choices=allowed, help=help_text)
        for name, label, default, allowed, help_text in choices
    ]
    for name, labels in longest.items():
        if len(labels) > 1:
            controls.append(Control(
                f"results.{name}", "whole", name, 0, 0, len(labels) - 1, choices=tuple(map(text, labels)),
                help="the place in this dimension",
            ))  # fmt: skip
    return controls
