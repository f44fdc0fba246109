"""Measure how fast all cores together do the arithmetic that a step of dense storage cannot do without.

Each speed is that of a compiled kernel that does nothing else, over and over on arrays that a core's own cache holds.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.cell import step_words
from benchmarks.cores import passes_per_second
from simlab.simulator.sampling import threefry

SIZE, TURNS = 1 << 14, 256


@jax.jit
def words(counters: jax.Array) -> jax.Array:
    """``TURNS`` times two random words for each counter, which are the next counters."""
    key = jax.random.key(0)

    def turn(_: int, pair: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return threefry(key, *pair)

    return jax.lax.fori_loop(0, TURNS, turn, (counters, counters))[0]


@jax.jit
def functions(values: jax.Array) -> jax.Array:
    """``TURNS`` times an exponential, a square root and a quotient of each number, which stay between 0 and 1."""
    return jax.lax.fori_loop(0, TURNS, lambda _, values: jnp.exp(-values) / (1 + jnp.sqrt(values)), values)


def per_second(kernel: Callable[[jax.Array], jax.Array], values: np.ndarray) -> float:
    """Numbers that all cores together take through one turn of a kernel in a second."""

    def begin() -> Callable[[], object]:
        array = jnp.asarray(values)
        kernel(array).block_until_ready()  # compiles, the first time
        return lambda: kernel(array).block_until_ready()

    return TURNS * values.size * passes_per_second(begin)


def speeds() -> tuple[float, float]:
    """Random words a second, two from each counter; and actions a second, by the functions of each."""
    counters = np.arange(SIZE, dtype=np.uint32)
    values = np.linspace(0.1, 1, SIZE, dtype=np.float32)
    return 2 * per_second(words, counters), per_second(functions, values)


def least_seconds(actions: int, group_size: int) -> float:
    """The time of the random words, exponentials, roots and quotients of a step, and of nothing else."""
    of_words, of_actions = speeds()
    return step_words(actions, group_size) / of_words + actions / of_actions
