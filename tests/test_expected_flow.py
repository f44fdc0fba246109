"""Moments of the expected flow equal those of all groups, and its paths know no basis under plain steps."""

import itertools

import numpy as np
import pytest

from figures.shared.flow import Groups, flow
from simlab.estimators import advantages
from simlab.problems.network import network

POLICY, CORRECT = np.array([0.2, 0.35, 0.3, 0.15]), np.array([False, True, False, False])


def every_gradient(name, size):
    """The chance of each ordered group of actions, and sum_i A_i (onehot - p) / G."""
    for group in itertools.product(range(len(POLICY)), repeat=size):
        weights = advantages(name, np.array([[float(CORRECT[action]) for action in group]]))[0]
        gradient = np.zeros(len(POLICY))
        for action, weight in zip(group, weights, strict=True):
            gradient += weight * (np.eye(len(POLICY))[action] - POLICY) / size
        yield np.prod(POLICY[list(group)]), gradient


@pytest.mark.parametrize("name", ["psr", "nsr", "maxrl", "f_grpo"])
def test_both_moments_are_those_over_every_group(name):
    directions = np.random.default_rng(0).standard_normal((len(POLICY), 3))
    groups = Groups((name,), 3, CORRECT[None], np.ones(len(POLICY)))
    policies, rates = POLICY[None, None], np.array([[POLICY[CORRECT].sum()]])
    listed = list(every_gradient(name, 3))
    mean = sum(chance * gradient for chance, gradient in listed)
    square = sum(chance * gradient**2 for chance, gradient in listed)
    along = sum(chance * (gradient @ directions) ** 2 for chance, gradient in listed)
    np.testing.assert_allclose(groups.mean(policies, rates)[0, 0], mean, atol=1e-13)
    np.testing.assert_allclose(groups.square(policies, rates)[0, 0], square, atol=1e-13)
    np.testing.assert_allclose(groups.square(policies, rates, directions[None])[0, 0], along, atol=1e-13)


def test_plain_steps_take_one_path_in_any_basis_and_adam_does_not():
    problem, level = network(prompts=4, actions=8, width=16), (0.35,)
    standard, turned = (flow(problem, ("grpo",), 4, level, turned=basis) for basis in (False, True))
    np.testing.assert_allclose(standard, turned, atol=1e-9)
    standard, turned = (flow(problem, ("grpo",), 4, level, adam=0.003, turned=basis) for basis in (False, True))
    assert abs(standard - turned).max() > 0.001
