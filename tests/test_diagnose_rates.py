"""Solve rates, dead groups, gradient masses, pass@k, entropy, predictions and splits, against loops over small logs."""

import functools
import itertools
import math

import numpy as np
import pytest
from diagnose_logs import bank, log, plain
from refusals import refusal
from scipy.optimize import brentq

from simlab.diagnose import dead_groups, solve_rates
from simlab.diagnose.dead_groups import RANGES, SIZES, expected_masses
from simlab.diagnose.estimate import bootstrap
from simlab.diagnose.mixture import components, fit
from simlab.diagnose.predict import extend_walk, predict, score, split_holdout, sure_drift, walk_level
from simlab.diagnose.recommend import recommend
from simlab.diagnose.solve_rates import count_by_prompt, fit_population
from simlab.diagnose.tail_misses import typical_solution
from simlab.diagnose.unseen import count_solutions

LEVEL = 0.9
HALF_CHI_SQUARE = 2.705543454095404 / 2  # one degree of freedom, at 90 %


@functools.cache
def seen(shape, prompts, size, answers=False):
    drawn = log(bank(shape, prompts, 0), size, 1, answers=answers)
    return drawn, fit_population(drawn, LEVEL)


def gradient_of_groups(now, estimator, size, index):
    _, by_group, whole = expected_masses(estimator, size)
    return now.ratio("x", list(by_group.values())[index], whole)


def naive_chance(a, b, successes, failures):
    chance = 1.0
    for i in range(successes):
        chance *= (a + i) / (a + b + i)
    for j in range(failures):
        chance *= (b + j) / (a + b + successes + j)
    return chance


@functools.cache
def naive_chances(successes, trials):
    mixture = components()
    betas = [naive_chance(a, b, successes, trials - successes) for a, b in zip(mixture.a, mixture.b, strict=True)]
    return [*betas, float(successes == 0), float(successes == trials)]


def naive_log_likelihood(weights, pairs):
    return sum(math.log(sum(w * c for w, c in zip(weights, naive_chances(*pair), strict=True))) for pair in pairs)


def test_moments_of_components_are_products_of_ratios():
    mixture = components()
    moments = mixture.moment(np.array([0, 2, 3]), np.array([4, 0, 5]))
    for row, (successes, failures) in enumerate([(0, 4), (2, 0), (3, 5)]):
        expected = [naive_chance(a, b, successes, failures) for a, b in zip(mixture.a, mixture.b, strict=True)]
        assert np.allclose(moments[row, :-2], expected, rtol=1e-9)
    assert moments[:, -2].tolist() == [1, 0, 0]  # at 0 only failures are possible, at 1 only successes
    assert moments[:, -1].tolist() == [0, 1, 0]


def test_no_other_weights_are_likelier():
    pairs = [(0, 4)] * 5 + [(1, 4)] * 3 + [(3, 4)] * 4 + [(4, 4), (2, 6)]
    fitted = fit(*np.array(pairs).T)
    best = naive_log_likelihood(fitted.best, pairs)
    random = np.random.default_rng(0)
    others = [naive_log_likelihood(random.dirichlet(np.full(len(fitted.best), size)), pairs) for size in [0.02, 1] * 40]
    nearby = [naive_log_likelihood(0.98 * fitted.best + 0.02 * vertex, pairs) for vertex in np.eye(len(fitted.best))]
    assert best > max(others)
    assert best > max(nearby) - 0.01  # the barrier's path ends this close
    assert best - naive_log_likelihood(fitted.weights, pairs) < 0.5
    assert fitted.weights.min() > 0
    assert fitted.weights.sum() == pytest.approx(1)


def test_the_ends_of_an_interval_are_as_likely_as_its_level_allows():
    pairs = [(0, 8)] * 20 + [(2, 8)] * 10 + [(7, 8)] * 10
    fitted = fit(*np.array(pairs).T)
    functional = components().moment(np.array(0), np.array(16))
    least, most = fitted.bounds(functional, LEVEL)
    best = naive_log_likelihood(fitted.best, pairs)
    for weights, end in zip(fitted.ends(functional, LEVEL), (least, most), strict=True):
        assert functional @ weights == pytest.approx(end, abs=1e-4)
        assert best - naive_log_likelihood(weights, pairs) == pytest.approx(HALF_CHI_SQUARE, abs=0.02)


def test_many_rollouts_a_prompt_give_raw_frequencies():
    rates = [0.0, 0.05, 0.3, 0.3, 0.62, 0.93, 1.0, 1.0]
    size = 20_000
    now = fit_population(plain([round(rate * size) for rate in rates] * 100, size), LEVEL)
    assert solve_rates.mean_solve_rate(now).value == pytest.approx(np.mean(rates), abs=0.01)
    for rate in (0.02, 0.2, 0.5, 0.8, 0.97):
        raw = np.mean(np.array(rates) <= rate)
        share = now.estimate("share", solve_rates.share_below(rate))
        assert share.value == pytest.approx(raw, abs=0.02)
        assert share.low < raw < share.high


@pytest.mark.parametrize("right", [0, 8])
def test_where_all_groups_are_alike_the_interval_reaches_the_end_and_is_no_point(right):
    estimate = solve_rates.mean_solve_rate(fit_population(plain([right] * 50, 8), LEVEL))
    assert (estimate.low if right == 0 else estimate.high) == pytest.approx(right / 8, abs=1e-3)
    # 50 prompts without one failure: the share p of prompts that may be otherwise has 50 log(1 - p) = -1.35.
    assert estimate.high - estimate.low > 1e-3


def test_quantiles_stand_for_the_distribution():
    quantiles = seen("two points", 3000, 64)[1].quantiles(20)
    assert np.all(np.diff(quantiles) >= 0)
    assert np.abs(quantiles[:9] - 0.15).max() < 0.05
    assert np.abs(quantiles[11:] - 0.6).max() < 0.05


def test_groups_of_one_give_the_binomial_interval_of_the_likelihood_ratio():
    right, wrong = 40, 60
    now = fit_population(plain([1] * right + [0] * wrong, 1), LEVEL)
    mean, spread = solve_rates.mean_solve_rate(now), solve_rates.learnability(now)

    def lost(rate):
        return right * math.log(0.4 / rate) + wrong * math.log(0.6 / (1 - rate)) - HALF_CHI_SQUARE

    assert mean.low == pytest.approx(brentq(lost, 1e-6, 0.4), abs=2e-3)
    assert mean.high == pytest.approx(brentq(lost, 0.4, 1 - 1e-6), abs=2e-3)
    # Each prompt may be 0 or 1, or all may share a rate of the interval; the rate nearest 1/2 varies most.
    assert spread.low == pytest.approx(0, abs=1e-3)
    assert spread.high == pytest.approx(mean.high * (1 - mean.high), abs=2e-3)


def test_groups_of_a_prompt_are_pooled_and_those_of_equal_counts_fitted_once():
    counts = count_by_prompt(plain([1, 2, 3], [4, 4, 8], prompt=[5, 0, 5]))
    assert [column.tolist() for column in counts] == [[0, 5], [2, 4], [4, 12]]
    assert fit(np.array([1, 0, 1, 1]), np.array([2, 2, 2, 4])).prompts.tolist() == [1, 2, 1]


def test_windows_hold_as_many_steps_each_and_tell_the_drift():
    windows = solve_rates.split_windows(plain([0] * 10, 2, step=[0, 0, 1, 2, 3, 3, 4, 5, 6, 6]), 3)
    assert [sorted(set(window.step.tolist())) for window in windows] == [[0, 1, 2], [3, 4], [5, 6]]
    assert "windows = 0" in refusal(solve_rates.split_windows, plain([1], 2), 0)
    drifting = plain([1] * 60 + [3] * 60, 4, prompt=list(range(60)) * 2, step=[0] * 60 + [1] * 60)
    halves = solve_rates.split_windows(drifting, 2)
    rates = solve_rates.estimate_solve_rates(halves, fit_population(halves[-1], LEVEL), 0)
    assert [window.mean.value for window in rates.windows] == [0.25, 0.75]
    # Every prompt gains equally, so that the change of the same prompts is certain.
    assert (rates.change.value, rates.change.low, rates.change.high) == pytest.approx((0.5, 0.5, 0.5))


def test_zero_of_eight_is_not_zero():
    shown, now = seen("uniform", 2000, 8)
    rates = solve_rates.estimate_solve_rates([shown], now, 0)
    assert rates.raw_below[0] > 0.1  # prompts that no rollout solves
    assert rates.below[0].value < 0.05
    assert rates.below[0].low <= 0.01 <= rates.below[0].high


# Groups, steps and budgets


def test_gradient_by_the_groups_own_solve_rate_is_that_of_the_groups():
    """Many groups, so that the fitted chances of each count are the raw frequencies."""
    drawn, now = seen("u-shaped", 4000, 4)
    sums = [0.0] * len(RANGES)
    for right in drawn.correct.tolist():
        rewards = np.array([1.0] * right + [0.0] * (4 - right))
        mass = np.abs((rewards - rewards.mean()) / (rewards.std() + 1e-6)).mean()
        for index, (low, high) in enumerate(RANGES):
            sums[index] += mass * (low < right / 4 <= high)
    for index, expected in enumerate(np.array(sums) / sum(sums)):
        share = gradient_of_groups(now, "grpo", 4, index)
        assert share.value == pytest.approx(expected, abs=0.01)
        assert share.low <= expected <= share.high


def test_a_difficulty_weight_learns_from_harder_prompts():
    now = seen("uniform", 2000, 8)[1]
    assert gradient_of_groups(now, "f_grpo", 8, 0).low > gradient_of_groups(now, "grpo", 8, 0).high
    assert gradient_of_groups(now, "easy_power", 8, -1).low > gradient_of_groups(now, "grpo", 8, -1).high


def test_a_group_that_was_cut_short_leaves_the_others_their_pass_at_k():
    """Seven groups of 8 and one of 1: the curve goes on to 8, and the value is near that of the seven."""
    right = [0, 1, 2, 4, 0, 8, 3]
    whole = solve_rates.estimate_pass_at_k(fit_population(plain(right, 8), LEVEL))
    cut = solve_rates.estimate_pass_at_k(fit_population(plain([*right, 0], [8] * 7 + [1]), LEVEL))
    assert cut.k == whole.k == (1, 2, 4, 8)
    for first, second in zip(whole.carried, cut.carried, strict=True):
        assert second.value == pytest.approx(first.value, abs=1 / 8)
        assert second.low < first.value < second.high


def test_shares_of_the_next_steps_are_those_of_groups():
    """Five of ten prompts go to all right and five to all wrong, one a step: each walk alone leads to .54."""
    step, prompt = np.repeat(np.arange(12), 10), np.tile(np.arange(10), 12)
    right = np.where(step < 7 + prompt % 5, 4, np.where(prompt < 5, 8, 0))
    shares = {entry.name: entry for entry in predict(plain(right.tolist(), 8, step=step.tolist()), LEVEL).next_steps}
    all_right, all_wrong, hard = (shares[name] for name in ("all right", "all wrong", "groups below a quarter right"))
    assert all_right.high + all_wrong.high > 1
    assert (all_right.value, all_wrong.value) == (0.5, 0.5)
    assert all_right.low + all_wrong.low <= 1
    assert all_wrong.value <= hard.value <= 1 - all_right.value
    assert all_right.value <= shares["mean solve rate"].value <= shares["pass@4"].value <= 1 - all_wrong.value
    for entry in shares.values():
        assert 0 <= entry.low <= entry.value <= entry.high <= 1


def test_what_is_beyond_the_data_is_wider():
    pass_at_k = solve_rates.estimate_pass_at_k(seen("u-shaped", 500, 8)[1])
    widths = [estimate.high - estimate.low for estimate in (pass_at_k.carried[-1], *pass_at_k.beyond)]
    assert pass_at_k.beyond_k == (16, 32, 64, 128)
    assert all(later > earlier for earlier, later in itertools.pairwise(widths))
    assert np.all(np.diff([estimate.value for estimate in pass_at_k.beyond]) > 0)


def test_a_bootstrap_of_equal_prompts_has_no_width_and_of_two_reaches_both():
    same = bootstrap("x", np.full(10, 0.25), LEVEL, 0)
    assert (same.value, same.low, same.high) == (0.25, 0.25, 0.25)
    both = bootstrap("x", np.array([0.0, 1.0]), LEVEL, 0)
    assert (both.value, both.low, both.high) == (0.5, 0.0, 1.0)


def test_blocks_of_prompts_are_as_sure_as_prompts():
    values = np.random.default_rng(0).uniform(size=20_000)
    estimate = bootstrap("x", values, LEVEL, 0)
    half = 1.645 * values.std() / math.sqrt(len(values))
    assert estimate.value == pytest.approx(values.mean())
    assert (estimate.high - estimate.low) / 2 == pytest.approx(half, rel=0.1)


def test_a_walk_is_the_least_squares_of_its_steps_and_its_noise(monkeypatch):
    """The level minimises the sum of (y_t - x_t)^2 + (x_t - x_(t-1))^2 / s, for one s."""
    ratio, values = 0.3, np.random.default_rng(1).normal(size=25).cumsum()
    monkeypatch.setattr("simlab.diagnose.predict.RATIOS", np.array([ratio]))
    changes = np.diff(np.eye(25), axis=0) / math.sqrt(ratio)
    precision = np.eye(25) + changes.T @ changes
    smooth = np.linalg.solve(precision, values)
    level, variance = walk_level(values, 4, 0.01)
    assert level == pytest.approx(smooth[-1])
    noise = (np.sum((values - smooth) ** 2) + np.sum((changes @ smooth) ** 2) + 0.01) / 24
    coming = np.tril(np.ones((4, 4))).mean(axis=0)  # each step's effect on the mean of four
    spread = np.linalg.inv(precision)[-1, -1] + ratio * np.sum(coming**2) + 1 / 4
    assert variance == pytest.approx(noise * spread)


def test_a_walk_takes_noise_for_noise_and_a_jump_for_a_jump():
    random = np.random.default_rng(2)
    level, variance = walk_level(random.normal(0.5, 0.1, size=200), 20, 0.0)
    assert level == pytest.approx(0.5, abs=4 * 0.1 / math.sqrt(30))  # rests on some thirty steps at least
    assert math.sqrt(variance) < 0.05
    jump = np.where(np.arange(200) < 100, 0.2, 0.8) + random.normal(0, 0.01, size=200)
    assert walk_level(jump, 20, 0.0)[0] == pytest.approx(0.8, abs=0.02)


def test_a_prediction_adds_half_of_the_drift_that_is_sure():
    values = np.linspace(0.2, 0.6, 21)[:-1]  # .02 a step
    assert sure_drift(values) == pytest.approx(0.02, rel=0.05)
    assert sure_drift(values[::-1]) == pytest.approx(-0.02, rel=0.05)
    assert sure_drift(np.array([0.1, 0.5, 0.2, 0.3, 0.4, 0.3])) == 0  # .067 at a standard error of .12
    prediction = extend_walk("x", values, 9, groups=10, level=LEVEL)
    level, variance = walk_level(values, 9, 0.01)
    drift = sure_drift(values) / 2 * 5
    assert prediction.value == pytest.approx(level + drift)
    half = 1.6448536269514722 * math.sqrt(variance + drift**2)
    assert (prediction.low, prediction.high) == pytest.approx((prediction.value - half, prediction.value + half))


def test_few_steps_give_no_interval_and_equal_steps_some():
    few = extend_walk("x", np.array([0.1, 0.2, 0.3]), 1, groups=4, level=LEVEL)
    assert few.value == pytest.approx(0.2)
    assert math.isnan(few.low)
    same = extend_walk("x", np.ones(12), 1, groups=4, level=LEVEL)
    assert same.value == 1
    assert same.low < 0.95
    assert same.high == 2 - same.low


def test_a_hold_out_is_the_later_steps():
    whole = plain([0, 1, 2, 3, 4], 4, step=[0, 1, 2, 2, 3])
    early, late = split_holdout(whole, 0.5)
    assert (early.correct.tolist(), late.correct.tolist()) == ([0, 1], [2, 3, 4])
    assert "holdout = 0.5 of 1 steps" in refusal(split_holdout, plain([1], 2), 0.5)
    assert "holdout" in refusal(split_holdout, whole, 1.5)


def test_predictions_are_scored_against_the_later_steps():
    rising = plain([min(step // 4, 8) for step in range(40)], 8, step=list(range(40)))
    scored = {row.predicted.name: row for row in score(rising, 0.25, LEVEL)}
    truth = np.mean([min(step // 4, 8) / 8 for step in range(30, 40)])
    assert scored["mean solve rate"].truth == pytest.approx(truth)
    told = {prediction.name: prediction for prediction in predict(split_holdout(rising, 0.25)[0], LEVEL, 10).next_steps}
    assert all(row.predicted == told[name] for name, row in scored.items())
    assert 0.8125 < told["mean solve rate"].value < truth  # beyond the last four steps, short of the rise
    assert all(row.held == (row.predicted.low <= row.truth <= row.predicted.high) for row in scored.values())


def test_dead_groups_are_counted():
    groups = dead_groups.observe_groups(plain([0, 4, 2, 8, 8], [4, 4, 4, 8, 8], step=[0, 0, 1, 1, 1]))
    assert (groups.all_wrong, groups.all_right) == (0.2, 0.6)
    assert (groups.group_size, groups.sizes, groups.groups_per_step) == (4, (4, 8), 2.5)


def test_a_share_of_the_gradient_begins_at_none_where_it_may_be_none():
    """No prompt at two points, .15 and .6, is easy; uniform solve rates lie in every range."""
    by_prompt, _, whole = expected_masses("grpo", 64)
    *_, easy = by_prompt.values()
    none, some = (seen(shape, 100, 64)[1].ratio("x", easy, whole) for shape in ("two points", "uniform"))
    assert some.low > 0.05
    assert none.low == 0 < none.high < 0.5


def recommended(drawn, solution, rollouts):
    now = fit_population(drawn, LEVEL)
    groups = dead_groups.estimate_groups(dead_groups.observe_groups(drawn), now, "grpo", ())
    return recommend(now, groups, solution, rollouts)


def test_splits_spend_the_budget_and_none_is_recommended_without_answers():
    advice = recommended(plain([1, 2, 0, 3], 4), None, 64)
    sizes = [(split.prompts, split.group_size) for split in advice.splits]
    assert sizes == [(32, 2), (16, 4), (8, 8), (4, 16), (2, 32), (1, 64)]
    same = advice.splits[1]
    assert (same.gain.value, same.gain.low, same.gain.high) == (0, 0, 0)
    assert advice.recommended is None
    assert all(split.net is None for split in advice.splits)


@pytest.mark.slow
def test_a_recommended_split_is_surely_better_in_both():
    for prompts, size, rollouts in ((2000, 64, 2048), (1, 4, 64)):
        drawn = seen("uniform", prompts, size, answers=True)[0]
        solution = typical_solution(count_solutions(drawn), LEVEL, 0, SIZES)
        split = recommended(drawn, solution, rollouts).recommended
        if prompts == 1:
            assert split is None
        else:
            assert split.group_size < 64
            assert split.gain.low > 0
            assert split.net.low > 0


@pytest.mark.parametrize(("shape", "size"), [("uniform", 2), ("u-shaped", 8)])
def test_groups_that_hold_the_solution_teach(shape, size):
    drawn = seen(shape, 60, size, answers=True)[0]
    advice = recommended(drawn, typical_solution(count_solutions(drawn), LEVEL, 0, SIZES), 64)
    for entry in advice.splits:
        shares = (entry.holding.value, entry.against.value)
        assert all(math.isnan(share) or 0 <= share <= entry.teaching.value + 1e-12 for share in shares)
        if entry.group_size < size:
            assert sum(shares) == pytest.approx(entry.teaching.value)
            assert entry.net.low < entry.net.value < entry.net.high
    same = next(entry for entry in advice.splits if entry.group_size == size)
    if size > 2:  # two rollouts do not tell which of two others would miss
        assert (same.net.value, same.net.low, same.net.high) == (0, 0, 0)
