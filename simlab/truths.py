"""Ask of many truth values whether all are true."""

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Bool


def all_true(values: Bool[Array, "..."], axes: Sequence[int] | None = None) -> Bool[Array, "..."]:
    """``jnp.all(values, axes)``, by counting those that are false.

    A count compiles ten times faster: XLA reduces in windows of 32, and LLVM writes 200 kB for one of truth values.
    """
    wrong: Array = jnp.sum(~values, axes, dtype=jnp.int32)
    return wrong == 0
