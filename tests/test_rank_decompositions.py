"""Rank decompositions of many runs at once: each is NumPy's, and no batch of them reaches the CPU's thread pool."""

import jax
import jax.numpy as jnp
import numpy as np

from simlab.simulator.head_metrics import svd_each

RUNS = np.random.default_rng(0).normal(size=(3, 2, 7, 4))


def split_runs(runs):
    return jax.vmap(lambda pair: svd_each(list(pair)))(runs)


def test_each_matrix_of_each_run_has_the_decomposition_that_numpy_gives_it():
    split = split_runs(jnp.asarray(RUNS, jnp.float32))
    for run, place in np.ndindex(3, 2):
        left, values, right = np.linalg.svd(RUNS[run, place], full_matrices=False)
        np.testing.assert_allclose(split.values[run, place], values, rtol=1e-5)
        sign = np.sign(left[0, 0] * float(split.left[run, place, 0]))
        np.testing.assert_allclose(split.left[run, place], sign * left[:, 0], atol=1e-5)
        np.testing.assert_allclose(split.right[run, place], sign * right[0], atol=1e-5)


def test_runs_side_by_side_decompose_one_matrix_at_a_time():
    """Two programs that each wait for a batch of decompositions could wait for one another for ever."""
    shapes = [each.invars[0].aval.shape for each in equations(jax.make_jaxpr(split_runs)(RUNS).jaxpr, "svd")]
    assert shapes
    assert {int(np.prod(shape[:-2])) for shape in shapes} == {1}


def equations(jaxpr, name: str):
    """The equations of this name, those inside loops and calls among them."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == name:
            yield equation
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda value: hasattr(value, "eqns")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from equations(inner, name)
