"""The grid of a sweep: parameters by name, cells, and how a cell becomes a program, a problem and numbers."""

import difflib
import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from simlab.errors import InputError, check_choice
from simlab.estimators import REGISTRY
from simlab.problems import PROBLEMS, Problem, problem, problem_size
from simlab.simulate.engine import resolved
from simlab.simulate.labelled import DIMENSION_LABELS, check_seeds, places_of, recorded_steps
from simlab.simulate.optimizers import OPTIMIZERS
from simlab.simulate.program import DTYPES, ENGINES, Numbers, Program, check_numbers
from simlab.surrogates import SURROGATES

RUN_PARAMETERS = {
    "temperature": 1.0,
    "kl": 0.0,
    "entropy_bonus": 0.0,
    "update_norm": 0.0,
    "gradient_steps": 1,
    "prompts_per_step": 0,
    "update_rule": "simulator",
    "aggregation": "token_mean",
}
SECTIONS = ("estimator", "problem", "surrogate", "optimizer", "run")


@dataclass(frozen=True)
class Cell:
    """One point of the grid: an estimator, a surrogate, a group size, and every section's parameters in full."""

    estimator: str
    surrogate: str
    group_size: int
    parameters: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Sweep:
    """A grid of runs.

    Attributes:
        estimators, surrogates, problem, optimizer: registered names; several surrogates are a dimension.
        group_sizes: G of each run.
        seeds: number of seeds, 0 to seeds - 1. A seed draws the same random numbers in every cell of one group size,
            so that cells compare pairwise.
        steps: steps of each run.
        record_every: steps between two records; the last step is always recorded.
        parameters: values by qualified name, such as ``"estimator.gamma"``; a name with several values is a dimension.
        pass_at_k, top_n, dtype, engine: see ``Program``.

    Raises:
        InputError: for an unknown name or a value outside its range.
    """

    estimators: tuple[str, ...] = ("f_grpo",)
    group_sizes: tuple[int, ...] = (8,)
    seeds: int = 4
    steps: int = 1000
    record_every: int = 50
    problem: str = "anchored"
    surrogates: tuple[str, ...] = ("ppo_clip",)
    optimizer: str = "adam"
    parameters: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    pass_at_k: tuple[int, ...] = (1, 8, 64, 512)
    top_n: int = 5
    dtype: str = "float32"
    engine: str = "auto"

    def __post_init__(self) -> None:
        for name in self.estimators:
            check_choice("estimator", name, sorted(REGISTRY))
        check_choice("problem", self.problem, sorted(PROBLEMS))
        for name in self.surrogates:
            check_choice("surrogate", name, sorted(SURROGATES))
        check_choice("optimizer", self.optimizer, sorted(OPTIMIZERS))
        check_choice("dtype", self.dtype, DTYPES)
        check_choice("engine", self.engine, ENGINES)
        check_seeds(self.seeds)
        self.recorded_steps()
        names = {"estimator": self.estimators, "surrogate": self.surrogates}
        lists = {**names, "group_size": self.group_sizes, **self.parameters}
        for name, values in lists.items():
            if not values:
                raise InputError(f"{name} lists nothing; allowed: one or more values")
        for name, values in {**lists, "pass_at_k": self.pass_at_k}.items():
            if len(set(values)) < len(values):
                raise InputError(f"{name} lists {list(values)}; allowed: different values")
        for name, values in self.parameters.items():
            if self.resolve(name) != name:
                raise InputError(f"{name} is not a qualified parameter name; allowed: {self.resolve(name)}")
            self._check_finite(name, values)

    def _check_finite(self, name: str, values: tuple[Any, ...]) -> None:
        largest = float(np.finfo(self.dtype).max)
        for value in values:
            if isinstance(value, float) and not abs(value) <= largest:
                raise InputError(f"{name} = {value}; allowed: finite numbers, in {self.dtype} up to {largest:g}")

    def sections(self, estimator: str, surrogate: str) -> dict[str, dict[str, Any]]:
        """Every section's parameters at their defaults, for one estimator and one surrogate."""
        return {
            "estimator": REGISTRY[estimator].parameters,
            "problem": _defaults(PROBLEMS[self.problem]),
            "surrogate": _defaults(SURROGATES[surrogate]),
            "optimizer": _defaults(OPTIMIZERS[self.optimizer]),
            "run": dict(RUN_PARAMETERS),
        }

    def known_parameters(self) -> dict[str, Any]:
        """Default value of every qualified parameter of this sweep."""
        return {
            f"{section}.{name}": default
            for estimator, surrogate in itertools.product(self.estimators, self.surrogates)
            for section, parameters in self.sections(estimator, surrogate).items()
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
        close = difflib.get_close_matches(name, bare, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise InputError(f"unknown parameter {name!r}{hint}; allowed: {', '.join(bare)}")

    def dimensions(self) -> dict[str, tuple[Any, ...]]:
        """Labelled dimensions of the grid, without seed and step."""
        swept = {name: values for name, values in self.parameters.items() if len(values) > 1}
        several = {"surrogate": self.surrogates} if len(self.surrogates) > 1 else {}
        return {"estimator": self.estimators, **several, "group_size": self.group_sizes, **swept}

    def labels(self) -> dict[str, str]:
        """A label for each dimension: the parameter's own name, with its section where that would be ambiguous."""
        dimensions = self.dimensions()
        bare = [name.rpartition(".")[2] for name in dimensions] + ["seed", "step", *DIMENSION_LABELS]
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
            names = point.pop("estimator"), point.pop("surrogate", self.surrogates[0])
            yield index, self._cell(*names, point.pop("group_size"), fixed | point)

    def _cell(self, estimator: str, surrogate: str, group_size: int, values: Mapping[str, Any]) -> Cell:
        sections = self.sections(estimator, surrogate)
        for name, value in values.items():
            section, _, parameter = name.partition(".")
            # A method without the parameter is the same cell all along that dimension, and is run once.
            if parameter in sections[section]:
                sections[section][parameter] = value
        return Cell(estimator, surrogate, group_size, sections)

    def recorded_steps(self) -> np.ndarray:
        """The steps after which is recorded, without step 0."""
        return recorded_steps(self.steps, self.record_every)

    def configuration(self) -> dict[str, Any]:
        """The sweep as plain data, from which ``from_configuration`` builds it again."""
        return asdict(self)

    @classmethod
    def from_configuration(cls, data: Mapping[str, Any]) -> "Sweep":
        """Rebuild a sweep from ``configuration()``, also after a round through JSON."""
        parameters = {name: tuple(_frozen(value) for value in values) for name, values in data["parameters"].items()}
        plain = {name: _frozen(value) for name, value in data.items() if name != "parameters"}
        return cls(**plain, parameters=parameters)

    def program(self, cell: Cell) -> Program:
        """What of a cell shapes its compiled program, its engine resolved.

        Raises:
            InputError: for a parameter outside its range.
        """
        run, parameters = cell.parameters["run"], cell.parameters["estimator"]
        program = Program(
            group_size=cell.group_size,
            estimator=cell.estimator,
            estimator_choices=_choices(parameters),
            surrogate=cell.surrogate,
            surrogate_choices=_choices(cell.parameters["surrogate"]),
            optimizer=self.optimizer,
            update_rule=run["update_rule"],
            gradient_steps=run["gradient_steps"],
            prompts_per_step=run["prompts_per_step"],
            aggregation=run["aggregation"],
            uses_kl=run["kl"] != 0,
            uses_entropy_bonus=run["entropy_bonus"] != 0,
            fixes_update_norm=run["update_norm"] != 0,
            pass_at_k=self.pass_at_k,
            top_n=self.top_n,
            dtype=self.dtype,
            engine=self.engine,
        )
        place = self.build_problem(cell)
        check_numbers(program, self.numbers(cell, place))
        return resolved(program, place, self.steps)

    def size(self, cell: Cell) -> int:
        """How many numbers a lane of a cell's problem carries."""
        return problem_size(self.build_problem(cell))

    def build_problem(self, cell: Cell) -> Problem:
        """The problem of a cell."""
        return _problem(self.problem, tuple(cell.parameters["problem"].items()))

    def places(self) -> dict[str, Sequence[Any]]:
        """Labels of what is recorded place by place of the problem, which all cells share.

        Raises:
            InputError: for trees of different depths or rewarded leaves.
        """
        found = [places_of(self.build_problem(cell)) for _, cell in self.cells()]
        if any(other != found[0] for other in found):
            raise InputError("the trees of this sweep differ in levels or rewarded leaves; allowed: a sweep for each")
        return found[0]

    def numbers(self, cell: Cell, place: Problem) -> Numbers:
        """The float parameters of a cell."""
        run = cell.parameters["run"]
        return Numbers(
            estimator=_floats(cell.parameters["estimator"]),
            surrogate=_floats(cell.parameters["surrogate"]),
            optimizer=dict(cell.parameters["optimizer"]),
            reward_correct=place.reward_correct,
            reward_incorrect=place.reward_incorrect,
            temperature=run["temperature"],
            kl=run["kl"],
            entropy_bonus=run["entropy_bonus"],
            update_norm=run["update_norm"],
        )


@functools.lru_cache(maxsize=4)
def _problem(name: str, parameters: tuple[tuple[str, Any], ...]) -> Problem:
    return problem(name, **dict(parameters))


def _defaults(build: Callable[..., Any]) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in inspect.signature(build).parameters.items()}


def _choices(parameters: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((name, value) for name, value in parameters.items() if not isinstance(value, float)))


def _floats(parameters: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in parameters.items() if isinstance(value, float)}


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
    try:
        return int(text) if isinstance(default, int) else float(text)
    except ValueError:
        kind = "whole numbers" if isinstance(default, int) else "numbers"
        raise InputError(f"{name} = {text!r} cannot be read; allowed: {kind}, separated by commas") from None
