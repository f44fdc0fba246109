"""Weigh the samples of a step: what the verifier accepts, the rewards, and the advantages of the estimator."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from simlab.estimators.tokens import of_tokens
from simlab.rollouts import Rollouts
from simlab.simulator.allocation import sizes_by_rounds
from simlab.simulator.context import StepContext
from simlab.simulator.mismatch import importance_weights
from simlab.simulator.policy import Group, Listed
from simlab.simulator.state import LearnerState, Samples, WeighedBatch, count_true
from simlab.simulator.storage import Slots
from simlab.simulator.verifier import VERIFIER_STREAM, correct_rewards, shared_chances, verdicts

NOISE_STREAM = 1  # folded into the key of a step, which itself draws the group


def weigh_samples(
    context: StepContext, keys: Key[Array, " P"], prompts: Int[Array, " P"], samples: Samples, state: LearnerState
) -> tuple[WeighedBatch, Any]:
    """Return the batch with its advantages, and the memory of the estimator; ``correct`` is by the verifier."""
    settings, method = context.settings, context.method
    slots = context.select_rows(state.slots, prompts)
    proximal = context.policies(state, prompts) if settings.samples_otherwise else samples.policies

    def label(slots: Slots, group: Group, policy: Any, correct: Array, target: Array) -> tuple[Array, ...]:
        labels = (group.label(values, context.storage, slots, context.group_size) for values in (correct, target))
        return *labels, context.solve_rate(slots, policy, correct)

    correct_entries, target_entries = (context.select(values, prompts) for values in (context.correct, context.target))
    correct, target, solve_rates = context.map_prompts(label)(
        slots, samples.groups, proximal, correct_entries, target_entries
    )
    if settings.errs:
        chances = error_chances(context, keys, prompts, samples.groups, correct)
        correct = verdicts(correct, chances, context.numbers.false_positive, context.numbers.false_negative)
    if settings.allocation == "sequential":  # rollouts after a prompt's last round are absent
        sizes = sizes_by_rounds(correct, settings.group_size, settings.smallest_group)
        present = jnp.arange(context.group_size, dtype=jnp.int32) < sizes[:, None]
        groups: Any = samples.groups
        samples = samples._replace(groups=Listed(groups.slots, present))
    rollouts = to_rollouts(context, samples, proximal, correct, keys)
    if "greedy_reward" in method.needs:
        greedy = _greedy_reward(context, slots, samples.policies, prompts)
        rollouts = rollouts._replace(greedy_reward=jnp.broadcast_to(greedy[:, None], rollouts.rewards.shape))
    advantages, memory = method.estimator.update(rollouts, state.memory)
    size: Any = context.group_size
    if rollouts.mask is not None:
        correct, target = correct & rollouts.mask, target & rollouts.mask
        size = count_true(rollouts.mask)
    count = context.map_prompts(lambda _, group, labels, values: group.count_labels(labels, values))
    number = count(None, samples.groups, correct, correct_entries)
    holds_target = count(None, samples.groups, target, target_entries) > 0
    outcomes = (number > 0) & (number < size), holds_target, solve_rates
    batch = WeighedBatch(prompts, samples, correct, number, rollouts, of_tokens(advantages), *outcomes)
    if settings.samples_otherwise:
        log_ratio = context.token_logp(proximal, samples.groups) - context.token_logp(samples.policies, samples.groups)
        how = settings.correction, settings.correction_unit, context.numbers.correction_bound
        batch = batch._replace(importance=importance_weights(log_ratio, *how))
    return batch, memory


def error_chances(
    context: StepContext, keys: Key[Array, " P"], prompts: Int[Array, " P"], groups: Any, correct: Bool[Array, "P G"]
) -> Float[Array, "P G"]:
    """Return a uniform number in [0, 1) for each rollout: its own, its answer's, or its prompt's for right or wrong."""
    dtype, errors_of = context.settings.dtype, context.settings.errors_of
    if errors_of == "rollout":
        streams = jax.vmap(lambda key: jax.random.fold_in(key, VERIFIER_STREAM))(keys)
        return jax.vmap(lambda key: jax.random.uniform(key, correct.shape[1:], dtype))(streams)
    key = jax.random.fold_in(context.key, VERIFIER_STREAM)
    judged = groups.slots if errors_of == "answer" else correct
    numbers = jnp.broadcast_to(prompts[:, None], judged.shape).astype(jnp.uint32)
    return shared_chances(key, numbers, judged.astype(jnp.uint32), dtype)


def _greedy_reward(context: StepContext, slots: Slots, samplers: Any, prompts: Int[Array, " P"]) -> Float[Array, " P"]:
    """Return the reward of the answer of the samplers' likeliest tokens, by the truth."""
    problem = context.problem
    greedy = context.map_prompts(
        lambda slots, sampler, correct: sampler.greedy_is_correct(context.storage.at_slots(correct, slots))
    )
    is_correct = greedy(slots, samplers, context.select(context.correct, prompts))
    rewards = jnp.where(is_correct, problem.reward_correct, problem.reward_incorrect)
    return rewards.astype(context.settings.dtype)


def to_rollouts(
    context: StepContext, samples: Samples, proximal: Any, correct: Bool[Array, "P G"], keys: Key[Array, " P"]
) -> Rollouts:
    """Record the groups, by the policies before the gradient steps, with what is read of them."""
    settings, problem, needs = context.settings, context.problem, context.method.needs
    shape, dtype = (*correct.shape, problem.tokens), settings.dtype
    logp = entropy = noise = top = None
    if "old_logp" in needs or settings.gradient_steps > 1 or settings.samples_otherwise:
        logp = context.token_logp(samples.policies if settings.correction == "ratio" else proximal, samples.groups)
    if "entropy" in needs:
        entropies_of = context.map_prompts(lambda _, policy, group: policy.token_entropy(group))
        entropies = entropies_of(None, proximal, samples.groups)
        entropy = jnp.broadcast_to(entropies if entropies.ndim == 3 else entropies[:, None, None], shape)
    if "noise" in needs:
        streams = jax.vmap(lambda key: jax.random.fold_in(key, NOISE_STREAM))(keys)
        noise = jax.vmap(lambda key: jax.random.uniform(key, (1, *shape[1:]), dtype))(streams)[:, 0]
    if "topn_logp" in needs:
        top = samples.top_logp
        top = jnp.broadcast_to(top if top.ndim == 4 else top[:, None, None], (*shape, top.shape[-1]))
    rewards = jnp.where(correct, problem.reward_correct, problem.reward_incorrect).astype(dtype)
    if (correction := settings.verifier_correction) != "none":
        rates = context.numbers.false_positive, context.numbers.false_negative
        shares = correct_rewards(correct.astype(dtype), correction, *rates)
        rewards = problem.reward_incorrect + shares * (problem.reward_correct - problem.reward_incorrect)
    groups = samples.groups
    present = groups.present if isinstance(groups, Listed) and settings.is_ragged else context.present
    return Rollouts(
        rewards,
        old_logp=logp,
        entropy=entropy,
        topn_logp=top,
        noise=noise,
        mask=None if present is None else jnp.broadcast_to(present, correct.shape),
    )
