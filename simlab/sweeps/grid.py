"""Lay out the grid of a sweep: parameters by name, dimensions, and the cells that they make."""

import functools
import inspect
import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from simlab.arms import Arm, parse
from simlab.errors import InputError, check_choice, did_you_mean
from simlab.problems.registry import problem_constructor
from simlab.simulator.dataset import check_seeds, recorded_steps
from simlab.simulator.optimizers import OPTIMIZERS
from simlab.simulator.settings import DTYPES, STORAGES, Settings
from simlab.sweeps.budget import Budget
from simlab.sweeps.methods import WRITTEN, check_pair, fixes, open_parameters, owners_of, pair, with_values

AGGREGATION = "aggregation"  # of a pair of estimator and surrogate; an arm has its own, or says one after @
# Settings of a run that a sweep has options of their own for; the others are parameters by name.
OPTIONS = ("method", "group_size", "optimizer", "optimizer_parameters", "pass_at_k", "top_n", "dtype", "storage")
RUN_PARAMETERS = {one.name: one.default for one in fields(Settings) if one.name not in OPTIONS}
RUN_PARAMETERS[AGGREGATION] = "token_mean"
USUAL_LENGTH = {"steps": 1000, "record_every": 50}
USUAL_PAIR = ("f_grpo",), ("ppo_clip",)
ARGUMENTS = ("indexers", "method", "tolerance", "drop")  # of xarray's sel
TAKEN = ("seed", "step", "cost", "steps_taken", "spent", *ARGUMENTS)
Sections = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Cell:
    """One point of the grid.

    Attributes:
        name: the method as the sweep lists it.
        arm: the method with its parameters.
        group_size: G.
        parameters: the parameters of the other sections, ``problem``, ``optimizer`` and ``run``, in full.
    """

    name: str
    arm: Arm
    group_size: int
    parameters: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Sweep:
    """A grid of runs, as plain data.

    Attributes:
        estimators, surrogates: names, registered or ``FILE.py:NAME``, each pair of which is a method; several
            surrogates are a dimension. ``f_grpo`` with ``ppo_clip`` where neither these nor ``arms`` are given.
        arms: methods in place of pairs: texts such as ``"f_grpo(gamma=0.5)+clip_higher"``, see ``simlab.arms``.
        group_sizes: G of each run.
        seeds: number of seeds, 0 to seeds - 1. A seed draws the same random numbers in every cell of one group size,
            so that cells compare pairwise.
        steps: steps of each run, 1000 unless there is a budget.
        record_every: steps between two records, 50 unless there is a budget; the last step is always recorded.
        problem: a registered name or ``FILE.py:NAME``.
        optimizer: a registered name.
        parameters: values by qualified name, such as ``"estimator.gamma"``; a name with several values is a dimension.
            Those of ``estimator`` and ``surrogate`` hold for the methods that have them and do not fix them.
        top_n: None for 5, or as many as the actions of the smallest problem.
        pass_at_k, dtype, storage: see ``simlab.simulator.settings.Settings``.
        budget: what each run may spend, in place of ``steps`` and ``record_every``, see ``simlab.sweeps.budget``.

    Raises:
        InputError: for an unknown name or a value outside its range.
    """

    estimators: tuple[str, ...] | None = None
    group_sizes: tuple[int, ...] = (8,)
    seeds: int = 4
    steps: int | None = None
    record_every: int | None = None
    problem: str = "anchored"
    surrogates: tuple[str, ...] | None = None
    optimizer: str = "adam"
    parameters: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    pass_at_k: tuple[int, ...] = (1, 8, 64, 512)
    top_n: int | None = None
    dtype: str = "float32"
    storage: str = "auto"
    arms: tuple[str, ...] = ()
    budget: Budget | None = None

    def __post_init__(self) -> None:
        self._settle_methods()
        self._settle_length()
        problem_constructor(self.problem)
        check_choice("optimizer", self.optimizer, sorted(OPTIMIZERS))
        check_choice("dtype", self.dtype, DTYPES)
        check_choice("storage", self.storage, STORAGES)
        check_seeds(self.seeds)
        _check_lists({**self._methods, "group_size": self.group_sizes, **self.parameters}, self.pass_at_k)
        for name, values in self.parameters.items():
            if self.resolve(name) != name:
                raise InputError(f"{name} is not a qualified parameter name; allowed: {self.resolve(name)}")
            self._check_finite(name, values)

    def _settle_methods(self) -> None:
        """Fill in the usual pair where nothing is given, and write arms in the one way that equal ones have."""
        if self.arms:
            if self.estimators is not None or self.surrogates is not None:
                raise InputError("arms beside estimators or surrogates; allowed: one or the other")
            object.__setattr__(self, "arms", tuple(str(parse(str(arm))) for arm in self.arms))
            return
        for name, usual in zip(("estimators", "surrogates"), USUAL_PAIR, strict=True):
            if getattr(self, name) is None:
                object.__setattr__(self, name, usual)
        for estimator, surrogate in itertools.product(*self._methods.values()):
            check_pair(estimator, surrogate)

    def _settle_length(self) -> None:
        """Fill in the usual numbers of steps, which stand beside no budget."""
        for name, usual in USUAL_LENGTH.items():
            given = getattr(self, name)
            if self.budget is None and given is None:
                object.__setattr__(self, name, usual)
            if self.budget is not None and given is not None:
                raise InputError(f"{name} = {given} beside a budget, which sets the steps; allowed: one of the two")
        self.recorded_steps()

    def _check_finite(self, name: str, values: tuple[Any, ...]) -> None:
        largest = float(np.finfo(self.dtype).max)
        for value in values:
            if isinstance(value, float) and not abs(value) <= largest:
                raise InputError(f"{name} = {value}; allowed: finite numbers, in {self.dtype} up to {largest:g}")

    @property
    def _methods(self) -> dict[str, tuple[str, ...]]:
        """The names of methods, by dimension."""
        if self.arms:
            return {"arm": self.arms}  # not "method", which is an argument of xarray's sel
        return {"estimator": self.estimators or (), "surrogate": self.surrogates or ()}

    def _arm(self, *names: str) -> Arm:
        """The arm of these names, one of each dimension of methods, without swept parameters."""
        return parse(*names) if self.arms else pair(*names)

    @functools.cached_property
    def sections(self) -> dict[str, Sections]:
        """Every section's parameters at their defaults, for each method by its text.

        Raises:
            InputError: for an unknown name, and for what a file of the user's lacks or raises.
        """
        run = {name: value for name, value in RUN_PARAMETERS.items() if not (self.arms and name == AGGREGATION)}
        problem = problem_constructor(self.problem).defaults
        shared = {
            "problem": {name: value for name, value in problem.items() if isinstance(value, WRITTEN | tuple)},
            "optimizer": _defaults(OPTIMIZERS[self.optimizer]),
            "run": run,
        }
        found = {}
        for names in itertools.product(*self._methods.values()):
            arm = self._arm(*names)
            own = open_parameters(arm, is_pair=not self.arms)
            found[arm.text] = {
                name: {**own, **shared}[name] for name in ("estimator", "problem", "surrogate", "optimizer", "run")
            }
        return found

    def known_parameters(self) -> dict[str, Any]:
        """Default value of every qualified parameter of this sweep."""
        return {
            f"{section}.{name}": default
            for sections in self.sections.values()
            for section, parameters in sections.items()
            for name, default in parameters.items()
        }

    def resolve(self, name: str) -> str:
        """The qualified name of a parameter given with or without its section.

        Raises:
            InputError: for a name that no section or more than one section has.
        """
        known = self.known_parameters()
        matches = [name] if name in known else [full for full in known if full.partition(".")[2] == name]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise InputError(f"parameter {name!r} is ambiguous; write one of: {', '.join(matches)}")
        bare = sorted({full.partition(".")[2] for full in known})
        if fixing := [arm for arm in self.arms if fixes(parse(arm), name.rpartition(".")[2])]:
            raise InputError(f"{' and '.join(fixing)} fixes {name}; allowed: arms without it, to sweep it by --param")
        if owners := owners_of(name.rpartition(".")[2]):
            here = " and ".join(next(iter(self._methods.values())))
            raise InputError(f"{here} has no {name}; {owners} has; allowed here: {', '.join(bare)}")
        raise InputError(f"unknown parameter {name!r}{did_you_mean(name, bare)}; allowed: {', '.join(bare)}")

    def dimensions(self) -> dict[str, tuple[Any, ...]]:
        """Labelled dimensions of the grid, without seed and step; of surrogates only if there are several."""
        methods = {name: values for name, values in self._methods.items() if name != "surrogate" or len(values) > 1}
        swept = {name: values for name, values in self.parameters.items() if len(values) > 1}
        return {**methods, "group_size": self.group_sizes, **swept}

    def without(self, name: str) -> list[str]:
        """The methods that lack a swept parameter, by the names they have along their own dimension."""
        section, _, parameter = name.partition(".")
        dimension = "arm" if self.arms else section
        if not parameter or section not in ("estimator", "surrogate"):
            return []
        place = list(self._methods).index(dimension)
        having = {
            names[place]
            for names in itertools.product(*self._methods.values())
            if parameter in self.sections[self._arm(*names).text][section]
        }
        return [method for method in self._methods[dimension] if method not in having]

    def labels(self, others: Collection[str] = ()) -> dict[str, str]:
        """A label for each dimension: the parameter's own name, with its section where that would be ambiguous.

        ``others`` are the dimensions that metrics have beside these, seed and step.
        """
        dimensions = self.dimensions()
        bare = [name.rpartition(".")[2] for name in dimensions] + [*TAKEN, *others]
        return {
            name: own if bare.count(own := name.rpartition(".")[2]) == 1 else name.replace(".", "_")
            for name in dimensions
        }

    def cells(self) -> Iterator[tuple[tuple[int, ...], Cell]]:
        """Each cell with its index along ``dimensions()``."""
        dimensions = self.dimensions()
        fixed = {name: values[0] for name, values in self.parameters.items() if len(values) == 1}
        for index in itertools.product(*(range(len(values)) for values in dimensions.values())):
            point = {name: values[i] for i, (name, values) in zip(index, dimensions.items(), strict=True)}
            names = [point.pop(name, values[0]) for name, values in self._methods.items()]
            yield index, self._cell(self._arm(*names), point.pop("group_size"), fixed | point)

    def _cell(self, arm: Arm, group_size: int, values: Mapping[str, Any]) -> Cell:
        defaults = self.sections[arm.text]
        given: Sections = {section: {} for section in defaults}
        for name, value in values.items():
            section, _, parameter = name.partition(".")
            # A method without the parameter is the same cell all along that dimension, and is run once.
            if parameter in defaults[section]:
                given[section][parameter] = value
        full = {section: defaults[section] | given[section] for section in ("problem", "optimizer", "run")}
        aggregation = full["run"].pop(AGGREGATION, arm.aggregation)
        return Cell(arm.text, with_values(arm, given, aggregation), group_size, full)

    def recorded_steps(self) -> np.ndarray | None:
        """The steps that are recorded, without step 0; None where a budget decides them cell by cell."""
        if self.steps is None or self.record_every is None:
            return None
        return recorded_steps(self.steps, self.record_every)

    def configuration(self) -> dict[str, Any]:
        """The sweep as plain data, from which ``from_configuration`` builds it again.

        It says of a budget only where there is one, as results did that were written before budgets.
        """
        plain = asdict(self)
        return plain if self.budget else {name: value for name, value in plain.items() if name != "budget"}

    @classmethod
    def from_configuration(cls, data: Mapping[str, Any]) -> "Sweep":
        """Rebuild a sweep from ``configuration()``, also after a round through JSON.

        Results that were written before storage had its name call it ``engine``.
        """
        plain = {"storage" if name == "engine" else name: _frozen(value) for name, value in data.items()}
        plain["parameters"] = {name: _frozen(values) for name, values in data["parameters"].items()}
        if "budget" in plain:
            plain["budget"] = Budget(**plain["budget"])
        return cls(**plain)


def _check_lists(lists: Mapping[str, tuple[Any, ...]], pass_at_k: tuple[int, ...]) -> None:
    for name, values in lists.items():
        if not values:
            raise InputError(f"{name} lists nothing; allowed: one or more values")
    for name, values in {**lists, "pass_at_k": pass_at_k}.items():
        if len(set(values)) < len(values):
            raise InputError(f"{name} lists {list(values)}; allowed: different values")


def _defaults(build: Any) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in inspect.signature(build).parameters.items()}


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def parse_values(name: str, text: str, default: Any) -> tuple[Any, ...]:
    """Values of a parameter from a comma-separated text, typed like its default.

    A parameter whose default is a list (``logits``, ``correct`` of the custom problem) takes the whole text as one
    value: a list of numbers, or of words where the default is one (``rewarded`` of a tree), or a path.

    Raises:
        InputError: for a value that does not read as the default's type.
    """
    if isinstance(default, tuple):
        return (_words(text) if default and isinstance(default[0], str) else _list_or_path(text),)
    return tuple(_parse(name, item.strip(), default) for item in text.split(","))


def _words(text: str) -> tuple[str, ...] | str:
    words = tuple(item.strip() for item in text.split(","))
    return words if len(words) > 1 else text


def _list_or_path(text: str) -> tuple[float, ...] | str:
    try:
        return tuple(float(item) for item in text.split(","))
    except ValueError:
        return text


def _parse(name: str, text: str, default: Any) -> Any:
    if isinstance(default, str):
        return text
    if default is None and text.lower() == "none":
        return None
    if isinstance(default, bool):
        check_choice(name, text.lower(), ("true", "false"))
        return text.lower() == "true"
    try:
        return int(text) if isinstance(default, int) else float(text)
    except ValueError:
        kind = "whole numbers" if isinstance(default, int) else "numbers"
        raise InputError(f"{name} = {text!r} cannot be read; allowed: {kind}, separated by commas") from None
