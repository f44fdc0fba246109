"""Ascend: take the gradient steps that a weighed batch pays for.

``token_coefficients`` (what grad log pi is multiplied with), ``prompt_gradients`` (with respect to logits), the
problem's ``pullback`` (to the parameters), and ``move`` (the optimiser) follow each other.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from simlab.rollouts import Rollouts
from simlab.simulator.allocation import first_active
from simlab.simulator.context import StepContext
from simlab.simulator.metrics import EVERY_ASCENT, EVERY_STEP, AscentView, Metric
from simlab.simulator.mismatch import takes_part
from simlab.simulator.optimizers import scale_to_norm
from simlab.simulator.policy import distinct_rollouts
from simlab.simulator.remedy import remedied_gradient
from simlab.simulator.state import (
    ADVANTAGE,
    COEFFICIENT,
    LOGIT,
    Fault,
    LearnerState,
    PartialBatch,
    Records,
    Samples,
    WeighedBatch,
)
from simlab.simulator.storage import Slots
from simlab.surrogates import aggregation_weights
from simlab.truths import all_true

Number = Int[Array, ""] | int  # of a gradient step on a batch, from 0


class CurrentPolicies(NamedTuple):
    """The policies that a gradient step starts from, and log of their token probabilities over those on record."""

    policies: Any
    log_ratio: Float[Array, "P G T"]


GradientStep = Callable[..., tuple[LearnerState, Float[Array, "P ..."]]]


def ascend_batch(
    context: StepContext, batch: WeighedBatch, state: LearnerState, step: GradientStep | None = None
) -> LearnerState:
    """Take the gradient steps that a batch pays for; ``step`` takes the first in place of ``gradient_step``."""
    settings, problem = context.settings, context.problem
    state = state._replace(schedule=context.surrogate.follow(batch.rollouts, state.schedule))
    distinct = distinct_rollouts(batch.samples.groups, batch.advantages)
    begun = state.fault._replace(steps=state.fault.steps + (state.fault.kind == 0))
    fault = _check(context, begun, ADVANTAGE, distinct, batch)
    state = state._replace(fault=fault).recorded(_step_records(context, batch))
    current = _current_policies(context, batch, state if settings.samples_otherwise else None)
    if settings.allocation == "dynamic":
        moved, gradients = _fill_batch(context, batch, state, current)
    elif settings.minibatches > 1 or settings.isolation:
        learned = batch.advantages, batch.rollouts, state.schedule
        coefficients = _weight(token_coefficients(context, current.log_ratio, *learned), batch)
        gradients = prompt_gradients(context, coefficients, batch, state, current.policies)
        moved = _ascend_parts(context, batch, state)
    else:
        moved, gradients = (step or gradient_step)(context, batch, state, current, 0)
        if settings.epochs > 1:
            moved = jax.lax.fori_loop(
                1, settings.epochs, lambda number, state: _ascend_again(context, batch, state, number), moved
            )
    logits = problem.drawn_logits(moved.parameters, batch.prompts, batch.samples.groups, context.drawn_values)
    return moved._replace(
        last=batch.summary(),
        history=problem.next_history(state.history, batch.prompts, gradients, state.parameters),
        older=(state.parameters, *moved.older)[: settings.lag],
        # A step that breaks one logit breaks those that groups drew, or the next step does.
        fault=_check(context, moved.fault, LOGIT, logits, batch),
    )


def record_shapes(context: StepContext, batch: WeighedBatch, schedule: Any) -> Records:
    """Return something of the shapes of all that is summed over steps."""
    log_ratio = _current_policies(context, batch, None).log_ratio
    coefficients = token_coefficients(context, log_ratio, batch.advantages, batch.rollouts, schedule)
    return _step_records(context, batch) | _ascent_records(context, batch, log_ratio, coefficients, 0)


def _current_policies(context: StepContext, batch: WeighedBatch, state: LearnerState | None) -> CurrentPolicies:
    """Return the policies of a state; without one those that drew the batch, whose ratio is 1."""
    if state is None:
        zeros = jnp.zeros((*batch.correct.shape, context.problem.tokens), batch.dtype)
        return CurrentPolicies(batch.samples.policies, zeros)
    policies, on_record = context.policies(state, batch.prompts), batch.rollouts.old_logp
    assert on_record is not None
    return CurrentPolicies(policies, context.token_logp(policies, batch.samples.groups) - on_record)


def _ascend_parts(context: StepContext, batch: WeighedBatch, state: LearnerState) -> LearnerState:
    """Take a gradient step on each minibatch, in the same order in all epochs, and in both turns of an isolation."""
    size = context.prompts_per_step // context.settings.minibatches

    def ascend(number: Int[Array, ""], state: LearnerState) -> LearnerState:
        first = number % context.settings.minibatches * size
        minibatch = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, first, size), batch)
        return _ascend_again(context, minibatch, state, number)

    moved: LearnerState = jax.lax.fori_loop(0, context.settings.gradient_steps, ascend, state)
    return moved


def _ascend_again(context: StepContext, batch: WeighedBatch, state: LearnerState, number: Number) -> LearnerState:
    """Take the gradient step of this number on a batch that an older policy sampled."""
    return gradient_step(context, batch, state, _current_policies(context, batch, state), number)[0]


def gradient_step(
    context: StepContext, batch: WeighedBatch, state: LearnerState, current: CurrentPolicies, number: Number
) -> tuple[LearnerState, Float[Array, "P ..."]]:
    """Take a gradient step on the mean of the objectives of the prompts; returns the gradients of these too."""
    coefficients, state = record_gradient_step(context, batch, state, current.log_ratio, number)
    gradients = prompt_gradients(context, coefficients, batch, state, current.policies)
    gradient, state = remedied_gradient(context, batch, state, gradients)
    return move(context, gradient, state), gradients


def record_gradient_step(
    context: StepContext, batch: WeighedBatch, state: LearnerState, log_ratio: Float[Array, "P G T"], number: Number
) -> tuple[Float[Array, "P G T D"], LearnerState]:
    """Return the coefficients of a gradient step, and the state with its records and faults."""
    coefficients = token_coefficients(context, log_ratio, batch.advantages, batch.rollouts, state.schedule)
    if context.settings.isolation:  # the tokens of the other turn teach nothing
        is_first_turn = number < context.settings.gradient_steps // 2
        in_turn = takes_part(batch.rollouts.old_logp, context.numbers.isolation, is_first_turn)
        batch = batch._replace(advantages=jnp.where(in_turn, batch.advantages, 0))
        coefficients = jnp.where(in_turn[..., None], coefficients, 0)
    state = state.recorded(_ascent_records(context, batch, log_ratio, coefficients, number))
    coefficients = _weight(coefficients, batch)
    distinct = distinct_rollouts(batch.samples.groups, coefficients)
    return coefficients, state._replace(fault=_check(context, state.fault, COEFFICIENT, distinct, batch))


def move(context: StepContext, gradient: Any, state: LearnerState) -> LearnerState:
    """Return the state after the optimiser has taken its step."""
    change, moments = context.optimizer.update(jax.tree.map(jnp.negative, gradient), state.moments, state.parameters)
    if context.settings.update_norm:
        members = context.parameter_members(change, state.slots)
        change = scale_to_norm(change, context.numbers.update_norm, members, context.storage)
    return state._replace(parameters=jax.tree.map(jnp.add, state.parameters, change), moments=moments)


def _fill_batch(
    context: StepContext, batch: WeighedBatch, state: LearnerState, current: CurrentPolicies
) -> tuple[LearnerState, Float[Array, "P ..."]]:
    """Add the active groups of a round to the batch that dynamic sampling fills, and take its step once it is full."""
    coefficients, state = record_gradient_step(context, batch, state, current.log_ratio, 0)
    gradients = prompt_gradients(context, coefficients, batch, state, current.policies)
    partial, full_size = state.partial, len(gradients)
    assert partial is not None
    chosen = first_active(batch.active, full_size - partial.groups)
    added = jnp.where(chosen.reshape(-1, *[1] * (gradients.ndim - 1)), gradients, 0) / full_size
    more = context.problem.pullback(added, state.parameters, batch.prompts)
    gradient = jax.tree.map(jnp.add, partial.gradient, more)
    groups = partial.groups + jnp.sum(chosen, dtype=jnp.int32)

    moved: LearnerState = jax.lax.cond(
        groups == full_size,
        lambda state: move(context, gradient, state)._replace(partial=empty_batch(context)),
        lambda state: state._replace(partial=PartialBatch(gradient, groups)),
        state,
    )
    return moved, gradients


def empty_batch(context: StepContext) -> PartialBatch | None:
    """Return a batch without a group; None where batches are not filled round by round."""
    if context.settings.allocation != "dynamic":
        return None
    return PartialBatch(jax.tree.map(jnp.zeros_like, context.initial_parameters), jnp.zeros((), jnp.int32))


def token_coefficients(
    context: StepContext, log_ratio: Float[Array, "P G T"], advantages: Array, rollouts: Rollouts, schedule: Any
) -> Float[Array, "P G T D"]:
    """Return what the loss multiplies grad log pi with: of each token first, then of its candidates."""
    ratio: Array = jnp.exp(log_ratio)
    values: Array = context.surrogate.at(schedule)(ratio, advantages, rollouts)
    return values.reshape(*ratio.shape, -1) * _loss_weights(context, rollouts, ratio.dtype)[..., None]


def _weight(coefficients: Float[Array, "P G T D"], batch: WeighedBatch) -> Float[Array, "P G T D"]:
    return coefficients if batch.importance is None else coefficients * batch.importance[..., None]


def _loss_weights(context: StepContext, rollouts: Rollouts, dtype: Any) -> Float[Array, "P G T"]:
    """Return the weight of each token of a group in the loss; 1 / n where n rollouts of the group have one."""
    method = context.method
    normaliser = 1.0 if method.normaliser is None else method.normaliser

    def of_group(present: Bool[Array, " G"]) -> Float[Array, "G T"]:
        tokens = jnp.broadcast_to(present[None, :, None], (1, len(present), context.problem.tokens))
        weights: Array = aggregation_weights(tokens, method.aggregation, normaliser).astype(dtype)
        return weights[0]

    if rollouts.mask is not None and context.settings.is_ragged:
        return jax.vmap(of_group)(rollouts.mask)
    same = of_group(jnp.ones(context.group_size, bool) if context.present is None else context.present)
    return jnp.broadcast_to(same, (len(rollouts.rewards), *same.shape))


def prompt_gradients(
    context: StepContext, coefficients: Float[Array, "P G T D"], batch: WeighedBatch, state: LearnerState, policies: Any
) -> Float[Array, "P ..."]:
    """Return the gradient of each prompt's objective with respect to its logits."""
    settings, numbers, storage = context.settings, context.numbers, context.storage
    temperatures = context.temperatures(state, batch.prompts)

    def gradient_of_prompt(
        slots: Slots, coefficients: Array, weights: Array, samples: Samples, pulls: tuple[Any, Any, Any]
    ) -> Array:
        initial, demonstrator, own = pulls
        policy, group, temperature = samples.policies, samples.groups, numbers.temperature if own is None else own
        gradient: Array = policy.score_gradient(coefficients, group, samples.candidates, settings.update_rule)
        gradient /= temperature
        if settings.entropy_bonus:
            gradient += numbers.entropy_bonus * (policy.entropy_gradient(group, weights) / temperature)
        if settings.kl:
            initial_logp = initial.logp_at_slots(slots)
            gradient -= numbers.kl * (policy.kl_gradient(initial_logp, group, weights) / temperature)
        if settings.supervised:
            answers = storage.fill_empty(demonstrator.at_slots(slots).p, 0, slots)
            gradient += numbers.supervised * (policy.likelihood_gradient(answers) / temperature)
        return gradient

    initial = context.select(context.initial_policies, batch.prompts) if settings.kl else None
    demonstrators = context.select(context.demonstrators, batch.prompts) if settings.supervised else None
    slots = context.select_rows(state.slots, batch.prompts)
    samples = batch.samples._replace(policies=policies)
    weights = _loss_weights(context, batch.rollouts, coefficients.dtype)
    pulls = initial, demonstrators, temperatures
    gradients: Array = context.map_prompts(gradient_of_prompt)(slots, coefficients, weights, samples, pulls)
    return gradients


def _step_records(context: StepContext, batch: WeighedBatch) -> Records:
    return {metric.name: metric.value(batch) for metric in context.metrics if metric.of == EVERY_STEP}


def _ascent_records(
    context: StepContext,
    batch: WeighedBatch,
    log_ratio: Float[Array, "P G T"],
    coefficients: Float[Array, "P G T D"],
    number: Number,
) -> Records:
    """Return what is recorded of the gradient step of this number on a batch."""
    settings = context.settings
    chosen = [metric for metric in context.metrics if metric.of == EVERY_ASCENT]

    def value(metric: Metric, view: AscentView) -> Array:
        value = metric.value(view)
        return value if settings.is_off_policy or not metric.off_policy else jnp.full_like(value, jnp.nan)

    def record(_: None, samples: Samples, correct: Array, present: Any, learned: tuple[Array, Array, Array]) -> Records:
        turn = number == settings.gradient_steps - 1, 1 / settings.gradient_steps
        view = AscentView(samples.policies, samples.groups, present, correct, *learned, *turn)
        return {metric.name: value(metric, view) for metric in chosen}

    advantages = jnp.broadcast_to(batch.advantages, log_ratio.shape)
    learned = log_ratio, advantages, coefficients
    each = context.map_prompts(record)(None, batch.samples, batch.correct, batch.rollouts.mask, learned)
    return {name: jnp.mean(values, axis=0) for name, values in each.items()}


def _check(context: StepContext, fault: Fault, kind: int, values: Array, batch: WeighedBatch) -> Fault:
    """Note a fault if values of a batch are not finite."""
    finite = all_true(jnp.isfinite(values), range(1, values.ndim))
    return fault.check(kind, finite, batch.number_correct, None if context.problem.prompts == 1 else batch.prompts)
