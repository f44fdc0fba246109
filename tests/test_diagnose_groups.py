"""Dead groups, gradient masses, pass@k, entropy, predictions and splits of a budget, against loops over small logs."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from diagnose_logs import bank, log, plain, with_surprise
from refusals import refusal

from simlab.diagnose.confidence import confidence
from simlab.diagnose.estimate import Estimate, bootstrapped
from simlab.diagnose.groups import RANGES, SIZES, gradient_masses, observed
from simlab.diagnose.log import Confidence
from simlab.diagnose.pass_at_k import pass_at_k
from simlab.diagnose.predict import extrapolated, holdout, predict, score
from simlab.diagnose.recommend import recommend
from simlab.diagnose.solutions import solutions
from simlab.diagnose.solve_rates import of_prompts, population
from simlab.diagnose.typical import typical

LEVEL = 0.9


def test_dead_groups_are_counted():
    found = observed(plain([0, 4, 2, 8, 8], [4, 4, 4, 8, 8], step=[0, 0, 1, 1, 1]))
    assert (found.all_wrong, found.all_right) == (0.2, 0.6)
    assert (found.group_size, found.sizes, found.groups_per_step) == (4, (4, 8), 2.5)


def test_gradient_by_the_groups_own_solve_rate_is_that_of_the_groups():
    """Many groups, so that the fitted chances of each count are the raw frequencies."""
    seen = log(bank("u-shaped", 4000, 0), 4, 1, answers=False)
    sums = [0.0] * len(RANGES)
    for right in seen.correct.tolist():
        rewards = np.array([1.0] * right + [0.0] * (4 - right))
        mass = np.abs((rewards - rewards.mean()) / (rewards.std() + 1e-6)).mean()
        for place, (low, high) in enumerate(RANGES):
            sums[place] += mass * (low < right / 4 <= high)
    found = gradient_masses(population(seen, LEVEL), "grpo", 4).of_groups
    for own, expected in zip(found, np.array(sums) / sum(sums), strict=True):
        assert own.value == pytest.approx(expected, abs=0.01)
        assert own.low <= expected <= own.high


def test_a_difficulty_weight_learns_from_harder_prompts():
    now = population(log(bank("uniform", 3000, 0), 8, 1, answers=False), LEVEL)
    usual, hard, easy = (gradient_masses(now, own, 8).of_groups for own in ("grpo", "f_grpo", "easy_power"))
    assert hard[0].low > usual[0].high
    assert easy[-1].low > usual[-1].high


@pytest.mark.parametrize("size", [4, 64])
def test_a_share_of_the_gradient_that_may_be_none_begins_at_none(size):
    """No prompt of this bank is easy: its solve rates are .15 and .6."""
    now = population(log(bank("two points", 100, 0), size, 1, answers=False), LEVEL)
    easy = gradient_masses(now, "grpo", size).of_prompts[-1]
    assert easy.low == 0 < easy.high < 0.5


def test_a_share_of_the_gradient_that_is_surely_some_does_not():
    now = population(log(bank("uniform", 100, 0), 64, 1, answers=False), LEVEL)
    assert all(own.low > 0.05 for own in gradient_masses(now, "grpo", 64).of_prompts)


def test_an_unknown_estimator_is_refused():
    assert "'no_such' is unknown" in refusal(gradient_masses, population(plain([1, 2], 4), LEVEL), "no_such", 4)


def test_pass_at_k_is_the_share_of_subsets_with_a_correct_rollout():
    right, size = [0, 1, 3, 4], 4
    seen = plain(right, size)
    found = pass_at_k(of_prompts(seen), population(seen, LEVEL))
    assert found.k == (1, 2, 4)
    for k, own in zip(found.k, found.carried, strict=True):
        shares = []
        for count in right:
            subsets = list(itertools.combinations([True] * count + [False] * (size - count), k))
            shares.append(sum(any(subset) for subset in subsets) / len(subsets))
        assert own.value == pytest.approx(np.mean(shares))
        assert own.low <= own.value <= own.high
    assert found.power_law is None  # three values do not tell three parameters


def test_what_is_beyond_the_data_is_wider():
    seen = log(bank("u-shaped", 500, 0), 8, 1, answers=False)
    found = pass_at_k(of_prompts(seen), population(seen, LEVEL))
    widths = [own.high - own.low for own in (found.carried[-1], *found.beyond)]
    assert found.beyond_k == (16, 32, 64, 128)
    assert all(later > earlier for earlier, later in itertools.pairwise(widths))
    assert np.all(np.diff([own.value for own in found.beyond]) > 0)
    assert len(found.power_law) == len(found.beyond)


def test_a_bootstrap_of_equal_prompts_has_no_width_and_of_two_reaches_both():
    same = bootstrapped("x", np.full(10, 0.25), LEVEL, 0)
    assert (same.value, same.low, same.high) == (0.25, 0.25, 0.25)
    both = bootstrapped("x", np.array([0.0, 1.0]), LEVEL, 0)
    assert (both.value, both.low, both.high) == (0.5, 0.0, 1.0)
    none = bootstrapped("x", np.zeros(3), LEVEL, 0, np.zeros(3))
    assert math.isnan(none.value)
    assert math.isnan(none.low)


def test_blocks_of_prompts_are_as_sure_as_prompts():
    values = np.random.default_rng(0).uniform(size=20_000)
    found = bootstrapped("x", values, LEVEL, 0)
    half = 1.645 * values.std() / math.sqrt(len(values))
    assert found.value == pytest.approx(values.mean())
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.1)


def test_entropy_and_covariance_are_those_of_the_rollouts():
    seen = plain([1, 2], 2)
    own = Confidence(
        np.array([0, 0, 1, 1]), np.array([True, False, True, True]), np.array([-1.0, -3.0, -2.0, -6.0]), np.full(4, 2)
    )
    found = confidence(dataclasses.replace(seen, confidence=own), "dr_grpo", LEVEL)
    assert found.entropy.value == pytest.approx(3)
    assert found.entropy_per_token.value == pytest.approx(1.5)
    assert found.surprise_of_correct.value == pytest.approx(3)
    assert found.surprise_of_wrong.value == pytest.approx(3)
    # advantages .5, -.5, 0, 0, of mean 0; log-probabilities less their mean -3: 2, 0, 1, -3
    assert found.covariance.value == pytest.approx((2 * 0.5 + 0 * -0.5) / 4)
    assert found.positive[-1] == pytest.approx(1)


def test_a_log_without_log_probabilities_tells_no_entropy():
    assert confidence(plain([1], 2), "grpo", LEVEL) is None
    seen = with_surprise(plain([1, 0], 2), 0)
    unknown = dataclasses.replace(seen.confidence, length=np.zeros(4, int))
    assert confidence(dataclasses.replace(seen, confidence=unknown), "grpo", LEVEL).entropy_per_token is None


def naive_prediction(steps, values, later):
    """The normal equations of a line, and the standard error of the mean of new observations but for its t."""
    design = np.array([[1.0, step] for step in steps])
    level, slope = np.linalg.solve(design.T @ design, design.T @ values)
    residuals = values - level - slope * np.array(steps)
    at = np.array([1.0, np.mean(later)])
    noise = residuals @ residuals, at @ np.linalg.inv(design.T @ design) @ at + 1 / len(later)
    return level + slope * np.mean(later), *noise


def test_a_prediction_is_that_of_the_line_through_the_later_half():
    random = np.random.default_rng(0)
    steps, values = np.arange(0, 60, 3), random.uniform(0.3, 0.5, size=20)
    later = np.array([60.0, 63.0, 66.0])
    found = extrapolated("x", steps, values, later, groups=10, level=LEVEL)
    value, squares, spread = naive_prediction(steps[10:], values[10:], later)
    assert found.value == pytest.approx(value)
    half = 1.8595480375228424 * math.sqrt((squares + 0.01) / 8 * spread)  # Student's quantile of 8 at 95 %
    assert found.low == pytest.approx(value - half)
    assert found.high == pytest.approx(value + half)


def test_few_steps_give_no_interval_and_equal_steps_some():
    few = extrapolated("x", np.arange(3), np.array([0.1, 0.2, 0.3]), np.array([3.0]), groups=4, level=LEVEL)
    assert few.value == pytest.approx(0.2)
    assert math.isnan(few.low)
    same = extrapolated("x", np.arange(12), np.ones(12), np.array([12.0]), groups=4, level=LEVEL)
    assert same.value == 1
    assert same.low < 0.95
    assert same.high == 1


def test_a_hold_out_is_the_later_steps():
    seen = plain([0, 1, 2, 3, 4], 4, step=[0, 1, 2, 2, 3])
    early, late = holdout(seen, 0.5)
    assert (early.correct.tolist(), late.correct.tolist()) == ([0, 1], [2, 3, 4])
    assert "holdout = 0.5 of 1 steps" in refusal(holdout, plain([1], 2), 0.5)
    assert "holdout" in refusal(holdout, seen, 1.5)


def test_predictions_are_scored_against_the_later_steps():
    rising = plain([min(step // 4, 8) for step in range(40)], 8, step=list(range(40)))
    found = {own.predicted.name: own for own in score(rising, 0.25, LEVEL)}
    truth = np.mean([min(step // 4, 8) / 8 for step in range(30, 40)])
    assert found["mean solve rate"].truth == pytest.approx(truth)
    assert found["mean solve rate"].predicted.value == pytest.approx(truth, abs=0.06)
    assert all(own.held == (own.predicted.low <= own.truth <= own.predicted.high) for own in found.values())


def test_predictions_know_no_more_steps_than_the_log():
    found = predict(plain([1] * 12, 4, step=list(range(12))), LEVEL)
    assert found.steps == 12
    assert found.scored == ()


def test_every_split_spends_the_budget():
    found = recommend(population(plain([1, 2, 0, 3], 4), LEVEL), None, 4, 64)
    assert [(own.prompts, own.group_size) for own in found.splits] == [
        (32, 2),
        (16, 4),
        (8, 8),
        (4, 16),
        (2, 32),
        (1, 64),
    ]
    same = found.splits[1]
    assert (same.gain.value, same.gain.low, same.gain.high) == (0, 0, 0)
    assert "rollouts = 1" in refusal(recommend, population(plain([1], 4), LEVEL), None, 4, 1)


def test_nothing_is_recommended_without_answers():
    found = recommend(population(log(bank("uniform", 500, 0), 8, 1), LEVEL), None, 8, 64)
    assert found.recommended is None
    assert "without answers" in found.reason
    assert all(own.net is None for own in found.splits)


def test_a_recommended_split_is_surely_better_in_both():
    seen = log(bank("uniform", 2000, 0), 64, 1)
    now, solution = population(seen, LEVEL), typical(solutions(seen), LEVEL, 0, SIZES)
    found = recommend(now, solution, 64, 2048)
    assert found.recommended is not None
    assert found.recommended.group_size < 64
    assert found.recommended.gain.low > 0
    assert found.recommended.net.low > 0


@pytest.mark.parametrize("shape", ["uniform", "u-shaped", "many at 0", "many at 1", "two points"])
@pytest.mark.parametrize("size", [2, 8])
def test_groups_that_hold_the_solution_teach(shape, size):
    seen = log(bank(shape, 60, 0), size, 10)
    found = recommend(population(seen, LEVEL), typical(solutions(seen), LEVEL, 0, SIZES), size, 64)
    for own in found.splits:
        parts = (own.holding.value, own.against.value)
        assert all(math.isnan(part) or 0 <= part <= own.teaching.value + 1e-12 for part in parts)
        if own.group_size < size:
            assert sum(parts) == pytest.approx(own.teaching.value)
            assert own.net.low < own.net.value < own.net.high
    same = next(own for own in found.splits if own.group_size == size)
    if size > 2:  # two rollouts do not tell which of two others would miss
        assert (same.net.value, same.net.low, same.net.high) == (0, 0, 0)


def test_one_prompt_is_no_ground_for_a_recommendation():
    seen = log(bank("uniform", 1, 3), 4, 1)
    found = recommend(population(seen, LEVEL), typical(solutions(seen), LEVEL, 0, SIZES), 4, 64)
    assert found.recommended is None


def test_the_sign_of_an_interval_with_both_signs_is_open():
    assert [Estimate("x", 0.0, low, high, LEVEL, "m").sign for low, high in [(1, 2), (-2, -1), (-1, 1), (0, 1)]] == [
        1,
        -1,
        0,
        0,
    ]
    assert Estimate("x", 1.0, math.nan, math.nan, LEVEL, "m").sign == 0
