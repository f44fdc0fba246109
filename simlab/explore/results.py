"""Open results for the page: describe their dimensions and variables, read slices, and list their controls."""

import math
import threading
from pathlib import Path
from typing import Any

import numpy as np

from simlab.errors import InputError, check_choice
from simlab.explore.controls import Control, rounded
from simlab.explore.result_files import BOUND, open_dataset
from simlab.text import shortened

MOST_FILES = 6
LONGEST_DIMENSION = 4096  # labels of a dimension on the page; of a longer one, places evenly apart
LARGEST_READ = 2**22  # values of one slice
AVERAGED = "seed"
ENTRIES = ("file", "variable", "across", "lines", "at")


class Result:
    """A sweep, a training run or a report; the file of a sweep is open and unread.

    Of a dimension longer than ``LONGEST_DIMENSION`` every n-th place is taken; ``every`` holds these n.

    Raises:
        InputError: for a file that cannot be opened or has no numbers.
    """

    def __init__(self, path: Path):
        self.name = path.name
        dataset = open_dataset(path)
        long = {name: size for name, size in dataset.sizes.items() if size > LONGEST_DIMENSION and name != AVERAGED}
        self.every = {str(name): math.ceil(size / LONGEST_DIMENSION) for name, size in long.items()}
        self.dataset = dataset.isel({name: slice(None, None, step) for name, step in self.every.items()})
        variables = {str(name): variable for name, variable in self.dataset.data_vars.items()}
        self.variables = {
            name: variable for name, variable in variables.items() if variable.dims and variable.dtype.kind in "fiub"
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
            return [float(self.every.get(name, 1) * place) for place in range(self.dataset.sizes[name])]
        labels = self.dataset[name].values
        return [float(label) if labels.dtype.kind in "fiu" else str(label) for label in labels]

    def slice(self, variable: str, across: str, lines: str, at: dict[str, Any]) -> dict[str, Any]:
        """Read means over seeds, or estimates with their intervals, along one or two dimensions.

        Args:
            variable: one of its variables.
            across: the dimension of the columns.
            lines: the dimension of the rows, or "" for one row.
            at: places in the other dimensions, counted from 0; 0 where a dimension is not named.

        Returns:
            (L, A) ``mean``, the ends ``low`` and ``high`` of its 95 % band (null for one seed), and the ``seeds``. Of a
            report these are an estimate, its variable interval, and no seeds.

        Raises:
            InputError: for an unknown name, a place outside, or more than ``LARGEST_READ`` values.
        """
        check_choice("variable", variable, sorted(self.variables))
        array = self.variables[variable]
        check_choice("across", across, array.dims)
        if lines:
            check_choice("lines", lines, [name for name in array.dims if name != across])
        shown = [lines, across] if lines else [across]
        averaged = [name for name in (AVERAGED, BOUND) if name in array.dims and name not in shown][:1]
        places = {name: self._place(str(name), at) for name in array.dims if name not in (*shown, *averaged)}
        selected = array.isel(places).transpose(*shown, *averaged)
        if selected.size > LARGEST_READ:
            raise InputError(f"{variable} has {selected.size} values there; allowed: up to {LARGEST_READ} at a time")
        depth = selected.shape[-1] if averaged else 1
        values = selected.values.astype(np.float64).reshape(-1 if lines else 1, array.sizes[across], depth)
        if averaged == [BOUND]:
            mean, low, high = np.moveaxis(values, -1, 0)
            return dict(rounded({"mean": mean, "low": low, "high": high, "seeds": 0}))
        return _summary(values)

    def _place(self, name: str, at: dict[str, Any]) -> int:
        place, size = at.get(name, 0), self.dataset.sizes[name]
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < size:
            raise InputError(f"{name} = {shortened(str(place))} is no place; allowed: 0 to {size - 1}")
        return place


def _summary(values: np.ndarray) -> dict[str, Any]:
    """Return mean and 95 % band of (L, A, seeds), over the seeds with a number."""
    finite = np.isfinite(values)
    count = finite.sum(axis=-1)
    sums = np.where(finite, values, 0.0).sum(axis=-1)
    mean = np.divide(sums, count, out=np.full(count.shape, np.nan), where=count > 0)
    scatter = np.where(finite, (values - mean[..., None]) ** 2, 0.0).sum(axis=-1)
    variance = np.divide(scatter, count * (count - 1.0), out=np.full(count.shape, np.nan), where=count > 1)
    half = 1.96 * np.sqrt(variance)
    return dict(rounded({"mean": mean, "low": mean - half, "high": mean + half, "seeds": values.shape[-1]}))


class Results:
    """The results that the command line names, and those dropped on the page; a request names them by number."""

    def __init__(self, paths: tuple[Path, ...] = ()):
        if len(paths) > MOST_FILES:
            raise InputError(f"{len(paths)} results are named; allowed: up to {MOST_FILES}")
        self.all = [Result(path) for path in paths]
        self.reading = threading.Lock()  # HDF5 takes one reader at a time

    def add(self, path: Path) -> int:
        """Open one result more; return its place.

        Raises:
            InputError: as ``Result`` does, and for more than ``MOST_FILES``.
        """
        with self.reading:
            if len(self.all) >= MOST_FILES:
                raise InputError(
                    f"{len(self.all)} results are open; allowed: up to {MOST_FILES}; start the explorer anew"
                )
            self.all.append(Result(path))
            return len(self.all) - 1

    def describe(self) -> list[dict[str, Any]]:
        """Return the description of each."""
        return [result.describe() for result in self.all]

    def answer(self, body: Any) -> dict[str, Any]:
        """Return the slice that a request names by ``ENTRIES``.

        Raises:
            InputError: for a request of another form, and as ``Result.slice`` does.
        """
        if not isinstance(body, dict):
            raise InputError(f"the request is no object; allowed: {', '.join(ENTRIES)}")
        for name in body:
            check_choice("entry", name, ENTRIES)
        number, at = body.get("file", 0), body.get("at", {})
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(self.all):
            raise InputError(f"file = {shortened(str(number))} is none that is open; allowed: 0 to {len(self.all) - 1}")
        if not isinstance(at, dict):
            raise InputError("at is no object; allowed: places by their dimensions")
        names = {name: body.get(name, "") for name in ("variable", "across", "lines")}
        for name, text in names.items():
            if not isinstance(text, str):
                raise InputError(f"{name} = {shortened(str(text))} is no text; allowed: a name")
        with self.reading:
            return self.all[number].slice(**names, at=at)


# Their controls

NONE = "none"
SCALES = ("linear", "logarithmic across", "logarithmic up", "logarithmic")
USUAL_COLUMNS = ("step", "cost", "evaluation", "k", "group_size")
USUAL_VARIABLES = ("q_pos", "pass_at_k")


def result_controls(results: list[dict[str, Any]]) -> list[Control]:
    """Return the controls of described results; dimensions become sliders over their places."""
    if not results:
        return []
    names = tuple(f"{number}: {result['name']}" for number, result in enumerate(results, start=1))
    variables = sorted({name for result in results for name in result["variables"]})
    first = results[0]["dimensions"]
    longest = {
        name: max((result["dimensions"].get(name, []) for result in results), key=len)
        for result in results
        for name in result["dimensions"]
    }
    variable = next((name for name in USUAL_VARIABLES if name in variables), variables[0])
    drawn = results[0]["variables"].get(variable, {"dimensions": [*first]})["dimensions"]
    across = next((name for name in USUAL_COLUMNS if name in drawn), drawn[-1])
    lines = next((name for name in drawn if name not in (across, AVERAGED, BOUND) and len(first[name]) > 1), NONE)

    def choice(name: str, label: str, default: str, choices: tuple[str, ...], help_text: str) -> Control:
        return Control(f"results.{name}", "choice", label, default, choices=choices, help=help_text)

    return [
        choice("file", "result", names[0], names, "the result that is drawn"),
        choice("second", "beside it", NONE, (NONE, *names), "another result, at the same place"),
        choice("variable", "variable", variable, tuple(variables), "the variable that is drawn"),
        choice("across", "across", across, tuple(longest), "the dimension of the x axis"),
        choice("lines", "lines", lines, (NONE, *longest), "a line for each label"),
        choice("view", "drawn as", "curves", ("curves", "map"), "a map has no bands"),
        choice("axes", "axes", SCALES[0], SCALES, "logarithms show numbers above 0"),
        *(
            Control(
                f"results.{name}", "whole", name, 0, 0, len(labels) - 1, choices=tuple(map(_text, labels)),
                help="the place in this dimension",
            )
            for name, labels in longest.items()
            if len(labels) > 1
        ),
    ]  # fmt: skip


def _text(label: float | str) -> str:
    return f"{label:g}" if isinstance(label, float) and math.isfinite(label) else str(label)
