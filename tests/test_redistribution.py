"""Closed forms of one redistribution step, against exact arithmetic."""

from fractions import Fraction
from itertools import product
from typing import NamedTuple

import jaxtyping
import numpy as np
import pytest
from refusals import refusal

from simlab.theory.redistribution import (
    correct_mass_change,
    first_order_change,
    logit_update,
    subset_change,
    unsampled_correct_mass_change,
)

POLICIES = [
    [Fraction(5, 8), Fraction(3, 8)],
    [Fraction(1, 2), Fraction(5, 16), Fraction(3, 16)],
    [Fraction(7, 16), Fraction(1, 4), Fraction(3, 16), Fraction(1, 8)],
]
REWARDS = [(1, -1), (1, 0), (Fraction(1, 4), -2)]
LEARNING_RATE = Fraction(1, 8)


class Group(NamedTuple):
    """A policy, its correct actions, and the distinct actions among ``size`` samples."""

    policy: list[Fraction]
    correct: set[int]
    sampled: set[int]
    size: int

    @property
    def probabilities(self):
        return np.array([float(mass) for mass in self.policy])

    def mask(self, members):
        return np.array([action in members for action in range(len(self.policy))])

    def call(self, function, rewards, learning_rate=LEARNING_RATE):
        return function(
            self.probabilities,
            self.mask(self.correct),
            self.mask(self.sampled),
            correct_reward=float(rewards[0]),
            incorrect_reward=float(rewards[1]),
            learning_rate=float(learning_rate),
            group_size=self.size,
        )


def every_group(sizes):
    """Every policy, labelling, group size and reachable set of distinct samples."""
    for policy, size in product(POLICIES, sizes):
        actions = range(len(policy))
        distinct = {frozenset(samples) for samples in product(actions, repeat=size)}
        for labels in product([False, True], repeat=len(policy)):
            correct = {action for action in actions if labels[action]}
            yield from (Group(policy, correct, set(sampled), size) for sampled in sorted(distinct, key=sorted))


def exact_logit_update(group, rewards):
    """Gradient of (1/G) sum of R_i p_i over the distinct samples, with dp_i / dz_j = p_i (1[i = j] - p_j)."""
    update = []
    for j, mass in enumerate(group.policy):
        slope = Fraction(0)
        for i in group.sampled:
            slope += rewards[0 if i in group.correct else 1] * group.policy[i] * ((i == j) - mass)
        update.append(LEARNING_RATE / group.size * slope)
    return update


def exact_change(policy, update):
    """The softmax Jacobian times the update, entry by entry."""
    actions = range(len(policy))
    return [sum(policy[i] * ((i == j) - policy[j]) * update[j] for j in actions) for i in actions]


@pytest.mark.parametrize("rewards", [REWARDS[0], *(pytest.param(r, marks=pytest.mark.slow) for r in REWARDS[1:])])
def test_updates_and_changes_equal_exact_arithmetic_for_every_group(rewards):
    """[f-grpo:eq-5], [f-grpo:eq-18], [f-grpo:eq-19], [f-grpo:eq-17], [f-grpo:prop-3.2]."""

    def off_by(computed, exact):
        return np.max(np.abs(np.asarray(computed) - np.array(exact, dtype=float)))

    for group in every_group(sizes=(1, 2, 3)):
        exact_update = exact_logit_update(group, rewards)
        exact = exact_change(group.policy, exact_update)
        update = group.call(logit_update, rewards)
        assert off_by(update, exact_update) <= 1e-15
        assert off_by(first_order_change(group.probabilities, update), exact) <= 1e-15
        for subset, closed_form in (
            (group.correct, correct_mass_change),
            (group.correct - group.sampled, unsampled_correct_mass_change),
        ):
            mass = sum(exact[action] for action in subset)
            assert off_by(subset_change(group.probabilities, update, group.mask(subset)), mass) <= 1e-15
            assert off_by(group.call(closed_form, rewards), mass) <= 1e-15


VALID = {
    "policy": np.array([0.5, 0.25, 0.25]),
    "correct": np.array([True, True, False]),
    "sampled": np.array([True, False, True]),
    "learning_rate": 1.0,
    "group_size": 2,
}
NO_POLICY = "allowed: none below 0, sum 1 to 1e-9"


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        ({"policy": np.ones((1, 3))}, "policy is float64 of shape (1, 3); allowed: float64 of shape (N,)"),
        ({"policy": np.array([1, 0, 0])}, "policy is int64"),
        ({"policy": np.array([0.5, 0.5, 2e-9])}, NO_POLICY),
        ({"policy": np.array([1.5, -0.25, -0.25])}, NO_POLICY),
        ({"policy": np.array([0.5, 0.5, np.nan])}, NO_POLICY),
        ({"correct": np.array([True])}, "correct is bool of shape (1,); allowed: bool of shape (3,)"),
        ({"sampled": np.array([1, 0, 1])}, "sampled is int64 of shape (3,)"),
        ({"correct_reward": -0.5}, "correct_reward = -0.5 is outside its range [0, inf)"),
        ({"incorrect_reward": 0.5}, "incorrect_reward = 0.5 is outside its range [-inf, 0]"),
        ({"learning_rate": float("nan")}, "learning_rate = nan"),
        ({"group_size": 2.5}, "group_size = 2.5 is not a whole number; allowed: whole numbers from 1 up"),
        ({"group_size": 1}, "sampled holds 2 distinct actions; allowed: 1 to group_size = 1"),
        ({"sampled": np.zeros(3, bool)}, "sampled holds 0 distinct actions"),
    ],
)
@pytest.mark.parametrize("function", [logit_update, correct_mass_change, unsampled_correct_mass_change])
def test_a_bad_group_is_named(function, replaced, message, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # a user's view, without the tests' hook
    assert message in refusal(function, **(VALID | replaced))


def test_a_bad_change_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    policy, subset = VALID["policy"], VALID["correct"]
    message = "logit_change has shape (2,); allowed: (3,), that of policy"
    assert refusal(first_order_change, policy, np.zeros(2)) == message
    assert refusal(subset_change, policy, np.zeros(2), subset) == message
    message = "subset is bool of shape (2,); allowed: bool of shape (3,)"
    assert refusal(subset_change, policy, np.zeros(3), subset[:2]) == message
