"""The product of values and a matrix has the derivatives of a plain one, forwards and backwards."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simlab.llm.product import Transposed, product, with_rows

RANDOM = np.random.default_rng(0)


def draw(*shape):
    return jnp.asarray(RANDOM.normal(size=shape), jnp.float64)


@pytest.fixture(autouse=True)
def exactly():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("multiply", [product, lambda values, matrix: with_rows(values, matrix.T)])
@pytest.mark.parametrize(("rows", "wide", "out"), [((6,), 3, 5), ((2, 3, 2), 4, 4)])
def test_derivatives_are_those_of_a_plain_product(rows, wide, out, multiply):
    values, matrix, weights = draw(*rows, wide), draw(wide, out), draw(*rows, out)

    def of(times):
        return lambda values, matrix: jnp.sum(weights * jnp.sin(times(values, matrix)))

    np.testing.assert_allclose(multiply(values, matrix), np.asarray(values) @ np.asarray(matrix), rtol=0, atol=1e-13)
    gradients, plain = (jax.grad(of(times), (0, 1))(values, matrix) for times in (multiply, jnp.matmul))
    changes = draw(*rows, wide), draw(wide, out)
    forwards = [jax.jvp(of(times), (values, matrix), changes)[1] for times in (multiply, jnp.matmul)]
    for gradient, other in zip(gradients, plain, strict=True):
        np.testing.assert_allclose(gradient, other, rtol=0, atol=1e-12)
    np.testing.assert_allclose(*forwards, rtol=0, atol=1e-12)


def test_nothing_is_computed_for_what_is_not_trained():
    values, matrix = draw(6, 3), draw(3, 5)
    program = jax.make_jaxpr(jax.grad(lambda values: jnp.sum(product(values, matrix) ** 2)))(values)
    assert (str(program).count(" product "), str(program).count("dot_general")) == (1, 1)


def test_it_is_batched():
    values, matrices = draw(4, 6, 3), draw(4, 3, 5)

    def of(times):
        return jax.value_and_grad(lambda values, matrix: jnp.sum(jnp.sin(times(values, matrix))), (0, 1))

    for axes in ((0, None), (None, 0), (0, 0)):
        operands = [array if axis == 0 else array[0] for array, axis in zip((values, matrices), axes, strict=True)]
        results, plain = (jax.vmap(of(times), axes)(*operands) for times in (product, jnp.matmul))
        jax.tree.map(lambda leaf, other: np.testing.assert_allclose(leaf, other, rtol=0, atol=1e-12), results, plain)


def test_it_is_differentiated_in_a_scan_with_a_checkpoint():
    matrices, values = draw(3, 4, 4), draw(5, 4)

    def after(times, matrices):
        layer = jax.checkpoint(lambda values, matrix: (jnp.tanh(times(values, matrix)), None), prevent_cse=False)
        return jnp.sum(jax.lax.scan(layer, values, matrices)[0] ** 2)

    slope, plain = (jax.grad(lambda matrices, dot=dot: after(dot, matrices))(matrices) for dot in (product, jnp.matmul))
    np.testing.assert_allclose(slope, plain, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rows", [(), (1,), (2,), (3, 5), (32,), (33,)])
def test_a_transposed_matrix_has_the_same_product(rows):
    values, matrix = draw(*rows, 7), draw(7, 5)
    result = product(values, Transposed(matrix.T))
    np.testing.assert_allclose(result, np.asarray(values) @ np.asarray(matrix), rtol=0, atol=1e-13)
    single = with_rows(values.astype(jnp.bfloat16), matrix.T.astype(jnp.bfloat16), jnp.float32)
    assert (result.dtype, single.dtype) == (jnp.float64, jnp.float32)


@pytest.mark.parametrize(
    ("count", "platform", "rows_come_first"),
    [(1, "cpu", False), (2, "cpu", True), (32, "cpu", True), (33, "cpu", False), (8, "cuda", False)],
)
def test_a_cpu_multiplies_the_rows_with_a_few_values(count, platform, rows_come_first):
    """The first operand of the product is then the matrix, of 5 rows, and a barrier keeps it there."""
    given_shapes = jax.ShapeDtypeStruct((count, 7), jnp.float32), jax.ShapeDtypeStruct((5, 7), jnp.float32)
    program = jax.export.export(jax.jit(with_rows), platforms=[platform])(*given_shapes).mlir_module()
    assert ("optimization_barrier" in program) == rows_come_first
    assert f"tensor<{'5' if rows_come_first else count}x7xf32>, tensor" in program.split("dot_general")[1]
