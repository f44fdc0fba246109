"""Gradients against automatic differentiation of the objectives as written, and the sum that is exactly 0."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from simlab import Rollouts, estimator
from simlab.errors import InputError
from simlab.problems import anchored
from simlab.simulator import optimizers
from simlab.simulator.optimizers import adam, adamw, moments_per_parameter, momentum, muon, scale_to_norm, sgd
from simlab.simulator.policy import UPDATE_RULES, Listed, softmax
from simlab.simulator.runner import simulate
from simlab.simulator.sampling import exact_sum
from simlab.simulator.storage import DENSE

ACTIONS = [3, 0, 3, 5, 0, 3, 1]  # among 7: some repeated, some never sampled
WEIGHTS = {3: 1.0, 0: -0.75, 5: 0.5, 1: -0.125}  # one per action, as rewards and what follows from them are
NO_CANDIDATES = jnp.zeros(0, jnp.int32)


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def policy_arguments(temperature):
    logits = jnp.asarray(np.random.default_rng(7).normal(scale=2, size=7))
    return logits, jnp.asarray(temperature)


def ratio_form(p, a, group):
    """(1/G) sum A_i p_i / sg(p_i)."""
    return sum(a_i * p[i] / jax.lax.stop_gradient(p[i]) for i, a_i in zip(group, a, strict=True)) / len(group)


def literal_form(p, a, group):
    """(1/G) sum A_i p_i."""
    return sum(a_i * p[i] for i, a_i in zip(group, a, strict=True)) / len(group)


def distinct_form(p, a, group):
    """(1/G) times the sum of A_i p_i over the distinct sampled actions."""
    return sum(a_i * p[i] for i, a_i in dict(zip(group, a, strict=True)).items()) / len(group)


OBJECTIVES = {"simulator": ratio_form, "simulator_literal": literal_form, "theorem": distinct_form}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("temperature", [0.4, 2.5])
@pytest.mark.parametrize("rule", UPDATE_RULES)
def test_the_logit_gradient_is_that_of_the_written_objective(rule, temperature):
    """[f-grpo:app-j] in both readings, and [f-grpo:eq-5] on distinct sets."""
    logits, temperature = policy_arguments(temperature)
    advantages = [WEIGHTS[action] for action in ACTIONS]
    autodiff = jax.grad(lambda z: OBJECTIVES[rule](jax.nn.softmax(z / temperature), advantages, ACTIONS))(logits)
    policy, group = softmax(logits, temperature), Listed(jnp.asarray(ACTIONS))
    coefficients = (jnp.asarray(advantages) / len(ACTIONS))[:, None, None]
    gradient = policy.score_gradient(coefficients, group, NO_CANDIDATES, rule) / temperature
    np.testing.assert_allclose(gradient, autodiff, rtol=0, atol=1e-15)


def entropy(p, initial):
    return -jnp.sum(p * jnp.log(p))


def kl_to_initial(p, initial):
    return jnp.sum(p * jnp.log(p / initial))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("temperature", [0.4, 2.5])
@pytest.mark.parametrize("objective", [entropy, kl_to_initial])
def test_regularisers_have_the_gradient_of_their_definition(objective, temperature):
    logits, temperature = policy_arguments(temperature)
    initial = jax.nn.softmax(jnp.linspace(-1.0, 1.0, 7) / temperature)
    autodiff = jax.grad(lambda z: objective(jax.nn.softmax(z / temperature), initial))(logits)
    policy, group, weights = (softmax(logits, temperature), Listed(jnp.asarray(ACTIONS)), jnp.ones((7, 1)) / 7)
    gradients = {
        entropy: lambda: policy.entropy_gradient(group, weights),
        kl_to_initial: lambda: policy.kl_gradient(jnp.log(initial), group, weights),
    }
    np.testing.assert_allclose(gradients[objective]() / temperature, autodiff, rtol=0, atol=1e-15)


# The estimators whose weights sum to 0 over every group, in all of their parametrisations.
ZERO_SUM = [
    ("dr_grpo", {}),
    ("grpo", {}),
    ("grpo", {"ddof": 1, "eps": 0.0}),
    ("rloo", {}),
    ("f_grpo", {"gamma": 1.0}),
    ("f_grpo", {"gamma": 0.5, "base": "dr_grpo"}),
    ("maxrl", {}),
    ("power_alpha", {"alpha": 2.5}),
]
SIZES = [(1, "float32"), (7, "float32"), (131072, "float32"), (1000, "float64")]


def reward_rows(size):
    """(rows, size): binary groups from all wrong to all right, nearly uniform ones included, and random rewards."""
    rng = np.random.default_rng(size)
    counts = {0, 1, 2, size // 3, size // 2, size - 2, size - 1, size} & set(range(size + 1))
    binary = [rng.permutation(np.arange(size) < count) for count in sorted(counts)]
    graded = [rng.random(size), rng.random(size) ** 8, np.round(rng.random(size), 1), 1 - 1e-3 * rng.random(size)]
    return np.stack([*binary, *graded])


@pytest.mark.parametrize(("size", "dtype"), SIZES)
def test_zero_sum_weights_sum_to_exactly_0(size, dtype):
    """One compiled function computes them like the learner: reward, advantage, times 1/G, and the sum."""

    def sums(rewards):
        rollouts = Rollouts(rewards[None])
        for name, parameters in ZERO_SUM:
            chosen = estimator(name, **parameters)
            advantages, _ = chosen.update(rollouts, chosen.init())
            yield exact_sum(advantages[0] * (1 / size)), jnp.max(jnp.abs(advantages))

    rows = reward_rows(size)
    with jax.enable_x64(dtype == "float64"):
        totals, largest = jax.jit(jax.vmap(lambda row: tuple(map(jnp.stack, zip(*sums(row), strict=True)))))(
            jnp.asarray(rows, dtype)
        )
    np.testing.assert_array_equal(totals, 0)
    mixed = (rows.max(axis=1) == 1) & (rows.min(axis=1) == 0)  # groups with right and wrong rollouts, weights not all 0
    assert np.all(np.asarray(largest)[mixed] > 0)


@pytest.mark.parametrize(("size", "dtype"), SIZES)
def test_a_sum_that_is_not_rounding_is_kept(size, dtype):
    """Sums down to 1e-4 of the sum of magnitudes, against exact addition of the same numbers."""
    rng = np.random.default_rng(size)
    centred = rng.normal(size=size)
    centred -= centred.mean()
    with jax.enable_x64(dtype == "float64"):
        for relative in (1.0, 1e-2, 1e-4, -1e-4):
            shift = relative * (np.abs(centred).mean() or 1.0)
            values = np.asarray(centred + shift, dtype)
            exact = math.fsum(values.tolist())
            bound = 20 * np.finfo(dtype).eps * math.fsum(np.abs(values).tolist())
            assert abs(exact) > bound
            assert abs(float(jax.jit(exact_sum)(jnp.asarray(values))) - exact) <= bound


def test_a_change_is_scaled_to_a_norm_and_keeps_its_direction():
    for scale in (1e-30, 1.0, 1e30):
        change = np.random.default_rng(3).normal(size=(4, 5)).astype("float32") * np.float32(scale)
        scaled = np.asarray(scale_to_norm(jnp.asarray(change), jnp.float32(0.25), 1.0, DENSE))
        np.testing.assert_allclose(scaled, 0.25 * change / np.linalg.norm(change.astype(float)), rtol=1e-6)
    assert not np.asarray(scale_to_norm(jnp.zeros(3), jnp.float32(2.0), 1.0, DENSE)).any()


# Optimisers against optax, bit by bit

OPTIMIZERS = {
    "sgd": (sgd, optax.sgd, {"learning_rate": 0.3}),
    "momentum": (
        momentum,
        lambda learning_rate, decay: optax.sgd(learning_rate, momentum=decay),
        {"learning_rate": 0.3, "decay": 0.9},
    ),
    "adam": (adam, optax.adam, {"learning_rate": 0.01, "b1": 0.8, "b2": 0.95, "eps": 1e-6}),
    "adamw": (adamw, optax.adamw, {"learning_rate": 0.02, "b1": 0.9, "b2": 0.99, "eps": 1e-8, "weight_decay": 0.1}),
}
STEPS = 12


def trajectory(make, numbers, gradients):
    """The parameters after each step from 1, 2, 3, ... in two arrays, by a compiled program that traces the numbers."""
    arrays = {name: jnp.asarray(value, gradients.dtype) for name, value in numbers.items()}

    @jax.jit
    def run(numbers, gradients):
        optimizer = make(**numbers)
        start = {"one": jnp.arange(1, 8, dtype=gradients.dtype), "another": -jnp.ones((2, 2), gradients.dtype)}

        def step(carry, gradient):
            parameters, moments = carry
            slopes = {"one": gradient[:7], "another": gradient[7:].reshape(2, 2)}
            change, moments = optimizer.update(slopes, moments, parameters)
            parameters = jax.tree.map(jnp.add, parameters, change)
            return (parameters, moments), parameters

        return jax.lax.scan(step, (start, optimizer.init(start)), gradients)[1]

    return jax.tree.map(np.asarray, run(arrays, gradients))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("sgd", "float32"), ("momentum", "float32"), ("adam", "float32"), ("adamw", "float32"), ("adam", "float64")],
)
def test_steps_are_those_of_optax(name, dtype):
    ours, theirs, numbers = OPTIMIZERS[name]
    random = np.random.default_rng(0)
    sizes = 10.0 ** random.uniform(-8, 3, (STEPS, 11))
    with jax.enable_x64(dtype == "float64"):
        gradients = jnp.asarray(sizes * random.choice([-1, 0, 1], sizes.shape), dtype)
        actual, expected = (trajectory(make, numbers, gradients) for make in (ours, theirs))
    assert actual["one"].dtype == dtype
    jax.tree.map(np.testing.assert_array_equal, actual, expected)
    assert np.unique(actual["one"], axis=0).shape == (STEPS, 7)


def test_how_many_numbers_are_kept_of_each_parameter():
    numbers = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2, "muon": 1}
    assert {name: moments_per_parameter(name) for name in optimizers.OPTIMIZERS} == numbers


def polar(matrix):
    """The nearest orthogonal matrix, by NumPy's singular value decomposition."""
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return left @ right


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (6,)])
def test_muon_steps_along_about_the_polar_factor_of_its_momentum(shape):
    """The five iterations end with singular values of .68 to 1.14 in place of 1, so that a step is right to a third."""
    gradients = np.random.default_rng(0).standard_normal((4, *shape))
    rate, decay, mean = 0.1, 0.95, np.zeros(shape)
    optimizer = muon(rate, decay)
    moments = optimizer.init(jnp.zeros(shape))
    for gradient in gradients:
        change, moments = optimizer.update(jnp.asarray(gradient, jnp.float32), moments, None)
        mean = decay * mean + (1 - decay) * gradient
        towards = (decay * mean + (1 - decay) * gradient).reshape(shape[0], -1)
        exact = -rate * max(1, shape[0] / towards.shape[1]) ** 0.5 * polar(towards)
        step = np.asarray(change, float).reshape(towards.shape)
        assert np.linalg.norm(step - exact, 2) <= 0.33 * np.linalg.norm(exact, 2)
        np.testing.assert_allclose(step @ exact.T, exact @ step.T, atol=1e-4 * rate**2)  # the same directions
    assert not optimizer.update(jnp.zeros(shape), optimizer.init(jnp.zeros(shape)), None)[0].any()


def test_muon_needs_dense_storage():
    with pytest.raises(InputError, match="optimizer = 'muon' in lumped storage; allowed: auto, dense"):
        simulate(anchored(100, 10), "grpo", optimizer="muon", storage="lumped", seeds=1, steps=1)
