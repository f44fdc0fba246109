"""Record a learner: compute the metrics of its policies, of its last update, and of the steps since the last record."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from simlab.simulator.learner import Learner
from simlab.simulator.metrics import POLICY, UPDATE, OnePolicy, OneUpdate, Row, Whole
from simlab.simulator.state import Last, State
from simlab.simulator.storage import Places


def record(learner: Learner, before: Any, state: State, length: Int[Array, ""]) -> Row:
    """The records after ``length`` steps, the last of which started at parameters ``before``.

    At the start, after no step, there is no update yet: what is of one, or of every step, is NaN.
    """
    steps = length.astype(learner.settings.dtype)
    means = {name: total / steps for name, total in state.sums.items()}
    of_update = recorded_update(learner, before, state)
    update = {name: jnp.where(length > 0, value, jnp.nan) for name, value in of_update.items()}
    return means | update | recorded_policy(learner, state, length == 0)


def recorded_policy(learner: Learner, state: State, is_start: Bool[Array, ""] | bool = False) -> Row:
    """The metrics of the policies: at the start of the initial ones themselves, none of which is below its start."""
    settings, storage = learner.settings, learner.storage
    now = learner.policies_of(state.parameters, state.places)
    policies = jax.tree.map(lambda first, now: jnp.where(is_start, first, now), learner.initial, now)

    def one(places: Places, own: Any, initial: Any, correct: Array, target: Array) -> OnePolicy:
        first = initial.outcomes().everywhere(places)
        right, wanted = (storage.everywhere(members, places) for members in (correct, target))
        return OnePolicy(own.outcomes(), first, right, wanted, own, settings.pass_at_k, settings.top_n)

    each = policies, learner.initial, learner.correct, learner.target
    return _measured(learner, POLICY, lambda value: learner.each(_then(one, value))(state.places, *each), state, None)


def recorded_update(learner: Learner, before: Any, state: State) -> Row:
    """The metrics of the last step, which started at parameters ``before``."""
    problem, storage, prompts = learner.problem, learner.storage, state.last.prompts
    places, temperature = learner.rows(state.places, prompts), learner.numbers.temperature
    old, new = (learner.policies_of(values, places, prompts) for values in (before, state.parameters))
    moved = problem.logits_of(state.parameters, prompts) - problem.logits_of(before, prompts)

    def one(places: Places, policies: tuple[Any, Any], moved: Array, correct: Array, last: Last) -> OneUpdate:
        old, new = policies
        outcomes, right = old.outcomes(), storage.everywhere(correct, places)
        times = last.groups.times(jnp.zeros_like(outcomes.weights), storage)
        change = old.moved_scores(moved / temperature)
        return OneUpdate(
            outcomes, new.outcomes(), change, times, right, old, last.groups, last.advantages, learner.settings.top_n
        )

    each = (old, new), moved, learner.of_batch(learner.correct, prompts), state.last
    return _measured(learner, UPDATE, lambda value: learner.each(_then(one, value))(places, *each), state, before)


def _then(told: Callable[..., Any], value: Callable[[Any], Row]) -> Callable[..., Row]:
    return lambda *own: value(told(*own))


def _measured(
    learner: Learner, of: str, of_each: Callable[[Callable[[Any], Row]], Row], state: State, before: Any
) -> Row:
    """The metrics of one kind: means over prompts, and those of the whole problem."""
    chosen = [metric for metric in learner.metrics if metric.of == of]
    each = of_each(lambda told: {metric.name: metric.value(told) for metric in chosen if not metric.whole})
    row = {name: jnp.mean(found, axis=0) for name, found in each.items()}
    whole = Whole(learner, state, each, before)
    return row | {metric.name: metric.value(whole) for metric in chosen if metric.whole}
