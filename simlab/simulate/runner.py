"""Run seeds: choose storage and batches, compile each program once, grow storage that is full, return the records.

One program serves every number of steps, up to 16, 64, 256, ... records, and, on lumped storage, every problem of as many
classes and every group size up to its own.
"""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from simlab.errors import InputError, check_range, check_whole
from simlab.estimators.registry import check_domain
from simlab.problems.base import Problem
from simlab.simulate.compiled import Compiled, kept
from simlab.simulate.costs import resolved
from simlab.simulate.devices import Devices, devices_by, own_memory
from simlab.simulate.faults import complain
from simlab.simulate.learner import Learner
from simlab.simulate.lumped import Lumped, enough_places, most_touched, size_at_start
from simlab.simulate.settings import LARGEST_INT, STORAGES, Settings, StaticSettings, check_fits
from simlab.simulate.sharded import Sharded, on_mesh
from simlab.simulate.sparse import Sparse, SparseLearner, may_be_sparse
from simlab.simulate.storage import DENSE, EMPTY, Dense
from simlab.simulate.trajectory import Learners, Plan, Progress, begin, go_on

LARGEST_SEED = 2**32 - 1  # of a larger one JAX reads the last 32 bits alone
FEWEST_RECORDS = 16
SMALLEST_GROUP = 32
Rows = dict[str, np.ndarray]


# What can run


def check(problem: Problem, settings: Settings) -> None:
    """Raise ``InputError`` if a problem cannot be learned with these settings."""
    for name in ("reward_correct", "reward_incorrect"):
        check_fits(name, getattr(problem, name), settings.dtype)
    method = settings.build()
    check_domain(method.estimator, np.array([[problem.reward_correct, problem.reward_incorrect]]))
    check_range("top_n", settings.top_n, 0, problem.actions)
    check_range("prompts_per_step", settings.prompts_per_step, 0, problem.prompts)
    check_range("candidates", method.surrogate.candidates, 0, problem.choices)
    check_storage(problem, settings.storage)
    problem.check(settings)
    largest = float(np.finfo(settings.dtype).max) if settings.storage == "dense" else abs(EMPTY) / 10
    for value in (problem.parameters.min(), problem.parameters.max()):
        if abs(value) > largest:
            where = f"{settings.dtype}, {settings.storage}"
            raise InputError(f"a logit is {value:g}; allowed in {where}: up to {largest:g}")


def check_storage(problem: Problem, storage: str) -> None:
    """Raise ``InputError`` for a storage that cannot hold a problem."""
    cannot = [name for name, can in (("lumped", problem.lumps), ("sharded", problem.shards)) if not can]
    if storage in cannot:
        allowed = ", ".join(name for name in STORAGES if name not in cannot)
        raise InputError(f"storage = {storage!r} of a {type(problem).__name__}; allowed: {allowed}")


def check_shards(problem: Problem, settings: Settings, shards: int) -> None:
    """Raise ``InputError`` unless a run can be spread over so many devices."""
    if settings.storage != "sharded":
        raise InputError(f"shard_actions = {shards} with {settings.storage} storage; allowed: sharded storage")
    devices_by(shards)
    if shards > problem.actions:
        raise InputError(f"shard_actions = {shards} of {problem.actions} actions; allowed: up to one an action")


def check_run(steps: Int[np.ndarray, " R"], seeds: Sequence[int]) -> None:
    """Raise ``InputError`` for recorded steps that do not increase from 1 up, no seed, or one outside its range."""
    if np.ndim(steps) != 1 or not len(steps) or not np.issubdtype(np.asarray(steps).dtype, np.integer):
        raise InputError(f"steps = {steps!r}; allowed: one or more whole numbers, increasing")
    check_whole("steps", int(steps[-1]), 1, LARGEST_INT)
    if int(steps[0]) < 1 or np.any(np.diff(steps) < 1):
        raise InputError(f"steps = {list(map(int, steps))}; allowed: whole numbers from 1 up, increasing")
    if not seeds:
        raise InputError("there is no seed to run; allowed: one or more")
    for seed in seeds:
        check_whole("seed", seed, 0, LARGEST_SEED)


# How much at once, and what it takes


def batch_size(problem: Problem, settings: Settings, platform: str) -> int:
    """How many runs one call holds.

    Fixed by storage, problem size and platform alone, never by the number of seeds or devices or the memory budget, so
    that a run's numbers do not depend on what ran beside it. On a CPU a run of 16384 numbers or more fills the vector
    units and is alone, in a thread of its own; on a GPU some 2^23 numbers fill the device.
    """
    if settings.storage == "sharded":
        return 1
    if settings.storage == "lumped":
        return 8 if platform == "cpu" else 256
    size = problem.numbers
    if platform == "cpu":
        return 8 if size < 16384 else 1
    return max(1, min(256, 2**23 // size))


# The problem's arrays on the host, and their copies on the way to the device.
HOST_BYTES_A_NUMBER = 48


def host_bytes(problem: Problem, settings: Settings) -> int:
    """Bytes that the problem's own arrays take.

    Raises:
        InputError: for more actions than can be listed, in a storage that lists them.
    """
    if settings.storage == "lumped":
        return 0
    problem.check_listed()
    return HOST_BYTES_A_NUMBER * problem.numbers


def needed_bytes(
    problem: Problem, settings: Settings, steps: Int[np.ndarray, " R"], together: int, devices: Devices | None = None
) -> int:
    """Bytes of the host's memory that ``together`` runs take, at most; compiles what tells it.

    On CPUs, where several devices share it, that is what all of them take.

    Raises:
        InputError: if the problem cannot be learned so, or a device has too little memory of its own.
    """
    settings = resolved(problem, settings, int(steps[-1]))
    check(problem, settings)
    devices = devices or devices_by(1)[0]
    each = device_bytes(problem, settings, steps, together, devices)
    host, room = host_bytes(problem, settings), own_memory(devices[0])
    if room is None:
        return host + len(devices) * each
    if each > room:
        raise InputError(f"{_too_large(problem, each, room)}; allowed: fewer actions, or sharded storage")
    return host


def device_bytes(
    problem: Problem, settings: Settings, steps: Int[np.ndarray, " R"], together: int, devices: Devices
) -> int:
    """Bytes that ``together`` runs take of each device that they are on, at most."""
    with _computing(settings, devices):
        call = Call(problem, [settings] * together, [0] * together, steps, devices)
        if isinstance(call.storage, Lumped):
            most = enough_places(call.problem.entries, most_touched(problem, settings, int(steps[-1])))
            return call.progress_bytes(Lumped(most))
        return call.compiled(call.storage, None).memory


def shards_needed(problem: Problem, settings: Settings, steps: Int[np.ndarray, " R"]) -> int:
    """Over how many devices a run is spread: as few as hold it, and one in other storages.

    Raises:
        InputError: if all devices of the process together do not.
    """
    room = own_memory(jax.local_devices()[0])
    if settings.storage != "sharded" or room is None:
        return 1
    shards, most = 1, min(jax.local_device_count(), problem.actions)
    while True:
        each = device_bytes(problem, settings, steps, 1, devices_by(shards)[0])
        if each <= room:
            return shards
        if shards == most:
            raise InputError(f"{_too_large(problem, each, room)} with {most} of them; allowed: more devices")
        shards = min(most, max(shards + 1, math.ceil(shards * each / room)))


def _too_large(problem: Problem, needed: int, room: int) -> str:
    need, given = (f"{value / 2**20:.0f}MB" for value in (needed, room))
    return f"a simulation of {problem.actions} actions takes {need} of each device, which has {given}"


# Running


def run(
    problem: Problem,
    settings: Sequence[Settings],
    seeds: Sequence[int],
    steps: Int[np.ndarray, " R"],
    devices: Devices | None = None,
) -> Rows:
    """Simulate runs of one problem, each with its settings and its seed, and return their records.

    Args:
        problem: what is learned.
        settings: of each run; they may differ in floats alone.
        seeds: of each run, from 0 to 2^32 - 1.
        steps: the R steps after which to record, increasing, the last one being the length of the runs.
        devices: where they run: one device, or those that sharded storage spreads each run over. By default JAX's own
            choice, and as few as hold a run.

    Returns:
        Arrays (runs, R + 1, ...) by metric, see ``Problem.metrics``; the first record is of step 0. A metric along an
        axis without labels, such as pass@k of no k, is left out.

    Raises:
        InputError: if the problem cannot be learned with these settings on these devices.
        Diverged: if a number of a run is not finite.
    """
    check_run(steps, seeds)
    known = {key: resolved(problem, own, int(steps[-1])) for key, own in {id(own): own for own in settings}.items()}
    settings = [known[id(own)] for own in settings]
    for own in known.values():
        check(problem, own)
    if len({own.static for own in known.values()}) > 1:
        raise InputError("these settings shape different programs; allowed in one call: those that differ in floats")
    together = batch_size(problem, settings[0], jax.default_backend())
    if devices and len(devices) > 1:
        check_shards(problem, settings[0], len(devices))
    if settings[0].storage == "sharded":
        devices = devices or devices_by(shards_needed(problem, settings[0], steps))[0]
    found = []
    with _computing(settings[0], devices):
        for first in range(0, len(seeds), together):
            own = [*settings[first : first + together]]
            numbers = [*seeds[first : first + together]]
            missing = together - len(own)
            call = Call(problem, own + own[-1:] * missing, numbers + numbers[-1:] * missing, steps, devices)
            found.append({name: values[: len(own)] for name, values in records(call).items()})
    return {name: np.concatenate([part[name] for part in found]) for name in found[0]}


def records(call: "Call") -> Rows:
    """The records of a batch, of whose runs those that take sparse steps go together, and the others.

    What a run draws does not depend on those beside it.
    """
    sparse = call.are_sparse()
    if not sparse.any():
        return call.rows()
    rows: Rows = {}
    for kind in np.unique(sparse):
        chosen = np.flatnonzero(sparse == kind)
        own = call.of(np.resize(chosen, len(sparse)), sparse=bool(kind))
        for name, values in own.rows().items():
            rows.setdefault(name, np.empty_like(values))[chosen] = values[: len(chosen)]
    return rows


def _computing(settings: Settings, devices: Devices | None) -> contextlib.AbstractContextManager[object]:
    """In the dtype of the settings, on the first of the devices if they are given."""
    stack = contextlib.ExitStack()
    stack.enter_context(jax.enable_x64(settings.dtype == "float64"))
    if devices:
        stack.enter_context(jax.default_device(devices[0]))
    return stack


class Call:
    """Runs that one program batches: their arrays on the device, and the calls that end in their records."""

    def __init__(
        self,
        problem: Problem,
        settings: Sequence[Settings],
        seeds: Sequence[int],
        steps: Int[np.ndarray, " R"],
        devices: Devices | None,
        *,
        sparse: bool = False,
    ):
        self.settings, self.seeds, self.steps, self.devices = settings, seeds, steps, devices
        self.storage = self._storage(problem, sparse)
        self.problem = problem.by_classes() if isinstance(self.storage, Lumped) else problem.listed()
        static = settings[0].static
        self.present = jnp.asarray(static.group_size, jnp.int32)
        self.static = dataclasses.replace(static, group_size=filled_up(static))
        self.plan = planned(steps)
        keys = jnp.stack([jax.random.key(seed, impl="threefry2x32") for seed in seeds])
        traced = jax.tree.map(lambda *leaves: jnp.asarray(leaves, static.dtype), *(own.traced for own in settings))
        alone = len(seeds) == 1
        self.own = jax.tree.map(lambda leaf: leaf[0], (keys, traced)) if alone else (keys, traced)

    def _storage(self, problem: Problem, sparse: bool) -> Dense:
        settings = self.settings[0]
        if settings.storage == "sharded":
            assert self.devices
            return Sharded(problem.actions, self.devices)
        if settings.storage == "lumped":
            kind = Sparse if sparse else Lumped
            return kind(size_at_start(problem, settings, int(self.steps[-1])))
        return DENSE

    def of(self, runs: Int[np.ndarray, " runs"], *, sparse: bool) -> "Call":
        """A call of some of these runs, in the order given."""
        settings, seeds = [self.settings[run] for run in runs], [self.seeds[run] for run in runs]
        return Call(self.problem, settings, seeds, self.steps, self.devices, sparse=sparse)

    def are_sparse(self) -> Bool[np.ndarray, " runs"]:
        """For each run whether its steps are sparse: whether its coefficients sum to exactly 0 in every group.

        Rewards are binary and rollouts interchangeable: of any number of correct rollouts two orders are tried.
        """
        settings, runs = self.settings[0].static, len(self.seeds)
        if not isinstance(self.storage, Lumped) or not may_be_sparse(self.problem, settings):
            return np.zeros(runs, bool)
        storage, rollouts = Sparse(enough_places(self.problem.entries, 0)), np.arange(settings.group_size)
        ranks = np.full((2, self.static.group_size), self.static.group_size, np.int32)
        ranks[:, : settings.group_size] = rollouts, np.random.default_rng(0).permutation(rollouts)
        program = functools.partial(_always_sum_to_zero, self.static, storage)
        arguments = self.laid, storage.first_places(self.problem), self.present, *self.own, ranks
        return np.atleast_1d(self._kept("decide", storage, program, arguments).call(*arguments))

    @functools.cached_property
    def laid(self) -> Problem:
        """The problem on its devices."""
        return self.storage.laid_out(self.problem, self.static.dtype)

    def rows(self) -> Rows:
        """The records, (runs, R + 1, ...)."""
        storage, progress = self.storage, self._proceed(self.storage, None)
        while int(progress.index) < self.steps[-1]:
            assert isinstance(storage, Lumped)
            state, storage = storage.grown(progress.state, self.problem, batched=len(self.seeds) > 1)
            progress = self._proceed(storage, progress._replace(state=state))
        asked = {name: values for name, values in progress.rows.items() if values.size}  # not of no k, or no rank
        rows = {name: np.asarray(values)[: len(self.steps) + 1] for name, values in asked.items()}
        if len(self.seeds) == 1:
            return {name: values[None] for name, values in rows.items()}
        return {name: np.moveaxis(values, 0, 1) for name, values in rows.items()}

    def _proceed(self, storage: Dense, progress: Progress | None) -> Progress:
        done: Progress = self.compiled(storage, progress).call(self.laid, *self._arguments(storage, progress))
        complain(self.settings, self.seeds, done.state.fault, self.problem)
        return done

    def _arguments(self, storage: Dense, progress: Progress | None) -> tuple[Any, ...]:
        places = storage.first_places(self.problem)
        return places, self.plan, self.present, *self.own, progress

    def compiled(self, storage: Dense, progress: Progress | None) -> Compiled:
        """The program that takes these runs to their end, or as far as the storage has room."""
        laid = storage.shapes(self.problem, self.static.dtype) if isinstance(storage, Sharded) else self.laid
        arguments = laid, *self._arguments(storage, progress)
        program = functools.partial(_program, self.static, storage)
        if isinstance(storage, Sharded):
            program = on_mesh(program, storage, laid)
        return self._kept("run", storage, program, arguments)

    def _kept(self, name: str, storage: Dense, program: Callable[..., Any], arguments: tuple[Any, ...]) -> Compiled:
        leaves, structure = jax.tree.flatten(arguments)
        key = (name, self.static, storage, self.devices, structure, *((leaf.shape, str(leaf.dtype)) for leaf in leaves))
        return kept(key, lambda: jax.jit(program).lower(*arguments).compile())

    def progress_bytes(self, storage: Lumped) -> int:
        """Bytes that these runs take at most in a storage that has just grown to its largest size."""
        return storage.bytes_for(self.problem, self.static) * len(self.seeds)


def _program(
    settings: StaticSettings,
    storage: Dense,
    problem: Problem,
    places: Any,
    plan: Plan,
    present: Array,
    keys: Any,
    traced: Any,
    progress: Progress | None,
) -> Progress:
    """Runs from their start, or from where they are, to their end, or as far as the storage has room."""
    learners = _learners(settings, storage, problem, places, present, keys, traced)
    return go_on(learners, plan, begin(learners, plan) if progress is None else progress)


def _always_sum_to_zero(
    settings: StaticSettings,
    storage: Sparse,
    problem: Problem,
    places: Any,
    present: Array,
    keys: Any,
    traced: Any,
    ranks: Int[Array, "2 G"],
) -> Bool[Array, "*runs"]:
    """For each run whether its coefficients sum to exactly 0, whichever rollouts of a group are correct."""
    learners = _learners(settings, storage, problem, places, present, keys, traced)
    decided: Bool[Array, "*runs"] = learners.all(lambda one: one.always_sum_to_zero(ranks))()
    return decided


def _learners(
    settings: StaticSettings, storage: Dense, problem: Problem, places: Any, present: Array, keys: Any, traced: Any
) -> Learners:
    there = jnp.arange(settings.group_size) < present if fills_groups(settings) else None
    kind = SparseLearner if isinstance(storage, Sparse) else Learner

    def make(key: Any, traced: Any) -> Learner:
        return kind(settings, problem, storage, places, key, traced, there)

    return Learners(make, keys, traced, sparse=kind is SparseLearner)


def planned(steps: Int[np.ndarray, " R"]) -> Plan:
    """The plan of a run, its list filled up to 16, 64, 256, ... records."""
    size = FEWEST_RECORDS
    while size < len(steps):
        size *= 4
    return Plan(jnp.asarray(np.pad(steps, (0, size - len(steps))), jnp.int32), jnp.asarray(len(steps), jnp.int32))


def fills_groups(settings: StaticSettings) -> bool:
    """Whether a program is for groups up to its size, the rest of which is filled up with absent rollouts."""
    return settings.storage == "lumped" and settings.exchangeable


def filled_up(settings: StaticSettings) -> int:
    """The group size that is compiled for: the next of 32, 128, 512, ...; its own where nothing absent may be seen."""
    size = SMALLEST_GROUP
    while size < settings.group_size:
        size *= 4
    return size if fills_groups(settings) else settings.group_size
