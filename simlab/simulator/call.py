"""Compile the program of a batch of runs, call it, and grow lumped storage that is full until the runs have ended.

One program serves every number of steps, up to 16, 64, 256, ... records, and, on lumped storage, every problem of as
many classes and every group size up to its own.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key

from simlab.problems.base import Problem
from simlab.simulator.compiled import Compiled, kept
from simlab.simulator.devices import Devices
from simlab.simulator.faults import complain
from simlab.simulator.learner import Learner
from simlab.simulator.lumped import GROWTH, Lumped, enough_places, size_at_start
from simlab.simulator.metrics import Metric
from simlab.simulator.settings import Settings, StaticSettings, TracedSettings
from simlab.simulator.sharded import Sharded, on_mesh
from simlab.simulator.sparse import Sparse, SparseLearner, may_be_sparse
from simlab.simulator.storage import DENSE, Dense, Stored
from simlab.simulator.trajectory import Inputs, Learners, Progress, Schedule, begin, go_on

FEWEST_RECORDS = 16
SMALLEST_GROUP = 32
Rows = dict[str, np.ndarray]


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
        self.static = dataclasses.replace(static, group_size=filled_up(static))
        self.schedule = scheduled(steps)
        self.group_size = jnp.asarray(static.group_size, jnp.int32)
        # Gathered by NumPy: JAX compiles a program for each such small step on arrays of its own.
        one_or_all: Any = (0, ...) if len(seeds) == 1 else slice(None)
        self.keys = keys_of(np.asarray(seeds)[one_or_all])
        self.traced = jax.tree.map(
            lambda *leaves: np.asarray(leaves, static.dtype)[one_or_all], *(own.traced for own in settings)
        )

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
        arguments = self.inputs(storage, self.laid), ranks
        return np.atleast_1d(self._kept("decide", storage, program, arguments).call(*arguments))

    @functools.cached_property
    def laid(self) -> Problem:
        """The problem on its devices."""
        return self.storage.laid_out(self.problem, self.static.dtype)

    def rows(self) -> Rows:
        """The records, (runs, R + 1, ...)."""
        storage = self.storage
        progress = self._proceed(storage, self._begun(storage) if isinstance(storage, Lumped) else None)
        while int(progress.step) < self.steps[-1]:
            assert isinstance(storage, Lumped)
            progress, storage = self._grown(progress, storage, GROWTH * storage.size)
            progress = self._proceed(storage, progress)
        asked = {name: values for name, values in progress.rows.items() if values.size}  # not of no k, or no rank
        rows = {name: np.asarray(values)[: len(self.steps) + 1] for name, values in asked.items()}
        if len(self.seeds) == 1:
            return {name: values[None] for name, values in rows.items()}
        return {name: np.moveaxis(values, 0, 1) for name, values in rows.items()}

    def _begun(self, storage: Lumped) -> Progress:
        """The start, by one program however many places the steps begin with; so theirs serve runs that have grown."""
        smallest = dataclasses.replace(storage, size=enough_places(self.problem.entries, 0))
        arguments = self.schedule, self.inputs(smallest, self.laid)
        program = functools.partial(_begin, self.static, smallest)
        begun: Progress = self._kept("begin", smallest, program, arguments).call(*arguments)
        return self._grown(begun, smallest, storage.size)[0]

    def _grown(self, progress: Progress, storage: Lumped, size: int) -> tuple[Progress, Lumped]:
        state, larger = storage.grown(progress.state, self.problem, size, batched=len(self.seeds) > 1)
        return progress._replace(state=state), larger

    def _proceed(self, storage: Dense, progress: Progress | None) -> Progress:
        done: Progress = self.compiled(storage, progress).call(self.schedule, self.inputs(storage, self.laid), progress)
        complain(self.settings, self.seeds, done.state.fault, self.problem)
        return done

    def inputs(self, storage: Dense, laid: Problem) -> Inputs:
        """What a program of these runs reads, where the problem is laid out, or its shapes are."""
        return Inputs(laid, storage.first_places(self.problem), self.group_size, self.keys, self.traced)

    def compiled(self, storage: Dense, progress: Progress | None) -> Compiled:
        """The program that takes these runs to their end, or as far as the storage has room."""
        return self._kept("run", storage, *self.program(storage, progress))

    def program(self, storage: Dense, progress: Progress | None) -> tuple[Callable[..., Progress], tuple[Any, ...]]:
        """That program before it is compiled, and the arguments that it is compiled for, or their shapes."""
        program: Callable[..., Progress] = functools.partial(_program, self.static, storage)
        if isinstance(storage, Sharded):  # its shapes suffice: what they stand for might not fit
            laid = storage.shapes(self.problem, self.static.dtype)
            program = on_mesh(program, storage, laid)
        else:
            laid = self.laid
        return program, (self.schedule, self.inputs(storage, laid), progress)

    def _kept(self, name: str, storage: Dense, program: Callable[..., Any], arguments: tuple[Any, ...]) -> Compiled:
        leaves, structure = jax.tree.flatten(arguments)
        key = (name, self.static, storage, self.devices, structure, *((leaf.shape, str(leaf.dtype)) for leaf in leaves))
        return kept(key, lambda: jax.jit(program).lower(*arguments).compile())

    def progress_bytes(self, storage: Lumped) -> int:
        """Bytes that these runs take at most in a storage that has just grown to its largest size."""
        return storage.bytes_for(self.problem, self.static) * len(self.seeds)


def _program(
    settings: StaticSettings, storage: Dense, schedule: Schedule, inputs: Inputs, progress: Progress | None
) -> Progress:
    """Runs from their start, or from where they are, to their end, or as far as the storage has room."""
    begun = _begin(settings, storage, schedule, inputs) if progress is None else progress
    return go_on(_learners(settings, storage, inputs), schedule, begun)


def _begin(settings: StaticSettings, storage: Dense, schedule: Schedule, inputs: Inputs) -> Progress:
    """Runs at their start."""
    return begin(_learners(settings, storage, inputs), schedule)


def _always_sum_to_zero(
    settings: StaticSettings, storage: Sparse, inputs: Inputs, ranks: Int[Array, "2 G"]
) -> Bool[Array, "*runs"]:
    """For each run whether its coefficients sum to exactly 0, whichever rollouts of a group are correct."""
    learners = _learners(settings, storage, inputs)
    decided: Bool[Array, "*runs"] = learners.all(lambda one: one.always_sum_to_zero(ranks))()
    return decided


def _learners(settings: StaticSettings, storage: Dense, inputs: Inputs) -> Learners:
    return learners_of(settings, storage, inputs, are_filled_up=fills_groups(settings))


def learners_of(
    settings: StaticSettings,
    storage: Dense,
    inputs: Inputs,
    *,
    are_filled_up: bool,
    metrics: tuple[Metric, ...] | None = None,
) -> Learners:
    """The learners of a program, of whose groups only the first rollouts are there if they are filled up."""
    stored = Stored(inputs.problem, storage, inputs.places)
    there = jnp.arange(settings.group_size) < inputs.group_size if are_filled_up else None
    kind = SparseLearner if isinstance(storage, Sparse) else Learner

    def make(key: Any, traced: TracedSettings) -> Learner:
        return kind(settings, stored, key, traced, there, metrics=metrics)

    return Learners(make, inputs.keys, inputs.traced, sparse=kind is SparseLearner)


def keys_of(seeds: Int[np.ndarray, "*runs"]) -> Key[Array, "*runs"]:
    """``jax.random.key`` of each seed, from 0 to 2^32 - 1: the words 0 and the seed."""
    words = np.stack([np.zeros_like(seeds), seeds], axis=-1).astype(np.uint32)
    keys: Key[Array, "*runs"] = jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")
    return keys


def scheduled(steps: Int[np.ndarray, " R"]) -> Schedule:
    """When a run is recorded, the list filled up to 16, 64, 256, ... records."""
    size = FEWEST_RECORDS
    while size < len(steps):
        size *= 4
    return Schedule(jnp.asarray(np.pad(steps, (0, size - len(steps))), jnp.int32), jnp.asarray(len(steps), jnp.int32))


def fills_groups(settings: StaticSettings) -> bool:
    """Whether a program is for groups up to its size, the rest of which is filled up with absent rollouts."""
    return settings.storage == "lumped" and settings.exchangeable


def filled_up(settings: StaticSettings) -> int:
    """The group size that is compiled for: the next of 32, 128, 512, ...; its own where nothing absent may be seen."""
    size = SMALLEST_GROUP
    while size < settings.group_size:
        size *= 4
    return size if fills_groups(settings) else settings.group_size


def computing(settings: Settings, devices: Devices | None) -> contextlib.AbstractContextManager[object]:
    """In the dtype of the settings, on the first of the devices if they are given."""
    stack = contextlib.ExitStack()
    stack.enter_context(jax.enable_x64(settings.dtype == "float64"))
    if devices:
        stack.enter_context(jax.default_device(devices[0]))
    return stack
