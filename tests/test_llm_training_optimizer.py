"""The optimiser of a phase: AdamW and plain steps against loops in NumPy, the rate of each step, and refusals."""

import math

import jax
import numpy as np
import pytest
from naive_training import NaiveAdamW, assert_trees_agree, leaves
from sweep_cases import refusal
from training_cases import parameters_of, trainer_and_state

from simlab.llm.training.optimizer import ascend, first_state
from simlab.llm.training.settings import OptimizerSettings

pytestmark = pytest.mark.usefixtures("quickly")


RULE = {"b1": 0.9, "b2": 0.95, "eps": 1e-3, "weight_decay": 0.01, "max_norm": 0.5}  # the rule of all tests of training


def config():
    return trainer_and_state("grpo")[0].policy.config


@pytest.mark.parametrize("max_norm", [0.5, 1e9])
def test_a_plain_step_is_the_clipped_gradient_and_the_decay_of_matrices(max_norm):
    """Three steps against NumPy in float64; some gradients are longer than 0.5, and b1 and b2 play no part."""
    parameters, rate = parameters_of(config()), 0.3
    settings = OptimizerSettings(rate, optimizer="sgd", **RULE | {"max_norm": max_norm})
    state, wanted, norms = first_state(settings, parameters), dict(leaves(parameters)), []
    for step in range(1, 4):
        gradient = parameters_of(config(), scale=0.01 * step, seed=step)
        slopes = dict(leaves(gradient))
        norms.append(math.sqrt(sum((slope**2).sum() for slope in slopes.values())))
        factor = min(1, max_norm / norms[-1])
        for name, value in wanted.items():
            decay = 0 if name.endswith(("norm", "bias")) else RULE["weight_decay"]
            wanted[name] = value + rate * (factor * slopes[name] - decay * value)
        parameters, state, norm = ascend(settings, parameters, state, gradient, rate)
        assert norm == pytest.approx(norms[-1], rel=1e-6)
    assert min(norms) < 0.5 < max(norms)
    for name, leaf in leaves(parameters):
        np.testing.assert_allclose(leaf, wanted[name], rtol=0, atol=1e-5 * np.abs(wanted[name]).max(), err_msg=name)


def test_the_rate_rises_over_the_warm_up_and_falls_as_half_a_cosine():
    constant, cosine = OptimizerSettings(0.3, warmup=4), OptimizerSettings(0.3, warmup=4, decay="cosine")
    assert [constant.rate(step, 20) for step in (1, 2, 3, 4, 5, 20)] == pytest.approx(
        [0.06, 0.12, 0.18, 0.24, 0.3, 0.3]
    )
    for step in range(1, 21):
        rising, falling = min(1, step / 5), (1 + math.cos(math.pi * (step - 1) / 20)) / 2
        assert cosine.rate(step, 20) == pytest.approx(0.3 * rising * falling)
    assert OptimizerSettings(0.3).rate(1, 1) == OptimizerSettings(0.3, decay="cosine").rate(1, 1) == 0.3
    assert 0 < cosine.rate(20, 20) < 0.01 * 0.3, "the last step moves a little yet"


@pytest.mark.parametrize(
    ("value", "rate", "message"),
    [
        (np.nan, 0.1, "the norm of the gradient is nan"),
        (np.inf, 0.1, "the norm of the gradient is inf"),
        (1.0, 1e39, "the update with learning rate 1e+39 leaves parameters that are not finite"),
    ],
)
def test_an_update_that_is_not_finite_is_refused(value, rate, message):
    parameters = parameters_of(config())
    settings, gradient = OptimizerSettings(rate, **RULE), jax.tree.map(np.ones_like, parameters)
    gradient["norm"][3] = value
    gradient = jax.tree.map(jax.numpy.asarray, gradient)
    assert message in refusal(ascend, settings, parameters, first_state(settings, parameters), gradient, rate)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", -1e-3), ("learning_rate", np.nan), ("warmup", -1), ("decay", "linear"),
        ("weight_decay", -0.1), ("b1", 1.5), ("b2", -0.1), ("eps", -1.0), ("max_norm", 0.0), ("optimizer", "adam"),
    ],
)  # fmt: skip
def test_numbers_outside_their_ranges_are_refused(name, value):
    assert f"{name} = {value!r}" in refusal(OptimizerSettings, **{name: value})


def test_adamw_clips_corrects_for_its_start_and_lets_matrices_alone_decay():
    """Seven steps of changing rates, against NumPy in float64; some gradients are longer than ``max_norm``."""
    parameters = parameters_of(config())
    settings = OptimizerSettings(learning_rate=0.02, warmup=2, decay="cosine", **RULE)
    wanted, naive = parameters, NaiveAdamW(parameters, settings)
    state, norms = first_state(settings, parameters), []
    for step in range(1, 8):
        gradient = parameters_of(config(), scale=0.004 * step, seed=step)
        uphill = jax.tree.map(lambda leaf: -np.asarray(leaf, float), gradient)
        wanted, norm = naive.descend(wanted, uphill, settings.rate(step, 7))
        parameters, state, length = ascend(settings, parameters, state, gradient, settings.rate(step, 7))
        assert length == pytest.approx(norm, rel=1e-6), "the norm before it is clipped"
        norms.append(norm)
    assert min(norms) < RULE["max_norm"] < max(norms)
    assert_trees_agree(parameters, wanted, rtol=1e-5)
