"""Which training problems and which random numbers belong to a seed; the arms of a seed have the same ones."""

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

PROBLEMS_OF_A_SEED = 2**40  # training problems of a seed: the first half for its start, the others for its arms
EVALUATION_KEY, VERIFIER_KEY, ADAPTERS_KEY = 2**31, 2**31 + 1, 2**31 + 2  # beside the steps


def key_of(seed: int, step: int) -> PRNGKeyArray:
    """The random numbers of a step, or of one of the keys beside them."""
    return jax.random.fold_in(jax.random.key(seed), jnp.uint32(step))


def first_demonstration(seed: int) -> int:
    """The first training problem of a seed's warm start."""
    return seed * PROBLEMS_OF_A_SEED


def first_problem(seed: int) -> int:
    """The first training problem of a seed's arms."""
    return seed * PROBLEMS_OF_A_SEED + PROBLEMS_OF_A_SEED // 2
