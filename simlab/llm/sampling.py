"""Sample groups of completions together, each with random numbers of its own.

Computation and compilation are saved so (a *place* is a row and a column of the batch):

- A prompt is read once; its keys and values are kept once and shared by its group (``simlab.llm.decoding``).
- When half of the completions have ended, the others move together into fewer places, so that those that have ended
  cost nothing more (``simlab.llm.batch_layout``). A batch of 8 places or fewer stays as it is.
- Of more completions than are sampled at once, the next prompts take the places of completions that have ended, so
  that the batch stays full until the last prompt is in it.
- Keys and values have room for ``FIRST_CAPACITY`` tokens of each completion, and for twice as many whenever one
  needs it.
- A CPU samples two halves of the prompts at the same time.
- Logits of a large vocabulary are computed for one slice of the completions at a time (``simlab.llm.model``).
- The number of places is rounded up to 1, 2, 3, 4, 6, 8, 12, 16, ..., the length of prompts by an eighth or less, so
  that one program serves all batches of about one size. Another temperature, truncation, limit or set of stop tokens
  never compiles a program.

Completion g of prompt p draws token t with random numbers of (key, p, g, t) alone. It does not depend on the rest of
the batch, on the group size or on the limit, up to the rounding of the logits.
"""

import dataclasses
import functools
import itertools
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from simlab.errors import InputError, check_whole
from simlab.llm import batch
from simlab.llm.batch_layout import (
    BatchLayout,
    BatchSize,
    batch_size,
    part_count,
    regrouped,
    rounded_length,
    rounded_up,
    rows_needed,
    smaller_shape,
)
from simlab.llm.completions import filled_up, longest
from simlab.llm.config import ModelConfig
from simlab.llm.distribution import Truncation
from simlab.llm.model import Parameters, apart

Result = TypeVar("Result")
_turns: dict[Hashable, threading.Lock] = {}
_called: set[Hashable] = set()
FIRST_CAPACITY = 128  # tokens of each completion; below, another program takes longer to compile than it saves


def concatenated(fields: Sequence[Any]) -> Any:
    """Join fields of parts to one array; None where the parts have none."""
    return None if fields[0] is None else np.concatenate(fields)


class Sampled(NamedTuple):
    """Completions. P prompts, G completions of each, room for T tokens, N candidates.

    All log-probabilities are of the distribution that was sampled: at the temperature, and of the tokens that a
    truncation leaves, renormalised; a token that it removes has probability 0. At temperature 1 and without a
    truncation this is the model's own distribution.
    """

    tokens: np.ndarray  # (P, G, T) the completion with the token that ended it; 0 where there is none
    mask: np.ndarray  # (P, G, T) true where there is a token
    logp: np.ndarray  # (P, G, T) log-probability of each token
    entropy: np.ndarray  # (P, G, T) entropy in nats of the distribution it was drawn from
    collision: np.ndarray  # (P, G, T) sum of its squared probabilities
    topn_logp: np.ndarray | None = None  # (P, G, T, N) of the N likeliest tokens, the likeliest first; None if N is 0
    topn_ids: np.ndarray | None = None  # (P, G, T, N) those tokens; None if N is 0

    @classmethod
    def joined(cls, batches: "Sequence[Sampled]") -> "Sampled":
        """Return the completions of some prompts, then those of others."""
        return cls(*map(concatenated, zip(*batches, strict=True)))


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
    at_once: int | None = None,
) -> Sampled:
    """Sample ``group_size`` completions of every prompt.

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
        at_once: most completions that are sampled at once, at least those of one prompt; the others wait. Without it
            none waits.

    Raises: InputError: for a prompt that is empty or leaves no room for ``max_new_tokens`` in the model's context, for
    tokens outside the vocabulary, and for more candidates than it has. Settings of training check the other numbers.
    """
    check_whole("top_n", top_n, 0, config.vocab_size)
    for index, prompt in enumerate(prompts):
        if not len(prompt):
            raise InputError(f"prompt {index} is empty; allowed: one token or more")
        if len(prompt) + max_new_tokens > config.max_positions:
            raise InputError(
                f"prompt {index} has {len(prompt)} tokens, and {max_new_tokens} new ones are asked for; "
                f"allowed: {config.max_positions} in all, the model's context"
            )
        for token in prompt:
            if not 0 <= token < config.vocab_size:
                raise InputError(f"prompt {index} has token {token}; allowed: 0 to {config.vocab_size - 1}")
    stops = np.zeros(config.vocab_size, bool)
    for token in config.eos_ids if stop_ids is None else stop_ids:
        check_whole("stop token", token, 0, config.vocab_size - 1)
        stops[token] = True
    truncation = Truncation(jnp.int32(min(top_k, config.vocab_size)), jnp.float32(top_p), jnp.float32(min_p))
    count = part_count(len(prompts), group_size, at_once) if jax.default_backend() == "cpu" else 1
    cuts = [len(prompts) * index // count for index in range(count + 1)]
    begin = functools.partial(
        _Sampler,
        parameters=parameters,
        one_layer_each=apart(parameters),
        config=config,
        group_size=group_size,
        limit=max_new_tokens,
        top_n=top_n,
        key=key,
        choices=batch.Choices(jnp.float32(temperature), truncation, jnp.asarray(stops), jnp.int32(max_new_tokens)),
        prompt_length=rounded_length(longest(prompts)),  # the same for all parts, so that one program serves them
    )
    share = None if at_once is None else at_once // count
    samplers = [
        begin(prompts[first:last], first_prompt + first, batch_size(last - first, group_size, share))
        for first, last in itertools.pairwise(cuts)
    ]
    batches = side_by_side([sampler.sampled for sampler in samplers])
    return batches[0] if count == 1 else Sampled.joined(batches)


@dataclasses.dataclass
class _Sampler:
    """The loop around the programs of a batch, of some prompts; its parts share the parameters' copy ``apart``."""

    prompts: Sequence[Sequence[int]]
    first_prompt: int
    size: BatchSize
    parameters: Parameters
    one_layer_each: Parameters
    config: ModelConfig
    group_size: int
    limit: int
    top_n: int
    key: PRNGKeyArray
    choices: batch.Choices
    prompt_length: int
    next: int = 0  # the prompt that is read next
    done: int = 0  # tokens of the batch that have been taken down

    def __post_init__(self) -> None:
        self.most = rounded_up(self.limit)  # tokens of a completion that there may be room for
        self.capacity = min(self.most, FIRST_CAPACITY)  # tokens of a completion that there is room for

    def sampled(self) -> Sampled:
        """Draw all tokens, and put every completion where it belongs."""
        state, layout = self._begin()
        fields = [
            np.zeros((len(self.prompts), self.group_size, self.limit, *field.shape[3:]), field.dtype)
            for field in state.drawn
        ]
        while True:
            waiting = jnp.int32(self._rows_of_next())
            state = compiled_once(batch.go_on, self.one_layer_each, self.config, state, self.choices, waiting)
            self._take_down(state, layout, fields)
            alive = np.asarray(state.alive)
            if not alive.any() and not self._waiting:
                return Sampled(*fields[:5], *(fields[5:] if self.top_n else (None, None)))
            state, layout = self._changed(state, layout, alive)

    @property
    def _waiting(self) -> bool:
        return self.next < len(self.prompts)

    def _rows_of_next(self) -> int:
        """Return the rows that the next prompts need; 0 if none waits."""
        return self.size.joining * self.group_size // self.size.width if self._waiting else 0

    def _begin(self) -> tuple[batch.BatchState, BatchLayout]:
        """Begin a batch of all prompts, or of the first of them."""
        if not self.size.joining:
            layout = BatchLayout.of(len(self.prompts), self.group_size, self.size.rows, self.size.width)
            self.next = len(self.prompts)
            return self._read(0, layout, self.capacity), layout
        layout = BatchLayout.of(0, 0, self.size.rows, self.size.width)
        state = compiled_once(
            batch.nobody,
            self.config,
            self.key,
            shape=(self.size.rows, self.size.width),
            prompt_length=self.prompt_length,
            capacity=self.capacity,
            top_n=self.top_n,
            dtype=self.parameters["embed_tokens"].dtype,
        )
        return self._joined(state, layout, layout.filled)

    def _read(self, first: int, layout: BatchLayout, capacity: int) -> batch.BatchState:
        """Read the prompts from this one on, and draw their first tokens."""
        rows = len(layout.filled)
        tokens, lengths = filled_up(self.prompts[first : first + rows], rows, self.prompt_length)
        state: batch.BatchState = compiled_once(
            batch.start,
            self.parameters,
            self.config,
            tokens,
            lengths,
            key=self.key,
            first_prompt=jnp.int32(self.first_prompt + first),
            alive=layout.filled,
            choices=self.choices,
            capacity=capacity,
            top_n=self.top_n,
        )
        return state

    def _changed(
        self, state: batch.BatchState, layout: BatchLayout, alive: np.ndarray
    ) -> tuple[batch.BatchState, BatchLayout]:
        """Take new prompts in, make more room for each completion, or move to fewer places."""
        if self._waiting and len(alive) - rows_needed(alive, layout.prompt, self.size.width) >= self._rows_of_next():
            return self._joined(state, layout, alive)
        full = int(state.step) - np.asarray(state.rollouts.since) >= self.capacity
        if (alive & full[:, None]).any():
            self.capacity = min(2 * self.capacity, self.most)
            return compiled_once(batch.grow, state, self.capacity), layout
        to = regrouped(layout, alive, smaller_shape(layout, alive))
        layout = layout.moved(*to)
        return compiled_once(batch.move, state, layout.group, *to), layout

    def _joined(
        self, state: batch.BatchState, layout: BatchLayout, alive: np.ndarray
    ) -> tuple[batch.BatchState, BatchLayout]:
        """Take in as many of the prompts that wait as find room."""
        to = regrouped(layout, alive, alive.shape)
        layout = layout.moved(*to)
        state = compiled_once(batch.regroup, state, layout.group, *to)
        row = int(layout.filled.any(axis=1).sum())
        while self._waiting and len(alive) - row >= self._rows_of_next():
            first, count = self.next, min(self.size.joining, len(self.prompts) - self.next)
            self.next += count
            joining = BatchLayout.of(count, self.group_size, self.size.joining, self.group_size)
            new = self._read(first, joining, 1)
            layout = layout.with_rows(row, joining._replace(prompt=joining.prompt + first))
            state = compiled_once(batch.join, state, new, jnp.int32(row), layout.group)
            row += joining.filled.size // self.size.width
        self.done = int(state.step) - 1
        return state, layout

    def _take_down(self, state: batch.BatchState, layout: BatchLayout, fields: list[np.ndarray]) -> None:
        """Copy the tokens that have been drawn since the last time to where they belong."""
        steps, since = np.arange(self.done, int(state.step)), np.asarray(state.rollouts.since)
        slots = steps % state.capacity
        there = np.asarray(state.drawn.mask)[:, :, slots] & layout.filled[:, :, None]
        row, column, number = np.nonzero(there)
        to = layout.prompt[row, column], layout.member[row, column], steps[number] - since[row]
        for target, field in zip(fields, state.drawn, strict=True):
            target[to] = np.asarray(field)[row, column, slots[number]]
        self.done = int(state.step)


def side_by_side(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Make calls at the same time and return their results, all with the precision and device of this thread."""
    config: Any = jax.config
    exact, device = config.jax_enable_x64, config.jax_default_device

    def alone(call: Callable[[], Result]) -> Result:
        with jax.enable_x64(exact), jax.default_device(device):
            return call()

    if len(calls) == 1:
        return [calls[0]()]
    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(alone, calls))


def compiled_once(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call a jitted function; other threads wait for its first call with these shapes, so that one alone compiles."""
    leaves, structure = jax.tree.flatten((arguments, named))
    shapes = tuple((x.shape, str(x.dtype)) if isinstance(x, jax.Array | np.ndarray) else x for x in leaves)
    key = function, structure, shapes
    if key in _called:
        return function(*arguments, **named)
    with _turns.setdefault(key, threading.Lock()):
        result = function(*arguments, **named)
        _called.add(key)
        return result
