"""Lay out the grid of a sweep: methods and parameters by name, dimensions, the cells that they make, their budget."""

import functools
import inspect
import itertools
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from simlab.arms import Arm, parse
from simlab.constructors import added_constructor, base_constructor, estimator_constructor, is_file
from simlab.errors import InputError, check_choice, check_range, check_whole, did_you_mean
from simlab.estimators import REGISTRY
from simlab.grammar import Term
from simlab.problems.base import Problem
from simlab.problems.registry import problem_constructor
from simlab.simulator.optimizers import OPTIMIZERS
from simlab.simulator.runner import MOST_RECORDS, check_seeds, recorded_steps
from simlab.simulator.settings import DTYPES, LARGEST_INT, STORAGES, Settings
from simlab.surrogates import SURROGATES
from simlab.text import read_number, shortened

AGGREGATION = "aggregation"  # of a pair of estimator and surrogate; an arm has its own, or says one after @
WRITTEN = str | int | float | None  # types of a parameter's default with which it can be swept and written in an arm
# Settings of a run that a sweep has options of their own for; the others are parameters by name.
OPTIONS = ("method", "group_size", "optimizer", "optimizer_parameters", "pass_at_k", "top_n", "dtype", "storage")
RUN_PARAMETERS = {setting.name: setting.default for setting in fields(Settings) if setting.name not in OPTIONS}
RUN_PARAMETERS[AGGREGATION] = "token_mean"
USUAL_PAIR: dict[str, Any] = {"estimators": ("f_grpo",), "surrogates": ("ppo_clip",)}
LENGTHS: dict[str, Any] = {"steps": 1000, "record_every": 50}  # which stand beside no budget
SEL_ARGUMENTS = ("indexers", "method", "tolerance", "drop")  # of xarray's sel
RESERVED_LABELS = ("seed", "step", "cost", "steps_taken", "spent", *SEL_ARGUMENTS)
Sections = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Cell:
    """One point of the grid."""

    name: str  # of the method, as the sweep lists it
    arm: Arm  # with its parameters
    group_size: int
    parameters: Mapping[str, Mapping[str, Any]]  # of the sections ``problem``, ``optimizer`` and ``run``, in full


@dataclass(frozen=True)
class Budget:
    """The cost that every run may spend, in rollouts, unless a rollout's cost is not 1.

    Attributes:
        total: what a run may spend; it ends with the last step that this pays for.
        rollout_cost: the cost of one rollout, including its verification.
        update_cost: the cost of one gradient step, however many rollouts it learns from. If learning has a cost per
            rollout, add it to ``rollout_cost``.
        records: R, how many records there are after that of the start, at equal distances of cost.

    Raises: InputError: for a number outside its range.
    """

    total: float
    rollout_cost: float = 1.0
    update_cost: float = 0.0
    records: int = 20

    def __post_init__(self) -> None:
        check_range("budget", self.total, 0, open_low=True)
        check_range("rollout_cost", self.rollout_cost, 0, open_low=True)
        check_range("update_cost", self.update_cost, 0)
        check_whole("records", self.records, 1, MOST_RECORDS)

    def step_cost(self, problem: Problem, settings: Settings) -> Fraction:
        """Return the exact cost of one step."""
        if self.update_cost and settings.allocation == "dynamic":
            raise InputError(f"update_cost = {self.update_cost:g} with allocation = 'dynamic'; allowed: 0")
        rollouts = problem.prompts_a_step(settings) * settings.rollouts_a_prompt
        updates = settings.static.gradient_steps
        return rollouts * _exact(self.rollout_cost) + updates * _exact(self.update_cost)

    def steps_taken(self, step_cost: Fraction, name: str) -> Int[np.ndarray, " R"]:
        """Return the number of steps that the cost of each record pays for, 0 where it pays for none."""
        if step_cost > _exact(self.total):
            cost = float(step_cost)
            raise InputError(f"budget = {self.total:g}, but a step of {name} costs {cost:g}; allowed: {cost:g} or more")
        steps = [_exact(self.total) * record // (self.records * step_cost) for record in range(1, self.records + 1)]
        if steps[-1] > LARGEST_INT:
            allowed = f"allowed: steps up to {LARGEST_INT}"
            raise InputError(f"budget = {self.total:g} pays for {steps[-1]} steps of {name}; {allowed}")
        return np.array(steps, dtype=np.int64)

    @property
    def costs(self) -> Float[np.ndarray, " records"]:
        """The cost allowed up to each record, the first at the start."""
        return np.array([float(_exact(self.total) * record / self.records) for record in range(self.records + 1)])


@dataclass(frozen=True)
class Sweep:
    """A grid of runs, as plain data.

    Attributes:
        estimators, surrogates: names, registered or ``FILE.py:NAME``, each pair of which is a method; several
            surrogates are a dimension. ``f_grpo`` with ``ppo_clip`` where neither these nor ``arms`` are given.
        arms: methods in place of pairs: texts such as ``"f_grpo(gamma=0.5)+clip_higher"``, see ``simlab.arms``.
        group_sizes: G of each run.
        seeds: number of seeds. A seed draws the same random numbers in every cell of one group size, so that cells
            compare pairwise.
        steps, record_every: of each run, 1000 and 50 unless there is a budget; the last step is always recorded.
        problem, optimizer: a registered name, or of a problem ``FILE.py:NAME``.
        parameters: values by qualified name, such as ``"estimator.gamma"``; a name with several values is a dimension.
            Those of ``estimator`` and ``surrogate`` hold for the methods that have them and do not fix them.
        top_n: None for 5, or as many as the actions of the smallest problem.
        pass_at_k, dtype, storage: see ``simlab.simulator.settings.Settings``.
        budget: what each run may spend, in place of ``steps`` and ``record_every``, see ``Budget``.

    Raises: InputError: for an unknown name or a value outside its range.
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
        if self.arms and (self.estimators is not None or self.surrogates is not None):
            raise InputError("arms beside estimators or surrogates; allowed: one or the other")
        for name in LENGTHS if self.budget else ():
            if (value := getattr(self, name)) is not None:
                raise InputError(f"{name} = {value} beside a budget, which sets the steps; allowed: one of the two")
        usual = ({} if self.arms else USUAL_PAIR) | ({} if self.budget else LENGTHS)
        filled = {name: value for name, value in usual.items() if getattr(self, name) is None}
        for name, value in (filled | {"arms": tuple(str(parse(str(arm))) for arm in self.arms)}).items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        for name in self.estimators or ():
            estimator_constructor(name)
        for name in self.surrogates or ():
            check_choice("surrogate", name, [name] if is_file(name) else sorted(SURROGATES))
            added_constructor(name)
        problem_constructor(self.problem)
        check_choice("optimizer", self.optimizer, sorted(OPTIMIZERS))
        check_choice("dtype", self.dtype, DTYPES)
        check_choice("storage", self.storage, STORAGES)
        check_seeds(self.seeds)
        _ = self.recorded  # raises for other numbers of steps
        lists = {**self.methods, "group_size": self.group_sizes, **self.parameters}
        for name, values in {**lists, "pass_at_k": self.pass_at_k}.items():
            if name in lists and not values:
                raise InputError(f"{name} lists nothing; allowed: one or more values")
            if len(set(values)) < len(values):
                raise InputError(f"{name} lists {list(values)}; allowed: different values")
        largest = float(np.finfo(self.dtype).max)
        for name, values in self.parameters.items():
            if self.resolve(name) != name:
                raise InputError(f"{name} is not a qualified parameter name; allowed: {self.resolve(name)}")
            for value in values:
                if isinstance(value, float) and not abs(value) <= largest:
                    raise InputError(f"{name} = {value}; allowed: finite numbers, in {self.dtype} up to {largest:g}")

    @property
    def methods(self) -> dict[str, tuple[str, ...]]:
        """The names of methods, by dimension."""
        if self.arms:
            return {"arm": self.arms}  # not "method", which is an argument of xarray's sel
        return {"estimator": self.estimators or (), "surrogate": self.surrogates or ()}

    @functools.cached_property
    def recorded(self) -> np.ndarray:
        """The steps that are recorded, without step 0; none where a budget decides them cell by cell."""
        if self.steps is None or self.record_every is None:
            return np.array([], int)
        return recorded_steps(self.steps, self.record_every)

    def _arm(self, *names: str) -> Arm:
        """Return the arm with these names, one of each dimension of methods, without swept parameters."""
        if self.arms:
            return parse(*names)
        estimator, surrogate = names
        return Arm(f"{estimator}+{surrogate}", Term(estimator), (Term(surrogate),))

    @functools.cached_property
    def sections(self) -> dict[str, Sections]:
        """Every section's parameters at their defaults, for each method by its text."""
        run = {name: value for name, value in RUN_PARAMETERS.items() if not (self.arms and name == AGGREGATION)}
        problem = problem_constructor(self.problem).defaults
        problem = {name: value for name, value in problem.items() if isinstance(value, WRITTEN | tuple)}
        signature = inspect.signature(OPTIMIZERS[self.optimizer]).parameters
        optimizer = {name: parameter.default for name, parameter in signature.items()}
        sections: dict[str, Sections] = {}
        for arm in (self._arm(*names) for names in itertools.product(*self.methods.values())):
            of_arm = dict(estimator={}, problem=problem, surrogate={}, optimizer=optimizer, run=run)
            for section, _, defaults in _open_parts(arm, is_pair=not self.arms):
                of_arm[section] = of_arm[section] | defaults
            sections[arm.text] = of_arm
        return sections

    def known_parameters(self) -> dict[str, Any]:
        """Return the default value of every qualified parameter of this sweep."""
        sections = [each for of_arm in self.sections.values() for each in of_arm.items()]
        return {f"{section}.{name}": default for section, own in sections for name, default in own.items()}

    def fixed_parameters(self) -> dict[str, Any]:
        """Return what the sweep does not vary by name; not those of several methods, whose defaults may differ."""
        of_one = () if len(self.sections) == 1 else ("estimator.", "surrogate.")
        defaults = {name: value for name, value in self.known_parameters().items() if not name.startswith(of_one)}
        lists = {name: (value,) for name, value in defaults.items()} | {**self.parameters}
        lists["group_size"] = self.group_sizes
        return {name: values[0] for name, values in lists.items() if len(values) == 1}

    def resolve(self, name: str) -> str:
        """Return the qualified name of a parameter that is named with or without its section."""
        qualified = self.known_parameters()
        matches = [name] if name in qualified else [full for full in qualified if full.partition(".")[2] == name]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise InputError(f"parameter {name!r} is ambiguous; write one of: {', '.join(matches)}")
        bare, names = name.rpartition(".")[2], sorted({full.partition(".")[2] for full in qualified})
        terms = [(text, term) for text in self.arms for arm in [parse(text)] for term in (arm.base, *arm.added)]
        if fixing := [text for text, term in terms if bare in dict(term.parameters)]:
            raise InputError(f"{' and '.join(fixing)} fixes {name}; allowed: arms without it, to sweep it by --param")
        owners = [estimator for estimator, entry in REGISTRY.items() if bare in entry.parameters]
        owners = owners or [surrogate for surrogate in SURROGATES if bare in added_constructor(surrogate).defaults]
        if owners:
            here, others = " and ".join(next(iter(self.methods.values()))), " or ".join(sorted(owners))
            raise InputError(f"{here} has no {name}; {others} has; allowed here: {', '.join(names)}")
        raise InputError(f"unknown parameter {name!r}{did_you_mean(name, names)}; allowed: {', '.join(names)}")

    def dimensions(self) -> dict[str, tuple[Any, ...]]:
        """Return the labelled dimensions of the grid, without seed and step; surrogates only if there are several."""
        methods = {name: values for name, values in self.methods.items() if name != "surrogate" or len(values) > 1}
        swept = {name: values for name, values in self.parameters.items() if len(values) > 1}
        return {**methods, "group_size": self.group_sizes, **swept}

    def methods_without(self, name: str) -> list[str]:
        """Return the methods that lack a swept parameter, by their names along their dimension."""
        section, _, parameter = name.partition(".")
        if not parameter or section not in ("estimator", "surrogate"):
            return []
        having = set()
        for names in itertools.product(*self.methods.values()):
            if parameter in self.sections[self._arm(*names).text][section]:
                having.add(names[-1] if section == "surrogate" else names[0])
        return [method for method in self.methods["arm" if self.arms else section] if method not in having]

    def labels(self, others: Collection[str] = ()) -> dict[str, str]:
        """Return the dimensions' names in a result: bare ones where these are unambiguous and none of ``others``."""
        short = {name: name.rpartition(".")[2] for name in self.dimensions()}
        names = [*RESERVED_LABELS, *others, *short.values()]
        return {name: bare if names.count(bare) == 1 else name.replace(".", "_") for name, bare in short.items()}

    def cells(self) -> Iterator[tuple[tuple[int, ...], Cell]]:
        """Yield each cell with its index along ``dimensions()``."""
        dimensions = self.dimensions()
        fixed = {name: values[0] for name, values in self.parameters.items() if len(values) == 1}
        for index in itertools.product(*(range(len(values)) for values in dimensions.values())):
            point = {name: values[i] for i, (name, values) in zip(index, dimensions.items(), strict=True)}
            names = [point.pop(name, values[0]) for name, values in self.methods.items()]
            yield index, self._cell(self._arm(*names), point.pop("group_size"), fixed | point)

    def _cell(self, arm: Arm, group_size: int, values: Mapping[str, Any]) -> Cell:
        full = {section: dict(defaults) for section, defaults in self.sections[arm.text].items()}
        chosen: Sections = {"estimator": {}, "surrogate": {}}
        for name, value in values.items():
            section, _, parameter = name.partition(".")
            # A method without the parameter is the same cell all along that dimension, and is run once.
            if parameter in full[section]:
                chosen.get(section, full[section])[parameter] = value
        aggregation = full["run"].pop(AGGREGATION, arm.aggregation)
        others = {section: full[section] for section in ("problem", "optimizer", "run")}
        return Cell(arm.text, _with_values(arm, chosen, aggregation), group_size, others)

    def configuration(self) -> dict[str, Any]:
        """Return the sweep as plain data; the budget only where there is one, as in results of earlier versions."""
        plain = asdict(self)
        return plain if self.budget else {name: value for name, value in plain.items() if name != "budget"}

    @classmethod
    def from_configuration(cls, data: Mapping[str, Any]) -> "Sweep":
        """Rebuild a sweep from ``configuration()``, also after a round through JSON."""
        # Results that were written before storage had its name call it ``engine``.
        plain = {"storage" if name == "engine" else name: _as_tuples(value) for name, value in data.items()}
        plain["parameters"] = {name: _as_tuples(values) for name, values in data["parameters"].items()}
        if "budget" in plain:
            plain["budget"] = Budget(**plain["budget"])
        return cls(**plain)


def _as_tuples(value: Any) -> Any:
    return tuple(_as_tuples(item) for item in value) if isinstance(value, list) else value


def _open_parts(arm: Arm, *, is_pair: bool = False) -> Iterator[tuple[str, Term, dict[str, Any]]]:
    """Yield the parts of an arm with their section, and the defaults of parameters that they leave open."""
    for index, term in enumerate((arm.base, *arm.added)):
        find = added_constructor if index else estimator_constructor if is_pair else base_constructor
        defaults = find(term.name).defaults
        fixed = dict(term.parameters)
        unset = {name: value for name, value in defaults.items() if name not in fixed and isinstance(value, WRITTEN)}
        yield "surrogate" if index else "estimator", term, unset


def _with_values(arm: Arm, values: Sections, aggregation: str | None) -> Arm:
    """Return the arm with values, by section, for parameters that it leaves open, and with an aggregation."""
    parts = []
    for section, term, unset in _open_parts(arm):
        # None and truth values are words in an arm.
        written = {
            name: str(value).lower() if value is None or isinstance(value, bool) else value
            for name, value in values[section].items()
            if name in unset
        }
        parts.append(Term(term.name, tuple(sorted([*term.parameters, *written.items()]))))
    base, *added = parts
    filled = replace(arm, base=base, added=tuple(added), aggregation=aggregation)
    return replace(filled, text=str(filled))


def read_total(text: str) -> float:
    """Read a budget: a number, or a power such as ``2^18``.

    >>> read_total("2e4"), read_total("2^18")
    (20000.0, 262144.0)
    """
    base, mark, exponent = text.partition("^")
    try:
        return math.pow(read_number(base), read_number(exponent) if mark else 1)
    except (OverflowError, ValueError):
        raise InputError(f"{shortened(text)} is no number; allowed: such as 262144, 2e5 or 2^18") from None


def _exact(number: float) -> Fraction:
    """Return a number as it is written, so that 0.3 pays for three steps of 0.1."""
    return Fraction(str(number))
