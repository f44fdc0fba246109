"""Spend in a step what is known of who harms whom, by the remedies of ``simlab.interference.remedies``.

With dz_i the gradient of a prompt's objective by its logits, over P, and J_i^T the way back to the parameters, the push
of i on j is K_ij = <J_j^T u_j, M J_i^T dz_i>: M is Adam's preconditioner in this step, or the identity. No rollout is
sampled for it. u_j, the gradient of j's solve rate by its logits, is known

- by ``memory``: from the last group of j with both outcomes before this step, whatever its logits were then; it is 0
  before the first. It is independent of this step's rollouts, and is what gradient episodic memory keeps of a task.
- by ``step``: from the groups of the step itself, 0 for a prompt that is not in the batch or always or never right
  there. What a prompt does to itself is left out then: |s|^2 of one rollout in both factors always looks like help.
- ``exact``: an oracle that no trainer has, for what a remedy could do if noise were not.

A prompt is in danger if its net push is below 0. ``damp`` and ``drop`` weigh the gradients of the batch by their harm.
``project`` protects all prompts whose u is known, in the batch or not; a strength below 1 takes that share of the way.
``endangered`` puts prompts whose last known push was below 0 into the next batch, on at most that share of its seats.

The exact effects that are recorded of a step are those of the prompts' objectives, without a remedy.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from simlab.interference.kernel import solve_rate_weights
from simlab.interference.remedies import damped, harm, projection, without_worst
from simlab.simulator.context import StepContext
from simlab.simulator.optimizers import preconditioner, product
from simlab.simulator.settings import ENDANGERED, NO_REMEDY
from simlab.simulator.state import LearnerState, WeighedBatch

ROUNDINGS = 64


class Known(NamedTuple):
    """The memory of each of the M prompts: u by its last group with both outcomes, and its last net push, or 0."""

    directions: Float[Array, "M A"]
    net: Float[Array, " M"]


def known_at_start(context: StepContext) -> Known | None:
    """Return that nothing is known; None where there is no remedy."""
    if context.settings.remedy == NO_REMEDY:
        return None
    nothing = jnp.zeros(context.correct.shape, context.settings.dtype)
    return Known(nothing, nothing[:, 0])


def remedied_gradient(
    context: StepContext, batch: WeighedBatch, state: LearnerState, gradients: Float[Array, "P ..."]
) -> tuple[Any, LearnerState]:
    """Return the gradient of the parameters, from those of the objectives of prompts by logits, and what is known."""
    rule, problem, parameters = context.settings.remedy, context.problem, state.parameters
    each = gradients / len(gradients)
    plain = problem.pullback(each, parameters, batch.prompts)
    if state.known is None:
        return plain, state
    now = estimated_directions(context, batch)
    directions = known_directions(context, batch, state, now)
    everyone = jnp.arange(problem.prompts, dtype=jnp.int32)
    scale = preconditioner(context.optimizer, plain, (state.moments, parameters), context.numbers.optimizer)

    def rows(values: Float[Array, "n A"], prompts: Int[Array, " n"]) -> Float[Array, "n F"]:
        pulled = jax.vmap(lambda row, prompt: problem.pullback(row[None], parameters, prompt[None]))(values, prompts)
        scaled = pulled if scale is None else jax.tree.map(lambda leaf, own: leaf * jnp.sqrt(own), pulled, scale)
        return jnp.concatenate([leaf.reshape(len(values), -1) for leaf in jax.tree.leaves(scaled)], axis=1)

    sources, targets = rows(each, batch.prompts), rows(directions, everyone)
    sizes = [jnp.linalg.norm(values, axis=1) for values in (sources, targets)]
    kernel = without_rounding(product(sources, targets.T), sizes[0][:, None] * sizes[1])
    if context.settings.remedy_by == "step":
        kernel = kernel.at[jnp.arange(len(each)), batch.prompts].set(0)
    net = without_rounding(jnp.sum(kernel, axis=0), jnp.sum(jnp.abs(kernel), axis=0))
    strength = context.numbers.remedy_strength
    if rule == "project":
        added = strength * projection(net, product(targets, targets.T), known(directions), loop=jax.lax.fori_loop)
        more = problem.pullback(added[:, None] * directions, parameters, everyone)
        plain = jax.tree.map(jnp.add, plain, more)
    elif rule != ENDANGERED:
        weights = (damped if rule == "damp" else without_worst)(harm(kernel, net < 0), strength)
        plain = problem.pullback(weights[:, None] * each, parameters, batch.prompts)
    remembered = state.known.directions[batch.prompts]
    remembered = state.known.directions.at[batch.prompts].set(jnp.where(known(now)[:, None], now, remembered))
    return plain, state._replace(known=Known(remembered, jnp.where(known(directions), net, state.known.net)))


def without_rounding(sums: Float[Array, "..."], sizes: Float[Array, "..."]) -> Float[Array, "..."]:
    """Replace sums of terms of such sizes by 0 where they may be rounding: the least push below 0 would be danger."""
    least: float = ROUNDINGS * float(np.finfo(sums.dtype).eps)
    exact: Array = jnp.where(jnp.abs(sums) > least * sizes, sums, 0)
    return exact


def known(directions: Float[Array, "n A"]) -> Bool[Array, " n"]:
    """Return True for prompts whose u is not 0."""
    is_known: Array = jnp.any(directions != 0, axis=1)
    return is_known


def known_directions(
    context: StepContext, batch: WeighedBatch, state: LearnerState, now: Float[Array, "P A"]
) -> Float[Array, "M A"]:
    """Return u of all prompts by what the settings say it is known; ``now`` is that of the step's own groups."""
    by = context.settings.remedy_by
    if by == "step":
        return jnp.zeros_like(state.known.directions).at[batch.prompts].set(now)
    if by == "memory":
        directions: Array = state.known.directions
        return directions

    def exact(slots: Any, policy: Any, correct: Array) -> Array:
        rate, right = context.solve_rate(slots, policy, correct), policy.condition(correct).p
        of_log = policy.likelihood_gradient(right)
        gradient: Array = rate * of_log / context.numbers.temperature
        return gradient

    found: Array = context.map_prompts(exact)(
        state.slots, context.policies_at(state.parameters, state.slots), context.correct
    )
    return found


def estimated_directions(context: StepContext, batch: WeighedBatch) -> Float[Array, "P A"]:
    """Estimate u of the prompts of a batch from its groups; exactly 0 where all rollouts are right or all wrong."""
    correct = batch.correct.astype(batch.dtype)
    weights = solve_rate_weights(correct, jnp.ones_like(correct))

    def of_prompt(_: None, policy: Any, group: Any, weights: Array, candidates: Array) -> Array:
        gradient: Array = policy.score_gradient(weights[:, None, None], group, candidates[:0], "simulator")
        return jnp.where(jnp.any(weights != 0), gradient / context.numbers.temperature, 0)

    samples = batch.samples
    found: Array = context.map_prompts(of_prompt)(None, samples.policies, samples.groups, weights, samples.candidates)
    return found
