"""Repeat the steps of some learners and record them: the one loop of all storages.

A run with records after steps 50 and 100 has five phases: no step, 49 steps, the 50th, 49 more, the 100th. The first,
third and fifth end with a record, which compares the policies around the last step. Where a storage has no room left
for what the next step may draw, the loop ends early; ``simlab.simulator.call`` grows the storage and calls it again.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from simlab.problems.base import Problem
from simlab.simulator.learner import Learner
from simlab.simulator.metrics import Row
from simlab.simulator.recording import record
from simlab.simulator.settings import TracedSettings
from simlab.simulator.state import State
from simlab.simulator.storage import Places


class Schedule(NamedTuple):
    """The recorded steps: the first ``records`` of ``steps`` (R,), which may be longer."""

    steps: Int[Array, " R"]
    records: Int[Array, ""]


class Progress(NamedTuple):
    """Where runs are: their states, the number of the next step, and the records so far, (R + 1, runs, ...) each."""

    state: State
    step: Int[Array, ""]
    rows: Row


class Inputs(NamedTuple):
    """What the program of a batch of runs reads.

    Attributes:
        problem: as its storage keeps it.
        places: what the storage knows of its places before the first step.
        group_size: how many rollouts of a group are there; the others fill it up.
        keys, traced: the random keys and the traced settings of each run.
    """

    problem: Problem
    places: Places
    group_size: Int[Array, ""]
    keys: Key[Array, "*learners"]
    traced: TracedSettings


class Learners(NamedTuple):
    """Learners in lockstep: what makes one, and the keys and numbers of each; a single one has no axis of learners.

    ``sparse`` ones keep the weights of their places from step to step, see ``simlab.simulator.sparse``.
    """

    make: Callable[[Any, TracedSettings], Learner]
    keys: Key[Array, "*learners"]
    numbers: TracedSettings
    sparse: bool = False

    def all(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of a learner and of what is its own, for all of them."""

        def own(key: Any, numbers: TracedSettings, *arguments: Any) -> Any:
            return function(self.make(key, numbers), *arguments)

        each = jax.vmap(own) if self.keys.ndim else own
        return lambda *arguments: each(self.keys, self.numbers, *arguments)


def begin(learners: Learners, schedule: Schedule) -> Progress:
    """The start of runs, before any record."""
    state = learners.all(Learner.start)()
    zero = jnp.zeros((), jnp.int32)
    shapes = jax.eval_shape(lambda: learners.all(lambda one, state: record(one, state.parameters, state, zero))(state))
    size = len(schedule.steps) + 1
    rows = {name: jnp.full((size, *found.shape), jnp.nan, found.dtype) for name, found in shapes.items()}
    return Progress(state, zero, rows)


def go_on(learners: Learners, schedule: Schedule, progress: Progress) -> Progress:
    """Take the steps that are left, as far as the storage has room, and record, the start too."""
    recorded_steps = jnp.pad(schedule.steps, (1, 0))

    def phase(number: Int[Array, ""], progress: Progress) -> Progress:
        window, is_last = (number + 1) // 2, number % 2 == 0
        first, last = recorded_steps[jnp.maximum(window - 1, 0)], recorded_steps[window]
        begins = ~is_last & (progress.step == first)
        state = _unless(begins, learners.all(Learner.begun), progress.state)
        before = state.parameters, state.places
        state, index = _steps(learners, state, progress.step, jnp.where(is_last, last, last - 1))
        # Runs that had no room for their first step find their start recorded already: it is the same once more.
        is_due = is_last & (index == last) & ((progress.step < last) | (window == 0))

        def look(one: Learner, before: tuple[Any, Any], state: State) -> tuple[Row, State]:
            return record(one, one.before_last_step(*before, state), state, last - first), one.looked_over(state)

        def recorded(state: State, rows: Row) -> tuple[State, Row]:
            row, state = learners.all(look)(before, state)
            return state, {name: values.at[window].set(row[name]) for name, values in rows.items()}

        state, rows = jax.lax.cond(is_due, recorded, lambda state, rows: (state, rows), state, progress.rows)
        return Progress(state, index, rows)

    done: Progress = jax.lax.fori_loop(0, 2 * schedule.records + 1, phase, progress)
    return done


def _unless(changes: Bool[Array, ""], function: Callable[[State], State], state: State) -> State:
    changed: State = jax.lax.cond(changes, function, lambda state: state, state)
    return changed


def _steps(
    learners: Learners, state: State, index: Int[Array, ""], goal: Int[Array, ""]
) -> tuple[State, Int[Array, ""]]:
    """The steps up to ``goal``, as far as there is room."""

    def goes_on(carry: tuple[State, Int[Array, ""]]) -> Bool[Array, ""]:
        state, index = carry
        return (index < goal) & jnp.all(learners.all(Learner.has_room)(state))

    def step(carry: tuple[State, Int[Array, ""]]) -> tuple[State, Int[Array, ""]]:
        state, index = carry
        return learners.all(lambda one, state: one.step(index, state))(state), index + 1

    def any_stale(state: State) -> Bool[Array, ""]:
        return jnp.any(learners.all(lambda one, state: one.is_stale(state))(state))

    def steps(carry: tuple[State, Int[Array, ""]]) -> tuple[State, Int[Array, ""]]:
        """The steps until the weights of a learner are stale, at least one; none are left stale.

        A condition inside a step would copy all weights, at every step.
        """
        state, index = jax.lax.while_loop(lambda carry: goes_on(carry) & ~any_stale(carry[0]), step, carry)
        refreshed = learners.all(lambda one, state: one.refreshed(state))
        return jax.lax.cond(any_stale(state), refreshed, lambda state: state, state), index

    taken: tuple[State, Int[Array, ""]] = jax.lax.while_loop(
        goes_on, steps if learners.sparse else step, (state, index)
    )
    return taken
