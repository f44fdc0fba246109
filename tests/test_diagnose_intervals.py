"""The intervals of the jackknife and of the accelerated bootstrap, and how often they hold where prompts are few."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from diagnose_logs import bank, log

from simlab.diagnose.estimate import accelerated, bootstrapped, jackknifed
from simlab.diagnose.rarest import rarest
from simlab.diagnose.solutions import Solutions, solutions
from simlab.diagnose.tail_misses import tail_misses
from simlab.diagnose.typical import Typical, typical

LEVEL = 0.9
STUDENT = {2: 2.919985580355516, 6: 1.9431802803927816}  # quantiles at 95 %, by degrees of freedom


def naive_interval(value, draws, influence, student, with_more):
    """BCa by its definition, with Student's quantile for the normal one; each end is one of its own series."""
    normal = NormalDist()
    below = sum(draw < value for draw in draws) / len(draws)
    z0 = normal.inv_cdf(below)
    a = sum(u**3 for u in influence) / (6 * sum(u**2 for u in influence) ** 1.5)
    ends = []
    for t, series in zip((-student, student), with_more, strict=True):
        share = normal.cdf(z0 + (z0 + t) / (1 - a * (z0 + t)))
        place = share * (len(series) - 1)
        left = math.floor(place)
        ordered = sorted(series)
        ends.append(ordered[left] + (place - left) * (ordered[min(left + 1, len(draws) - 1)] - ordered[left]))
    return ends


@pytest.mark.parametrize(
    ("influence", "freedom"),
    [
        ([3.0, -1.0, -1.0, -1.0], 6),  # sum u^2 = 12, sum u^4 = 84: 2 / (84 / 144 - 1 / 4) = 6
        ([1.0, 0.0], 4),  # 2 / (1 - 1 / 2)
    ],
)
def test_the_interval_is_that_of_the_formula(influence, freedom):
    student = {**STUDENT, 4: 2.13184678632665}[freedom]
    draws = np.random.default_rng(0).gamma(3.0, size=999)
    with_more = (draws - 0.5, 1.2 * draws[::-1])
    found = accelerated("x", 2.5, draws, np.array(influence), with_more=with_more, level=LEVEL, method="m")
    low, high = naive_interval(2.5, draws.tolist(), influence, student, [own.tolist() for own in with_more])
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert found.method == "accelerated m"


def test_prompts_that_are_all_alike_leave_the_resamples_interval():
    same, unknown = np.full(100, 0.5), np.full(10, math.nan)
    found = accelerated("x", 0.5, same, np.zeros(10), with_more=(same, same), level=LEVEL, method="m")
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)
    both = (unknown, unknown)
    assert math.isnan(accelerated("x", math.nan, unknown, np.zeros(2), with_more=both, level=LEVEL, method="m").low)


def test_the_jackknife_leaves_out_one_prompt_after_the_other():
    """Of rollouts 3, 1, 0 and 2, so that three prompts have a say: two degrees of freedom."""
    sums, rollouts = [6.0, 4.0, 0.0, 3.0], [3.0, 1.0, 0.0, 2.0]
    without = [(13 - sums[out]) / (6 - rollouts[out]) for out in (0, 1, 3)]
    moved = [own - 13 / 6 for own in without]
    found = jackknifed("x", np.array(sums), np.array(rollouts), LEVEL)
    half = STUDENT[2] * math.sqrt(2 / 3 * sum(own**2 for own in moved))
    assert found.value == pytest.approx(13 / 6)
    assert (found.low, found.high) == (pytest.approx(13 / 6 - half), pytest.approx(13 / 6 + half))


def test_one_prompt_has_no_interval_and_prompts_that_agree_have_no_width():
    alone = jackknifed("x", np.array([2.0, 0.0]), np.array([4.0, 0.0]), LEVEL)
    assert alone.value == 0.5
    assert math.isnan(alone.low)
    assert math.isnan(jackknifed("x", np.zeros(2), np.zeros(2), LEVEL).value)
    agreed = jackknifed("x", np.array([2.0, 1.0]), np.array([4.0, 2.0]), LEVEL)
    assert (agreed.low, agreed.value, agreed.high) == (0.5, 0.5, 0.5)


def test_few_prompts_with_a_correct_rollout_do_not_make_their_mean_too_sure():
    """Twelve prompts, of Beta(1, 3), that differ in the mean; the percentile interval holds it in 80 % of such logs."""
    random, held, percentile = np.random.default_rng(0), [], []
    for seed in range(400):
        correct = random.binomial(4, random.beta(1, 3, size=12)).astype(float)
        sums = random.uniform(0.5, 1.5, size=12) * random.gamma(4 * np.maximum(correct, 1), 0.25) * (correct > 0)
        jackknife = jackknifed("x", sums, correct, LEVEL)
        bootstrap = bootstrapped("x", sums, LEVEL, seed, correct)
        for kept, found in ((held, jackknife), (percentile, bootstrap)):
            kept.append(found.low <= 1 <= found.high)
    assert np.mean(percentile) < 0.82  # standard error of 400 logs: 2 %
    assert 0.85 < np.mean(held) < 0.95


SOLUTIONS, TRIALS, PROMPTS = 20, 4, 100
FIRST_RANKS = [range(1, count + 1) for count in range(1, 41)]  # of the solutions that a prompt has


def rare_pairs(random):
    """Prompts of which six in ten are never solved; answers by Zipf's law. Three prompts have two that agree."""
    rate = np.where(random.random(PROMPTS) < 0.6, 0.0, random.beta(1, 3, size=PROMPTS))
    share = 1 / np.arange(1, SOLUTIONS + 1) / (1 / np.arange(1, SOLUTIONS + 1)).sum()
    times = random.multinomial(TRIALS, np.concatenate([rate[:, None] * share, 1 - rate[:, None]], axis=1))[:, :-1]
    prompt, place = np.nonzero(times)
    return Solutions(times.sum(axis=1), np.full(PROMPTS, TRIALS), prompt, times[prompt, place])


def test_few_pairs_do_not_make_the_mass_of_a_typical_solution_too_sure():
    """E p = 0.1 and E p^2 = 0.04; the percentile interval holds the truth in eight of ten such logs."""
    share = 1 / np.arange(1, SOLUTIONS + 1) / (1 / np.arange(1, SOLUTIONS + 1)).sum()
    truth = 0.04 * (share**2).sum() / 0.1
    random = np.random.default_rng(0)
    held, percentile = [], []
    for seed in range(200):
        own = typical(rare_pairs(random), LEVEL, seed, ())
        found = own.estimate("mass", Typical.mass)
        held.append(found.low <= truth <= found.high)
        draws = Typical.mass(own.sums).value[1:]
        low, high = np.quantile(draws[np.isfinite(draws)], [0.05, 0.95])
        percentile.append(low <= truth <= high)
    assert np.mean(held) >= 0.85
    assert np.mean(percentile) < np.mean(held)


def test_rare_prompts_of_few_solutions_may_come_more_often_than_they_did():
    """Of forty prompts that are solved, one on average has one solution: such prompts are a fifth of the mass."""
    squares = [sum(1 / rank**2 for rank in own) / sum(1 / rank for rank in own) ** 2 for own in FIRST_RANKS]
    truth = 0.1 / 0.25 * np.mean(squares)  # E p^2 / E p of Beta(1, 3)
    held, without = [], []
    for seed in range(200):
        own = typical(solutions(log(bank("many at 0", 100, seed), 64, 10_000 + seed)), LEVEL, seed, ())
        for kept, given in ((held, own), (without, own._replace(events=np.zeros_like(own.events)))):
            found = given.estimate("mass", Typical.mass)
            kept.append(found.low <= truth <= found.high)
    assert np.mean(without) < 0.85 < np.mean(held)


def test_a_log_without_pairs_tells_the_most_that_the_mass_may_be():
    """50 prompts of two right rollouts that differ: three pairs are the 95 % bound of a number that is 0."""
    alone = Solutions(np.full(50, 2), np.full(50, 2), np.repeat(np.arange(50), 2), np.ones(100, int))
    found = tail_misses(typical(alone, LEVEL, 0, (2,)), (2,)).mass
    assert found.value == 0 == found.low
    assert found.high == pytest.approx(-math.log(0.05) / 50, rel=0.1)


def pairs(differ):
    """50 prompts of two right rollouts of four, which give two solutions or one."""
    prompt, times = (np.repeat(np.arange(50), 2), np.ones(100, int)) if differ else (np.arange(50), np.full(50, 2))
    return Solutions(np.full(50, 2), np.full(50, 4), prompt, times)


def test_groups_do_not_surely_hold_a_solution_because_no_pair_disagrees():
    """One pair of 50 that differs would miss 1 / 50 of what groups of two reach."""
    found = tail_misses(typical(pairs(differ=False), LEVEL, 0, (2,)), (2,)).against[0]
    assert found.value == 0 == found.low
    assert found.high == pytest.approx(-math.log(0.05) / 50, rel=0.1)


def test_groups_do_not_surely_miss_a_solution_because_no_pair_agrees():
    found = tail_misses(typical(pairs(differ=True), LEVEL, 0, (2,)), (2,)).against[0]
    assert found.value == 1 == found.high
    assert 1 - found.low == pytest.approx(-math.log(0.05) / 50, rel=0.1)


def test_rollouts_that_nobody_can_compare_tell_no_mass():
    """One right rollout a prompt."""
    single = Solutions(np.ones(20, int), np.full(20, 4), np.arange(20), np.ones(20, int))
    found = tail_misses(typical(single, LEVEL, 0, (2,)), (2,))
    assert math.isnan(found.mass.high)
    assert math.isnan(found.against[0].high)


def test_without_a_correct_rollout_nothing_is_told():
    none = Solutions(np.zeros(5, int), np.full(5, 4), np.zeros(0, int), np.zeros(0, int))
    for kind in (typical, rarest):
        found = tail_misses(kind(none, LEVEL, 0, (4,)), (4,))
        assert math.isnan(found.mass.value)
        assert math.isnan(found.missed[0].high)
