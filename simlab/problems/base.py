"""The base class of problems: prompts with their actions, arrays over them, and the policy of given parameters.

A frozen dataclass of NumPy arrays; on a device its methods meet JAX arrays. ``tests/own_problem.py`` is an example.
"""

import dataclasses
import functools
import hashlib
import importlib
import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from simlab.errors import InputError, check_range
from simlab.problems.rewards import FIELDS, NOISE_OF, binary_rewards, graded_rewards
from simlab.reading import read_bytes, reason

AnyArray = np.ndarray | jax.Array  # of a problem on the host, or on a device
LARGEST_ARRAY = 2**31 - 1  # actions that can be listed
LARGEST_COUNT = 10**18  # actions that can be counted
LARGEST_LIST = 2**28  # bytes of a file of numbers


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """M prompts, the actions that a rollout of each may end in, and which of them are correct.

    A subclass adds its arrays, among them ``correct`` and ``target``, and gives ``parameters`` and ``logits_of``.
    Arrays over actions may hold each class of equal actions once. ``InputError`` for bad counts or rewards of the wrong
    sign.

    Attributes:
        counts: (C,) how many actions each entry of the arrays over actions stands for; None if one each.
        reward_correct: reward of a correct rollout, above 0, where there are no ``rewards``.
        reward_incorrect: reward of any other, at most 0.
        rewards: the rewards of actions, whatever is correct: (C,) graded, or (R, C) in R parts; of prompts that differ
            (M, C) or (M, R, C). Kept as (M, R, C). None for the two rewards above. ``advantages`` has parts on the last
            axis; transposed ones are refused here by their shape, but where R = C, which nothing tells.
        reward_parts: the names of the R parts.
        reward_weights: (R,) the weights of the parts in their sum, which is the reward of a rollout; by default 1.
        reward_noise: (R,) the standard deviation of the normal noise that is added to each part; None for no noise.
        noise_of: the unit that has a noise of its own: a "rollout", an "answer" (always the same), or a "prompt" (all
            its wrong, or all its correct, answers).
    """

    # The arrays that have an axis of actions, and which of their axes that is.
    over_actions: ClassVar[Mapping[str, int]] = {}
    # True if the parameters have a first axis of prompts, of which a batch touches its own rows alone.
    has_own_parameters: ClassVar[bool] = False
    # True if the parameters are the logits of its one prompt, so that a step may move those of a group alone.
    parameters_are_logits: ClassVar[bool] = False
    # The module and the name of its metrics, which the simulator has.
    metrics_at: ClassVar[str] = "simlab.simulator.metrics:USUAL_METRICS"
    # True if lumped storage can hold the problem, and if sharded storage can.
    lumps: ClassVar[bool] = True
    shards: ClassVar[bool] = True
    # About how many arrays of the size of the parameters its history holds, see ``first_history``.
    histories: ClassVar[int] = 0

    counts: Int[np.ndarray, " C"] | None = dataclasses.field(default=None, kw_only=True)
    reward_correct: float = dataclasses.field(default=1.0, kw_only=True)
    reward_incorrect: float = dataclasses.field(default=0.0, kw_only=True)
    rewards: Any = dataclasses.field(default=None, kw_only=True)
    reward_parts: tuple[str, ...] = dataclasses.field(default=(), kw_only=True)
    reward_weights: Any = dataclasses.field(default=None, kw_only=True)
    reward_noise: Any = dataclasses.field(default=None, kw_only=True)
    noise_of: str = dataclasses.field(default=NOISE_OF[0], kw_only=True)

    if TYPE_CHECKING:  # fields of every problem, which each declares where it likes among its own

        @property
        def correct(self) -> Bool[AnyArray, "*M C"]:
            """True for correct actions."""

        @property
        def target(self) -> Bool[AnyArray, "*M C"]:
            """True for the correct actions of the target set."""

    def __init_subclass__(cls) -> None:
        jax.tree_util.register_pytree_node(cls, _taken_apart, functools.partial(_put_together, cls))

    def __post_init__(self) -> None:
        if self.counts is not None:
            _check_counts(self.counts, self.entries)
        binary_rewards(self.reward_correct, self.reward_incorrect)
        if self.rewards is None:
            for name in FIELDS[1:4]:
                if (value := getattr(self, name)) is not None and len(value):
                    raise InputError(f"{name} = {value} without rewards; allowed: beside rewards=")
            return
        if (self.reward_correct, self.reward_incorrect) != (1, 0):
            both = f"reward_correct = {self.reward_correct} and reward_incorrect = {self.reward_incorrect}"
            raise InputError(f"{both} beside rewards; allowed: either those two, or rewards")
        stated = {name: getattr(self, name) for name in FIELDS}
        for name, value in graded_rewards(stated, self.prompts, self.entries).items():
            object.__setattr__(self, name, value)

    # What it is

    @property
    def prompts(self) -> int:
        """M."""
        return 1

    @property
    def tokens(self) -> int:
        """T, the tokens of a rollout."""
        return 1

    @property
    def axes(self) -> dict[str, int]:
        """Axis of the actions of each array that has one: ``over_actions``, and the rewards."""
        return {**self.over_actions} if self.rewards is None else {**self.over_actions, "rewards": 2}

    @property
    def stated_rewards(self) -> dict[str, Any]:
        """Fields that say what a rollout is paid, to be those of another problem on the same actions."""
        return {name: getattr(self, name) for name in ("reward_correct", "reward_incorrect", *FIELDS)}

    @property
    def totals(self) -> Float[np.ndarray, "#M C"]:
        """Reward of each action, without noise: the weighted sum of its parts."""
        if self.rewards is None:
            paid: np.ndarray = np.where(self.correct, self.reward_correct, self.reward_incorrect)
            return np.atleast_2d(paid)
        sums: np.ndarray = np.einsum("mrc,r->mc", self.rewards, self.reward_weights)
        return sums

    @property
    def entries(self) -> int:
        """Length of the axis of actions: the number of classes where there are ``counts``, else of actions."""
        name, axis = next(iter(self.over_actions.items()))
        return int(getattr(self, name).shape[axis])

    @property
    def actions(self) -> int:
        """Number of outcomes of a rollout: N actions, or the leaves of a tree."""
        return self.entries if self.counts is None else sum(int(count) for count in self.counts)

    @property
    def parameters(self) -> Any:
        """Parameters that the optimiser moves, at the start: an array or a tree of them, by default its logits."""
        return vars(self)["logits"]

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of everything that the problem is."""
        digest = hashlib.sha256(type(self).__qualname__.encode())
        for name, value in _entries(_fields(self)):
            array = None if value is None else np.asarray(value)
            digest.update(f"{name} {None if array is None else (array.shape, str(array.dtype))}".encode())
            digest.update(b"" if array is None else array.tobytes())
        return digest.hexdigest()

    @property
    def parameters_an_action(self) -> float:
        """The number of parameters over the number of actions."""
        return np.size(self.parameters) / self.entries

    @property
    def numbers(self) -> int:
        """Number of numbers that a run carries where every action is listed."""
        return max(np.size(self.parameters) // self.entries, self.prompts) * self.actions

    def prompts_a_step(self, settings: Any) -> int:
        """P, how many prompts a step draws: all of them, unless the settings say fewer."""
        return settings.prompts_per_step or self.prompts

    def step_numbers(self, batch: int) -> tuple[int, int]:
        """Count the numbers that a step on a batch of prompts passes over, and the products that it adds up."""
        return self.numbers, 0

    @property
    def choices(self) -> int:
        """Number of values of a token: the actions, or those of a node of a tree."""
        return self.actions

    def check_listed(self) -> None:
        """Raise ``InputError`` for more actions than arrays can hold."""
        if (actions := self.actions * self.prompts) > LARGEST_ARRAY:
            allowed = f"up to {LARGEST_ARRAY}, or lumped storage"
            raise InputError(f"actions = {actions} cannot be listed; allowed: {allowed}")

    # The same problem, its actions listed or by classes

    def listed(self) -> Self:
        """Return the problem with an entry for each action, class after class; ``InputError`` as ``check_listed``."""
        if self.counts is None:
            return self
        self.check_listed()
        axes = self.axes
        repeated: dict[str, Any] = {name: np.repeat(getattr(self, name), self.counts, axes[name]) for name in axes}
        return dataclasses.replace(self, counts=None, **repeated)

    def by_classes(self) -> Self:
        """Return the problem with an entry for each class of actions that no array tells apart, as they first occur.

        Actions with logits 2, 1, 2, 0, all incorrect, become the classes 2, 1, 0 with counts 2, 1, 1.
        """
        if self.counts is not None:
            return self
        columns = [np.moveaxis(getattr(self, name), axis, 0) for name, axis in self.axes.items()]
        table = np.concatenate([values.reshape(len(values), -1).astype(float) for values in columns], axis=1)
        _, first, counts = np.unique(table, axis=0, return_index=True, return_counts=True)
        order, axes = np.argsort(first), self.axes
        distinct: dict[str, Any] = {name: np.take(getattr(self, name), first[order], axes[name]) for name in axes}
        return dataclasses.replace(self, counts=counts[order], **distinct)

    def replaced(self, **arrays: Any) -> Self:
        """Return the problem with other arrays, unchecked: traced ones, or ones with another layout."""
        fields = _fields(self) | arrays
        problem: Self = _put_together(type(self), (fields, ()), fields.values())
        return problem

    # How it is simulated

    def logits_of(self, parameters: Any, prompts: Int[Array, " P"] | None = None) -> Float[Array, "P ..."]:
        """Compute the logits of some prompts, or of all: by default the parameters, of the only one."""
        logits: Array = parameters[None]
        return logits

    def pullback(self, gradients: Float[Array, "P ..."], parameters: Any, prompts: Int[Array, " P"]) -> Any:
        """Compute the gradient of the parameters, from that of the logits of some prompts."""
        if self.parameters_are_logits:
            return gradients[0]
        _, back = jax.vjp(lambda moved: self.logits_of(moved, prompts), parameters)
        return back(gradients)[0]

    def policy(self, logits: Float[Array, " N"], temperature: Float[Array, ""], storage: Any, slots: Any) -> Any:
        """Make the policy of one prompt from its logits: see ``simlab.simulator.policy``."""
        from simlab.simulator.policy import softmax  # noqa: PLC0415  # the simulator imports problems

        return softmax(logits, temperature, storage, slots)

    @property
    def metrics(self) -> tuple[Any, ...]:
        """Metrics that are recorded of a run."""
        module, name = self.metrics_at.split(":")
        metrics: tuple[Any, ...] = getattr(importlib.import_module(module), name)
        return metrics

    @property
    def recorded(self) -> tuple[Any, ...]:
        """Its metrics, and those of graded rewards."""
        from simlab.simulator.metrics import GRADED_METRICS  # noqa: PLC0415  # the simulator imports problems

        return self.metrics if self.rewards is None else (*self.metrics, *GRADED_METRICS)

    def labels(self) -> Mapping[str, Sequence[Any]]:
        """Labels of the dimensions that its own metrics have."""
        return {}

    def check(self, settings: Any) -> None:
        """Raise ``InputError`` for settings that it cannot be run with."""

    # What only some need

    def drawn_logits(
        self, parameters: Any, prompts: Int[Array, " P"], groups: Any, look_up: Callable[..., Any]
    ) -> Float[Array, "P ..."]:
        """Return the logits that ``look_up`` finds each group drew, in which NaN or infinity shows up."""
        drawn: Array = look_up(self.logits_of(parameters, prompts), groups)
        return drawn

    def first_history(self, parameters: Any, prompts_per_step: int) -> Any:
        """Make the memory of the problem's own metrics: numbers, and arrays with the first axis of the parameters."""
        return None

    def next_history(
        self, history: Any, prompts: Int[Array, " P"], gradients: Float[Array, "P ..."], parameters: Any
    ) -> Any:
        """Update the memory after a step on a batch, by gradients of the logits, from these parameters."""
        return history

    def recorded_history(self, history: Any, parameters: Any) -> Any:
        """Update the memory after a record."""
        return history


def _fields(problem: Problem) -> dict[str, Any]:
    return {field.name: getattr(problem, field.name) for field in dataclasses.fields(problem)}


def _entries(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of fields, those of a dictionary one by one."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{key}", value[key]) for key in sorted(value))
        else:
            yield name, value


def _taken_apart(problem: Problem) -> tuple[list[Any], tuple[tuple[str, ...], tuple[tuple[str, Any], ...]]]:
    """Return the values of the fields with arrays, and what shapes a program: their names, and fields of text."""
    fields = _fields(problem)
    texts = {name: value for name, value in fields.items() if _is_text(value)}
    arrays = {name: value for name, value in fields.items() if name not in texts}
    return list(arrays.values()), (tuple(arrays), tuple(texts.items()))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, tuple) and all(isinstance(item, str) for item in value))


def _put_together(kind: type[Any], shaping: tuple[Iterable[str], Iterable[tuple[str, Any]]], values: Any) -> Any:
    """Rebuild a problem from its fields, without checks: JAX may have replaced them by traced arrays."""
    problem, (names, texts) = object.__new__(kind), shaping
    for name, value in (*zip(names, values, strict=True), *texts):
        object.__setattr__(problem, name, value)
    return problem


def _check_counts(counts: Int[np.ndarray, " C"], entries: int) -> None:
    """Raise ``InputError`` unless each of so many classes has at least one action, and all at most 10^18."""
    if not np.issubdtype(np.asarray(counts).dtype, np.integer) or np.shape(counts) != (entries,):
        raise InputError(f"counts are {np.asarray(counts).dtype} of shape {np.shape(counts)}; allowed: {entries} ints")
    for count in counts:
        check_range("count", int(count), 1, LARGEST_COUNT)
    check_range("actions", sum(int(count) for count in counts), 1, LARGEST_COUNT)


def check_logits(logits: Float[np.ndarray, " n"]) -> None:
    """Raise ``InputError`` unless logits are real and finite."""
    if not np.issubdtype(logits.dtype, np.floating):
        raise InputError(f"logits have dtype {logits.dtype}; allowed: floats")
    if not np.all(np.isfinite(logits)):
        index = int(np.flatnonzero(~np.isfinite(logits))[0])
        raise InputError(f"logit {index} is {logits[index]}; allowed: finite numbers")


def check_sets(correct: np.ndarray, target: np.ndarray) -> None:
    """Raise ``InputError`` unless something is correct, and the target is part of that."""
    for name, members in (("correct", correct), ("target", target)):
        if members.dtype != bool:
            raise InputError(f"{name} has dtype {members.dtype}; allowed: bool, true for the members")
    if not correct.any():
        raise InputError("the correct set is empty; at least one action must be correct")
    if not target.any() or np.any(target & ~correct):
        raise InputError("the target set must be a non-empty subset of the correct actions")


def members(name: str, indices: Any, actions: int) -> Bool[np.ndarray, " N"]:
    """Return the mask of some of so many actions; ``InputError`` for an index that no action has."""
    numbers = np.asarray(indices, dtype=float)
    for bad in numbers[~np.isin(numbers, np.arange(actions))][:1]:
        raise InputError(f"{name} action {bad:.15g} is outside the action set; allowed: 0 to {actions - 1}")
    return np.isin(np.arange(actions), numbers)


def numbers(name: str, source: Any, axes: Literal[1, 2] = 1) -> np.ndarray:
    """Read a list of numbers, or with two ``axes`` rows of them, from a sequence, a text file or a ``.npy`` file."""
    values = _read_numbers(name, source, axes) if isinstance(source, str) else np.atleast_1d(np.asarray(source))
    if axes == 2 and values.ndim == 1:
        values = values[:, None]
    if values.ndim != axes or (axes == 2 and 0 in values.shape) or values.dtype.kind not in "iuf":
        allowed = "one list of numbers" if axes == 1 else "rows of as many numbers each"
        raise InputError(f"{name}: {values.dtype} of shape {values.shape}; allowed: {allowed}")
    return values.astype(float)


def _read_numbers(name: str, source: str, axes: Literal[1, 2]) -> np.ndarray:
    try:
        content = io.BytesIO(read_bytes(source, LARGEST_LIST))
        if Path(source).suffix == ".npy":
            return np.lib.format.read_array(content, allow_pickle=False)
        with warnings.catch_warnings(action="ignore"):  # of an empty file, which the caller refuses
            return np.loadtxt(content, ndmin=axes)
    except Exception as error:  # NumPy's reader of headers raises many kinds
        problem = f"{name} = {source!r} is neither a list of numbers nor a file of them"
        raise InputError(f"{problem} ({reason(error)})") from None
