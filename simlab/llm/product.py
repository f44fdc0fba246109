"""Multiply values with a matrix: with a cheap gradient (the narrower factor is transposed), and fast for a few."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.extend.core.primitives import dot_general_p
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float

# Timed by benchmarks/constants.py. A core of an AMD EPYC takes .3 to .7 of the time for 4 to 32 values, with matrices
# of 576 x 192 to 576 x 49,152, as long for 64, and a tenth longer for 128; for one, a quarter less to a half more.
FEWEST, MOST = 2, 32


class Transposed(NamedTuple):
    """A matrix (D, F) that is kept as its transpose."""

    rows: Float[Array, "F D"]


def product(values: Float[Array, "*B D"], matrix: Float[Array, "D F"] | Transposed) -> Float[Array, "*B F"]:
    """Return values matrix, with a gradient by the matrix that transposes the narrower of values and gradient."""
    if isinstance(matrix, Transposed):
        return with_rows(values, matrix.rows)
    dtype = jnp.result_type(values, matrix)
    result: Array = _product.bind(values.astype(dtype), matrix.astype(dtype))  # type: ignore[no-untyped-call]
    return result


def with_rows(values: Float[Array, "*B D"], rows: Float[Array, "F D"], dtype: Any = None) -> Float[Array, "*B F"]:
    """values rows^T in a dtype, the values' own if not given: the inner product of each value with each row."""

    def plain(values: Array, rows: Array) -> Array:
        return jnp.einsum("...d,fd->...f", values, rows, preferred_element_type=dtype)

    def rows_first(values: Array, rows: Array) -> Array:
        flat = values.reshape(-1, values.shape[-1])
        result = jnp.einsum("fd,nd->fn", rows, flat, preferred_element_type=dtype)
        # Without the barrier XLA makes one product of the product and its transpose, which is the slow one.
        fixed: Array = jax.lax.optimization_barrier(result)  # type: ignore[no-untyped-call]
        return fixed.T.reshape(*values.shape[:-1], -1)

    if not FEWEST <= math.prod(values.shape[:-1]) <= MOST:
        return plain(values, rows)
    result: Array = jax.lax.platform_dependent(values, rows, cpu=rows_first, default=plain)
    return result


def is_product(primitive: Primitive, *_: Any, **__: Any) -> bool:
    """Return True if a primitive multiplies matrices: a policy of ``jax.checkpoint`` that keeps what they give."""
    return primitive is _product or primitive is dot_general_p


def _plain(values: Array, matrix: Array) -> Array:
    return values @ matrix


def _shape(values: ShapedArray, matrix: ShapedArray) -> ShapedArray:
    result = jax.eval_shape(_plain, values, matrix)
    return ShapedArray(result.shape, result.dtype)


def _gradient_of_matrix(gradient: Array, values: Array, _: Any) -> Array:
    rows = tuple(range(values.ndim - 1))
    over_rows = ((rows, rows), ((), ()))
    # The first operand of a product is the one that is transposed.
    if values.shape[-1] <= gradient.shape[-1]:
        return jax.lax.dot_general(values, gradient, over_rows)
    return jax.lax.dot_general(gradient, values, over_rows).T


def _batched(operands: Sequence[Array], axes: Sequence[int | None]) -> tuple[Array, int]:
    return jax.vmap(_plain, tuple(axes))(*operands), 0


_product = Primitive("product")
_product.def_impl(jax.jit(_plain))  # type: ignore[no-untyped-call]
_product.def_abstract_eval(_shape)  # type: ignore[no-untyped-call]
mlir.register_lowering(_product, mlir.lower_fun(_plain, multiple_results=False))
ad.defbilinear(_product, lambda gradient, _, matrix: gradient @ matrix.T, _gradient_of_matrix)  # type: ignore[no-untyped-call]
batching.primitive_batchers[_product] = _batched
