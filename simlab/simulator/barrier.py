"""Keep XLA from moving or repeating a computation across a point of a program."""

from typing import TypeVar

import jax

Values = TypeVar("Values")


def barrier(values: Values) -> Values:
    """The same values, computed once and here."""
    computed: Values = jax.lax.optimization_barrier(values)  # type: ignore[no-untyped-call]
    return computed
