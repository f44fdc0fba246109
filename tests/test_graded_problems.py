"""Problems with graded rewards match their parameters, and refuse impossible ones."""

import math

import numpy as np
import pytest
from refusals import refusal

from simlab.problems import format_reward, length_penalty, partial_credit, problem, reward_hack, rubric


def shares(bandit):
    """The probability of each class of actions at the start."""
    weights = bandit.counts * np.exp(bandit.logits)
    return weights / weights.sum()


def means(bandit):
    """The exact mean of each part of the reward at the start."""
    return bandit.rewards[0] @ shares(bandit)


def test_format_and_correctness_are_independent_at_the_start():
    bandit = format_reward(0.1, 0.3, 0.25, rare=8, wrong=64)
    assert bandit.actions == 1 + 8 + 2 * 64
    np.testing.assert_allclose(means(bandit), [0.1, 0.3])
    assert shares(bandit)[bandit.correct].sum() == pytest.approx(0.1)
    assert shares(bandit)[bandit.target].sum() == pytest.approx(0.07)
    np.testing.assert_allclose(bandit.totals, [[1.25, 1, 0.25, 0]])


def test_rare_answers_pay_more_of_the_length_penalty():
    bandit = length_penalty(0.2, 0.3, 0.5)
    assert shares(bandit)[bandit.target].sum() == pytest.approx(0.06)
    np.testing.assert_allclose(bandit.totals, [[0.9, 0.5, -0.1, -0.5]])


def test_a_rubric_has_its_rates_and_what_meets_all_is_correct():
    bandit = rubric((0.9, 0.5), constant=2)
    np.testing.assert_allclose(means(bandit), [0.9, 0.5, 1, 1])
    assert shares(bandit)[bandit.correct].sum() == pytest.approx(0.45)
    np.testing.assert_allclose(sorted(bandit.totals[0]), [0.4, 0.6, 0.6, 0.8])
    assert rubric((0.5,), constant=0).rewards.shape == (1, 1, 2)


def test_the_hack_is_wrong_and_pays_its_weight():
    bandit = reward_hack(0.05, 0.3, 0.5)
    np.testing.assert_allclose(means(bandit), [0.05, 0.3])
    np.testing.assert_allclose(bandit.totals, [[1, 0.5, 0]])
    assert shares(bandit)[bandit.correct].sum() == pytest.approx(0.05)


def test_partial_credit_is_the_share_of_tests_passed_and_both_forms_start_alike():
    tree, flat = (partial_credit(3, 4, 0.5, lead=0.7, by_token=by_token) for by_token in (True, False))
    assert tree.correct.nonzero()[0].tolist() == [0, 63]
    assert tree.target.nonzero()[0].tolist() == [63]
    np.testing.assert_allclose(tree.leaf_logp, flat.logits)
    np.testing.assert_array_equal(tree.rewards, flat.rewards)
    digits = np.array([[i // 16, i // 4 % 4, i % 4] for i in range(64)])
    passed = [max((row == 0).sum(), (row == 3).sum()) / 3 for row in digits]
    np.testing.assert_allclose(tree.totals[0], [0.5 * p + 0.5 * (p == 1) for p in passed])
    likeliest = math.exp(0.7) / (math.exp(0.7) + 3)
    assert np.exp(flat.logits[0]) == pytest.approx(likeliest**3)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("format_reward", {"right": 0.0}, "right = 0.0 is outside its range (0, 1]"),
        ("format_reward", {"formatted": 1.0}, "formatted = 1.0 is outside its range (0, 1)"),
        ("length_penalty", {"penalty": -0.1}, "penalty = -0.1 is outside its range [0, inf)"),
        ("rubric", {"rates": ()}, "rates = 0 is outside its range [1, 10]"),
        ("rubric", {"rates": (0.5, 1.5)}, "rate 2 = 1.5 is outside its range"),
        ("reward_hack", {"right": 0.6, "hack": 0.4}, "both = 1.0 is outside its range (0, 1)"),
        ("partial_credit", {"credit": 1.5}, "credit = 1.5 is outside its range [0, 1]"),
        ("partial_credit", {"choices": 1}, "choices = 1 is outside its range [2, inf)"),
    ],
)
def test_what_cannot_be_is_refused(name, parameters, message):
    assert message in refusal(problem, name, **parameters)
