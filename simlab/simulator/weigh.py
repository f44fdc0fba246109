"""Weigh the samples of a step: what the verifier accepts, the rewards, and the advantages of the estimator."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from simlab.estimators.tokens import of_tokens
from simlab.rollouts import Rollouts, is_uniform
from simlab.simulator.allocation import BY_ROUNDS, sizes_by_rounds
from simlab.simulator.context import StepContext
from simlab.simulator.mismatch import importance_weights
from simlab.simulator.policy import Group, Listed
from simlab.simulator.settings import PLACEBO, PLACEBO_BY_GROUP
from simlab.simulator.state import LearnerState, Samples, WeighedBatch, count_true
from simlab.simulator.storage import Slots
from simlab.simulator.verifier import VERIFIER_STREAM, correct_rewards, shared_chances, verdicts

# Folded into the key of a step, which itself draws the group; 2 is the verifier's, 4 that of the levels of a tree.
NOISE_STREAM, REWARD_STREAM, PLACEBO_STREAM = 1, 3, 5


class Labels(NamedTuple):
    """The labels of the rollouts of a batch: correct, of the target set, and graded rewards part by part."""

    correct: Bool[Array, "P G"]
    target: Bool[Array, "P G"]
    parts: Float[Array, "P G R"] | None  # None where rewards are those of right and wrong


def weigh_samples(
    context: StepContext, keys: Key[Array, " P"], prompts: Int[Array, " P"], samples: Samples, state: LearnerState
) -> tuple[WeighedBatch, Any]:
    """Return the batch with its advantages, and the memory of the estimator; ``correct`` is by the verifier."""
    settings, method = context.settings, context.method
    slots = context.select_rows(state.slots, prompts)
    proximal = context.policies(state, prompts) if settings.samples_otherwise else samples.policies

    entries = Labels(*(context.select(values, prompts) for values in context.labels))
    correct, target, parts = pay(context, keys, prompts, samples, entries, slots=slots)
    solve_rates = context.map_prompts(context.solve_rate)(slots, proximal, entries.correct)
    if settings.errs:
        chances = error_chances(context, keys, prompts, samples.groups, correct)
        correct = verdicts(correct, chances, context.numbers.false_positive, context.numbers.false_negative)
    if settings.allocation in BY_ROUNDS:  # rollouts after a prompt's last round are absent
        sizes = sizes_by_rounds(settings.allocation, correct, settings.group_size, settings.smallest_group)
        present = jnp.arange(context.group_size, dtype=jnp.int32) < sizes[:, None]
        groups: Any = samples.groups
        samples = samples._replace(groups=Listed(groups.slots, present))
    rollouts = to_rollouts(context, samples, proximal, correct, keys, parts=parts)
    if "teacher_logp" in method.needs:
        rollouts = rollouts._replace(teacher_logp=_teacher_logp(context, slots, prompts, samples.groups))
    if "role" in method.needs:
        role = prompts.astype(settings.dtype)[:, None]
        rollouts = rollouts._replace(role=jnp.broadcast_to(role, rollouts.rewards.shape))
    if "greedy_reward" in method.needs:
        greedy = _greedy_reward(context, slots, samples.policies, prompts)
        rollouts = rollouts._replace(greedy_reward=jnp.broadcast_to(greedy[:, None], rollouts.rewards.shape))
    advantages, memory = method.estimator.update(rollouts, state.memory)
    size: Any = context.group_size
    if rollouts.mask is not None:
        correct, target = correct & rollouts.mask, target & rollouts.mask
        size = count_true(rollouts.mask)
    count = context.map_prompts(lambda _, group, labels, values: group.count_labels(labels, values))
    number = count(None, samples.groups, correct, entries.correct)
    holds_target = count(None, samples.groups, target, entries.target) > 0
    differs = (number > 0) & (number < size) if parts is None else ~is_uniform(rollouts)[:, 0]
    outcomes = differs, holds_target, solve_rates
    batch = WeighedBatch(prompts, samples, correct, number, rollouts, of_tokens(advantages), *outcomes)
    if settings.samples_otherwise:
        log_ratio = context.token_logp(proximal, samples.groups) - context.token_logp(samples.policies, samples.groups)
        how = settings.correction, settings.correction_unit, context.numbers.correction_bound
        batch = batch._replace(importance=importance_weights(log_ratio, *how))
    return batch, memory


def pay(
    context: StepContext,
    keys: Key[Array, " P"],
    prompts: Int[Array, " P"],
    samples: Samples,
    entries: Labels,
    *,
    slots: Any,
) -> Labels:
    """Return the labels of the rollouts, with noise if there is any; under a placebo the target is the truth."""
    settings, problem, groups = context.settings, context.problem, samples.groups
    labels = _label(context, slots, groups, entries)
    if settings.reward == PLACEBO:
        streams = jax.vmap(lambda key: jax.random.fold_in(key, PLACEBO_STREAM))(keys)
        draw = context.map_prompts(lambda _, key, policy: policy.draw(key, context.group_size))
        groups = draw(None, streams, samples.policies)
        labels = _label(context, slots, groups, entries)._replace(target=labels.target)
    if labels.parts is not None and problem.reward_noise is not None:
        noise = part_noise(context, keys, prompts, groups, labels)
        labels = labels._replace(parts=labels.parts + problem.reward_noise.astype(settings.dtype) * noise)
    if settings.reward == PLACEBO_BY_GROUP:
        correct, parts = deal_out(context, keys, groups, (labels.correct, labels.parts))
        labels = labels._replace(correct=correct, parts=parts)
    return labels


def _label(context: StepContext, slots: Slots, groups: Any, entries: Labels) -> Labels:
    """Look up the labels of the rollouts of groups, of those of the problem's entries for each prompt."""

    def label(slots: Slots, group: Group, entries: Labels) -> Labels:
        def look_up(values: Array) -> Array:
            return group.label(values, context.storage, slots, context.group_size)

        correct, target, parts = entries
        each = None if parts is None else jnp.stack([look_up(values) for values in parts], axis=-1)
        return Labels(look_up(correct), look_up(target), each)

    labels: Labels = context.map_prompts(label)(slots, groups, entries)
    return labels


def part_noise(
    context: StepContext, keys: Key[Array, " P"], prompts: Int[Array, " P"], groups: Any, labels: Labels
) -> Float[Array, "P G R"]:
    """Return a normal number for each part of each rollout, of its answer, or of its prompt's right or wrong ones."""
    parts: Any = labels.parts
    dtype, noise_of = context.settings.dtype, context.problem.noise_of
    if noise_of == "rollout":
        streams = jax.vmap(lambda key: jax.random.fold_in(key, REWARD_STREAM))(keys)
        return jax.vmap(lambda key: jax.random.normal(key, parts.shape[1:], dtype))(streams)
    key = jax.random.fold_in(context.key, REWARD_STREAM)
    judged = groups.slots if noise_of == "answer" else labels.correct
    numbers = jnp.broadcast_to(prompts[:, None], judged.shape).astype(jnp.uint32)
    each = [jax.random.fold_in(key, part) for part in range(parts.shape[-1])]
    chances = jnp.stack([shared_chances(key, numbers, judged.astype(jnp.uint32), dtype) for key in each], axis=-1)
    # Of 24 bits the last is dropped, so that the middle of an interval is exact in float32, and neither 0 nor 1.
    normal: Array = jax.scipy.special.ndtri((jnp.floor(chances * 2**23) + 0.5) / 2**23)
    return normal


def deal_out(context: StepContext, keys: Key[Array, " P"], groups: Any, values: Any) -> Any:
    """Return what the rollouts of each group have in a random order, the same for all values of a rollout."""
    streams = jax.vmap(lambda key: jax.random.fold_in(key, PLACEBO_STREAM))(keys)
    numbers = jax.vmap(lambda key: jax.random.uniform(key, (context.group_size,)))(streams)
    present = groups.present if groups.present is not None else context.present
    if present is not None:
        numbers = jnp.where(present, numbers, 1)  # what is absent comes last, where it is
    order = jnp.argsort(numbers, axis=1, stable=True)
    return jax.tree.map(lambda each: jax.vmap(lambda row, order: row[order])(each, order), values)


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
    """Return the reward of the answer of the samplers' likeliest tokens, by the truth and without noise."""
    problem, dtype = context.problem, context.settings.dtype
    if problem.rewards is None:
        paid = jnp.where(context.correct, problem.reward_correct, problem.reward_incorrect).astype(dtype)
    else:
        paid = jnp.einsum("mrc,r->mc", problem.rewards, problem.reward_weights)
    greedy: Array = context.map_prompts(
        lambda slots, sampler, paid: sampler.greedy_value(context.storage.at_slots(paid, slots))
    )(slots, samplers, context.select(paid, prompts))
    return greedy


def _teacher_logp(context: StepContext, slots: Slots, prompts: Int[Array, " P"], groups: Any) -> Float[Array, "P G 1"]:
    """Return log pi_T of what the groups drew: log pi_0, more by ``teacher`` where correct, normalised."""
    more, correct = context.numbers.teacher, context.select(context.correct, prompts)
    initial = context.select(context.initial_policies, prompts)
    first_slots = context.select_rows(context.initial_slots, prompts)
    rates = context.map_prompts(context.solve_rate)(first_slots, initial, correct)

    def of_prompt(slots: Slots, policy: Any, group: Group, correct: Array, rate: Array) -> Array:
        raised = policy.logp_at_slots(slots) + more * context.storage.at_slots(correct, slots)
        return group.drawn_values(raised, context.storage) - jnp.log1p(rate * jnp.expm1(more))

    logp: Array = context.map_prompts(of_prompt)(slots, initial, groups, correct, rates)
    return logp[..., None]


def to_rollouts(
    context: StepContext,
    samples: Samples,
    proximal: Any,
    correct: Bool[Array, "P G"],
    keys: Key[Array, " P"],
    *,
    parts: Float[Array, "P G R"] | None = None,
) -> Rollouts:
    """Record the groups, by the policies before the gradient steps, with what is read of them."""
    settings, problem, needs = context.settings, context.problem, context.method.needs
    shape, dtype = (*correct.shape, problem.tokens), settings.dtype
    logp = noise = top = None
    if "old_logp" in needs or settings.gradient_steps > 1 or settings.samples_otherwise:
        logp = context.token_logp(samples.policies if settings.correction == "ratio" else proximal, samples.groups)
    at_tokens: dict[str, Array] = {}
    for name in sorted({"entropy", "collision"} & needs):
        read = context.map_prompts(lambda _, policy, group, name=name: getattr(policy, f"token_{name}")(group))
        values = read(None, proximal, samples.groups)
        at_tokens[name] = jnp.broadcast_to(values if values.ndim == 3 else values[:, None, None], shape)
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
    graded: dict[str, Any] = {}
    if parts is not None:
        weights = jnp.broadcast_to(problem.reward_weights.astype(dtype), parts.shape)
        rewards, graded = jnp.sum(weights * parts, axis=-1), {"correct": correct}
        if "parts" in needs:
            graded |= {"parts": parts, "part_weights": weights}
    elif "parts" in needs:
        graded = {"parts": rewards[..., None]}
    groups = samples.groups
    present = groups.present if isinstance(groups, Listed) and settings.is_ragged else context.present
    return Rollouts(
        rewards,
        old_logp=logp,
        topn_logp=top,
        noise=noise,
        mask=None if present is None else jnp.broadcast_to(present, correct.shape),
        **at_tokens,
        **graded,
    )
