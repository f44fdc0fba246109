"""Plan a sweep: resolve each cell once, and cut the runs into units that are kept and batches that run together."""

import contextlib
import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import numpy as np

from simlab.constructors import is_file
from simlab.errors import InputError
from simlab.fingerprint import Unhashable, own_source
from simlab.identity import code_fingerprint, commit, versions
from simlab.methods import Method
from simlab.own_files import file_of, opened_files, source_of
from simlab.problems.base import Problem
from simlab.problems.registry import problem
from simlab.rollouts import TOKEN_FIELDS, Rollouts
from simlab.simulator.resources import batch_size, resolved
from simlab.simulator.runner import check, labels_of
from simlab.simulator.settings import Settings, StaticSettings
from simlab.sweeps.grid import Cell, Sweep

USUAL_TOP_N = 5
MOST_PROBLEMS = 4  # that a plan holds at once


class Work(NamedTuple):
    """Runs of one problem that one call simulates; ``user_code`` and ``files`` are as in ``Resolved``."""

    name: str
    problem: Problem
    settings: tuple[Settings, ...]
    seeds: tuple[int, ...]
    steps: np.ndarray
    user_code: str | None
    files: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Resolved:
    """A cell with all that its runs need."""

    cell: Cell
    build: Callable[[], Problem]  # makes the problem, or returns the one that it made a moment ago
    fingerprint: str  # of the problem
    settings: Settings  # with a storage in place of "auto"
    user_code: str | None  # a fingerprint of the user's code in it; None if all of it is the library's
    files: Mapping[str, str]  # SHA-256 of the user's files that it names, by ``FILE.py:NAME``
    opened: Mapping[str, str]  # SHA-256 of the files that these open, by path
    steps_taken: np.ndarray  # (R,) at each record after that of the start: 0 where a budget does not pay for one yet
    step_cost: Fraction = Fraction(0)  # 0 without a budget

    @functools.cached_property
    def steps(self) -> np.ndarray:
        """Return the different steps that are recorded, without step 0."""
        return np.unique(self.steps_taken[self.steps_taken > 0])

    @property
    def rows(self) -> np.ndarray:
        """Return (R + 1,) the record of a run, of step 0 and ``steps``, for each record of the result."""
        return np.searchsorted(self.steps, np.append(0, self.steps_taken), side="right")

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self.build()

    @property
    def labels(self) -> dict[str, list[Any]]:
        """Return the labels of the dimensions that metrics may have."""
        return {name: list(labels) for name, labels in labels_of(self.problem, self.settings).items()}

    @functools.cached_property
    def program(self) -> tuple[StaticSettings, str, bytes]:
        """Return what the runs of a batch share: the settings that shape a program, the problem, and the steps."""
        return self.settings.static, self.fingerprint, self.steps.tobytes()

    @property
    def identity(self) -> dict[str, Any]:
        """Return all that determines the numbers of its runs, except seed, platform and the library's code."""
        arm, settings = self.cell.arm, self.settings
        return {
            "method": [str(arm.without_floats()), arm.floats, self.cell.group_size],
            "parameters": {name: self.cell.parameters[name] for name in ("optimizer", "run")},
            "settings": [settings.optimizer, settings.pass_at_k, settings.top_n, settings.dtype, settings.storage],
            # Its content, not only its name: a file of logits may have changed.
            "problem": self.fingerprint,
            "own": [self.user_code, self.files, self.opened],
            "steps": _sha256(_text(self.steps.tolist())),
        }


@dataclass(frozen=True, eq=False)
class Unit:
    """A block of seeds of the cell at ``index``; ``name`` is a hash of all that its numbers depend on."""

    index: tuple[int, ...]
    resolved: Resolved
    seeds: range
    name: str


class Plan:
    """A sweep with its cells resolved.

    Attributes:
        cells: by index along the dimensions of the sweep, one problem after the other. Equal cells are one object.
        distinct: the cells, each once.
        metrics, labels: the metrics that every cell records, and the labels of the dimensions that these may have.
        records: the number of records of a run, with that of the start.

    Raises: InputError: for a cell that cannot run, user code that cannot be hashed, and cells whose records differ in
    shape.
    """

    def __init__(self, sweep: Sweep):
        self.sweep = sweep
        self._texts: dict[str, str] = {}
        self._opened: dict[str, str] = {}
        self._user_code: dict[tuple[str, type], str | None] = {}
        # All problems of a sweep together may be larger than the memory: the last few are kept.
        make = functools.lru_cache(MOST_PROBLEMS)(lambda parameters: problem(sweep.problem, **dict(parameters)))
        by_problem: dict[tuple[Any, ...], dict[tuple[int, ...], Cell]] = {}
        for index, cell in sweep.cells():
            by_problem.setdefault(tuple(cell.parameters["problem"].items()), {})[index] = cell
        top_n = sweep.top_n
        if top_n is None:
            top_n = min(USUAL_TOP_N, *(make(parameters).actions for parameters in by_problem))
        resolved_cells: dict[str, Resolved] = {}
        self.cells: dict[tuple[int, ...], Resolved] = {}
        for parameters, cells in by_problem.items():
            for index, cell in cells.items():
                key = _text([str(cell.arm), cell.group_size, cell.parameters])
                if key not in resolved_cells:
                    resolved_cells[key] = self._resolve(cell, functools.partial(make, parameters), top_n)
                self.cells[index] = resolved_cells[key]
        self.distinct = list(resolved_cells.values())
        first = self.distinct[0]
        self.metrics, self.labels, self.records = first.problem.recorded, first.labels, len(first.steps_taken) + 1
        names = [metric.name for metric in self.metrics]
        for other in self.distinct[1:]:
            if other.labels != self.labels or [metric.name for metric in other.problem.recorded] != names:
                raise InputError(
                    "the problems of this sweep differ in what they record, or in its labels; allowed: a sweep for each"
                )

    def _resolve(self, cell: Cell, build: Callable[[], Problem], top_n: int) -> Resolved:
        sweep, problem_of_cell = self.sweep, build()
        settings = Settings(
            cell.arm,
            cell.group_size,
            pass_at_k=sweep.pass_at_k,
            top_n=top_n,
            dtype=sweep.dtype,
            storage=sweep.storage,
            optimizer=sweep.optimizer,
            optimizer_parameters=cell.parameters["optimizer"],
            **cell.parameters["run"],
        )
        steps_taken, step_cost = sweep.recorded, Fraction(0)
        if sweep.budget:
            step_cost = sweep.budget.step_cost(problem_of_cell, settings)
            steps_taken = sweep.budget.steps_taken(step_cost, _name(cell))
        settings = resolved(problem_of_cell, settings, int(steps_taken[-1]))
        check(problem_of_cell, settings)
        key = str(cell.arm), type(problem_of_cell)
        if key not in self._user_code:
            self._user_code[key] = hash_user_code(cell.name, problem_of_cell, settings)
            if cell.arm.files:
                _trace(cell.arm.build(), cell.group_size)
        names = [*cell.arm.files, *([sweep.problem] if is_file(sweep.problem) else [])]
        self._texts |= {file_of(name): source_of(name) for name in names}
        files = {name: digest(name) for name in names}
        opened = opened_files(names)
        self._opened |= opened
        code = self._user_code[key], files, opened
        return Resolved(cell, build, problem_of_cell.fingerprint, settings, *code, steps_taken, step_cost)

    def manifest(self, made_by: Mapping[str, Any]) -> dict[str, Any]:
        """Return what identifies the sweep: its configuration, the user's code with fingerprints, and ``maker()``."""
        fingerprints: dict[str, list[str]] = {}
        for cell in self.distinct:
            if cell.user_code is not None:
                fingerprints[cell.cell.name] = sorted({*fingerprints.get(cell.cell.name, ()), cell.user_code})
        files = {file: _sha256(text) for file, text in self._texts.items()} | self._opened
        code = {"own": fingerprints, "files": files, "texts": self._texts}
        return {"configuration": self.sweep.configuration(), **code, **made_by}

    def units(self, code: str, platform: str) -> list[Unit]:
        """Return the units that a version of the code makes on a platform."""
        units = []
        for index, cell in self.cells.items():
            size = batch_size(cell.problem, cell.settings, platform)
            shared = {"made by": [code, platform], **cell.identity}
            for first in range(0, self.sweep.seeds, size):
                seeds = range(first, min(first + size, self.sweep.seeds))
                name = _sha256(_text(shared | {"seeds": [seeds.start, seeds.stop]}))[:24]
                units.append(Unit(index, cell, seeds, name))
        return units

    def work(self, units: Sequence[Unit]) -> Work:
        """Return the runs of units that one program computes."""
        cell = units[0].resolved
        settings, seeds = zip(*((unit.resolved.settings, seed) for unit in units for seed in unit.seeds), strict=True)
        return Work(_name(cell.cell), cell.problem, settings, seeds, cell.steps, cell.user_code, cell.files)


def batches(units: Sequence[Unit], platform: str) -> Iterator[list[Unit]]:
    """Yield units to run in one call; those of a program follow each other, so that it compiles once."""
    by_program: dict[Any, list[Unit]] = {}
    for unit in units:
        by_program.setdefault(unit.resolved.program, []).append(unit)
    for program_units in by_program.values():
        first = program_units[0].resolved
        size = batch_size(first.problem, first.settings, platform)
        batch: list[Unit] = []
        for unit in program_units:
            if sum(len(other.seeds) for other in batch) + len(unit.seeds) > size:
                yield batch
                batch = []
            batch.append(unit)
        yield batch


def hash_user_code(name: str, problem: Problem, settings: Settings) -> str | None:
    """Hash the user's code in a method and in the type of a problem; None if all of it is the library's."""
    try:
        hashes = settings.user_code(), own_source(type(problem))
    except Unhashable as error:
        allowed = "allowed: functions, classes, numbers, arrays, what can be pickled"
        raise InputError(f"{name}: {error}; {allowed}") from None
    return " ".join(filter(None, hashes)) or None


def _trace(method: Method, group_size: int) -> None:
    """Trace a method as a run does, so that it opens the files that it reads; what it raises is for the run to say."""
    shape = (2, group_size, 1, method.surrogate.candidates or 2)
    arrays = {axes: np.zeros(shape[:axes], np.float32) for axes in (2, 3, 4)}
    fields = {name: arrays[3 if name == "parts" else TOKEN_FIELDS.get(name, 2)] for name in method.needs}
    with contextlib.suppress(Exception):
        jax.eval_shape(
            lambda ratio, rollouts: method.coefficients(ratio, rollouts, method.estimator.init()),
            arrays[3],
            Rollouts(**{"rewards": arrays[2], **fields}),
        )


def digest(reference: str) -> str:
    """Return the SHA-256 of the file in ``FILE.py:NAME``, as it was run."""
    return _sha256(source_of(reference))


def maker() -> dict[str, Any]:
    """Describe what makes the numbers of this process."""
    return {"code": code_fingerprint(), "platform": jax.default_backend(), "versions": versions(), "commit": commit()}


def _name(cell: Cell) -> str:
    return f"{cell.name} at group size {cell.group_size}"


def _text(data: Any) -> str:
    return json.dumps(data, sort_keys=True)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
