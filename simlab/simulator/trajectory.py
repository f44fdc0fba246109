"""Repeat the steps of some learners and record them: the one loop of all storages.

A run with records after steps 50 and 100 has five phases: no step, 49 steps, the 50th, 49 more, the 100th. The first,
third and fifth end with a record. Where a storage has no room for the next step the loop ends early, to be called
again.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from simlab.problems.base import Problem
from simlab.simulator.learner import Learner
from simlab.simulator.metrics import POLICY, UPDATE, JointView, PolicyView, UpdateView
from simlab.simulator.settings import TracedSettings
from simlab.simulator.state import LastBatch, LearnerState, Records
from simlab.simulator.storage import Slots


class RecordSchedule(NamedTuple):
    """The recorded steps: the first ``records`` of ``steps`` (R,), which may be longer."""

    steps: Int[Array, " R"]
    records: Int[Array, ""]


class RunProgress(NamedTuple):
    """The states of runs, the number of the next step, and the records so far, (R + 1, runs, ...) each."""

    state: LearnerState
    step: Int[Array, ""]
    rows: Records


class Inputs(NamedTuple):
    """The arguments of the program of a batch of runs: a stored problem, its first slots, G, and what differs."""

    problem: Problem
    slots: Slots
    group_size: Int[Array, ""]
    keys: Key[Array, "*learners"]
    traced: TracedSettings


class Learners(NamedTuple):
    """Learners in lockstep: a constructor, and the keys and numbers of each; a single one has no axis of learners."""

    make: Callable[[Any, TracedSettings], Learner]
    keys: Key[Array, "*learners"]
    numbers: TracedSettings
    sparse: bool = False  # their weights are cached from step to step, see ``simlab.simulator.sparse``

    def map(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Extend a function of a learner and of its values to all of them."""

        def of_learner(key: Any, numbers: TracedSettings, *arguments: Any) -> Any:
            return function(self.make(key, numbers), *arguments)

        each = jax.vmap(of_learner) if self.keys.ndim else of_learner
        return lambda *arguments: each(self.keys, self.numbers, *arguments)


def begin(learners: Learners, schedule: RecordSchedule) -> RunProgress:
    """Return runs at their start, before any record."""
    state = learners.map(Learner.start)()
    zero = jnp.zeros((), jnp.int32)
    look = learners.map(lambda learner, state: record(learner, state.parameters, state, zero))
    shapes = jax.eval_shape(lambda: look(state))
    size = len(schedule.steps) + 1
    rows = {name: jnp.full((size, *leaf.shape), jnp.nan, leaf.dtype) for name, leaf in shapes.items()}
    return RunProgress(state, zero, rows)


def advance(learners: Learners, schedule: RecordSchedule, progress: RunProgress) -> RunProgress:
    """Take the steps up to the last record, as far as the storage has room, and record, the start too."""
    recorded_steps = jnp.pad(schedule.steps, (1, 0))

    def phase(number: Int[Array, ""], progress: RunProgress) -> RunProgress:
        window, is_last = (number + 1) // 2, number % 2 == 0
        first, last = recorded_steps[jnp.maximum(window - 1, 0)], recorded_steps[window]
        begins = ~is_last & (progress.step == first)
        state = jax.lax.cond(begins, learners.map(Learner.begin_window), lambda state: state, progress.state)
        before = state.parameters, state.slots
        state, index = _take_steps(learners, state, progress.step, jnp.where(is_last, last, last - 1))
        # Runs that had no room for their first step find their start recorded already: it is the same once more.
        is_due = is_last & (index == last) & ((progress.step < last) | (window == 0))

        def look(learner: Learner, before: tuple[Any, Any], state: LearnerState) -> tuple[Records, LearnerState]:
            row = record(learner, learner.align(*before, state), state, last - first)
            return row, learner.check_all(state)

        def write(state: LearnerState, rows: Records) -> tuple[LearnerState, Records]:
            row, state = learners.map(look)(before, state)
            return state, {name: values.at[window].set(row[name]) for name, values in rows.items()}

        state, rows = jax.lax.cond(is_due, write, lambda state, rows: (state, rows), state, progress.rows)
        return RunProgress(state, index, rows)

    done: RunProgress = jax.lax.fori_loop(0, 2 * schedule.records + 1, phase, progress)
    return done


def _take_steps(
    learners: Learners, state: LearnerState, index: Int[Array, ""], goal: Int[Array, ""]
) -> tuple[LearnerState, Int[Array, ""]]:
    """Take the steps up to ``goal``, as far as there is room."""

    def goes_on(carry: tuple[LearnerState, Int[Array, ""]]) -> Bool[Array, ""]:
        state, index = carry
        return (index < goal) & jnp.all(learners.map(Learner.has_room)(state))

    def step(carry: tuple[LearnerState, Int[Array, ""]]) -> tuple[LearnerState, Int[Array, ""]]:
        state, index = carry
        return learners.map(lambda learner, state: learner.step(index, state))(state), index + 1

    def any_stale(state: LearnerState) -> Bool[Array, ""]:
        return jnp.any(state.slots.cache.is_stale)

    def steps(carry: tuple[LearnerState, Int[Array, ""]]) -> tuple[LearnerState, Int[Array, ""]]:
        # A condition inside a step would copy all weights, at every step.
        state, index = jax.lax.while_loop(lambda carry: goes_on(carry) & ~any_stale(carry[0]), step, carry)
        refresh = learners.map(lambda learner, state: learner.refresh(state))
        return jax.lax.cond(any_stale(state), refresh, lambda state: state, state), index

    end: tuple[LearnerState, Int[Array, ""]] = jax.lax.while_loop(
        goes_on, steps if learners.sparse else step, (state, index)
    )
    return end


def record(learner: Learner, before: Any, state: LearnerState, length: Int[Array, ""]) -> Records:
    """Return the records after ``length`` steps, the last of which started at ``before``; NaN for what 0 steps lack."""
    steps = length.astype(learner.settings.dtype)
    means = {name: total / steps for name, total in state.sums.items()}
    last_update = update_records(learner, before, state)
    update = {name: jnp.where(length > 0, value, jnp.nan) for name, value in last_update.items()}
    return means | update | policy_records(learner, state, length == 0)


def policy_records(learner: Learner, state: LearnerState, is_start: Bool[Array, ""] | bool = False) -> Records:
    """Measure the policies: at the start the initial ones themselves, none of which is below its start."""
    settings, storage = learner.settings, learner.storage
    now = learner.policies_at(state.parameters, state.slots)
    policies = jax.tree.map(lambda first, now: jnp.where(is_start, first, now), learner.initial_policies, now)

    def view(slots: Slots, policy: Any, initial: Any, labels: tuple[Any, ...]) -> PolicyView:
        first, (correct, target, parts) = initial.outcomes().at_slots(slots), labels
        correct, target = (storage.at_slots(values, slots) for values in (correct, target))
        parts = None if parts is None else storage.at_slots(parts.T, slots)
        usual = policy.outcomes(), first, correct, target, policy, settings.pass_at_k, settings.top_n
        return PolicyView(*usual, parts, learner.problem.reward_weights)

    each = policies, learner.initial_policies, learner.labels
    return _measure(learner, POLICY, view, (state.slots, *each), JointView(learner, state, {}, None))


def update_records(learner: Learner, before: Any, state: LearnerState) -> Records:
    """Measure the last step, which started at parameters ``before``."""
    problem, storage, prompts = learner.problem, learner.storage, state.last.prompts
    slots, temperature = learner.select_rows(state.slots, prompts), learner.numbers.temperature
    old, new = (learner.policies_at(values, slots, prompts) for values in (before, state.parameters))
    moved = problem.logits_of(state.parameters, prompts) - problem.logits_of(before, prompts)

    def view(slots: Slots, policies: tuple[Any, Any], moved: Array, correct: Array, last: LastBatch) -> UpdateView:
        old, new = policies
        outcomes, is_correct = old.outcomes(), storage.at_slots(correct, slots)
        times = last.groups.slot_counts(jnp.zeros_like(outcomes.weights), storage)
        change = old.score_change(moved / temperature)
        group = old, last.groups, last.advantages, learner.settings.top_n
        return UpdateView(outcomes, new.outcomes(), change, times, is_correct, *group)

    each = (old, new), moved, learner.select(learner.correct, prompts), state.last
    return _measure(learner, UPDATE, view, (slots, *each), JointView(learner, state, {}, before))


def _measure(
    learner: Learner, of: str, view: Callable[..., Any], arguments: tuple[Any, ...], joint: JointView
) -> Records:
    """Compute the metrics of one kind: means over prompts of those of a view, and those of the whole problem."""
    chosen = [metric for metric in learner.metrics if metric.of == of]

    def values(*of_prompt: Any) -> Records:
        measured = view(*of_prompt)
        return {metric.name: metric.value(measured) for metric in chosen if not metric.joint}

    each = learner.map_prompts(values)(*arguments)
    row = {name: jnp.mean(value, axis=0) for name, value in each.items()}
    joint = joint._replace(each=each)
    return row | {metric.name: metric.value(joint) for metric in chosen if metric.joint}
