"""Settings of a run, in two halves: static ones shape the compiled program, traced ones, the floats, are its inputs."""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from simlab.arms import Arm, parse
from simlab.errors import InputError, check_choice, check_range, check_whole
from simlab.fingerprint import Unhashable, own_source
from simlab.methods import Method
from simlab.simulator import mismatch
from simlab.simulator.allocation import ALLOCATIONS, INFORMED, RAGGED, RATE_SOURCES, USUAL_ROOM
from simlab.simulator.optimizers import OPTIMIZERS, optimizer, optimizer_defaults
from simlab.simulator.policy import UPDATE_RULES
from simlab.simulator.verifier import ERRORS_OF, check_errors

SUPPLIED = frozenset(
    {"rewards", "old_logp", "entropy", "collision", "teacher_logp", "noise", "greedy_reward", "parts", "role"}
)
SUPPLIED_TO_SURROGATES = SUPPLIED | {"topn_logp"}  # as many candidates as the surrogate moves
LARGEST_INT = 2**31 - 1  # JAX counts in 32 bits unless it is told otherwise
LARGEST_GROUP = 2**24
LARGEST_LAG = 1024  # a run keeps the parameters of as many steps
DTYPES = ("float32", "float64")
TRUE_REWARD, PLACEBO, PLACEBO_BY_GROUP = REWARDS = ("true", "placebo", "placebo_by_group")
SWITCHES = ("kl", "entropy_bonus", "supervised", "update_norm", "isolation")  # 0 turns each off
NO_REMEDY, ENDANGERED = "none", "endangered"
REMEDIES = (NO_REMEDY, "damp", "drop", "project", ENDANGERED)  # see ``simlab.simulator.remedy``
KNOWN_BY = ("memory", "step", "exact")
STORAGES = ("auto", "dense", "lumped", "sharded")
WHOLE_NUMBERS = {
    "group_size": (1, LARGEST_GROUP), "epochs": (1, LARGEST_INT), "minibatches": (1, LARGEST_INT),
    "top_n": (0, LARGEST_INT), "prompts_per_step": (0, LARGEST_INT), "lag": (0, LARGEST_LAG), "top_k": (0, LARGEST_INT),
    "smallest_group": (1, LARGEST_GROUP), "largest_group": (0, LARGEST_GROUP),
}  # fmt: skip
CHOICES = {
    "optimizer": sorted(OPTIMIZERS), "update_rule": UPDATE_RULES, "sampler": mismatch.SAMPLERS,
    "correction": mismatch.CORRECTIONS, "correction_unit": mismatch.UNITS, "allocation": ALLOCATIONS,
    "allocation_by": RATE_SOURCES, "reward": REWARDS, "dtype": DTYPES, "storage": STORAGES,
    "remedy": REMEDIES, "remedy_by": KNOWN_BY,
}  # fmt: skip
RANGES = {
    "kl": (0, math.inf), "supervised": (0, math.inf), "update_norm": (0, math.inf), "correction_bound": (1, math.inf),
    "isolation": (0, 1), "tempering": (1, math.inf), "tempering_memory": (0, 1),
    "remedy_strength": (0, 1),
}  # fmt: skip


class TracedSettings(NamedTuple):
    """The floats of a run: of its arm by path (``Arm.floats``), of its optimiser by name, and its own."""

    method: dict[str, Any]
    optimizer: dict[str, Any]
    temperature: Any = 1.0
    kl: Any = 0.0
    entropy_bonus: Any = 0.0
    supervised: Any = 0.0
    update_norm: Any = 0.0
    false_positive: Any = 0.0
    false_negative: Any = 0.0
    top_p: Any = 1.0
    correction_bound: Any = 2.0
    isolation: Any = 0.0
    teacher: Any = 4.0
    tempering: Any = 1.0
    tempering_target: Any = 0.5
    tempering_memory: Any = 0.95
    remedy_strength: Any = 1.0


FLOATS = tuple(TracedSettings._field_defaults)


@dataclass(frozen=True)
class Settings:
    """The settings with which a problem is learned.

    Attributes:
        method: text such as ``"f_grpo(gamma=0.5)+clip_higher"`` (see ``simlab.arms``), an ``Arm``, or a ``Method``.
        group_size: G, rollouts of each prompt.
        optimizer: "adam", "adamw", "momentum", "muon" or "sgd".
        optimizer_parameters: such as ``{"learning_rate": 0.05}``; the others keep their defaults.
        temperature: the temperature of the sampled policy, softmax(logits / temperature).
        kl: coefficient of the penalty KL(pi || pi_0).
        entropy_bonus: coefficient of the entropy.
        supervised: coefficient of the mean log-likelihood of demonstrations, the correct answers of pi_0: its exact
            gradient, with pi_0 given that the answer is correct.
        update_norm: the Euclidean norm to which every update of the parameters is scaled; 0 turns this off.
        epochs: passes over each batch.
        minibatches: into how many parts of equal size the prompts of a batch are split. Each takes a gradient step of
            its own, in an order that is the same in all epochs; all steps but the first are off-policy.
        prompts_per_step: how many prompts a step draws, without replacement; 0 for all of them.
        update_rule: see ``simlab.simulator.policy.rule_factor``.
        false_positive: probability that the verifier accepts a wrong rollout.
        false_negative: probability that it rejects a correct one.
        errors_of: the unit of an error: a "rollout", an "answer" (always the same), or a "prompt" (all its wrong, or
            all its correct, answers).
        verifier_correction: "none", "backward" or "forward", for these rates: see ``simlab.simulator.verifier``.
        reward: "true", or a placebo that no answer earns, at the same rate: "placebo" pays a rollout what another
            answer of the same policy would get, "placebo_by_group" deals the rewards of a group out at random.
        lag: how many steps old the sampler is; during the first ``lag`` steps the initial policy samples.
        sampler: the distribution that draws the groups: the policy as it is ("exact"), its logits in another precision
            ("bfloat16", "float16"), or the policy without its rarer actions ("top_p", "top_k"; dense storage only).
        top_p: the least share of probability that the sampler "top_p" keeps.
        top_k: how many actions the sampler "top_k" keeps, 0 for all.
        correction: for a sampler that is not the policy: "none", "ratio", "decoupled", "truncated" or "masked", see
            ``simlab.simulator.mismatch``.
        correction_unit: the unit of an importance weight: each "token", or the "sequence" of a rollout's tokens.
        correction_bound: the largest importance weight.
        isolation: probability threshold: less likely tokens get their gradient steps first, the others afterwards
            (Lopti); 0 turns this off. See ``simlab.simulator.mismatch.takes_part``.
        tempering: how many times hotter an unsolved prompt is sampled, see ``simlab.simulator.tempering``; 1 is off.
        tempering_target: the solve rate of a prompt that is sampled at ``temperature``.
        tempering_memory: share of a prompt's counts that is kept when its next group comes.
        teacher: added to the logits of the correct answers of pi_0 to make the teacher of methods that follow one.
        allocation: how the rollouts of a step are allocated: "even", "knapsack", "variance", "learnable", "dynamic",
            "sequential" or "until_solved", see ``simlab.simulator.allocation``.
        allocation_by: the solve rates on which the allocation relies: "estimate" (the prompt's last group) or "exact".
        smallest_group, largest_group: bounds on the group sizes of "knapsack", "variance", "sequential" and
            "until_solved"; largest_group = 0 means 4 G.
        remedy: what is done where prompts harm one another: "none", "damp", "drop", "project" or "endangered", see
            ``simlab.simulator.remedy``.
        remedy_by: by what that is known: each prompt's last group with both outcomes ("memory"), the groups of the step
            itself ("step"), or the exact solve rates ("exact").
        remedy_strength: from 0, no remedy, to 1.
        pass_at_k: the k whose pass@k is recorded.
        top_n: how many of the largest log-probabilities are recorded.
        dtype: "float32" or "float64".
        storage: "dense" keeps every action, "lumped" those that were sampled and classes of the others, "sharded" every
            action on as many devices as hold them; "auto" is the one whose step costs less (see ``costs.py``).

    Raises:
        InputError: for a value outside its range, a method that needs what the simulator cannot supply, and as
            ``simlab.arms.parse``.
    """

    method: str | Arm | Method
    group_size: int = 8
    optimizer: str = "adam"
    optimizer_parameters: Mapping[str, float] = field(default_factory=dict, hash=False)
    temperature: float = 1.0
    kl: float = 0.0
    entropy_bonus: float = 0.0
    supervised: float = 0.0
    update_norm: float = 0.0
    epochs: int = 1
    minibatches: int = 1
    prompts_per_step: int = 0
    update_rule: str = "simulator"
    false_positive: float = 0.0
    false_negative: float = 0.0
    errors_of: str = "rollout"
    verifier_correction: str = "none"
    reward: str = TRUE_REWARD
    lag: int = 0
    sampler: str = "exact"
    top_p: float = 1.0
    top_k: int = 0
    correction: str = "none"
    correction_unit: str = "token"
    correction_bound: float = 2.0
    isolation: float = 0.0
    teacher: float = 4.0
    tempering: float = 1.0
    tempering_target: float = 0.5
    tempering_memory: float = 0.95
    remedy: str = NO_REMEDY
    remedy_by: str = KNOWN_BY[0]
    remedy_strength: float = 1.0
    allocation: str = "even"
    allocation_by: str = "estimate"
    smallest_group: int = 2
    largest_group: int = 0
    pass_at_k: tuple[int, ...] = ()
    top_n: int = 0
    dtype: str = "float32"
    storage: str = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.method, str | Arm | Method):
            raise InputError(f"method is a {type(self.method).__name__}; allowed: text, an Arm or a Method")
        for name in FLOATS:
            object.__setattr__(self, name, _to_numpy(getattr(self, name)))
        moments = {name: _to_numpy(value) for name, value in self.optimizer_parameters.items()}
        object.__setattr__(self, "optimizer_parameters", moments)
        for name, (low, high) in WHOLE_NUMBERS.items():
            check_whole(name, getattr(self, name), low, high)
        for name, allowed in CHOICES.items():
            check_choice(name, getattr(self, name), allowed)
        if self.allocation in {"variance", "sequential"}:
            check_whole("smallest_group", self.smallest_group, 2, LARGEST_GROUP)
        for name, usual in (("top_p", 1.0), ("top_k", 0)):
            if self.sampler != name and getattr(self, name) != usual:
                setting = f"{name} = {getattr(self, name)} with sampler = {self.sampler!r}"
                raise InputError(f"{setting}; allowed: {usual:g}, or sampler = {name!r}")
        for k in self.pass_at_k:
            check_whole("pass_at_k", k, 1, LARGEST_INT)
        self._check_numbers()
        self._check_method(self.build())

    def _check_method(self, method: Method) -> None:
        stages = ("estimator", method.estimator, SUPPLIED), ("surrogate", method.surrogate, SUPPLIED_TO_SURROGATES)
        for kind, stage, supplied in stages:
            if missing := stage.needs - supplied:
                raise InputError(f"this {kind} needs {sorted(missing)}; the simulator supplies {sorted(supplied)}")
        errors = [name for name in ("false_positive", "false_negative") if getattr(self, name) > 0]
        if "greedy_reward" in method.needs and errors:
            setting = f"{errors[0]} = {getattr(self, errors[0]):g}"
            raise InputError(f"{setting} with a method that reads the greedy answer's reward; allowed: 0")
        self._check_placebo(method, errors)
        otherwise = [name for name, usual in (("lag", 0), ("sampler", "exact")) if getattr(self, name) != usual]
        if method.surrogate.candidates and otherwise:
            setting = f"{otherwise[0]} = {getattr(self, otherwise[0])!r}"
            raise InputError(f"{setting} with a surrogate of candidates; allowed: lag = 0 and sampler = 'exact'")
        if method.surrogate.candidates and self.update_rule != "simulator":
            raise InputError(f"update_rule = {self.update_rule!r} with a surrogate of candidates; allowed: simulator")

    def _check_placebo(self, method: Method, errors: list[str]) -> None:
        wrong = [f"{name} = {getattr(self, name):g}" for name in errors]
        wrong += ["a method that reads the greedy answer's reward"] * ("greedy_reward" in method.needs)
        if self.reward != TRUE_REWARD and wrong:
            raise InputError(f"reward = {self.reward!r} with {wrong[0]}; allowed: {TRUE_REWARD}")

    def _check_numbers(self) -> None:
        """Refuse numbers outside their range, or that the dtype does not hold."""
        for name, value in (*self.traced.method.items(), *self.traced.optimizer.items()):
            check_fits(name.rpartition(".")[2], value, self.dtype)
        for name in FLOATS:
            check_fits(name, getattr(self, name), self.dtype)
        optimizer(self.optimizer, **self.optimizer_parameters)
        check_range("temperature", self.temperature, 0, open_low=True)
        check_range("top_p", self.top_p, 0, 1, open_low=True)
        check_range("tempering_target", self.tempering_target, 0, 1, open_low=True)
        if self.tempering_target == 1:
            raise InputError("tempering_target = 1 is outside its range (0, 1)")
        for name, (low, high) in RANGES.items():
            check_range(name, getattr(self, name), low, high)
        check_errors(self.false_positive, self.false_negative, self.errors_of, self.verifier_correction)

    @functools.cached_property
    def arm(self) -> Arm | Method:
        """The method, read if it is text."""
        return parse(self.method) if isinstance(self.method, str) else self.method

    def build(self, floats: Mapping[str, Any] | None = None) -> Method:
        """Build the method, with other floats than its own if there are any, which may be traced."""
        return self.arm if isinstance(self.arm, Method) else self.arm.build(floats)

    @property
    def rollouts_a_prompt(self) -> int:
        """The mean number of answers a step samples for a prompt: G, and the greedy one if the method reads it."""
        return self.group_size + ("greedy_reward" in self.build().needs)

    @property
    def dense_alone(self) -> str:
        """The setting that needs every action in its row, so dense storage; empty if there is none."""
        if self.sampler in mismatch.TRUNCATIONS:
            return f"sampler = {self.sampler!r}"
        if self.tempering != 1:
            return f"tempering = {self.tempering:g}"
        if self.remedy != NO_REMEDY:
            return f"remedy = {self.remedy!r}"
        return "optimizer = 'muon'" if self.optimizer == "muon" else ""

    @property
    def name(self) -> str:
        """The name of the method in messages."""
        return self.arm.estimator.name if isinstance(self.arm, Method) else str(self.arm)

    @property
    def traced(self) -> TracedSettings:
        """The floats."""
        floats = {} if isinstance(self.arm, Method) else self.arm.floats
        moments = optimizer_defaults(self.optimizer) | dict(self.optimizer_parameters)
        return TracedSettings(floats, moments, **{name: getattr(self, name) for name in FLOATS})

    @property
    def static(self) -> "StaticSettings":
        """The settings that shape the compiled program."""
        try:
            code = self.user_code()
        except Unhashable:  # only objects differ then, not what they hold
            code = None
        same: dict[str, Any] = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        same |= {name: float(getattr(self, name) != 0) for name in SWITCHES}
        same |= {"method": self._shape, "optimizer_parameters": {}, "pass_at_k": tuple(self.pass_at_k)}
        same |= {"temperature": 1.0, "top_p": 1.0, "correction_bound": 1.0, "teacher": 1.0, "code": code}
        same |= {"tempering": 1.0 + (self.tempering != 1), "tempering_target": 0.5, "tempering_memory": 1.0}
        same |= {"remedy_strength": 1.0}
        if self.false_positive == self.false_negative == 0:
            # Runs without errors share a program, whatever their errors would belong to.
            same["errors_of"] = ERRORS_OF[0]
        else:
            same["false_positive"] = same["false_negative"] = 1.0
        return StaticSettings(**same)

    @property
    def _shape(self) -> Arm | Method:
        """The arm without its floats, or a method that is built."""
        return self.arm if isinstance(self.arm, Method) else self.arm.without_floats()

    def user_code(self) -> str | None:
        """Return a fingerprint of the user's code in it, None if there is none; or raise ``Unhashable``."""
        shape = self._shape
        method = shape if isinstance(shape, Method) else shape.build()
        return own_source((method, OPTIMIZERS[self.optimizer]))


@dataclass(frozen=True)
class StaticSettings(Settings):
    """The part of a run's settings that shapes its compiled program; ``Settings.static`` makes it.

    Its floats are 1 where those of the run are not 0. ``code`` is the fingerprint of the user's code.
    """

    code: str | None = None

    def __post_init__(self) -> None:
        """Check nothing: what it is made of is checked."""

    @property
    def errs(self) -> bool:
        """True if the verifier ever errs."""
        return bool(self.false_positive != 0 or self.false_negative != 0)

    @property
    def samples_otherwise(self) -> bool:
        """True if the sampler may be another policy than the one that learns."""
        return self.lag > 0 or self.sampler != "exact"

    @property
    def gradient_steps(self) -> int:
        """The number of gradient steps of each batch; all but the first are off-policy."""
        return self.epochs * self.minibatches * (2 if self.isolation else 1)

    @property
    def is_off_policy(self) -> bool:
        """True if any gradient step learns from rollouts that another policy has drawn."""
        return self.gradient_steps > 1 or self.samples_otherwise

    @property
    def is_tempered(self) -> bool:
        """True if each prompt has a temperature of its own."""
        return self.tempering != 1

    @property
    def is_ragged(self) -> bool:
        """True if groups differ in size."""
        return self.allocation in RAGGED

    @property
    def room(self) -> int:
        """The most rollouts that a group can hold: G, or the largest group that an allocation may give."""
        return (self.largest_group or USUAL_ROOM * self.group_size) if self.is_ragged else self.group_size

    @property
    def remembers_solve_rates(self) -> bool:
        """True if the allocation goes by the solve rates of earlier groups."""
        return self.allocation in INFORMED and self.allocation_by == "estimate"

    @property
    def exchangeable(self) -> bool:
        """True if a group may be padded with absent rollouts, and listed in any order: see ``Link``."""
        method = self.build()
        return method.estimator.exchangeable and method.surrogate.exchangeable


def _to_numpy(value: Any) -> Any:
    """Convert a number of an array library to NumPy's, which can be compared."""
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
