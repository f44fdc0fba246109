"""A batch of rollouts between two tokens, and the programs that draw tokens, move rollouts and take in new ones.

Q rows of H columns (``simlab.llm.batch_layout``), room for C tokens of each rollout, N candidates. A rollout that
began with token b draws token s - b of its own at token s of the batch, which stands in slot s mod C.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from simlab.llm.batch_layout import POWERS, row_width
from simlab.llm.config import ModelConfig
from simlab.llm.decoding import (
    PromptMemory,
    RolloutMemory,
    at_columns,
    empty_memory,
    read_prompts,
    read_token,
    with_slots,
)
from simlab.llm.distribution import Truncation, collision, draw_token, entropy, log_distribution
from simlab.llm.model import Parameters, map_logits, wide

FEWEST_PLACES = 8  # below, reading the weights takes the time, not the places


class DrawnTokens(NamedTuple):
    """One token of every rollout, or the last C; the fields are those of ``simlab.llm.sampling.Sampled``."""

    tokens: Int[Array, "Q H *C"]
    mask: Bool[Array, "Q H *C"]
    logp: Float[Array, "Q H *C"]
    entropy: Float[Array, "Q H *C"]
    collision: Float[Array, "Q H *C"]
    topn_logp: Float[Array, "Q H *C N"]
    topn_ids: Int[Array, "Q H *C N"]


class BatchState(NamedTuple):
    """The batch between two tokens."""

    prompts: PromptMemory  # of each row
    rollouts: RolloutMemory  # the last token drawn is not read yet
    group: Int[Array, " Q"]  # the same number for the rows of one prompt
    keys: Key[Array, "Q H"]  # the randomness of each rollout
    alive: Bool[Array, "Q H"]  # true for a rollout that goes on
    drawn: DrawnTokens  # the last C tokens
    step: Int[Array, ""]  # the token of the batch that is drawn next

    @property
    def capacity(self) -> int:
        """C."""
        return int(self.drawn.tokens.shape[2])


class Choices(NamedTuple):
    """Options of drawing a token and of stopping."""

    temperature: Float[Array, ""]
    truncation: Truncation
    stops: Bool[Array, " V"]
    limit: Int[Array, ""]


@functools.partial(jax.jit, static_argnames=("config", "capacity", "top_n"))
def start(
    parameters: Parameters,
    config: ModelConfig,
    tokens: Int[Array, "P S"],
    lengths: Int[Array, " P"],
    *,
    key: PRNGKeyArray,
    first_prompt: Int[Array, ""],
    alive: Bool[Array, "P G"],
    choices: Choices,
    capacity: int,
    top_n: int,
) -> BatchState:
    """Begin a batch, a row for each prompt: read the prompts and draw the first tokens."""
    hidden, prompts = read_prompts(parameters, config, tokens, lengths)
    rollouts = empty_memory(config, prompts, alive.shape[1], capacity)
    rows = jnp.arange(alive.shape[0], dtype=jnp.int32)
    of_prompts = jax.vmap(jax.random.fold_in, (None, 0))(key, first_prompt + rows)
    keys = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None))(of_prompts, jnp.arange(alive.shape[1]))
    room = _nothing_drawn((*alive.shape, capacity), top_n, wide(hidden.dtype))
    state = BatchState(prompts, rollouts, rows, keys, alive, room, jnp.zeros((), jnp.int32))
    return _draw_next(parameters, state, jnp.broadcast_to(hidden[:, None], (*alive.shape, hidden.shape[-1])), choices)


def _nothing_drawn(shape: tuple[int, ...], top_n: int, dtype: Any) -> DrawnTokens:
    each = jnp.zeros((*shape, top_n), dtype)
    tokens, number = jnp.zeros(shape, jnp.int32), jnp.zeros(shape, dtype)
    return DrawnTokens(tokens, jnp.zeros(shape, bool), number, number, number, each, each.astype(jnp.int32))


@functools.partial(jax.jit, static_argnums=1, donate_argnums=2)
def go_on(
    parameters: Parameters, config: ModelConfig, state: BatchState, choices: Choices, joining: Int[Array, ""]
) -> BatchState:
    """Draw tokens until all rollouts have ended, no slot is left, or rows for ``joining`` prompts or half are free."""

    def token(state: BatchState) -> BatchState:
        last = jax.lax.dynamic_index_in_dim(
            state.drawn.tokens, (state.step - 1) % state.capacity, axis=2, keepdims=False
        )
        hidden, rollouts = read_token(parameters, config, last, state.prompts, state.rollouts)
        return _draw_next(parameters, state._replace(rollouts=rollouts), hidden, choices)

    def goes_on(state: BatchState) -> Bool[Array, ""]:
        rows, width = state.alive.shape
        moves = jnp.where(joining > 0, rows - _rows_needed(state, width) >= joining, _fits_into_half(state))
        full = state.step - state.rollouts.since >= state.capacity
        return jnp.any(state.alive) & ~jnp.any(state.alive & full[:, None]) & ~moves

    return jax.lax.while_loop(goes_on, token, state)


def _fits_into_half(state: BatchState) -> Bool[Array, ""]:
    """Return True if the rollouts that go on fit into half of the batch; a small batch never moves."""
    size, width = state.alive.size, row_width(state.alive.shape[1])
    if size <= FEWEST_PLACES:
        return jnp.zeros((), bool)
    powers = jnp.asarray(POWERS, jnp.int32)
    needed = _rows_needed(state, width)
    fits: Array = (2 * width * powers[jnp.searchsorted(powers, needed)] <= size) & (needed > 0)
    return fits


def _rows_needed(state: BatchState, width: int) -> Int[Array, ""]:
    """``simlab.llm.batch_layout.rows_needed``."""
    counts = jax.ops.segment_sum(jnp.sum(state.alive, axis=1), state.group, len(state.group))
    needed: Array = jnp.sum(-(-counts // width))
    return needed


@jax.jit
def move(
    state: BatchState, group: Int[Any, " R"], rows: Int[Any, "R W"], columns: Int[Any, "R W"], alive: Bool[Any, "R W"]
) -> BatchState:
    """Move some of the rollouts into new rows: ``simlab.llm.batch_layout.Move``."""
    shape: Any = state.alive.shape
    prompts = jax.tree.map(lambda field: field[rows[:, 0]], state.prompts[:2])
    rollouts = jax.tree.map(lambda field: at_columns(field, shape, rows, columns), state.rollouts[:2])
    return _with_memory(_move_others(state, group, rows, columns, alive), prompts, rollouts)


def regroup(
    state: BatchState, group: Int[Any, " Q"], rows: Int[Any, "Q H"], columns: Int[Any, "Q H"], alive: Bool[Any, "Q H"]
) -> BatchState:
    """Move rollouts within a batch that keeps its size, in place of the old one, layer by layer."""
    shape = state.alive.shape
    prompts = jax.tree.map(lambda field: _rows_in_place(field, rows[:, 0]), state.prompts[:2])
    rollouts = jax.tree.map(lambda field: _places_in_place(field, shape, rows, columns), state.rollouts[:2])
    without = _with_memory(state, ((), ()), ((), ()))
    return _with_memory(_move_others_alone(without, group, rows, columns, alive), prompts, rollouts)


def _with_memory(state: BatchState, prompts: Any, rollouts: Any) -> BatchState:
    """Put other keys and values, of prompts and of the rollouts' own tokens."""
    return state._replace(
        prompts=state.prompts._replace(keys=prompts[0], values=prompts[1]),
        rollouts=state.rollouts._replace(keys=rollouts[0], values=rollouts[1]),
    )


def _move_others(state: BatchState, group: Array, rows: Array, columns: Array, alive: Array) -> BatchState:
    """Move everything but keys and values."""
    keys, drawn = jax.tree.map(lambda field: field[rows, columns], (state.keys, state.drawn))
    return state._replace(
        prompts=state.prompts._replace(lengths=state.prompts.lengths[rows[:, 0]]),
        rollouts=state.rollouts._replace(since=state.rollouts.since[rows[:, 0]]),
        group=group,
        keys=keys,
        alive=alive,
        drawn=drawn,
    )


_move_others_alone = jax.jit(_move_others)
_rows_in_place = jax.jit(lambda field, rows: field[rows], donate_argnums=0)
_places_in_place = jax.jit(at_columns, static_argnums=1, donate_argnums=0)


@functools.partial(jax.jit, static_argnames=("config", "shape", "prompt_length", "capacity", "top_n", "dtype"))
def nobody(
    config: ModelConfig,
    key: PRNGKeyArray,
    *,
    shape: tuple[int, int],
    prompt_length: int,
    capacity: int,
    top_n: int,
    dtype: Any,
) -> BatchState:
    """Return a batch of (Q, H) places without rollouts, of a model that computes in ``dtype``, for others to join."""
    each = jnp.zeros((shape[0], config.num_kv_heads, prompt_length, config.head_dim), dtype)
    none = jnp.zeros(shape[0], jnp.int32)
    prompts = PromptMemory((each,) * config.num_layers, (each,) * config.num_layers, none + 1)
    rollouts = empty_memory(config, prompts, shape[1], capacity)
    drawn = _nothing_drawn((*shape, capacity), top_n, wide(dtype))
    alive = jnp.zeros(shape, bool)
    return BatchState(prompts, rollouts, none, jnp.broadcast_to(key, shape), alive, drawn, jnp.ones((), jnp.int32))


@functools.partial(jax.jit, donate_argnums=0)
def join(state: BatchState, new: BatchState, first: Int[Array, ""], group: Int[Array, " Q"]) -> BatchState:
    """Put new rollouts into the rows from ``first`` on, which are free; their first token is the one drawn last."""
    rows = new.alive.size // state.alive.shape[1]
    last = state.step - 1

    def cut(field: Array) -> Array:
        return field.reshape(rows, state.alive.shape[1], *field.shape[2:])

    def each_row(field: Array) -> Array:
        return jnp.repeat(field, rows // len(field), axis=0, total_repeat_length=rows)

    def put(target: Array, values: Array, *after: Any) -> Array:
        starts = (first, *after, *[0] * (target.ndim - 1 - len(after)))
        # All of one type, also where a Python 0 has 64 bits.
        starts = tuple(jnp.asarray(start, jnp.int32) for start in starts)
        return jax.lax.dynamic_update_slice(target, values.astype(target.dtype), starts)

    keys = put(jax.random.key_data(state.keys), jax.random.key_data(cut(new.keys)))
    return state._replace(
        prompts=jax.tree.map(lambda target, values: put(target, each_row(values)), state.prompts, new.prompts),
        rollouts=state.rollouts._replace(since=put(state.rollouts.since, jnp.broadcast_to(last, rows))),
        group=group,
        keys=jax.random.wrap_key_data(keys, impl=jax.random.key_impl(new.keys)),
        alive=put(state.alive, cut(new.alive)),
        drawn=jax.tree.map(
            lambda target, values: put(target, cut(values)[:, :, :1], 0, last % state.capacity), state.drawn, new.drawn
        ),
    )


@functools.partial(jax.jit, static_argnames="capacity")
def grow(state: BatchState, capacity: int) -> BatchState:
    """Make room for more tokens of each rollout."""
    drawn = jax.tree.map(lambda field: with_slots(field, 2, state.step, capacity), state.drawn)
    return state._replace(rollouts=state.rollouts.grown(capacity), drawn=drawn)


def _draw_next(
    parameters: Parameters, state: BatchState, hidden: Float[Array, "Q H D"], choices: Choices
) -> BatchState:
    """Draw one token of every rollout that is alive; the others get zeros."""
    own_step = state.step - state.rollouts.since
    keys = jax.vmap(jax.vmap(jax.random.fold_in, (0, None)))(state.keys, own_step)
    kind, top_n = jax.random.key_impl(keys), state.drawn.topn_ids.shape[-1]

    def of_rows(logits: Float[Array, "R V"], words: Array) -> tuple[Array, ...]:
        logp = log_distribution(logits, choices.temperature, choices.truncation)
        tokens = jax.vmap(draw_token)(jax.random.wrap_key_data(words, impl=kind), logp)
        topn_logp, topn_ids = jax.lax.top_k(logp, top_n)
        token_logp = jnp.take_along_axis(logp, tokens[:, None], axis=-1)[:, 0]
        return tokens, token_logp, entropy(logp), collision(logp), topn_logp, topn_ids.astype(jnp.int32)

    def write(room: Array, values: Array) -> Array:
        alive = state.alive.reshape(*state.alive.shape, *[1] * (values.ndim - 2))
        values = jnp.where(alive, values, jnp.zeros_like(values)).astype(room.dtype)
        return jax.lax.dynamic_update_slice_in_dim(room, values[:, :, None], state.step % state.capacity, axis=2)

    tokens, *others = map_logits(of_rows, parameters, hidden, jax.random.key_data(keys))
    return state._replace(
        drawn=jax.tree.map(write, state.drawn, DrawnTokens(tokens, state.alive, *others)),
        alive=state.alive & ~choices.stops[tokens] & (own_step + 1 < choices.limit)[:, None],
        step=state.step + 1,
    )
