"""Tail-miss probabilities against every possible group, and against exact arithmetic where groups are large."""

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import jaxtyping
import numpy as np
import pytest
from refusals import refusal

from simlab.theory.tail_miss import active, conditional_tail_miss, expected_baseline, expected_sampled_mass, tail_miss

POLICIES = [
    ([Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)], {0, 1}),
    ([Fraction(1, 8), Fraction(3, 8), Fraction(1, 16), Fraction(7, 16)], {0, 1, 2}),
    ([Fraction(63, 64), Fraction(1, 64)], {0}),
    ([Fraction(3, 4), Fraction(1, 4)], {0, 1}),
    ([Fraction(3, 4), Fraction(1, 4)], set()),
]


def probability(policy, group_size, event):
    """Exact probability of an event: the sum over all groups for which it holds."""
    total = Fraction(0)
    for group in product(range(len(policy)), repeat=group_size):
        if event(set(group)):
            weight = Fraction(1)
            for action in group:
                weight *= policy[action]
            total += weight
    return total


def subsets(actions):
    actions = sorted(actions)
    for bits in product([False, True], repeat=len(actions)):
        yield {action for action, chosen in zip(actions, bits, strict=True) if chosen}


@pytest.mark.parametrize("group_size", [1, 2, 3, 4])
@pytest.mark.parametrize(("policy", "correct"), POLICIES)
def test_probabilities_equal_the_sum_over_every_group(policy, correct, group_size):
    """[f-grpo:lemma-3.1], [f-grpo:eq-7]."""
    correct_mass = float(sum(policy[action] for action in correct))
    everything = set(range(len(policy)))

    def is_active(group):
        return group & correct and group & (everything - correct)

    active_probability = probability(policy, group_size, is_active)
    assert active(group_size, correct_mass) == pytest.approx(float(active_probability), rel=1e-15, abs=0)
    for target in subsets(correct):
        target_mass = float(sum(policy[action] for action in target))
        missed = probability(policy, group_size, lambda group, target=target: is_active(group) and not group & target)
        arguments = group_size, correct_mass, target_mass
        assert tail_miss(*arguments) == pytest.approx(float(missed), rel=1e-15, abs=0)
        if active_probability == 0:
            assert np.isnan(conditional_tail_miss(*arguments))
        else:
            conditional = float(missed / active_probability)
            assert conditional_tail_miss(*arguments) == pytest.approx(conditional, rel=1e-15, abs=0)


CORRECT_MASSES = [1e-12, 1e-9, 1e-3, 0.1, 0.5, 0.6301, 0.9, 1 - 1e-9, 1 - 2.0**-53]
TARGET_SHARES = [0.0, 1e-12, 1e-6, 0.01, 0.5, 0.9, 1 - 1e-12, 1.0]


def exact_tail_miss(group_size, correct_mass, target_mass):
    """The lemma as written, to 120 digits: its terms cancel in at most 40 of them here."""
    with localcontext(prec=120, Emin=-(10**9), Emax=10**9):
        mu, tau = Decimal(correct_mass), Decimal(target_mass)
        return (1 - tau) ** group_size - (mu - tau) ** group_size - (1 - mu) ** group_size


@pytest.mark.parametrize("group_size", [2, 8, 32768, 10**6])
@pytest.mark.parametrize("correct_mass", CORRECT_MASSES)
def test_no_digit_is_lost_for_rare_targets_and_large_groups(group_size, correct_mass):
    """The documented bound on the relative error holds; results below float64's normal range are exempt."""
    exact_active = exact_tail_miss(group_size, correct_mass, 0.0)
    for share in TARGET_SHARES:
        target_mass = correct_mass * share
        bound = Decimal(1e-15 * (1 - group_size * np.log1p(-target_mass)))
        exact = exact_tail_miss(group_size, correct_mass, target_mass)
        computed = Decimal(float(tail_miss(group_size, correct_mass, target_mass)))
        conditional = Decimal(float(conditional_tail_miss(group_size, correct_mass, target_mass)))
        if exact < Decimal(float(np.finfo(np.float64).tiny)):
            assert 0 <= computed <= Decimal(float(np.finfo(np.float64).tiny))
            continue
        assert abs(computed - exact) <= bound * exact
        assert abs(conditional - exact / exact_active) <= bound * exact / exact_active


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2.5, 0.5, 0.1), "group_size = 2.5 is not allowed; allowed: whole numbers from 1 up"),
        ((4, np.array([0.5, np.nan]), 0.1), "correct_mass = nan is outside its range [0, 1]"),
        ((4, 0.5, 0.75), "target_mass = 0.75 is outside its range [0, correct_mass = 0.5]"),
        ((4, 0.5, -0.25), "target_mass = -0.25"),
        ((np.array([1, 2]), np.array([0.5, 0.5, 0.5]), 0.1), "which do not broadcast"),
    ],
)
@pytest.mark.parametrize("function", [tail_miss, conditional_tail_miss])
def test_bad_input_is_named(function, arguments, message, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # a user's view, without the tests' hook
    assert message in refusal(function, *arguments)


# The distinct sampled mass given the number of correct rollouts

LABELLED = [
    ([Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)], [True, True, False]),
    ([Fraction(1, 8), Fraction(3, 8), Fraction(1, 16), Fraction(7, 16)], [True, False, True, True]),
    ([Fraction(1, 3), Fraction(0), Fraction(2, 3)], [True, True, False]),
    ([Fraction(2, 5), Fraction(3, 5)], [True, False]),
]
G = 4


def mean_given(policy, correct, successes, value):
    """The mean of a value of the distinct sampled actions, over all groups with ``successes`` correct rollouts."""
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
@pytest.mark.parametrize(("policy", "correct"), LABELLED)
def test_the_mean_sampled_mass_is_that_over_every_group(policy, correct, successes):
    """[f-grpo:lemma-h.1], both sides."""
    p, right = vectors(policy, correct)
    for side, draws in ((right, successes), (~right, G - successes)):
        enumerated = mean_given(
            policy, correct, successes, lambda drawn, side=side: sum(policy[a] for a in drawn if side[a])
        )
        assert expected_sampled_mass(p, side, draws) == pytest.approx(enumerated, rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("rewards", [(1, -1), (1, 0), (Fraction(1, 10), -2)])
@pytest.mark.parametrize(("policy", "correct"), LABELLED)
def test_the_mean_baseline_is_that_over_every_group(policy, correct, rewards):
    """[f-grpo:cor-h.2]."""
    p, right = vectors(policy, correct)
    good, bad = rewards
    baseline = expected_baseline(p, right, np.arange(G + 1), G, correct_reward=float(good), incorrect_reward=float(bad))
    enumerated = [
        mean_given(policy, correct, x, lambda drawn: sum(policy[a] * (good if correct[a] else bad) for a in drawn))
        for x in range(G + 1)
    ]
    assert baseline == pytest.approx(enumerated, rel=1e-14, abs=1e-15)
    assert np.all(np.diff(baseline) >= 0)


def test_rare_actions_keep_their_digits():
    """One draw of n equal actions finds 1/n of their mass, however many there are."""
    actions = 10**6
    policy = np.full(actions, 1 / actions)
    mass = expected_sampled_mass(policy, np.ones(actions, bool), np.array([1, 2]))
    assert mass == pytest.approx([1e-6, 2e-6 - 1e-12], rel=1e-9)


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
def test_bad_input_to_the_mean_mass_is_refused(changed, complaint, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    good = {"policy": np.array([0.5, 0.5]), "subset": np.array([True, False]), "draws": 1}
    assert complaint in refusal(expected_sampled_mass, **(good | changed))
