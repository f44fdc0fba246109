"""Compile the program of a batch of runs, call it, and grow lumped storage that is full until the runs have ended.

One program serves every number of steps, up to 16, 64, ... records; of lumped storage, every group size up to its own.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key

from simlab.errors import Diverged
from simlab.problems.base import Problem
from simlab.rollouts import rewards_in_words
from simlab.simulator.compiled import cached
from simlab.simulator.learner import Learner
from simlab.simulator.lumped import GROWTH, Lumped, initial_size, round_up
from simlab.simulator.metrics import Metric
from simlab.simulator.resources import Devices
from simlab.simulator.settings import Settings, StaticSettings, TracedSettings
from simlab.simulator.sharded import Sharded, on_mesh
from simlab.simulator.sparse import Sparse, SparseLearner, may_be_sparse
from simlab.simulator.state import ADVANTAGE, COEFFICIENT, LOGIT, MOMENT, UNKNOWN, Fault
from simlab.simulator.storage import DENSE, Dense, StoredProblem
from simlab.simulator.trajectory import Inputs, Learners, RecordSchedule, RunProgress, advance, begin

FEWEST_RECORDS = 16
SMALLEST_GROUP = 32
FAULTS = {LOGIT: "a logit", ADVANTAGE: "an advantage", COEFFICIENT: "a coefficient", MOMENT: "the optimiser's state"}
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
        self.storage: Dense = DENSE
        if settings[0].storage == "sharded":
            assert devices
            self.storage = Sharded(problem.actions, devices)
        elif settings[0].storage == "lumped":
            self.storage = (Sparse if sparse else Lumped)(initial_size(problem, settings[0], int(steps[-1])))
        self.problem = problem.by_classes() if isinstance(self.storage, Lumped) else problem.listed()
        static = settings[0].static
        self.static = dataclasses.replace(static, group_size=padded_group(static))
        missing = round_up(len(steps), FEWEST_RECORDS) - len(steps)
        padded, count = np.pad(steps, (0, missing)), jnp.asarray(len(steps), jnp.int32)
        self.schedule = RecordSchedule(jnp.asarray(padded, jnp.int32), count)
        self.group_size = jnp.asarray(static.group_size, jnp.int32)
        # Gathered by NumPy: JAX compiles a program for each such small step on arrays of its own.
        index: Any = (0, ...) if len(seeds) == 1 else slice(None)
        self.keys = seed_keys(np.asarray(seeds)[index])
        self.traced = jax.tree.map(
            lambda *leaves: np.asarray(leaves, static.dtype)[index], *(run.traced for run in settings)
        )

    def are_sparse(self) -> Bool[np.ndarray, " runs"]:
        """Return True for runs whose coefficients sum to exactly 0 in every group: two orders of each are tried."""
        settings, runs = self.settings[0].static, len(self.seeds)
        if not isinstance(self.storage, Lumped) or not may_be_sparse(self.problem, settings):
            return np.zeros(runs, bool)
        storage, rollouts = Sparse(round_up(self.problem.entries)), np.arange(settings.group_size)
        ranks = np.full((2, self.static.group_size), self.static.group_size, np.int32)
        ranks[:, : settings.group_size] = rollouts, np.random.default_rng(0).permutation(rollouts)
        program = functools.partial(_always_sum_to_zero, self.static, storage)
        arguments = self.inputs(storage), ranks
        return np.atleast_1d(self._cached("decide", storage, program, arguments)(*arguments))

    @functools.cached_property
    def loaded(self) -> Problem:
        """The problem on its devices."""
        loaded: Problem = self.storage.load(self.problem, self.static.dtype)
        return loaded

    def rows(self) -> Rows:
        """Simulate, and return the records, (runs, R + 1, ...)."""
        storage, progress = self.storage, self._advance(self.storage, None)
        axis = (len(self.seeds) > 1) + self.problem.has_own_parameters  # of slots, after those of runs and prompts
        while int(progress.step) < self.steps[-1]:
            assert isinstance(storage, Lumped)
            state, storage = storage.grow(progress.state, GROWTH * storage.size, axis)
            progress = self._advance(storage, progress._replace(state=state))
        filled = {name: values for name, values in progress.rows.items() if values.size}  # not of no k, or no rank
        rows = {name: np.asarray(values)[: len(self.steps) + 1] for name, values in filled.items()}
        if len(self.seeds) == 1:
            return {name: values[None] for name, values in rows.items()}
        return {name: np.moveaxis(values, 0, 1) for name, values in rows.items()}

    def _advance(self, storage: Dense, progress: RunProgress | None) -> RunProgress:
        done: RunProgress = self.compiled(storage, progress)(self.schedule, self.inputs(storage), progress)
        raise_faults(self.settings, self.seeds, done.state.fault, self.problem)
        return done

    def inputs(self, storage: Dense) -> Inputs:
        """Return the arguments of a program of these runs."""
        return Inputs(self.loaded, storage.initial_slots(self.problem), self.group_size, self.keys, self.traced)

    def compiled(self, storage: Dense, progress: RunProgress | None) -> Any:
        """Compile the program that takes these runs to their end, or as far as the storage has room."""
        return self._cached("run", storage, *self.program(storage, progress))

    def program(self, storage: Dense, progress: RunProgress | None) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return that program before it is compiled, and the arguments that it is compiled for."""
        program: Callable[..., RunProgress] = functools.partial(_program, self.static, storage)
        if isinstance(storage, Sharded):
            program = on_mesh(program, storage, self.loaded)
        return program, (self.schedule, self.inputs(storage), progress)

    def _cached(self, name: str, storage: Dense, program: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        key = (name, self.static, storage, self.devices, structure, *((leaf.shape, str(leaf.dtype)) for leaf in leaves))
        return cached(key, lambda: jax.jit(program).lower(*arguments).compile())


def _program(
    settings: StaticSettings, storage: Dense, schedule: RecordSchedule, inputs: Inputs, progress: RunProgress | None
) -> RunProgress:
    """Take runs from their start, or from where they are, to their end, or as far as the storage has room."""
    learners = make_learners(settings, storage, inputs, are_padded=pads_groups(settings))
    return advance(learners, schedule, begin(learners, schedule) if progress is None else progress)


def _always_sum_to_zero(
    settings: StaticSettings, storage: Sparse, inputs: Inputs, ranks: Int[Array, "2 G"]
) -> Bool[Array, "*runs"]:
    """Return True for runs whose coefficients sum to exactly 0, whichever rollouts of a group are correct."""
    learners = make_learners(settings, storage, inputs, are_padded=pads_groups(settings))
    decided: Bool[Array, "*runs"] = learners.map(lambda learner: learner.always_sum_to_zero(ranks))()
    return decided


def make_learners(
    settings: StaticSettings,
    storage: Dense,
    inputs: Inputs,
    *,
    are_padded: bool,
    metrics: tuple[Metric, ...] | None = None,
) -> Learners:
    """Return the learners of a program; in padded groups only the first rollouts are there."""
    stored = StoredProblem(inputs.problem, storage, inputs.slots)
    present = jnp.arange(settings.group_size) < inputs.group_size if are_padded else None
    kind = SparseLearner if isinstance(storage, Sparse) else Learner

    def make(key: Any, traced: TracedSettings) -> Learner:
        return kind(settings, stored, key, traced, present, metrics=metrics)

    return Learners(make, inputs.keys, inputs.traced, sparse=kind is SparseLearner)


def seed_keys(seeds: Int[np.ndarray, "*runs"]) -> Key[Array, "*runs"]:
    """Return ``jax.random.key`` of each seed, from 0 to 2^32 - 1: the words 0 and the seed."""
    words = np.stack([np.zeros_like(seeds), seeds], axis=-1).astype(np.uint32)
    keys: Key[Array, "*runs"] = jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")
    return keys


def pads_groups(settings: StaticSettings) -> bool:
    """Return True if a program is for groups up to its size, which are padded with absent rollouts."""
    return settings.storage == "lumped" and settings.exchangeable


def padded_group(settings: StaticSettings) -> int:
    """Return the group size that is compiled for: the next of 32, 128, 512, ... where groups may be padded."""
    return round_up(settings.group_size, SMALLEST_GROUP) if pads_groups(settings) else settings.group_size


@contextlib.contextmanager
def computing(settings: Settings, devices: Devices | None) -> Iterator[None]:
    """Compute in the dtype of the settings, on the first of the devices if there are any."""
    first = jax.default_device(devices[0]) if devices else contextlib.nullcontext()
    with jax.enable_x64(settings.dtype == "float64"), first:
        yield


def raise_faults(settings: Sequence[Settings], seeds: Sequence[int], fault: Fault, problem: Problem) -> None:
    """Raise ``Diverged`` for the first of some runs, of these settings and seeds, that has a fault."""
    columns = [np.atleast_1d(np.asarray(values)) for values in fault]
    for run, seed, *values in zip(settings, seeds, *columns, strict=True):
        kind, steps, correct, prompt = (int(value) for value in values)
        if kind:
            where = f"seed {seed}, step {steps}" + (f", prompt {prompt}" if prompt != UNKNOWN else "")
            high, low = float(problem.reward_correct), float(problem.reward_incorrect)
            counted = rewards_in_words({high: correct, low: run.group_size - correct})
            rewards = counted if correct != UNKNOWN else f"rewards are {high:g} and {low:g}"
            if problem.rewards is not None:
                rewards = f"rewards are graded, from {problem.totals.min():g} to {problem.totals.max():g}"
            what = f"{FAULTS[kind]} is not finite in {run.dtype}, where {rewards}"
            raise Diverged(f"{run.name}, {where}: {what}; allowed: finite numbers")
