"""Run seeds: batch them, compile their program once, grow their storage when it is full, and return their records."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from simlab.problems.base import Problem
from simlab.simulate.compiled import kept
from simlab.simulate.faults import complain
from simlab.simulate.learner import Learner
from simlab.simulate.lumped import Lumped
from simlab.simulate.settings import StaticSettings, TracedSettings
from simlab.simulate.storage import DENSE, Dense
from simlab.simulate.trajectory import Learners, Plan, Progress, begin, go_on

Run = tuple[int, TracedSettings]  # a seed and its numbers
FEWEST_RECORDS = 16
SMALLEST_GROUP = 32


def planned(steps: np.ndarray) -> Plan:
    """The plan of a run; its program serves up to 16, 64, 256, ... records."""
    size = FEWEST_RECORDS
    while size < len(steps):
        size *= 4
    return Plan(jnp.asarray(np.pad(steps, (0, size - len(steps))), jnp.int32), jnp.asarray(len(steps), jnp.int32))


def arrays_of(settings: StaticSettings, runs: Sequence[Run]) -> tuple[Key[Array, "*learners"], TracedSettings]:
    """The keys and numbers of some runs, along a first axis if there are several."""
    keys = jnp.stack([jax.random.key(seed, impl="threefry2x32") for seed, _ in runs])
    numbers = jax.tree.map(lambda *leaves: jnp.asarray(leaves, settings.dtype), *(numbers for _, numbers in runs))
    return (keys, numbers) if len(runs) > 1 else jax.tree.map(lambda leaf: leaf[0], (keys, numbers))


def fills_groups(settings: StaticSettings) -> bool:
    """Whether a program is for groups up to its size, the rest of which is filled up with absent rollouts."""
    return settings.storage == "lumped" and settings.exchangeable


def filled_up(settings: StaticSettings) -> int:
    """The group size that is compiled for: the next of 32, 128, 512, ...; its own where nothing absent may be seen."""
    size = SMALLEST_GROUP
    while size < settings.group_size:
        size *= 4
    return size if fills_groups(settings) else settings.group_size


def simulated(
    settings: StaticSettings, problem: Problem, steps: np.ndarray, runs: Sequence[Run], storage: Dense
) -> dict[str, np.ndarray]:
    """The records of some runs that one program batches, (runs, R + 1, ...)."""
    plan, (keys, numbers) = planned(steps), arrays_of(settings, runs)
    filled = dataclasses.replace(settings, group_size=filled_up(settings))
    size = jnp.asarray(settings.group_size, jnp.int32)
    problem = problem.by_classes() if isinstance(storage, Lumped) else problem.listed()
    laid = storage.laid_out(problem, settings.dtype)
    places = storage.first_places(problem)
    progress: Progress | None = None
    while progress is None or int(progress.index) < steps[-1]:
        if progress is not None:
            raise NotImplementedError
        progress = _call(filled, storage, laid, places, plan, size, keys, numbers, progress)
        complain(settings, runs, progress.state.fault, problem)
    axis = 1 if len(runs) > 1 else 0
    rows = {name: np.asarray(values)[: len(steps) + 1] for name, values in progress.rows.items()}
    return {name: np.moveaxis(values, 0, 1) if axis else values[None] for name, values in rows.items()}


def _call(settings: StaticSettings, storage: Dense, *arguments: Any) -> Progress:
    leaves, structure = jax.tree.flatten(arguments)
    key = (settings, storage, structure, *((leaf.shape, leaf.dtype) for leaf in leaves))

    def run(problem: Problem, places: Any, plan: Plan, size: Any, keys: Any, numbers: Any, progress: Progress | None) -> Progress:
        present = jnp.arange(settings.group_size) < size if fills_groups(settings) else None

        def make(key: Any, numbers: TracedSettings) -> Learner:
            return Learner(settings, problem, storage, places, key, numbers, present)

        learners = Learners(make, keys, numbers)
        return go_on(learners, plan, begin(learners, plan) if progress is None else progress)

    code = kept(key, lambda: jax.jit(run).lower(*arguments).compile())
    done: Progress = code.call(*arguments)
    return done
