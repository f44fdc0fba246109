"""Open results for the page: say what is in them, and read slices of bounded size."""

import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from simlab.errors import InputError, check_choice
from simlab.explore.bounded import check_plain
from simlab.explore.opened import BOUND, open_dataset
from simlab.text import shortened

MOST_FILES = 6
LONGEST_DIMENSION = 4096  # labels of a dimension that the page is told; of a longer one, places evenly apart
LARGEST_READ = 2**22  # values of one slice
AVERAGED = "seed"
ENTRIES = ("file", "variable", "across", "lines", "at")


class Result:
    """A sweep, a training run or a report; the file of a sweep is open and unread.

    Of a dimension longer than ``LONGEST_DIMENSION`` every n-th place is taken; ``every`` holds these n.

    Raises:
        InputError: for a file that cannot be opened, has no numbers, or more seeds than ``LONGEST_DIMENSION``.
    """

    def __init__(self, path: Path):
        self.name = path.name
        self.dataset, self.every = _thinned(open_dataset(path))
        self.variables = {
            str(name): own for name, own in self.dataset.data_vars.items() if own.dims and own.dtype.kind in "fiub"
        }
        if not self.variables:
            raise InputError(f"{path} holds no variable of numbers with a dimension; allowed: a result with one")
        self.dimensions = sorted({str(name) for own in self.variables.values() for name in own.dims}, key=self._place)
        if (seeds := self.dataset.sizes.get(AVERAGED, 0)) > LONGEST_DIMENSION:
            raise InputError(f"{path}: {AVERAGED} has {seeds} values; allowed: up to {LONGEST_DIMENSION}")

    def _place(self, name: str) -> int:
        return list(self.dataset.dims).index(name)

    def described(self) -> dict[str, Any]:
        """Its ``name``, the labels of its ``dimensions``, every how many are taken, and what its ``variables`` are."""
        return {
            "name": self.name,
            "every": self.every,
            "dimensions": {name: self._labels(name) for name in self.dimensions},
            "variables": {
                name: {
                    "dimensions": [str(dimension) for dimension in own.dims],
                    "units": str(own.attrs.get("units", "1")),
                    "description": str(own.attrs.get("long_name", name)),
                }
                for name, own in self.variables.items()
            },
        }

    def _labels(self, name: str) -> list[float | str]:
        if name not in self.dataset.coords:
            return [float(self.every.get(name, 1) * place) for place in range(self.dataset.sizes[name])]
        labels = self.dataset[name].values
        return [float(label) if labels.dtype.kind in "fiu" else str(label) for label in labels]

    def slice(self, variable: str, across: str, lines: str, at: dict[str, Any]) -> dict[str, Any]:
        """Means over seeds, or estimates with their intervals, along one or two dimensions at one place of each other.

        Args:
            variable: one of its variables.
            across: the dimension of the columns.
            lines: the dimension of the rows, or "" for one row.
            at: places in the other dimensions, counted from 0; 0 where a dimension is not named.

        Returns:
            (L, A) ``mean``, the ends ``low`` and ``high`` of its 95 % band (null for one seed), and the ``seeds``. Of a
            report these are an estimate, its own interval, and no seeds.

        Raises:
            InputError: for an unknown name, a place outside, or more than ``LARGEST_READ`` values.
        """
        own = self._variable(variable)
        check_choice("across", across, own.dims)
        kept = [lines, across] if lines else [across]
        if lines:
            check_choice("lines", lines, [name for name in own.dims if name != across])
        averaged = [name for name in (AVERAGED, BOUND) if name in own.dims and name not in kept][:1]
        places = {name: self._checked_place(str(name), at) for name in own.dims if name not in (*kept, *averaged)}
        values = own.isel(places).transpose(*kept, *averaged)
        if values.size > LARGEST_READ:
            raise InputError(f"{variable} has {values.size} values there; allowed: up to {LARGEST_READ} at a time")
        read = values.values.astype(np.float64).reshape(
            -1 if lines else 1, own.sizes[across], values.shape[-1] if averaged else 1
        )
        return _interval(read) if averaged == [BOUND] else _summary(read)

    def _variable(self, name: str) -> xr.DataArray:
        check_choice("variable", name, sorted(self.variables))
        return self.variables[name]

    def _checked_place(self, name: str, at: dict[str, Any]) -> int:
        place, size = at.get(name, 0), self.dataset.sizes[name]
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < size:
            raise InputError(f"{name} = {shortened(str(place))} is no place; allowed: 0 to {size - 1}")
        return place


def _thinned(dataset: xr.Dataset) -> tuple[xr.Dataset, dict[str, int]]:
    """Places evenly apart of too long dimensions, unread, and how far apart; seeds are averaged over, and stay."""
    long = {name: size for name, size in dataset.sizes.items() if size > LONGEST_DIMENSION and name != AVERAGED}
    every = {str(name): math.ceil(size / LONGEST_DIMENSION) for name, size in long.items()}
    return dataset.isel({name: slice(None, None, step) for name, step in every.items()}), every


def _summary(values: np.ndarray) -> dict[str, Any]:
    """Mean and 95 % band of (L, A, seeds), of those seeds that are there."""
    there = np.isfinite(values)
    count = there.sum(axis=-1)
    filled = np.where(there, values, 0.0)
    mean = np.divide(filled.sum(axis=-1), count, out=np.full(count.shape, np.nan), where=count > 0)
    scatter = np.where(there, (filled - mean[..., None]) ** 2, 0.0).sum(axis=-1)
    error = np.divide(scatter, count * (count - 1.0), out=np.full(count.shape, np.nan), where=count > 1)
    half = 1.96 * np.sqrt(error)
    return {"mean": _listed(mean), "low": _listed(mean - half), "high": _listed(mean + half), "seeds": values.shape[-1]}


def _interval(values: np.ndarray) -> dict[str, Any]:
    """The estimate and its interval of (L, A, 3), as ``simlab.explore.opened`` orders them."""
    mean, low, high = np.moveaxis(values, -1, 0)
    return {"mean": _listed(mean), "low": _listed(low), "high": _listed(high), "seeds": 0}


def _listed(values: np.ndarray) -> list[list[float | None]]:
    return [[float(f"{value:.6g}") if np.isfinite(value) else None for value in row] for row in values]


class Results:
    """The results that the command line names, and those dropped on the page; a request names them by number."""

    def __init__(self, paths: tuple[Path, ...] = ()):
        if len(paths) > MOST_FILES:
            raise InputError(f"{len(paths)} results are named; allowed: up to {MOST_FILES}")
        self.all = [Result(path) for path in paths]
        self.reading = threading.Lock()  # HDF5 takes one reader at a time

    def check_room(self) -> None:
        """Refuse one result more than ``MOST_FILES``."""
        if len(self.all) >= MOST_FILES:
            raise InputError(f"{len(self.all)} results are open; allowed: up to {MOST_FILES}; start the explorer anew")

    def add(self, path: Path) -> int:
        """Open one result more; returns its place.

        Raises:
            InputError: as ``Result`` does, and for more than ``MOST_FILES``.
        """
        self.check_room()
        with self.reading:
            self.all.append(Result(path))
        return len(self.all) - 1

    def described(self) -> list[dict[str, Any]]:
        """What is in each."""
        return [one.described() for one in self.all]

    def answer(self, body: Any) -> dict[str, Any]:
        """The slice that a request asks for.

        Raises:
            InputError: for a request of another form, and as ``Result.slice`` does.
        """
        if not isinstance(body, dict):
            raise InputError(f"the request is no object; allowed: {', '.join(ENTRIES)}")
        for name in body:
            check_choice("entry", name, ENTRIES)
        file, at = body.get("file", 0), body.get("at", {})
        if isinstance(file, bool) or not isinstance(file, int) or not 0 <= file < len(self.all):
            raise InputError(f"file = {shortened(str(file))} is none that is open; allowed: 0 to {len(self.all) - 1}")
        texts = [body.get(name, "") for name in ("variable", "across", "lines")]
        for name, text in zip(("variable", "across", "lines"), texts, strict=True):
            check_plain(name, text, "a text")
        if not isinstance(at, dict):
            raise InputError("at is no object; allowed: places by their dimensions")
        variable, across, lines = map(str, texts)
        with self.reading:
            return self.all[file].slice(variable, across, lines, at)
