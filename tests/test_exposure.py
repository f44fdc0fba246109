"""The distinct sampled mass given the number of correct rollouts, against every group in exact arithmetic."""

from fractions import Fraction
from itertools import product

import jaxtyping
import numpy as np
import pytest

from simlab.errors import InputError
from simlab.theory.tail_miss import expected_baseline, expected_sampled_mass

POLICIES = [
    ([Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)], [True, True, False]),
    ([Fraction(1, 8), Fraction(3, 8), Fraction(1, 16), Fraction(7, 16)], [True, False, True, True]),
    ([Fraction(1, 3), Fraction(0), Fraction(2, 3)], [True, True, False]),
    ([Fraction(2, 5), Fraction(3, 5)], [True, False]),
]
G = 4


def mean_given(policy, correct, successes, value):
    """The mean of a value of the distinct sampled actions, over all groups with so many correct rollouts."""
    weight = total = Fraction(0)
    for group in product(range(len(policy)), repeat=G):
        if sum(correct[action] for action in group) == successes:
            chance = Fraction(1)
            for action in group:
                chance *= policy[action]
            weight += chance
            total += chance * value(set(group))
    return float(total / weight)


def vectors(policy, correct):
    return np.array([float(p) for p in policy]), np.array(correct)


@pytest.mark.parametrize("successes", range(G + 1))
@pytest.mark.parametrize(("policy", "correct"), POLICIES)
def test_the_mean_sampled_mass_is_that_over_every_group(policy, correct, successes):
    """[f-grpo:lemma-h.1], both sides."""
    p, right = vectors(policy, correct)
    for side, draws in ((right, successes), (~right, G - successes)):
        enumerated = mean_given(
            policy, correct, successes, lambda drawn, side=side: sum(policy[a] for a in drawn if side[a])
        )
        assert expected_sampled_mass(p, side, draws) == pytest.approx(enumerated, rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("rewards", [(1, -1), (1, 0), (Fraction(1, 10), -2)])
@pytest.mark.parametrize(("policy", "correct"), POLICIES)
def test_the_mean_baseline_is_that_over_every_group(policy, correct, rewards):
    """[f-grpo:cor-h.2]."""
    p, right = vectors(policy, correct)
    good, bad = rewards
    found = expected_baseline(p, right, np.arange(G + 1), G, correct_reward=float(good), incorrect_reward=float(bad))
    enumerated = [
        mean_given(policy, correct, x, lambda drawn: sum(policy[a] * (good if correct[a] else bad) for a in drawn))
        for x in range(G + 1)
    ]
    assert found == pytest.approx(enumerated, rel=1e-14, abs=1e-15)
    assert np.all(np.diff(found) >= 0)


def test_rare_actions_keep_their_digits():
    """One draw of n equal actions finds 1/n of their mass, however many there are."""
    actions = 10**6
    policy = np.full(actions, 1 / actions)
    found = expected_sampled_mass(policy, np.ones(actions, bool), np.array([1, 2]))
    assert found == pytest.approx([1e-6, 2e-6 - 1e-12], rel=1e-9)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"policy": np.array([0.5, 0.2])}, "policy has least entry"),
        ({"policy": np.array([1.5, -0.5])}, "policy has least entry"),
        ({"subset": np.array([True])}, "subset is bool of shape"),
        ({"draws": -1}, "draws = -1"),
        ({"draws": 1.5}, "draws = 1.5"),
    ],
)
def test_bad_input_is_refused(changed, complaint, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # what a user sees, without the tests' hook
    good = {"policy": np.array([0.5, 0.5]), "subset": np.array([True, False]), "draws": 1}
    with pytest.raises(InputError, match=complaint):
        expected_sampled_mass(**(good | changed))
