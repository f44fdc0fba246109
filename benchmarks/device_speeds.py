"""The limits of the device: how fast it moves memory, and how fast it multiplies matrices."""

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp


def device_speeds(numbers: int, rows: int, rounds: int = 5) -> dict[str, float]:
    """Bytes and operations a second, the fastest of some rounds.

    Memory: c = a + b on float32 arrays of so many ``numbers``, which reads two and writes one. Operations: the product
    of two square float32 matrices of so many ``rows``, a multiplication and an addition each.
    """
    a, b = jnp.ones(numbers), jnp.ones(numbers)
    matrix = jnp.ones((rows, rows))
    add = min(_seconds(jax.jit(jnp.add), a, b) for _ in range(rounds))
    product = min(_seconds(jax.jit(jnp.matmul), matrix, matrix) for _ in range(rounds))
    return {"bytes": 3 * a.nbytes / add, "operations": 2 * rows**3 / product}


def _seconds(work: Callable[..., jax.Array], *arguments: jax.Array) -> float:
    jax.block_until_ready(work(*arguments))  # which compiles, the first time
    start = time.perf_counter()
    jax.block_until_ready(work(*arguments))
    return time.perf_counter() - start
