"""The simulator's optimisers against optax's, bit by bit."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from simlab.simulator.optimizers import adam, adamw, moments_per_parameter, sgd

CASES = {
    "sgd": (sgd, optax.sgd, {"learning_rate": 0.3}),
    "adam": (adam, optax.adam, {"learning_rate": 0.01, "b1": 0.8, "b2": 0.95, "eps": 1e-6}),
    "adamw": (adamw, optax.adamw, {"learning_rate": 0.02, "b1": 0.9, "b2": 0.99, "eps": 1e-8, "weight_decay": 0.1}),
}
STEPS = 12


def trajectory(make, numbers, gradients):
    """The parameters after each step from 1, 2, 3, ... in two arrays, by a compiled program that traces the numbers."""
    own = {name: jnp.asarray(value, gradients.dtype) for name, value in numbers.items()}

    @jax.jit
    def run(numbers, gradients):
        optimizer = make(**numbers)
        start = {"one": jnp.arange(1, 8, dtype=gradients.dtype), "another": -jnp.ones((2, 2), gradients.dtype)}

        def step(carry, gradient):
            parameters, moments = carry
            parts = {"one": gradient[:7], "another": gradient[7:].reshape(2, 2)}
            change, moments = optimizer.update(parts, moments, parameters)
            parameters = jax.tree.map(jnp.add, parameters, change)
            return (parameters, moments), parameters

        return jax.lax.scan(step, (start, optimizer.init(start)), gradients)[1]

    return jax.tree.map(np.asarray, run(own, gradients))


@pytest.mark.parametrize(
    ("name", "dtype"), [("sgd", "float32"), ("adam", "float32"), ("adamw", "float32"), ("adam", "float64")]
)
def test_steps_are_those_of_optax(name, dtype):
    ours, theirs, numbers = CASES[name]
    random = np.random.default_rng(0)
    sizes = 10.0 ** random.uniform(-8, 3, (STEPS, 11))
    with jax.enable_x64(dtype == "float64"):
        gradients = jnp.asarray(sizes * random.choice([-1, 0, 1], sizes.shape), dtype)
        found, expected = (trajectory(make, numbers, gradients) for make in (ours, theirs))
    assert found["one"].dtype == dtype
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert np.unique(found["one"], axis=0).shape == (STEPS, 7)


def test_how_many_numbers_are_kept_of_each_parameter():
    assert [moments_per_parameter(name) for name in ("sgd", "adam", "adamw")] == [0, 2, 2]


def test_the_simulator_does_without_optax():
    """It takes as long to import as a tenth of a first step."""
    program = "import sys, simlab.sweeps.run; raise SystemExit('optax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
