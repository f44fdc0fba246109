"""A line that XLA does not move or repeat computations across."""

from typing import TypeVar

import jax

Values = TypeVar("Values")


def barrier(values: Values) -> Values:
    """The same values, computed once and here."""
    computed: Values = jax.lax.optimization_barrier(values)  # type: ignore[no-untyped-call]
    return computed
