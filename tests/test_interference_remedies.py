"""Remedies for interference as functions of arrays: by hand, against loops, their limits, in NumPy and compiled."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simlab.interference.kernel import solve_rate_weights
from simlab.interference.remedies import damped, harm, in_danger_first, projection, without_worst

SEEDS = range(6)


def problem(seed, targets=5, numbers=4):
    """Directions u (N, F), an update g (F,), and which targets are protected."""
    random = np.random.default_rng(seed)
    return random.normal(size=(targets, numbers)), random.normal(size=numbers), random.random(targets) < 0.7


def turned(u, g, protected, **changes):
    added = projection(u @ g, u @ u.T, protected, **changes)
    return g + added @ u, added


def nearest_by_trying_all(u, g, protected):
    """The nearest update that lowers no protected target: the best of those along which some bounds hold exactly."""
    best, nearest = np.inf, None
    for count in range(len(u) + 1):
        for active in itertools.combinations(np.flatnonzero(protected), count):
            rows = u[list(active)]
            moved = g - (np.linalg.pinv(rows) @ (rows @ g) if count else 0)
            if (u[protected] @ moved >= -1e-9).all() and (distance := np.linalg.norm(moved - g)) < best - 1e-12:
                best, nearest = distance, moved
    return nearest


# Two prompts by hand


def test_two_prompts_by_hand():
    """The second is pushed down by 3 of the first and up by 1 of itself; |u_2|^2 = 4."""
    kernel = np.array([[2.0, -3.0], [0.5, 1.0]])
    net = kernel.sum(axis=0)
    assert net.tolist() == [2.5, -2.0]
    harms = harm(kernel, net < 0)
    assert harms.tolist() == [3.0, 0.0]
    assert damped(harms, 0.25).tolist() == [0.75, 1.0]
    assert without_worst(harms, 1.0).tolist() == [0.0, 1.0]
    added = projection(net, np.array([[1.0, -0.5], [-0.5, 4.0]]), net < 0)
    assert added.tolist() == [0.0, 0.5]  # 2 / 4, after which the second is not moved


# Harm


@pytest.mark.parametrize("seed", SEEDS)
def test_harm_is_a_sum_over_targets_in_danger_by_loops(seed):
    random = np.random.default_rng(seed)
    kernel, in_danger = random.normal(size=(4, 6)), random.random(6) < 0.5
    expected = [sum(-k for k, endangered in zip(row, in_danger, strict=True) if endangered and k < 0) for row in kernel]
    np.testing.assert_allclose(harm(kernel, in_danger), expected)


def test_nothing_is_weighed_down_where_nobody_harms_or_is_in_danger():
    kernel = np.array([[1.0, -2.0], [0.5, 1.0]])
    nobody = harm(kernel, np.array([False, False]))
    assert nobody.tolist() == [0, 0]
    assert damped(nobody, 1.0).tolist() == without_worst(nobody, 1.0).tolist() == [1, 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_strength_of_0_weighs_nothing_down_and_1_drops_the_worst_or_all_that_harm(seed):
    harms = np.maximum(np.random.default_rng(seed).normal(size=7), 0)
    assert damped(harms, 0.0).tolist() == without_worst(harms, 0.0).tolist() == [1] * 7
    assert damped(harms, 1.0)[np.argmax(harms)] == 0
    assert without_worst(harms, 1.0).tolist() == (harms == 0).astype(float).tolist()


@pytest.mark.parametrize("strength", [0.2, 0.5, 0.8])
def test_the_dropped_are_the_worst_and_as_many_as_the_strength_says_rounded_up(strength):
    harms = np.array([0.3, 0.0, 2.0, 0.7, 0.1, 0.0])
    dropped = np.flatnonzero(without_worst(harms, strength) == 0)
    assert sorted(dropped) == sorted(np.argsort(-harms)[: int(np.ceil(strength * 4))])


# The projection


@pytest.mark.parametrize("seed", SEEDS)
def test_the_projection_is_the_nearest_update_that_lowers_no_protected_target(seed):
    u, g, protected = problem(seed)
    moved, added = turned(u, g, protected, sweeps=3000)
    np.testing.assert_allclose(moved, nearest_by_trying_all(u, g, protected), atol=1e-6)
    assert (added >= 0).all()
    assert (added[~protected] == 0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_sweep_is_gradient_surgery_one_target_after_another(seed):
    """PCGrad takes from g its part along u: g - <g, u> / |u|^2 u."""
    u, g, protected = problem(seed)
    expected = g.copy()
    for target in np.flatnonzero(protected):
        expected -= min(expected @ u[target], 0) / (u[target] @ u[target]) * u[target]
    np.testing.assert_allclose(turned(u, g, protected, sweeps=1)[0], expected, atol=1e-12)


def test_nothing_is_turned_without_a_conflict_or_without_a_direction():
    u, g = np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([1.0, -1.0])
    assert projection(u @ g, u @ u.T, np.array([True, True])).tolist() == [0, 0]
    assert projection(np.array([-1.0, -1.0]), np.zeros((2, 2)), np.array([True, True])).tolist() == [0, 0]


# The batch


def test_the_batch_has_the_worst_in_danger_and_the_others_in_their_order():
    net, order = np.array([-1.0, 0.0, -3.0, 2.0, -2.0, np.nan]), np.array([5, 3, 1, 0, 2, 4])
    assert in_danger_first(net, order, 4, 1.0).tolist() == [2, 4, 0, 3]
    assert in_danger_first(net, order, 4, 0.5).tolist() == [2, 4, 3, 1]
    assert in_danger_first(net, order, 4, 0.0).tolist() == [3, 2, 4, 1]


# Arrays


def test_weights_of_the_gradient_of_a_solve_rate_by_loops():
    correct, present = np.array([[1.0, 0, 1, 0], [0, 0, 0, 0]]), np.array([[1.0, 1, 1, 0], [1, 1, 1, 1]])
    weights = solve_rate_weights(correct, present)
    np.testing.assert_allclose(weights, [[1 / 6, -1 / 3, 1 / 6, 0], [0, 0, 0, 0]], atol=1e-15)


@pytest.mark.parametrize("seed", SEEDS)
def test_compiled_by_jax_they_are_the_same(seed):
    u, g, protected = problem(seed)
    kernel, order = np.random.default_rng(seed).normal(size=(4, 5)), np.arange(5)[::-1].copy()

    def both(function, *arrays):
        with jax.enable_x64(True):
            compiled = jax.jit(function)(*map(jnp.asarray, arrays))
        np.testing.assert_allclose(compiled, function(*arrays), rtol=1e-12, atol=1e-14)

    both(harm, kernel, protected)
    for weigh in (damped, without_worst):
        both(lambda harms, weigh=weigh: weigh(harms, 0.4), np.maximum(u[0], 0))
    both(lambda net: in_danger_first(net, order, 3, 0.7), u @ g)
    with jax.enable_x64(True):
        arrays = [jnp.asarray(values) for values in (u @ g, u @ u.T, protected)]
        added = jax.jit(lambda *arrays: projection(*arrays, loop=jax.lax.fori_loop))(*arrays)
    np.testing.assert_allclose(added, projection(u @ g, u @ u.T, protected), rtol=1e-9, atol=1e-12)
