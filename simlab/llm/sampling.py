"""Sample groups of completions together, each with random numbers of its own.

How computation and compilation are saved (a *place* is the room in the batch for one completion):

- A prompt is read once; its keys and values are kept once and shared by its group (``simlab.llm.decoding``).
- When half of the completions have ended, the others move together into fewer places, so that those that have ended
  cost nothing more. All groups keep as many places as the one with most completions left. A batch of 8 places or
  fewer stays as it is.
- The number of places is rounded up to 1, 2, 3, 4, 6, 8, 12, 16, ..., the length of prompts by an eighth or less, so
  that one program serves all batches of about one size. Once completions have moved, the number is rounded up to a
  power of two, which takes a few more places and a third fewer programs. Another number of prompts, group size, prompt
  length or completion length compiles a program only if the rounded size changes; another temperature,
  truncation, limit or set of stop tokens never does.

Completion g of prompt p draws token t with random numbers of (key, p, g, t) alone. It does not depend on the rest of
the batch, on the group size or on the limit, up to the rounding of the logits.
"""

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from simlab.errors import InputError, check_range, check_whole
from simlab.llm.completions import filled_up, longest
from simlab.llm.config import ModelConfig
from simlab.llm.decoding import Own, Prompts, nothing_yet, read_prompts, read_token
from simlab.llm.model import Parameters, apart
from simlab.llm.truncation import Truncation
from simlab.simulator.sampling import ROWS, draw

FEWEST_PLACES = 8  # below, reading the weights takes the time, not the places
POWERS = 2 ** np.arange(25)
SIZES = np.array(sorted({1, *(2**power for power in range(1, 25)), *(3 * 2**power for power in range(24))}))


class Sampled(NamedTuple):
    """Completions. P prompts, G completions of each, room for T tokens, N candidates.

    All log-probabilities are of the distribution that was sampled: at the temperature, and of the tokens that a
    truncation leaves, renormalised; a token that it removes has probability 0. At temperature 1 and without a
    truncation this is the model's own distribution.

    Attributes:
        tokens: (P, G, T) the completion with the token that ended it; 0 where there is none.
        mask: (P, G, T) true where there is a token.
        logp: (P, G, T) log-probability of each token.
        entropy: (P, G, T) entropy in nats of the distribution it was drawn from.
        topn_logp: (P, G, T, N) log-probabilities of the N likeliest tokens, the likeliest first; None if N is 0.
        topn_ids: (P, G, T, N) those tokens; None if N is 0.
    """

    tokens: np.ndarray
    mask: np.ndarray
    logp: np.ndarray
    entropy: np.ndarray
    topn_logp: np.ndarray | None = None
    topn_ids: np.ndarray | None = None


class Drawn(NamedTuple):
    """One token of every rollout, or the tokens so far, with what ``Sampled`` says of them."""

    tokens: Int[Array, "P G *C"]
    mask: Bool[Array, "P G *C"]
    logp: Float[Array, "P G *C"]
    entropy: Float[Array, "P G *C"]
    topn_logp: Float[Array, "P G *C N"]
    topn_ids: Int[Array, "P G *C N"]


class State(NamedTuple):
    """The batch between two tokens; ``drawn`` has room for all tokens, the last read one is that before ``step``."""

    prompts: Prompts
    own: Own
    keys: Key[Array, "P G"]
    alive: Bool[Array, "P G"]
    drawn: Drawn
    step: Int[Array, ""]


class Choices(NamedTuple):
    """How a token is drawn, and when to stop."""

    temperature: Float[Array, ""]
    truncation: Truncation
    stops: Bool[Array, " V"]
    limit: Int[Array, ""]


def sample(
    parameters: Parameters,
    config: ModelConfig,
    prompts: Sequence[Sequence[int]],
    group_size: int,
    max_new_tokens: int,
    *,
    key: PRNGKeyArray,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    min_p: float = 0.0,
    top_n: int = 0,
    stop_ids: Iterable[int] | None = None,
    first_prompt: int = 0,
) -> Sampled:
    """``group_size`` completions of every prompt.

    Args:
        parameters: of ``simlab.llm.model``.
        config: their config.
        prompts: P lists of tokens, of any lengths from 1.
        group_size: G.
        max_new_tokens: T; a completion ends there or with the first stop token.
        key: all randomness.
        temperature: divides the logits; at 0 the likeliest token is taken, with log-probability 0.
        top_p: tokens are drawn from the likeliest ones that together have this probability; those as likely as the
            last of them stay too.
        top_k: before that, only the k likeliest are left; 0 for all.
        min_p: after it, only those at least so often as likely as the likeliest one.
        top_n: how many candidates to report.
        stop_ids: the tokens that end a completion; the config's ``eos_ids`` by default.
        first_prompt: the number of the first prompt, for parts of a longer list: a prompt's completions depend on
            its number, not on how the list is divided.

    Raises:
        InputError: for a prompt that is empty, holds a token outside the vocabulary, or leaves no room for
            ``max_new_tokens`` in the model's context, and for numbers outside their ranges.
    """
    check_whole("group_size", group_size, 1)
    check_whole("max_new_tokens", max_new_tokens, 1)
    check_range("temperature", temperature, 0.0)
    check_range("top_p", top_p, 0.0, 1.0, open_low=True)
    check_whole("top_k", top_k, 0)
    check_range("min_p", min_p, 0.0, 1.0)
    check_whole("top_n", top_n, 0)
    check_whole("first_prompt", first_prompt, 0)
    check_range("top_n", top_n, 0, config.vocab_size)
    check_prompts(prompts, config, max_new_tokens)
    tokens, lengths = filled_up(prompts, rounded_up(len(prompts)), rounded_length(longest(prompts)))
    choices = Choices(
        jnp.float32(temperature),
        Truncation(jnp.int32(min(top_k, config.vocab_size)), jnp.float32(top_p), jnp.float32(min_p)),
        jnp.asarray(_stops(config.eos_ids if stop_ids is None else stop_ids, config.vocab_size)),
        jnp.int32(max_new_tokens),
    )
    rows = _Rows.of(len(prompts), group_size, len(tokens), rounded_up(group_size))
    room = {"capacity": rounded_up(max_new_tokens), "top_n": top_n}
    of = {"key": key, "first_prompt": jnp.int32(first_prompt), "alive": rows.filled, "choices": choices}
    state = _start(parameters, config, tokens, lengths, **of, **room)
    return _sampled(parameters, config, state, rows, choices, shape=(len(prompts), group_size, max_new_tokens))


def check_prompts(prompts: Sequence[Sequence[int]], config: ModelConfig, max_new_tokens: int) -> None:
    """Raise ``InputError`` for a prompt that the model cannot complete."""
    if not len(prompts):
        raise InputError("there is no prompt; allowed: one or more")
    for index, prompt in enumerate(prompts):
        if not len(prompt):
            raise InputError(f"prompt {index} is empty; allowed: one token or more")
        for token in prompt:
            if not 0 <= token < config.vocab_size:
                raise InputError(f"prompt {index} has token {token}; allowed: 0 to {config.vocab_size - 1}")
        if len(prompt) + max_new_tokens > config.max_positions:
            raise InputError(
                f"prompt {index} has {len(prompt)} tokens, and {max_new_tokens} new ones are asked for; "
                f"allowed: {config.max_positions} in all, the model's context"
            )


def rounded_up(size: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, ...: a size that programs are compiled for."""
    return int(SIZES[np.searchsorted(SIZES, size)])


def rounded_length(tokens: int) -> int:
    """The next of 1 to 16, 18, 20, ..., 32, 36, ...: lengths of prompts differ less from step to step than sizes do."""
    step = 1 << max(0, tokens.bit_length() - 4)
    return -(-tokens // step) * step


def _stops(ids: Iterable[int], vocab_size: int) -> np.ndarray:
    stops = np.zeros(vocab_size, bool)
    for token in ids:
        check_whole("stop token", token, 0)
        check_range("stop token", token, 0, vocab_size - 1)
        stops[token] = True
    return stops


class _Rows(NamedTuple):
    """Which completion each place of a batch belongs to, and whether it belongs to any."""

    prompt: np.ndarray
    member: np.ndarray
    filled: np.ndarray

    @classmethod
    def of(cls, prompts: int, members: int, prompt_places: int, member_places: int) -> "_Rows":
        """The places of a new batch."""
        prompt, member = np.indices((prompt_places, member_places))
        return cls(prompt, member, (prompt < prompts) & (member < members))

    def moved(self, alive: np.ndarray) -> tuple["_Rows", np.ndarray, np.ndarray]:
        """The places of those that are alive, and the places that they have now."""
        needed = np.flatnonzero(alive.any(axis=1))
        count, width = map(int, _room(len(needed), alive.sum(axis=1).max(), alive.shape))
        prompts = np.zeros(count, int)
        prompts[: len(needed)] = needed
        # Of each group those alive come first, in their order; a place that is left over copies a finished one.
        members = np.argsort(~alive[prompts], axis=1, kind="stable")[:, :width]
        here = prompts[:, None], members
        filled = alive[here] & (np.arange(len(prompts)) < len(needed))[:, None]
        return _Rows(self.prompt[here], self.member[here], filled), prompts, members


@functools.partial(jax.jit, static_argnames=("config", "capacity", "top_n"))
def _start(
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
) -> State:
    """Read the prompts and draw the first tokens."""
    logits, prompts = read_prompts(parameters, config, tokens, lengths)
    own = nothing_yet(config, prompts, alive.shape[1], capacity)
    logits = jnp.broadcast_to(logits[:, None], (*alive.shape, logits.shape[-1]))
    empty = jnp.zeros((*alive.shape, capacity))
    each = jnp.zeros((*empty.shape, top_n), logits.dtype)
    room = Drawn(
        empty.astype(jnp.int32),
        empty.astype(bool),
        empty.astype(logits.dtype),
        empty.astype(logits.dtype),
        each,
        each.astype(jnp.int32),
    )
    of_prompts = jax.vmap(jax.random.fold_in, (None, 0))(key, first_prompt + jnp.arange(alive.shape[0]))
    keys = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None))(of_prompts, jnp.arange(alive.shape[1]))
    return _draw_next(State(prompts, own, keys, alive, room, jnp.zeros((), jnp.int32)), logits, choices)


@functools.partial(jax.jit, static_argnums=1, donate_argnums=2)
def _go_on(parameters: Parameters, config: ModelConfig, state: State, choices: Choices) -> State:
    """Draw tokens until all have finished, or until so many that the others should move together."""

    def token(state: State) -> State:
        last = jax.lax.dynamic_index_in_dim(state.drawn.tokens, state.step - 1, axis=2, keepdims=False)
        logits, own = read_token(parameters, config, last, state.prompts, state.own)
        return _draw_next(state._replace(own=own), logits, choices)

    def goes_on(state: State) -> Bool[Array, ""]:
        return (state.step < choices.limit) & jnp.any(state.alive) & ~_should_move(state.alive)

    return jax.lax.while_loop(goes_on, token, state)


def _should_move(alive: Bool[Array, "P G"]) -> Bool[Array, ""]:
    """Whether those alive fit into half of the places."""
    if alive.size <= FEWEST_PLACES:
        return jnp.zeros((), bool)
    groups = jnp.sum(jnp.any(alive, axis=1))
    count, width = _room(groups, jnp.max(jnp.sum(alive, axis=1)), alive.shape)
    moves: Array = (2 * count * width <= alive.size) & (groups > 0)
    return moves


def _room(groups: Any, width: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The numbers of prompts and of places for each that so many need: powers of two, at most those there are."""
    powers = jnp.asarray(POWERS, jnp.int32)
    count, members = (powers[jnp.searchsorted(powers, needed)] for needed in (groups, width))
    return jnp.minimum(count, shape[0]), jnp.minimum(members, shape[1])


@jax.jit
def _move(state: State, prompts: Int[Array, " Q"], members: Int[Array, "Q H"], alive: Bool[Array, "Q H"]) -> State:
    """The batch with some of its places alone."""
    rows = prompts[:, None], members

    def of_rows(fields: Any) -> Any:
        return jax.tree.map(lambda field: field[rows], fields)

    return State(
        jax.tree.map(lambda field: field[prompts], state.prompts),
        state.own.chosen(state.alive.shape, *rows),
        state.keys[rows],
        alive,
        of_rows(state.drawn),
        state.step,
    )


def _sampled(
    parameters: Parameters,
    config: ModelConfig,
    state: State,
    rows: _Rows,
    choices: Choices,
    *,
    shape: tuple[int, int, int],
) -> Sampled:
    """Draw all further tokens, and put every completion where it belongs."""
    parameters = apart(parameters)
    top_n, done = state.drawn.topn_ids.shape[-1], 0
    found = [np.zeros((*shape, *field.shape[3:]), field.dtype) for field in state.drawn]
    while True:
        state = _go_on(parameters, config, state, choices)
        alive, count = np.asarray(state.alive), int(state.step)
        place = rows.prompt[rows.filled], rows.member[rows.filled], slice(done, count)
        for everything, field in zip(found, state.drawn, strict=True):
            everything[place] = np.asarray(field[:, :, done:count])[rows.filled]
        if count == shape[2] or not alive.any():
            return Sampled(*found[:4], *(found[4:] if top_n else (None, None)))
        rows, prompts, members = rows.moved(alive)
        state, done = _move(state, prompts, members, rows.filled), count


def _draw_next(state: State, logits: Float[Array, "P G V"], choices: Choices) -> State:
    """Draw one token of every rollout that is alive; the others get zeros."""
    logp = log_distribution(logits, choices.temperature, choices.truncation)
    keys = jax.vmap(jax.vmap(jax.random.fold_in, (0, None)), (0, None))(state.keys, state.step)
    tokens = jax.vmap(jax.vmap(draw_token))(keys, logp)
    topn_logp, topn_ids = jax.lax.top_k(logp, state.drawn.topn_ids.shape[-1])
    own = jnp.take_along_axis(logp, tokens[..., None], axis=-1)[..., 0]
    drawn = Drawn(tokens, state.alive, own, entropy(logp), topn_logp, topn_ids.astype(jnp.int32))

    def write(room: Array, values: Array) -> Array:
        alive = state.alive.reshape(*state.alive.shape, *[1] * (values.ndim - 2))
        values = jnp.where(alive, values, jnp.zeros_like(values)).astype(room.dtype)
        return jax.lax.dynamic_update_slice_in_dim(room, values[:, :, None], state.step, axis=2)

    return state._replace(
        drawn=jax.tree.map(write, state.drawn, drawn),
        alive=state.alive & ~choices.stops[tokens],
        step=state.step + 1,
    )


def log_distribution(
    logits: Float[Array, "*B V"], temperature: Float[Array, ""], truncation: Truncation
) -> Float[Array, "*B V"]:
    """The log-probabilities that tokens are drawn with; minus infinity for those that never are.

    softmax(logits / temperature), or all on the first of the likeliest tokens at temperature 0, truncated and
    renormalised.
    """
    best = jnp.argmax(logits, axis=-1, keepdims=True) == jnp.arange(logits.shape[-1])
    # From the largest logit down, so that a small temperature overflows to minus infinity at most.
    below = logits - jnp.max(logits, axis=-1, keepdims=True)
    safe = jnp.where(temperature > 0, temperature, 1).astype(logits.dtype)
    logp = jnp.where(temperature > 0, jax.nn.log_softmax(below / safe, axis=-1), jnp.where(best, 0.0, -jnp.inf))
    return truncation.cut(logp)


def entropy(logp: Float[Array, "*B V"]) -> Float[Array, "*B"]:
    """-sum p log p, in nats; a token of probability 0 adds nothing."""
    return -jnp.sum(jnp.where(logp > -jnp.inf, jnp.exp(logp) * logp, 0), axis=-1)


def draw_token(key: PRNGKeyArray, logp: Float[Array, " V"]) -> Int[Array, ""]:
    """A token with these log-probabilities; one of probability 0 is never drawn."""
    rows = min(ROWS, max(2, math.isqrt(logp.shape[-1])))
    return draw(key, jnp.exp(logp), 1, rows)[0].astype(jnp.int32)
