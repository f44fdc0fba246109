"""Compute what is needed of the logits in slices of tokens, so that those of all tokens never exist together.

With a vocabulary of 150 thousand the logits of 128 completions of 1,024 tokens take 80 GB, and their gradient as much
again. A slice is computed, reduced to a few numbers a token, and dropped; its gradient computes it a second time.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from simlab.llm.model import Parameters, head_of, logits_of, wide

LOGITS_AT_ONCE = 2**26  # 256 MiB in float32


def rows_at_once(rows: int, vocab_size: int) -> int:
    """Return the tokens of a slice: all, or slices of equal size with at most ``LOGITS_AT_ONCE`` logits.

    >>> rows_at_once(300, 50_000), rows_at_once(3000, 50_000)
    (300, 1000)
    """
    return math.ceil(rows / math.ceil(rows / max(1, LOGITS_AT_ONCE // vocab_size)))


def map_logits(
    function: Callable[..., Any], parameters: Parameters, hidden: Float[Array, "*B D"], *others: Array
) -> Any:
    """Apply a function to the logits of each token, a slice at a time, and return its arrays (*B, ...).

    Args:
        function: takes the logits (C, V) of C tokens and the same rows of ``others``, and returns arrays, or nested
            tuples of arrays, of C rows each. A row must depend on nothing but its own token.
        parameters: the parameters of the model.
        hidden: from ``hidden_states`` or ``completion_states``.
        others: arrays (*B, ...).
    """
    shape, head = hidden.shape[:-1], head_of(parameters)
    count = math.prod(shape)
    rows = [array.reshape(count, *array.shape[len(shape) :]) for array in (hidden, *others)]
    if rows_at_once(count, len(head)) == count:
        results = function(logits_of(head, rows[0]), *rows[1:])
    else:
        results = _in_slices(function, head, rows)
    return jax.tree.map(lambda values: values.reshape(*shape, *values.shape[1:]), results)


def _in_slices(function: Callable[..., Any], head: Float[Array, "V D"], rows: list[Array]) -> Any:
    count = len(rows[0])
    size = rows_at_once(count, len(head))
    slices = math.ceil(count / size)

    def cut(array: Array) -> Array:
        filling = jnp.zeros((slices * size - count, *array.shape[1:]), array.dtype)
        return jnp.concatenate([array, filling]).reshape(slices, size, *array.shape[1:])

    # The head's gradient is a sum over slices: its dtype is that of what the slices are given.
    exact = head.astype(wide(head.dtype))

    @jax.checkpoint
    def reduce_slice(slice_rows: list[Array]) -> Any:
        return function(logits_of(exact.astype(head.dtype), slice_rows[0]), *slice_rows[1:])

    results = jax.lax.map(reduce_slice, [cut(array) for array in rows])
    return jax.tree.map(lambda values: values.reshape(-1, *values.shape[2:])[:count], results)
