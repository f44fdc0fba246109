"""Multiply values with a matrix, so that the gradient of the matrix costs little more than its operations.

The gradient of x W by W is x^T z, z the gradient of the product. A CPU transposes one of the two before it multiplies,
and JAX has it transpose z. Where z is wide and is itself being computed, as behind the gate of a feed-forward layer,
that takes longer than anything else of the layer: a third of the time of a gradient of the maze model.
"""

from typing import Any

import jax
from jax.custom_derivatives import SymbolicZero, linear_call
from jaxtyping import Array, Float


@jax.custom_jvp
def product(values: Float[Array, "*B D"], matrix: Float[Array, "D F"]) -> Float[Array, "*B F"]:
    """values matrix; its gradient by the matrix transposes the narrower of values and gradient."""
    return values @ matrix


def _tangent(primals: tuple[Array, Array], tangents: tuple[Any, Any]) -> tuple[Array, Any]:
    """Of a frozen matrix, or of values that nothing is trained by, there is no part."""
    values, matrix = primals
    of_values, of_matrix = tangents
    out = values @ matrix
    parts = []
    if not isinstance(of_values, SymbolicZero):
        parts.append(of_values @ matrix)
    if not isinstance(of_matrix, SymbolicZero):
        parts.append(linear_call(_times, _gradient_of_matrix, values, of_matrix))
    return out, sum(parts[1:], parts[0])


product.defjvp(_tangent, symbolic_zeros=True)


def _times(values: Float[Array, "*B D"], matrix: Float[Array, "D F"]) -> Float[Array, "*B F"]:
    return values @ matrix


def _gradient_of_matrix(values: Float[Array, "*B D"], gradient: Float[Array, "*B F"]) -> Float[Array, "D F"]:
    rows = tuple(range(values.ndim - 1))
    over_rows = ((rows, rows), ((), ()))
    # The first operand of a product is the one that is transposed.
    if values.shape[-1] <= gradient.shape[-1]:
        return jax.lax.dot_general(values, gradient, over_rows)
    return jax.lax.dot_general(gradient, values, over_rows).T
