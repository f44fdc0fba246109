"""Exact moments of what a step learns from another sampler, against loops over all groups and against drawn steps."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problem_contract import Bench, Kind, Row
from refusals import refusal

from figures.shared.off_policy_moments import Correction, check_method, enumerate_outcomes, gradient_moments
from simlab.arms import parse
from simlab.problems import custom, tree
from simlab.simulator.mismatch import sampler_logits

NOW, THEN = np.array([0.9, 0.1, -0.8, -1.5]), np.array([0.2, 0.9, -0.4, -0.1])
FLAT = custom(NOW.tolist(), [1, 3], [3])
WORDS = tree(2, 2, rewarded=[1, 2])
AT_NODES = np.array([[0.7, -0.2], [0.1, 1.0], [-0.6, 0.3]])
AT_NODES_THEN = np.array([[-0.3, 0.2], [0.8, 0.0], [0.1, -0.9]])
CORRECTIONS = [
    Correction("none"),
    Correction("ratio"),
    Correction("decoupled"),
    Correction("truncated", "token", 1.3),
    Correction("masked", "token", 1.5),
]
SEQUENCES = [Correction(name, "sequence", 1.4) for name in ("decoupled", "truncated", "masked")]


def softmax(values):
    return np.exp(values) / np.exp(values).sum()


def rollouts_of(logits, then):
    """Yield p, q, the ratios of the tokens, and grad log p of each, (nodes, B), of each outcome by hand."""
    flat = logits.ndim == 1
    now, old = (np.atleast_2d(values) for values in (logits, then))
    words = [(a,) for a in range(len(logits))] if flat else list(itertools.product(range(2), repeat=2))
    for word in words:
        nodes = [0] if flat else [0, 1 + word[0]]
        p, q = ([softmax(values[n])[a] for n, a in zip(nodes, word, strict=True)] for values in (now, old))
        gradients = []
        for node, action in zip(nodes, word, strict=True):
            gradient = np.zeros_like(now)
            gradient[node] = -softmax(now[node])
            gradient[node, action] += 1
            gradients.append(gradient.reshape(-1))
        yield math.prod(p), math.prod(q), [a / b for a, b in zip(p, q, strict=True)], gradients


def grpo(rewards):
    mean = sum(rewards) / len(rewards)
    deviation = math.sqrt(sum((r - mean) ** 2 for r in rewards) / len(rewards))
    return [(r - mean) / (deviation + 1e-6) for r in rewards]  # the library's default epsilon


def clipped(ratio, advantage):
    return 0.0 if (advantage > 0 and ratio > 1.2) or (advantage < 0 and ratio < 0.8) else ratio * advantage


def added(correction, ratios, gradients, advantage):
    """The term of one rollout in G times the gradient."""
    weights = [math.prod(ratios)] * len(ratios) if correction.unit == "sequence" else ratios
    total = 0.0
    for ratio, weight, gradient in zip(ratios, weights, gradients, strict=True):
        if correction.name == "ratio":
            coefficient = clipped(ratio, advantage)
        elif correction.name == "none":
            coefficient = advantage
        elif correction.name == "decoupled":
            coefficient = weight * advantage
        elif correction.name == "truncated":
            coefficient = min(weight, correction.bound) * advantage
        else:
            coefficient = weight * advantage if 1 / correction.bound <= weight <= correction.bound else 0.0
        total = total + coefficient * gradient
    return total


def naive_moments(rollouts, correct, correction, group_size):
    """Mean and variance over all groups that the sampler may draw, group by group."""
    first, second = 0.0, 0.0
    for group in itertools.product(range(len(rollouts)), repeat=group_size):
        chance = math.prod(rollouts[i][1] for i in group)
        weights = grpo([float(i in correct) for i in group])
        terms = [
            added(correction, rollouts[i][2], rollouts[i][3], weight) for i, weight in zip(group, weights, strict=True)
        ]
        gradient = sum(terms) / group_size
        first, second = first + chance * gradient, second + chance * (gradient @ gradient)
    return first, second - first @ first


def exact_moments(problem, logits, then, method="grpo+ppo_clip", *, group_size=3, correction=CORRECTIONS[0]):
    with jax.enable_x64(True):
        outcomes = enumerate_outcomes(problem, jnp.asarray(logits), jnp.asarray(then))
        return outcomes, gradient_moments(outcomes, parse(method).build(), group_size, correction)


@pytest.mark.slow
@pytest.mark.parametrize("correction", [*CORRECTIONS, *SEQUENCES], ids=str)
def test_mean_and_variance_are_those_of_all_groups(correction):
    """Also of rollouts of two tokens, where tokens and sequences differ."""
    for problem, now, then, right in ((FLAT, NOW, THEN, {1, 3}), (WORDS, AT_NODES, AT_NODES_THEN, {1, 2})):
        outcomes, result = exact_moments(problem, now, then, correction=correction)
        rollouts = list(rollouts_of(now, then))
        mean, variance = naive_moments(rollouts, right, correction, 3)
        np.testing.assert_allclose(result.mean, mean, atol=1e-13)
        assert float(result.variance) == pytest.approx(variance, abs=1e-13)
        np.testing.assert_allclose([outcomes.p, outcomes.q], np.transpose([row[:2] for row in rollouts]), atol=1e-14)


@pytest.mark.slow
def test_the_effective_share_is_kishs_over_tokens():
    for correction in (CORRECTIONS[2], SEQUENCES[2]):
        _, result = exact_moments(WORDS, AT_NODES, AT_NODES_THEN, correction=correction)
        first = second = 0.0
        for _, q, ratios, _ in rollouts_of(AT_NODES, AT_NODES_THEN):
            each = [added(correction, ratios, [1.0 * (t == s) for s in range(2)], 1.0) for t in range(2)]
            first, second = first + q * sum(each) / 2, second + q * sum(w * w for w in each) / 2
        assert float(result.effective_share) == pytest.approx(first**2 / second, abs=1e-13)


SEEDS = 20_000


@pytest.mark.slow
@pytest.mark.parametrize("correction", [CORRECTIONS[1], CORRECTIONS[3]], ids=str)
def test_first_steps_of_the_simulator_have_this_mean_and_this_variance(correction):
    """From a sampler of the three likeliest actions: over 20,000 seeds, within five standard errors of each entry.

    The variance agrees within 5 %; its standard error is less than 1 %.
    """
    row = Row(FLAT, lambda _: lambda logits: logits[None, None], lambda *_: [], ("dense",))
    setting = {"estimator": "grpo", "surrogate": "ppo_clip", "sampler": "top_k", "top_k": 3, "group_size": 3}
    setting |= {"optimizer_parameters": {"learning_rate": 1.0}}
    names = {"correction": correction.name, "correction_unit": correction.unit, "correction_bound": correction.bound}
    bench = Bench(row, Kind(setting | names), "dense")
    moved = bench.first_steps(SEEDS).parameters - NOW
    with jax.enable_x64(True):
        outcomes = enumerate_outcomes(FLAT, jnp.asarray(NOW), sampler_logits("top_k", jnp.asarray(NOW), top_k=3))
        exact = gradient_moments(outcomes, parse("grpo+ppo_clip").build(), 3, correction)
    error = moved.std(axis=0, ddof=1) / math.sqrt(SEEDS)
    assert (np.abs(moved.mean(axis=0) - np.asarray(exact.mean)) <= 5 * error + 1e-12).all()
    assert moved.var(axis=0).sum() == pytest.approx(float(exact.variance), rel=0.05)


@pytest.mark.parametrize("method", ["entropy_advantage", "grpo+casp", "ha_dw"])
def test_methods_that_read_more_than_rewards_and_groups_of_no_size_are_refused(method):
    assert "allowed for exact moments" in refusal(check_method, parse(method).build(), 8)
    for group_size in (0, 129):
        assert f"group_size = {group_size}" in refusal(check_method, parse("grpo").build(), group_size)
