"""Temperatures by the prompt's posterior (PTGS): their rule, their law, steps by naive loops, and what is refused."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refusal

from simlab.problems import prompt_bank
from simlab.simulator.learner import Learner
from simlab.simulator.runner import check
from simlab.simulator.settings import Settings, TracedSettings
from simlab.simulator.storage import DENSE, StoredProblem
from simlab.simulator.tempering import Tempering, draw_temperatures, temperature_of

pytestmark = pytest.mark.usefixtures("quickly")

BANK = prompt_bank(solve_rates=[0.05, 0.2, 0.5, 0.8, 0.97], actions=6, modes=2, rare_modes=1)
LISTED = BANK.listed()
NUMBERS = TracedSettings({}, {}, temperature=0.9, tempering=1.5, tempering_target=0.25, tempering_memory=0.9)


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield


def naive_temperature(p, reference=0.9, tau=1.5, target=0.25):
    span = target if p <= target else 1 - target
    return reference * tau ** ((target - p) / span)


def test_the_temperature_goes_from_tau_times_to_one_over_tau():
    rates = np.linspace(0, 1, 21)
    temperatures = np.asarray(temperature_of(jnp.asarray(rates, jnp.float32), NUMBERS))
    np.testing.assert_allclose(temperatures, [naive_temperature(p) for p in rates], rtol=1e-6)
    assert temperatures[[0, 5, 20]].tolist() == pytest.approx([1.35, 0.9, 0.6], rel=1e-6)


def test_solve_rates_are_drawn_from_the_posterior_of_their_counts():
    """Beta(.5 + 3, 1.5 + 1) for the target .25: mean and variance of 4,000 draws within 5 standard errors."""
    draws, alpha, beta = 4000, 3.5, 2.5
    state = Tempering(jnp.full(draws, 3.0), jnp.full(draws, 1.0), jnp.zeros(draws))
    keys = jax.random.split(jax.random.key(0), draws)
    temperatures = np.asarray(draw_temperatures(state, keys, jnp.arange(draws), NUMBERS).temperatures, float)
    warmth = np.log(temperatures / 0.9) / math.log(1.5)
    rates = np.where(warmth >= 0, 0.25 * (1 - warmth), 0.25 - 0.75 * warmth)
    mean, variance = alpha / (alpha + beta), alpha * beta / ((alpha + beta) ** 2 * (alpha + beta + 1))
    assert abs(rates.mean() - mean) < 5 * math.sqrt(variance / draws)
    assert rates.var() == pytest.approx(variance, rel=0.12)


@functools.partial(jax.jit, static_argnums=0)
def drawing(learner, index, state):
    state, _, prompts, drawn = learner.draw(index, state)
    return prompts, drawn.groups.slots, state.tempering.temperatures


@functools.partial(jax.jit, static_argnums=0)
def stepped(learner, index, state):
    return learner.step(index, state)


def naive_gradient(logits, temperature, actions, rewards):
    """The gradient of mean GRPO at softmax(logits / temperature); its log's derivative has a factor 1 / temperature."""
    p = np.exp((logits - logits.max()) / temperature)
    p /= p.sum()
    gradient = np.zeros(len(logits))
    for action, reward in zip(actions, rewards, strict=True):
        for index in range(len(logits)):
            score = ((index == action) - p[index]) / temperature
            gradient[index] += (reward - sum(rewards) / len(rewards)) * score / len(rewards)
    return gradient


def test_steps_are_those_of_policies_at_their_own_temperatures_by_loops(double):
    settings = Settings(
        "dr_grpo+reinforce", 4, "sgd", {"learning_rate": 1.5}, prompts_per_step=3, dtype="float64", storage="dense",
        temperature=0.9, tempering=1.5, tempering_target=0.25, tempering_memory=0.9,
    )  # fmt: skip
    check(BANK, settings)
    stored = StoredProblem(DENSE.load(LISTED, "float64"), DENSE, None)
    learner = Learner(
        settings.static, stored, jax.random.key(0, impl="threefry2x32"), jax.tree.map(jnp.asarray, settings.traced)
    )
    state, right, wrong, seen = learner.start(), dict.fromkeys(range(5), 0.0), dict.fromkeys(range(5), 0.0), set()
    for index in range(12):
        prompts, actions, temperatures = map(np.asarray, drawing(learner, jnp.int32(index), state))
        expected = np.array(state.parameters)
        for m, drawn in zip(prompts, actions, strict=True):
            rewards = [float(LISTED.correct[m][a]) for a in drawn]
            expected[m] += 1.5 * naive_gradient(expected[m], temperatures[m], drawn, rewards) / 3
            right[m], wrong[m] = 0.9 * right[m] + sum(rewards), 0.9 * wrong[m] + 4 - sum(rewards)
            assert 0.6 - 1e-9 <= temperatures[m] <= 1.35 + 1e-9
            seen.add(float(temperatures[m]))
        state = stepped(learner, jnp.int32(index), state)
        np.testing.assert_allclose(state.parameters, expected, rtol=1e-10, atol=1e-15)
        np.testing.assert_allclose(state.tempering.successes, list(right.values()), rtol=1e-12)
        np.testing.assert_allclose(state.tempering.failures, list(wrong.values()), rtol=1e-12)
    assert len(seen) == 36


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tempering": 0.5}, "tempering = 0.5 is outside its range [1, inf)"),
        ({"tempering_target": 0.0}, "tempering_target = 0.0 is outside its range (0, 1]"),
        ({"tempering_target": 1.0}, "tempering_target = 1 is outside its range (0, 1)"),
        ({"tempering_memory": 1.5}, "tempering_memory = 1.5 is outside its range [0, 1]"),
        ({"tempering": 1.5, "storage": "lumped"}, "tempering = 1.5 in lumped storage; allowed: auto, dense"),
        ({"tempering": 1.5, "lag": 2}, "lag = 2 with tempering = 1.5; allowed: 0"),
        ({"tempering": 1.5, "kl": 0.1}, "kl = 0.1 with tempering = 1.5; allowed: 0"),
        ({"tempering": 1.5, "allocation": "dynamic"}, "allocation = dynamic with tempering = 1.5; allowed: even"),
    ],
)
def test_what_does_not_go_with_it_is_refused_in_one_line(changes, message):
    assert message in refusal(lambda: check(BANK, Settings("grpo", **changes)))
