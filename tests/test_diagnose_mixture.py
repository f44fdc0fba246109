"""The fitted distribution of solve rates: its likelihood, its intervals, and the limits in which both are known."""

import functools
import math

import numpy as np
import pytest
from diagnose_logs import SHAPES, bank, expectation, log, plain
from scipy.optimize import brentq

from simlab.diagnose.mixture import components, counts, fit
from simlab.diagnose.solve_rates import (
    change,
    learnability,
    mean_solve_rate,
    of_prompts,
    population,
    share_below,
    solve_rates,
    split,
)
from simlab.errors import InputError

LEVEL = 0.9
HALF_CHI_SQUARE = 2.705543454095404 / 2  # of one degree of freedom, at 90 %


def naive_chance(a, b, successes, failures):
    """E p^s (1 - p)^f under Beta(a, b), as a product of ratios."""
    found = 1.0
    for i in range(successes):
        found *= (a + i) / (a + b + i)
    for j in range(failures):
        found *= (b + j) / (a + b + successes + j)
    return found


@functools.cache
def naive_chances(successes, trials):
    """That of each component, the masses at 0 and 1 last."""
    own = components()
    betas = [naive_chance(a, b, successes, trials - successes) for a, b in zip(own.a, own.b, strict=True)]
    return [*betas, float(successes == 0), float(successes == trials)]


def naive_log_likelihood(weights, pairs):
    return sum(math.log(sum(w * c for w, c in zip(weights, naive_chances(*pair), strict=True))) for pair in pairs)


def test_moments_of_components_are_products_of_ratios():
    own = components()
    found = own.moment(np.array([0, 2, 3]), np.array([4, 0, 5]))
    for row, (successes, failures) in enumerate([(0, 4), (2, 0), (3, 5)]):
        expected = [naive_chance(a, b, successes, failures) for a, b in zip(own.a, own.b, strict=True)]
        assert np.allclose(found[row, :-2], expected, rtol=1e-9)
    assert found[:, -2].tolist() == [1, 0, 0]  # at 0 only failures are possible, at 1 only successes
    assert found[:, -1].tolist() == [0, 1, 0]


def test_prompts_of_one_count_are_one_row():
    found = counts(np.array([1, 0, 1, 1]), np.array([2, 2, 2, 4]))
    assert list(zip(*(own.tolist() for own in found), strict=True)) == [(0, 2, 1), (1, 2, 2), (1, 4, 1)]


def test_no_other_weights_are_likelier():
    pairs = [(0, 4)] * 5 + [(1, 4)] * 3 + [(3, 4)] * 4 + [(4, 4), (2, 6)]
    found = fit(counts(*np.array(pairs).T))
    best = naive_log_likelihood(found.best, pairs)
    random = np.random.default_rng(0)
    others = [naive_log_likelihood(random.dirichlet(np.full(len(found.best), size)), pairs) for size in [0.02, 1] * 40]
    nearby = [
        naive_log_likelihood(0.98 * found.best + 0.02 * np.eye(len(found.best))[place], pairs)
        for place in range(len(found.best))
    ]
    assert best > max(others)
    assert best > max(nearby) - 0.01  # the barrier's path ends this close
    assert best - naive_log_likelihood(found.weights, pairs) < 0.5
    assert found.weights.min() > 0
    assert found.weights.sum() == pytest.approx(1)


def test_the_ends_of_an_interval_are_as_likely_as_its_level_allows():
    pairs = [(0, 8)] * 20 + [(2, 8)] * 10 + [(7, 8)] * 10
    found = fit(counts(*np.array(pairs).T))
    functional = components().moment(np.array(0), np.array(16))
    least, most = found.bounds(functional, LEVEL)
    best = naive_log_likelihood(found.best, pairs)
    for weights, end in zip(found.ends(functional, LEVEL), (least, most), strict=True):
        assert functional @ weights == pytest.approx(end, abs=1e-4)
        assert best - naive_log_likelihood(weights, pairs) == pytest.approx(HALF_CHI_SQUARE, abs=0.02)


@pytest.mark.parametrize(("right", "prompts"), [(3, 10), (40, 100), (500, 1000)])
def test_groups_of_one_give_the_binomial_interval_of_the_likelihood_ratio(right, prompts):
    """One rollout a prompt tells the mean of the solve rates and nothing else."""
    found = mean_solve_rate(population(plain([1] * right + [0] * (prompts - right), 1), LEVEL))
    share = right / prompts

    def lost(rate):
        wrong = prompts - right
        return right * math.log(share / rate) + wrong * math.log((1 - share) / (1 - rate)) - HALF_CHI_SQUARE

    assert found.low == pytest.approx(brentq(lost, 1e-6, share), abs=2e-3)
    assert found.high == pytest.approx(brentq(lost, share, 1 - 1e-6), abs=2e-3)
    # Whether each prompt is 0 or 1, or all have one rate that the data allow, is not told.
    middle = min(max(0.5, found.low), found.high)
    spread = learnability(population(plain([1] * right + [0] * (prompts - right), 1), LEVEL))
    assert spread.low == pytest.approx(0, abs=1e-3)
    assert spread.high == pytest.approx(middle * (1 - middle), abs=2e-3)


def test_many_rollouts_a_prompt_give_raw_frequencies():
    rates = [0.0, 0.05, 0.3, 0.3, 0.62, 0.93, 1.0, 1.0]
    size = 20_000
    now = population(plain([round(rate * size) for rate in rates] * 100, size), LEVEL)
    assert mean_solve_rate(now).value == pytest.approx(np.mean(rates), abs=0.01)
    for rate in (0.02, 0.2, 0.5, 0.8, 0.97):
        raw = np.mean(np.array(rates) <= rate)
        found = now.estimate("share", share_below(rate))
        assert found.value == pytest.approx(raw, abs=0.02)
        assert found.low < raw < found.high


@pytest.mark.parametrize("right", [0, 8])
def test_where_all_groups_are_alike_the_interval_reaches_the_end_and_is_no_point(right):
    found = mean_solve_rate(population(plain([right] * 50, 8), LEVEL))
    assert (found.low if right == 0 else found.high) == pytest.approx(right / 8, abs=1e-3)
    # 50 prompts without one failure: the share p of prompts that may be otherwise has 50 log(1 - p) = -1.35.
    assert found.high - found.low > 1e-3


def test_one_prompt_tells_almost_nothing():
    now = population(plain([2], 4), LEVEL)
    found = now.estimate("share", share_below(0.5))
    assert found.low == pytest.approx(0, abs=1e-3)
    assert found.high == pytest.approx(1, abs=1e-3)


def test_zero_of_eight_is_not_zero():
    shown = log(bank("uniform", 2000, 0), 8, 1)
    found = solve_rates([shown], population(shown, LEVEL), 0)
    assert found.raw_below[0] > 0.1  # of the prompts that are solved in no rollout
    assert found.below[0].value < 0.05
    assert found.below[0].low <= 0.01 <= found.below[0].high


def test_prompts_that_occur_again_are_pooled():
    found = of_prompts(plain([1, 2, 3], [4, 4, 8], prompt=[5, 0, 5]))
    assert found.prompt.tolist() == [0, 5]
    assert found.successes.tolist() == [2, 4]
    assert found.trials.tolist() == [4, 12]


def test_windows_hold_as_many_steps_each():
    found = split(plain([0] * 10, 2, step=[0, 0, 1, 2, 3, 3, 4, 5, 6, 6]), 3)
    assert [sorted(set(own.step.tolist())) for own in found] == [[0, 1, 2], [3, 4], [5, 6]]
    assert len(split(plain([0, 1], 2), 4)) == 1
    with pytest.raises(InputError, match="no group"):
        split(plain([], 2))
    with pytest.raises(InputError, match="windows = 0"):
        split(plain([1], 2), 0)


def test_the_change_of_the_same_prompts_is_that_of_each():
    early, late = plain([1] * 30 + [3] * 30, 4), plain([2] * 30 + [4] * 30, 4)
    found = change(early, late, LEVEL, seed=0)
    assert found.value == pytest.approx(0.25)
    assert (found.low, found.high) == (pytest.approx(0.25), pytest.approx(0.25))  # every prompt has gained as much


def test_drift_is_seen():
    drifting = plain([1] * 60 + [3] * 60, 4, prompt=list(range(60)) * 2, step=[0] * 60 + [1] * 60)
    parts = split(drifting, 2)
    found = solve_rates(parts, population(parts[-1], LEVEL), 0)
    assert [own.mean.value for own in found.windows] == [0.25, 0.75]
    assert found.change.low > 0


def test_quantiles_stand_for_the_distribution():
    now = population(log(bank("two points", 3000, 0), 64, 1), LEVEL)
    found = now.quantiles(20)
    assert np.all(np.diff(found) >= 0)
    assert np.abs(found[:9] - 0.15).max() < 0.05
    assert np.abs(found[11:] - 0.6).max() < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_hold_the_mean_and_the_dead_groups_of_nine_logs_in_ten(shape):
    """200 logs: the standard error of a coverage of 90 % is 2 %. Extrapolated to 4 G, intervals may be wider."""
    truths = [expectation(shape, lambda p: p), expectation(shape, lambda p: p**8 + (1 - p) ** 8)]
    far = expectation(shape, lambda p: p**32 + (1 - p) ** 32)
    held = np.zeros(3)
    for seed in range(200):
        now = population(log(bank(shape, 300, seed), 8, 1000 + seed, answers=False), LEVEL)
        found = [mean_solve_rate(now)]
        for size in (8, 32):
            none, all_of = np.array(0), np.array(size)
            dead = components().moment(all_of, none) + components().moment(none, all_of)
            found.append(now.estimate("dead", dead))
        held += [own.low <= truth <= own.high for own, truth in zip(found, [*truths, far], strict=True)]
    assert (held[:2] / 200 >= 0.85).all()
    assert (held[:2] / 200 <= 0.96).all()
    assert held[2] / 200 >= 0.8
