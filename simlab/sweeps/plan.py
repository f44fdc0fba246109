"""Plan a sweep: resolve each cell once, and cut the runs into units that are kept and batches that run together."""

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from simlab.constructors import is_file
from simlab.errors import InputError
from simlab.fingerprint import Unhashable, own_source
from simlab.identity import code_fingerprint, commit, versions
from simlab.own_files import file_of, source_of
from simlab.problems.base import Problem
from simlab.problems.registry import problem
from simlab.simulator.checks import check
from simlab.simulator.dataset import labels_of
from simlab.simulator.metrics import Metric
from simlab.simulator.resources import batch_size, resolved
from simlab.simulator.settings import Settings, StaticSettings
from simlab.sweeps.grid import Cell, Sweep

USUAL_TOP_N = 5
MOST_PROBLEMS = 4  # that a plan holds at once


class Work(NamedTuple):
    """Runs of one problem that one call simulates, and what to call them in a message.

    ``settings`` and ``seeds`` are those of each run; ``own`` and ``files`` are as in ``Resolved``.
    """

    name: str
    problem: Problem
    settings: tuple[Settings, ...]
    seeds: tuple[int, ...]
    steps: np.ndarray
    own: str | None
    files: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Resolved:
    """A cell with all that its runs need.

    Attributes:
        cell: the cell of the grid.
        build: makes the problem that is learned, or gives the one that it has made a moment ago.
        fingerprint: the fingerprint of the problem.
        settings: how it is learned, with a storage in place of "auto".
        own: a fingerprint of the user's own code in it; None if all of it is the library's.
        files: SHA-256 of the user's files that are named in it, by ``FILE.py:NAME``.
        taken: (R,) how many steps its runs have taken at each record after that of the start: 0 where a budget does not
            pay for one yet.
        step_cost: what a step costs where there is a budget.
    """

    cell: Cell
    build: Callable[[], Problem]
    fingerprint: str
    settings: Settings
    own: str | None
    files: Mapping[str, str]
    taken: np.ndarray
    step_cost: float | None = None

    @functools.cached_property
    def steps(self) -> np.ndarray:
        """The different steps that are recorded, without step 0."""
        return np.unique(self.taken[self.taken > 0])

    @property
    def rows(self) -> np.ndarray:
        """(R + 1,) which of the records of a run, of step 0 and of ``steps``, stands at each record of the result."""
        return np.searchsorted(self.steps, np.append(0, self.taken), side="right")

    @property
    def problem(self) -> Problem:
        """What is learned."""
        return self.build()

    @functools.cached_property
    def program(self) -> tuple[StaticSettings, str, bytes]:
        """What the runs of a batch have in common: the settings that shape a program, the problem, and the steps."""
        return self.settings.static, self.fingerprint, self.steps.tobytes()

    @property
    def identity(self) -> dict[str, Any]:
        """All that the numbers of its runs depend on beside seed, platform and the library's code."""
        arm, settings = self.cell.arm, self.settings
        return {
            "method": [str(arm.without_floats()), arm.floats, self.cell.group_size],
            "parameters": {name: self.cell.parameters[name] for name in ("optimizer", "run")},
            "settings": [settings.optimizer, settings.pass_at_k, settings.top_n, settings.dtype, settings.storage],
            # What the problem is, not only its name: a file of logits may have changed.
            "problem": self.fingerprint,
            "own": [self.own, self.files],
            "steps": _sha256(_text(self.steps.tolist())),
        }


@dataclass(frozen=True, eq=False)
class Unit:
    """A block of seeds of one cell: the work that is done, kept or lost as a whole.

    ``name`` is a hash of all that its numbers depend on; ``index`` is where its cell lies in the grid.
    """

    index: tuple[int, ...]
    resolved: Resolved
    seeds: range
    name: str


class Plan:
    """A sweep with its cells resolved.

    Attributes:
        sweep: what is planned.
        cells: by index along the dimensions of the sweep, those of one problem after the other. Cells that are equal
            are one object.
        metrics: what every cell records.
        labels: the labels of the dimensions that metrics may have.
        distinct: the cells, each once.

    Raises:
        InputError: for a cell that cannot run, the user's code that cannot be told from another, and cells whose
            records do not fit into one result.
    """

    def __init__(self, sweep: Sweep):
        self.sweep = sweep
        self._texts: dict[str, str] = {}
        self._own: dict[tuple[str, type], str | None] = {}
        # All problems of a sweep together may be larger than the memory: the last few are kept.
        self._problem = functools.lru_cache(MOST_PROBLEMS)(lambda given: problem(sweep.problem, **dict(given)))
        by_problem: dict[tuple[Any, ...], dict[tuple[int, ...], Cell]] = {}
        for index, cell in sweep.cells():
            by_problem.setdefault(tuple(cell.parameters["problem"].items()), {})[index] = cell
        top_n = sweep.top_n
        if top_n is None:
            top_n = min(USUAL_TOP_N, *(self._problem(given).actions for given in by_problem))
        known: dict[str, Resolved] = {}
        self.cells: dict[tuple[int, ...], Resolved] = {}
        for given, cells in by_problem.items():
            for index, cell in cells.items():
                key = _text([str(cell.arm), cell.group_size, cell.parameters])
                if key not in known:
                    known[key] = self._resolved(cell, functools.partial(self._problem, given), top_n)
                self.cells[index] = known[key]
        self.distinct = list(known.values())
        first = self.distinct[0]
        self.metrics: Sequence[Metric] = first.problem.metrics
        self.labels = _labels(first)
        self._check_alike()

    def _resolved(self, cell: Cell, build: Callable[[], Problem], top_n: int) -> Resolved:
        sweep, made = self.sweep, build()
        settings = Settings(
            cell.arm,
            cell.group_size,
            optimizer=sweep.optimizer,
            optimizer_parameters=cell.parameters["optimizer"],
            pass_at_k=sweep.pass_at_k,
            top_n=top_n,
            dtype=sweep.dtype,
            storage=sweep.storage,
            **cell.parameters["run"],
        )
        taken, step_cost = self._taken(cell, made, settings)
        settings = resolved(made, settings, int(taken[-1]))
        check(made, settings)
        key = str(cell.arm), type(made)
        if key not in self._own:
            self._own[key] = own_code(cell.name, made, settings)
        return Resolved(cell, build, made.fingerprint, settings, self._own[key], self._files(cell), taken, step_cost)

    def _taken(self, cell: Cell, problem: Problem, settings: Settings) -> tuple[np.ndarray, float | None]:
        """How many steps the runs of a cell have taken at each record, and what a step costs if there is a budget."""
        recorded, budget = self.sweep.recorded_steps(), self.sweep.budget
        if recorded is not None:
            return recorded, None
        assert budget
        cost = budget.step_cost(problem, settings)
        return budget.steps_taken(cost, f"{cell.name} at group size {cell.group_size}"), float(cost)

    def _files(self, cell: Cell) -> dict[str, str]:
        named = [*cell.arm.files, *([self.sweep.problem] if is_file(self.sweep.problem) else [])]
        self._texts |= {file_of(name): source_of(name) for name in named}
        return {name: digest(name) for name in named}

    def _check_alike(self) -> None:
        """Raise ``InputError`` unless all cells record the same metrics with the same labels."""
        names = [metric.name for metric in self.metrics]
        for cell in self.distinct[1:]:
            if _labels(cell) != self.labels or [one.name for one in cell.problem.metrics] != names:
                raise InputError(
                    "the problems of this sweep differ in what they record, or in its labels; allowed: a sweep for each"
                )

    @property
    def records(self) -> int:
        """How many records of a run the result has, with that of the start."""
        return len(self.distinct[0].taken) + 1

    @property
    def dimension_labels(self) -> dict[str, str]:
        """The names of the grid's dimensions in the result, see ``Sweep.labels``."""
        return self.sweep.labels({name for metric in self.metrics for name in metric.dimensions})

    def manifest(self, made_by: Mapping[str, Any]) -> dict[str, Any]:
        """What identifies the sweep and who makes it: configuration, ``own`` and ``maker``."""
        return {"configuration": self.sweep.configuration(), **self.own(), **made_by}

    def own(self) -> dict[str, dict[str, Any]]:
        """The user's own code: its fingerprints by method, and SHA-256 and text of its files by their paths."""
        found: dict[str, set[str]] = {}
        for one in self.distinct:
            if one.own is not None:
                found.setdefault(one.cell.name, set()).add(one.own)
        codes = {name: sorted(own) for name, own in found.items()}
        files = {file: _sha256(text) for file, text in self._texts.items()}
        return {"own": codes, "files": files, "texts": self._texts}

    def units(self, code: str, platform: str) -> list[Unit]:
        """The units, as made by some code on some platform."""
        found = []
        for index, one in self.cells.items():
            size = batch_size(one.problem, one.settings, platform)
            shared = {"made by": [code, platform], **one.identity}
            for first in range(0, self.sweep.seeds, size):
                seeds = range(first, min(first + size, self.sweep.seeds))
                name = _sha256(_text(shared | {"seeds": [seeds.start, seeds.stop]}))[:24]
                found.append(Unit(index, one, seeds, name))
        return found

    def work(self, units: Sequence[Unit]) -> Work:
        """The runs of units that one program computes."""
        one = units[0].resolved
        runs = [(unit.resolved.settings, seed) for unit in units for seed in unit.seeds]
        settings, seeds = zip(*runs, strict=True)
        name = f"{one.cell.name} at group size {one.cell.group_size}"
        return Work(name, one.problem, settings, seeds, one.steps, one.own, one.files)


def batches(units: Sequence[Unit], platform: str) -> Iterator[list[Unit]]:
    """Units to run in one call: cells of one program share a batch of runs that one of them would not fill.

    All batches of a program come one after the other, so that it is compiled once and then forgotten.
    """
    alike: dict[Any, list[Unit]] = {}
    for unit in units:
        alike.setdefault(unit.resolved.program, []).append(unit)
    for some in alike.values():
        size = batch_size(some[0].resolved.problem, some[0].resolved.settings, platform)
        batch: list[Unit] = []
        for unit in some:
            if sum(len(other.seeds) for other in batch) + len(unit.seeds) > size:
                yield batch
                batch = []
            batch.append(unit)
        yield batch


def own_code(name: str, problem: Problem, settings: Settings) -> str | None:
    """A fingerprint of the user's own code in a method or the type of a problem; None if all of it is the library's.

    Raises:
        InputError: for code, or what it holds, that cannot be told from another: its numbers could not be reused.
    """
    try:
        found = settings.user_code(), own_source(type(problem))
    except Unhashable as error:
        allowed = "allowed: functions, classes, numbers, arrays, what can be pickled"
        raise InputError(f"{name}: {error}; {allowed}") from None
    return " ".join(filter(None, found)) or None


def digest(reference: str) -> str:
    """The SHA-256 of the file that ``FILE.py:NAME`` is in, as it was run.

    Raises:
        InputError: as ``simlab.own_files.load``.
    """
    return _sha256(source_of(reference))


def maker() -> dict[str, Any]:
    """Who makes the numbers of this process: code, platform, versions and commit."""
    return {"code": code_fingerprint(), "platform": jax.default_backend(), "versions": versions(), "commit": commit()}


def _labels(one: Resolved) -> dict[str, list[Any]]:
    return {name: list(labels) for name, labels in labels_of(one.problem, one.settings).items()}


def _text(data: Any) -> str:
    return json.dumps(data, sort_keys=True)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
