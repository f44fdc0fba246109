"""Draw the samples of a step: which prompts, how many rollouts of each, and the rollouts."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, Shaped, UInt32

from simlab.interference.remedies import in_danger_first
from simlab.methods import Method
from simlab.simulator.allocation import SIZED, group_sizes, most_learnable
from simlab.simulator.context import StepContext
from simlab.simulator.lumped import Lumped, SlotMoves, SlotTable, draw_members, rank_within_label
from simlab.simulator.policy import Group, Listed, SoftmaxPolicy
from simlab.simulator.sampling import descend, random_words, threefry
from simlab.simulator.settings import ENDANGERED, TRUE_REWARD, StaticSettings
from simlab.simulator.state import LearnerState, Samples
from simlab.simulator.storage import MOVING
from simlab.simulator.tempering import draw_temperatures

CHOOSING, GROUPS = 0, 1  # the first word of the counters of a step's key: which prompts, and the key of each
EQUAL_ROLLOUT_NEEDS = frozenset({"rewards", "entropy", "greedy_reward"})
# Timed by benchmarks/constants.py, which draws the same groups in both ways.
LEAST_GROUP = 4096  # below it a group costs little, however it is drawn
GROUP_TO_ACTIONS = 0.5  # with a quarter the two take as long, and counts take longer to compile


def draw_samples(
    context: StepContext, index: Int[Array, ""], state: LearnerState
) -> tuple[LearnerState, Key[Array, " P"], Int[Array, " P"], Samples]:
    """Draw the prompts of a step and a group for each, whatever the prompts beside it.

    Returns the state with its new slots; a key and a number for each prompt; the samples.
    """
    key = jax.random.fold_in(context.key, index)
    if context.problem.prompts == 1:
        keys, prompts = key[None], jnp.zeros(1, jnp.int32)
    else:
        prompts = choose_prompts(context, key, state)
        words = jnp.stack(_prompt_words(key, GROUPS, prompts), axis=-1)
        keys = jax.random.wrap_key_data(words, impl="threefry2x32")
    if state.tempering is not None:
        state = state._replace(tempering=draw_temperatures(state.tempering, keys, prompts, context.numbers))
    if isinstance(context.storage, Lumped):
        state, samples = _draw_lumped(context, keys, prompts, state)
    else:
        settings, sizes = context.settings, None  # all groups are as large, or grow as a step goes
        if settings.allocation in SIZED:
            bounds = settings.smallest_group, settings.room
            rates = believed_rates(context, state, prompts)
            sizes = group_sizes(settings.allocation, rates, settings.group_size, *bounds)
        samples = draw_groups(context, keys, context.samplers(state, prompts), sizes)
    return state, keys, prompts, samples


def choose_prompts(context: StepContext, key: PRNGKeyArray, state: LearnerState) -> Int[Array, " P"]:
    """Choose the prompts of a batch: different ones in a random order, or all of them in theirs."""
    everyone = jnp.arange(context.problem.prompts, dtype=jnp.int32)
    if context.takes_all_in_order:
        return everyone
    words, _ = _prompt_words(key, CHOOSING, everyone)
    if context.settings.allocation == "learnable":
        return most_learnable(believed_rates(context, state, everyone), words, context.prompts_per_step)
    if context.settings.remedy == ENDANGERED:
        strength = context.numbers.remedy_strength
        first: Array = in_danger_first(state.known.net, words, context.prompts_per_step, strength)
        return first.astype(jnp.int32)
    # Those of the largest of 24 random bits each; the lower number wins a tie, of which there are too few to show.
    return jax.lax.top_k((words >> 8).astype(jnp.float32), context.prompts_per_step)[1]


def _prompt_words(key: PRNGKeyArray, stream: int, prompts: Int[Array, " P"]) -> tuple[Shaped[Array, " P"], ...]:
    numbers = prompts.astype(jnp.uint32)
    return threefry(key, jnp.full_like(numbers, stream), numbers)


def believed_rates(context: StepContext, state: LearnerState, prompts: Int[Array, " P"]) -> Float[Array, " P"]:
    """Return the solve rates that an allocation goes by: those of the last groups, or the exact ones."""
    if state.solved is not None:
        return state.solved[prompts]
    slots, policies = context.select_rows(state.slots, prompts), context.policies(state, prompts)
    correct = context.select(context.correct, prompts)
    rates: Array = context.map_prompts(context.solve_rate)(slots, policies, correct)
    return rates


def counts_suffice(settings: StaticSettings, method: Method, problem: Any) -> bool:
    """Return True if a group of dense storage may be known by its counts, and takes less time so."""
    symmetric = settings.exchangeable and method.needs <= EQUAL_ROLLOUT_NEEDS
    large = settings.group_size >= max(LEAST_GROUP, GROUP_TO_ACTIONS * problem.entries)
    is_single = problem.prompts == problem.tokens == settings.gradient_steps == 1
    judged_alike = not settings.errs and not settings.is_ragged and method.surrogate.candidates == 0
    judged_alike &= problem.rewards is None and settings.reward == TRUE_REWARD
    return settings.storage == "dense" and large and symmetric and is_single and judged_alike


def draw_groups(
    context: StepContext, keys: Key[Array, " P"], policies: Any, sizes: Int[Array, " P"] | None = None
) -> Samples:
    """Draw a group of each policy, all as large unless there are sizes."""
    counted = counts_suffice(context.settings, context.method, context.problem)

    def draw(_: None, key: PRNGKeyArray, policy: Any, correct: Array, size: Any) -> tuple[Group, Array, Array]:
        group = policy.draw(key, context.group_size, correct if counted else None)
        present = context.present if size is None else jnp.arange(context.group_size, dtype=jnp.int32) < size
        group = group._replace(present=present) if isinstance(group, Listed) else group
        return group, *policy.candidates(group, context.surrogate.candidates)

    correct = context.correct if context.problem.prompts == 1 else jnp.zeros((len(keys), 0), bool)
    return Samples(policies, *context.map_prompts(draw)(None, keys, policies, correct, sizes))


def _draw_lumped(
    context: StepContext, keys: Key[Array, " P"], prompts: Int[Array, " P"], state: LearnerState
) -> tuple[LearnerState, Samples]:
    """Draw a group for each prompt, and give slots to what was drawn or is moved as a candidate."""
    policies, count = context.samplers(state, prompts), context.surrogate.candidates
    top = context.map_prompts(lambda _, policy: policy.top(count))(None, policies)
    if count:
        # No candidate comes twice, so that the n-th of a class is its n-th member.
        state, _, candidates = assign_slots(context, prompts, state, policies, top[1], words=None)
        top, policies = (top[0], candidates), context.samplers(state, prompts)
    words = context.map_prompts(lambda _, key: random_words(key, 5, context.group_size))(None, keys)

    def draw(_: None, policy: Any, words: UInt32[Array, "5 G"]) -> Int[Array, " G"]:
        return descend(words[:3], policy.weights, policy.counts, policy.rows, policy.chunks)

    drawn = context.map_prompts(draw)(None, policies, words)
    state, policies, slots = assign_slots(context, prompts, state, policies, drawn, words=words[:, 3:])
    present = None if context.present is None else jnp.broadcast_to(context.present, slots.shape)
    return state, Samples(policies, Listed(slots, present), *top)


def assign_slots(
    context: StepContext,
    prompts: Int[Array, " P"],
    state: LearnerState,
    policies: SoftmaxPolicy,
    drawn: Int[Array, "P n"],
    *,
    words: UInt32[Array, "P 2 n"] | None,
) -> tuple[LearnerState, SoftmaxPolicy, Int[Array, "P n"]]:
    """Give slots to the drawn members of classes, in one set where prompts share parameters.

    ``words`` decide which member each draw is. Returns state and policies with the new slots, and the slot of each
    draw.
    """
    storage: Any = context.storage
    is_class, size = drawn < state.slots.classes, drawn.shape[-1]
    if words is not None and context.present is not None:
        is_class &= context.present

    def assign(
        slots: SlotTable, arrays: Any, drawn: Array, is_class: Array, member: Array
    ) -> tuple[SlotTable, Any, Array, SlotMoves]:
        ordinals = member if words is None else draw_members(member, slots, drawn, is_class)
        slots, moves, assigned = storage.allocate(slots, drawn, ordinals, is_class)
        return slots, jax.tree.map(moves.__call__, arrays), assigned, moves

    # Alike for all prompts, as dense storage has it: candidates of a class are its first members.
    member = jax.vmap(rank_within_label)(drawn, is_class) if words is None else words
    arrays = moving_arrays(state)
    if context.problem.has_own_parameters:
        slots, rows = context.select_rows((state.slots, arrays), prompts)
        slots, rows, assigned, moves = jax.vmap(assign)(slots, rows, drawn, is_class, member)
        slots, arrays = context.replace_rows((state.slots, arrays), prompts, (slots, rows))
        move: Any = functools.partial(jax.vmap(lambda move, row: move(row)), moves)
        scores, weights = move(policies.scores), move(policies.weights)
        counts = jax.vmap(lambda row: row.remaining(scores.dtype))(context.select_rows(slots, prompts))
    else:
        # (P, G) as (P G,), and (P, 2, G) as (2, P G).
        flat = jnp.moveaxis(member, 0, -2).reshape(*member.shape[1:-1], -1)
        slots, arrays, assigned, moves = assign(state.slots, arrays, drawn.reshape(-1), is_class.reshape(-1), flat)
        assigned = assigned.reshape(-1, size)
        move = functools.partial(context.map_prompts(lambda _, row: moves(row)), None)
        scores, weights = move(policies.scores), move(policies.weights)
        remaining = slots.remaining(scores.dtype)
        counts = jnp.broadcast_to(remaining, (len(scores), *remaining.shape))
    policies = policies._replace(scores=scores, weights=weights, counts=counts, rows=None, chunks=None)
    return replace_moving(state, slots, arrays), policies, assigned


def moving_arrays(state: LearnerState) -> tuple[list[Array], ...]:
    """Return what moves with an action that gets a slot: parameters, moments, history."""
    return tuple([leaf for leaf in jax.tree.leaves(getattr(state, name)) if leaf.ndim] for name in MOVING)


def replace_moving(state: LearnerState, slots: SlotTable, arrays: tuple[list[Array], ...]) -> LearnerState:
    """Return the state with other slots and ``moving_arrays``."""
    fields = {}
    for name, moved in zip(MOVING, arrays, strict=True):
        leaves, structure = jax.tree.flatten(getattr(state, name))
        values = iter(moved)
        fields[name] = jax.tree.unflatten(structure, [next(values) if leaf.ndim else leaf for leaf in leaves])
    return state._replace(slots=slots, **fields)
