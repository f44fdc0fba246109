"""What is simulated: the choices that shape a compiled program, and the numbers that it takes."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from simlab.errors import InputError, check_choice, check_range, check_whole
from simlab.estimators import REGISTRY, Estimator, estimator
from simlab.identity.source import Unseen, own_source
from simlab.simulate.optimizers import OPTIMIZERS, optimizer
from simlab.methods import Method
from simlab.simulate.gradients import UPDATE_RULES

from simlab.surrogates import AGGREGATIONS, SURROGATES, Surrogate, surrogate

SUPPLIED = frozenset({"rewards", "old_logp", "entropy", "noise"})
SUPPLIED_TO_SURROGATES = SUPPLIED | {"topn_logp"}  # as many candidates as the surrogate moves
LARGEST_INT = 2**31 - 1  # JAX counts in 32 bits unless it is told otherwise
DTYPES = ("float32", "float64")
STORAGES = ("auto", "dense", "lumped", "sharded")
Choices = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class StaticSettings:
    """What shapes the compiled program. Two runs that differ only in numbers (``TracedSettings``) share one compilation.

    Attributes:
        group_size: G.
        estimator: a registered name, or an estimator.
        estimator_choices: its parameters that are not floats, as sorted pairs.
        surrogate: a registered name, or a surrogate.
        surrogate_choices: its parameters that are not floats, as sorted pairs.
        optimizer: an optimiser's name.
        update_rule: see ``rule_factor``.
        gradient_steps: gradient steps per sampled group.
        uses_kl, uses_entropy_bonus: whether those terms are computed at all.
        fixes_update_norm: whether every update is scaled to the norm that the numbers give.
        pass_at_k: the k whose pass@k is recorded.
        top_n: how many of the largest log-probabilities are recorded.
        dtype: "float32" or "float64".
        prompts_per_step: how many prompts of a bank a step draws, without replacement; 0 for all of them.
        engine: "dense" carries every action, "lumped" those that were sampled and classes of the others, "sharded"
            every action on as many devices as hold them; "auto" is the one whose step costs less, and sharded instead
            of dense from 2^24 actions on (``simlab.simulate.engine``).
        aggregation: the weight of each token in the loss, see ``aggregation_weights``; all are one where a rollout has
            one token. "constant" adds up a rollout's tokens.
        own: a fingerprint of the user's own code in it, which ``identified`` fills in: a name may come to mean another
            estimator, and an estimator to read another value of its module.

    Raises:
        InputError: for a value outside its range, or an estimator or surrogate that needs what this engine cannot
            supply.
    """

    group_size: int
    estimator: str | Estimator = "grpo"
    estimator_choices: Choices = ()
    surrogate: str | Surrogate = "ppo_clip"
    surrogate_choices: Choices = ()
    optimizer: str = "adam"
    update_rule: str = "simulator"
    gradient_steps: int = 1
    uses_kl: bool = False
    uses_entropy_bonus: bool = False
    fixes_update_norm: bool = False
    pass_at_k: tuple[int, ...] = ()
    top_n: int = 0
    dtype: str = "float32"
    storage: str = "auto"
    prompts_per_step: int = 0
    aggregation: str = "token_mean"
    own: str | None = None

    def __post_init__(self) -> None:
        check_whole("group_size", self.group_size, 1, 2**24)
        check_whole("gradient_steps", self.gradient_steps, 1, LARGEST_INT)
        check_whole("top_n", self.top_n, 0, LARGEST_INT)
        check_whole("prompts_per_step", self.prompts_per_step, 0, LARGEST_INT)
        check_choice("optimizer", self.optimizer, sorted(OPTIMIZERS))
        check_choice("update_rule", self.update_rule, UPDATE_RULES)
        check_choice("dtype", self.dtype, DTYPES)
        check_choice("storage", self.storage, STORAGES)
        check_choice("aggregation", self.aggregation, AGGREGATIONS)
        for k in self.pass_at_k:
            check_whole("pass_at_k", k, 1, LARGEST_INT)
        moves = self.build_surrogate({})
        self._check_supply("estimator", self.build_estimator({}).needs, SUPPLIED)
        self._check_supply("surrogate", moves.needs, SUPPLIED_TO_SURROGATES)
        if moves.candidates and self.update_rule != "simulator":
            raise InputError(f"update_rule = {self.update_rule!r} with a surrogate of candidates; allowed: simulator")

    @staticmethod
    def _check_supply(kind: str, needs: frozenset[str], supplied: frozenset[str]) -> None:
        if missing := needs - supplied:
            raise InputError(f"this {kind} needs {sorted(missing)}; the simulator supplies {sorted(supplied)}")

    @property
    def exchangeable(self) -> bool:
        """Whether a group may be filled up with absent rollouts, and listed in any order: see ``Link``."""
        return self.build_estimator({}).exchangeable and self.build_surrogate({}).exchangeable

    def method(self, numbers: "TracedSettings") -> Method:
        """The method with its float parameters, which may be traced."""
        return Method(self.build_estimator(numbers.estimator), self.build_surrogate(numbers.surrogate), self.aggregation)

    def build_estimator(self, floats: Mapping[str, Any]) -> Estimator:
        """The estimator with its float parameters, which may be traced."""
        if isinstance(self.estimator, Estimator):
            return self.estimator
        return estimator(self.estimator, **dict(self.estimator_choices), **floats)

    def estimator_text(self, numbers: "TracedSettings") -> str:
        """What a message calls the estimator: its name and parameters, or its links."""
        if isinstance(self.estimator, Estimator):
            return self.estimator.name
        given = dict(self.estimator_choices) | dict(numbers.estimator)
        return f"{self.estimator}({', '.join(f'{name}={value}' for name, value in given.items())})"

    def build_surrogate(self, floats: Mapping[str, Any]) -> Surrogate:
        """The surrogate with its float parameters, which may be traced."""
        if isinstance(self.surrogate, Surrogate):
            return self.surrogate
        return surrogate(self.surrogate, **dict(self.surrogate_choices), **floats)

    def own_code(self) -> str | None:
        """A fingerprint of the user's own code in it, of its constructors and of what they make; None if there is none.

        Raises:
            Unseen: for code, or what it holds, that cannot be told from another.
        """
        named = ((REGISTRY, self.estimator), (SURROGATES, self.surrogate), (OPTIMIZERS, self.optimizer))
        constructors = [known[name] for known, name in named if isinstance(name, str)]
        return own_source((constructors, self.build_estimator({}), self.build_surrogate({})))

    def identified(self) -> "StaticSettings":
        """The program with ``own`` as it is now; with None where that cannot be seen, so that only objects differ."""
        try:
            return replace(self, own=self.own_code())
        except Unseen:
            return replace(self, own=None)


class TracedSettings(NamedTuple):
    """The float parameters of a run, which may differ between the lanes of one compiled program.

    ``estimator``, ``surrogate`` and ``optimizer`` map parameter names to values; the others are scalars. ``run_lanes``
    takes the problem's rewards where none are given. ``update_norm`` is the Euclidean norm of every update of the
    parameters, where the program fixes it.
    """

    estimator: dict[str, Any]
    surrogate: dict[str, Any]
    optimizer: dict[str, Any]
    temperature: Any = 1.0
    kl: Any = 0.0
    entropy_bonus: Any = 0.0
    update_norm: Any = 0.0


def check_numbers(program: StaticSettings, numbers: TracedSettings) -> None:
    """Raise ``InputError`` unless these are numbers that the program takes, each inside its range and its dtype.

    What is traced by JAX cannot be checked: this is for those who have the numbers, before they run.
    """
    numbers = TracedSettings(*(_on_host(value) for value in numbers))
    scalars = {name: value for name, value in numbers._asdict().items() if not isinstance(value, Mapping)}
    given = {name: value for name, value in scalars.items() if value is not None}
    makers = {
        "estimator": REGISTRY[program.estimator].build if isinstance(program.estimator, str) else None,
        "surrogate": SURROGATES[program.surrogate] if isinstance(program.surrogate, str) else None,
        "optimizer": OPTIMIZERS[program.optimizer],
    }
    for section, make in makers.items():
        parameters = getattr(numbers, section)
        _check_names(section, make, parameters)
        for name, value in parameters.items():
            check_fits(name, value, program.dtype)
    for name, value in given.items():
        check_fits(name, value, program.dtype)
    program.build_estimator(numbers.estimator)
    program.build_surrogate(numbers.surrogate)
    optimizer(program.optimizer, **numbers.optimizer)
    check_range("temperature", numbers.temperature, 0, open_low=True)
    check_range("kl", numbers.kl, 0)
    check_range("update_norm", numbers.update_norm, 0, open_low=program.fixes_update_norm)
    for name, flag in (
        ("kl", "uses_kl"),
        ("entropy_bonus", "uses_entropy_bonus"),
        ("update_norm", "fixes_update_norm"),
    ):
        if given[name] != 0 and not getattr(program, flag):
            raise InputError(f"{name} = {given[name]} would have no effect; allowed: with StaticSettings({flag}=True), or 0")


def _on_host(value: Any) -> Any:
    """A number of an array library as NumPy's, which can be compared; all else as it is."""
    if isinstance(value, Mapping):
        return {name: _on_host(inner) for name, inner in value.items()}
    return np.asarray(value)[()] if hasattr(value, "dtype") else value


def check_fits(name: str, value: Any, dtype: str) -> None:
    """Raise ``InputError`` unless a value is one number that the dtype holds, neither as infinity nor as 0."""
    if np.shape(value):
        raise InputError(f"{name} has shape {np.shape(value)}; allowed: one number")
    check_range(name, value)
    limits, size = np.finfo(dtype), abs(float(value))
    least, most = float(limits.smallest_normal), float(limits.max)
    if size > most or 0 < size < least:
        raise InputError(f"{name} = {value}; allowed: 0, and numbers of size {least:g} to {most:g}, those of {dtype}")


def _check_names(section: str, make: Callable[..., Any] | None, parameters: Mapping[str, Any]) -> None:
    """Refuse parameters of what is built already, and those that shape the program."""
    if make is None:
        if parameters:
            raise InputError(f"{section} parameters {sorted(parameters)} of one that is built; allowed: none")
        return
    known = inspect.signature(make).parameters
    for name in parameters:
        default = known[name].default if name in known else 0.0
        if isinstance(default, str | int):
            raise InputError(f"{name} is no float; allowed: in StaticSettings({section}_choices=...)")
