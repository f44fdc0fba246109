"""Undrawn solutions and groups that miss one: by enumeration, on banks of known truth, and how often intervals hold."""

import itertools
import math
from collections import Counter
from statistics import NormalDist

import numpy as np
import pytest
from diagnose_logs import Bank, bank, log, plain, undrawn, zipf

from simlab.diagnose import tail_misses
from simlab.diagnose.dead_groups import predict_groups
from simlab.diagnose.estimate import accelerated_bootstrap, jackknife, jackknife_of, quotient
from simlab.diagnose.recommend import evaluate_split
from simlab.diagnose.solve_rates import fit_population
from simlab.diagnose.tail_misses import Sums, Typical, estimate_tail_misses, estimate_unseen, typical_solution
from simlab.diagnose.unseen import SolutionCounts, count_solutions, estimate_unseen_mass, fit_coefficients

# The undrawn mass

LEVEL = 0.9


def naive_expectation(pi, coefficients):
    trials = len(coefficients) - 1
    return sum(
        math.comb(trials, x) * pi**x * (1 - pi) ** (trials - x) * coefficient
        for x, coefficient in enumerate(coefficients)
    )


@pytest.mark.parametrize(("trials", "prompts"), [(1, 10), (4, 10_000), (32, 10), (100, 10_000)])
def test_an_estimator_is_off_by_no_more_than_it_says(trials, prompts):
    values, bias = fit_coefficients(trials, prompts)
    assert values[0] == 0  # a log lacks what was never drawn
    for pi in [1e-4, 0.003, 0.02, 0.1, 0.31, 0.5, 0.77, 0.95, 1.0]:
        off = abs(naive_expectation(pi, values) - pi * (1 - pi) ** trials)
        assert off <= 1.01 * bias * pi + 1e-12


def test_many_rollouts_make_the_bias_small():
    """Chebyshev: no polynomial of degree N - 1 is closer to (1 - pi)^N than 2 / 4^N."""
    for trials in (2, 4, 6):
        _, best = fit_coefficients(trials, 10**9)
        assert 2 / 4**trials <= best * 1.0001
        assert best < 4 / 4**trials


def test_solutions_of_all_groups_of_a_prompt_are_pooled():
    counts = count_solutions(log(Bank(np.array([1.0, 0.0]), [zipf(2), zipf(3)]), 50, 0, visits=2))
    assert [column.tolist() for column in counts[:3]] == [[100, 0], [100, 100], [0, 0]]
    assert counts.times.sum() == 100


def test_the_estimate_is_closer_than_good_turing():
    """Good's estimate holds for N - 1 rollouts: for four it is a twentieth too large or more."""
    errors = []
    for seed in range(10):
        population = bank("uniform", 300, seed)
        seen = log(population, 4, 100 + seed)
        unseen = estimate_unseen_mass(count_solutions(seen), LEVEL)
        truth = undrawn(population, seen)[1]
        errors.append((unseen.share.value - truth, unseen.good_turing - truth))
    ours, theirs = np.sqrt(np.mean(np.square(errors), axis=0))
    assert ours < 0.7 * theirs


def test_the_typical_solution_is_that_of_a_random_correct_rollout():
    """Prompts of two solutions, one three times as likely: E pi = p (9 + 1) / 16."""
    population = Bank(np.full(400, 0.8), [np.array([0.75, 0.25])] * 400)
    misses = estimate_tail_misses(typical_solution(count_solutions(log(population, 8, 0)), LEVEL, 0, ()), ())
    assert misses.mass.value == pytest.approx(0.8 * 10 / 16, abs=0.02)  # standard error .006
    assert misses.solve_rate.value == pytest.approx(0.8, abs=0.02)


def test_what_every_rollout_gives_leaves_nothing_and_what_is_never_repeated_everything():
    unseen = estimate_unseen_mass(count_solutions(log(Bank(np.ones(200), [zipf(1)] * 200), 8, 0)), LEVEL)
    assert unseen.mass.value == pytest.approx(0, abs=1e-3)
    assert unseen.mass.high < 0.01
    assert unseen.good_turing == 0
    many = Bank(np.full(50, 0.9), [np.full(100_000, 1e-5)] * 50)
    unseen = estimate_unseen_mass(count_solutions(log(many, 8, 0)), LEVEL)
    assert unseen.share.value == pytest.approx(1, abs=0.01)
    assert unseen.share.low > 0.9


def test_windows_tell_the_trend_and_logs_without_answers_nothing():
    wide, narrow = Bank(np.full(200, 0.8), [np.full(50, 0.02)] * 200), Bank(np.full(200, 0.8), [zipf(2)] * 200)
    unseen = estimate_unseen([log(wide, 8, 0), log(narrow, 8, 1)], LEVEL, 0)
    assert unseen.change.high < 0
    assert estimate_unseen([log(wide, 8, 0)], LEVEL, 0).change is None
    assert estimate_unseen([plain([1, 2], 4)], LEVEL, 0) is None
    wrong = estimate_unseen([log(Bank(np.zeros(20), [zipf(3)] * 20), 4, 0)], LEVEL, 0)
    assert wrong.windows[0].mass.value == 0
    assert math.isnan(wrong.windows[0].share.value)


# Groups that miss a solution
MASSES = [0.4, 0.15, 0.05]  # masses of a prompt's solutions; all else is wrong


def outcomes(masses, trials):
    every, chances = [*masses, 1 - sum(masses)], Counter()
    for series in itertools.product(range(len(every)), repeat=trials):
        times = tuple(series.count(index) for index in range(len(masses)))
        chances[times] += math.prod(every[index] for index in series)
    return [(chance, times) for times, chance in chances.items()]


def seen(times, trials):
    drawn = np.array([count for count in times if count], dtype=int)
    return SolutionCounts(np.array([sum(times)]), np.array([trials]), np.zeros(len(drawn), int), drawn)


def naive(masses, size):
    """Enumerate groups: how often one teaches, the mass a rollout reaches then, and the mass the group misses."""
    teaches = reached = missed = 0.0
    for chance, times in outcomes(masses, size):
        if 0 < sum(times) < size:
            teaches += chance
            reached += chance * sum(masses)
            missed += chance * sum(mass for mass, count in zip(masses, times, strict=True) if not count)
    return {"active": teaches, "reached": reached, "missed": missed}


@pytest.mark.parametrize("size", [2, 3, 4])
def test_what_subsets_say_is_right_on_average_over_all_outcomes(size):
    trials, truth = 5, naive(MASSES, size)
    for name, expected in truth.items():
        of = getattr(tail_misses, name)
        mean = sum(chance * of(seen(times, trials), size)[0] for chance, times in outcomes(MASSES, trials))
        assert mean == pytest.approx(expected, abs=1e-12), name


def taught_against(population, size):
    missed = reached = 0.0
    for rate, shares in zip(population.rates, population.shares, strict=True):
        for share in shares:
            pi = rate * share
            missed += pi * ((1 - pi) ** size - (rate - pi) ** size - (1 - rate) ** size)
        reached += rate * (1 - rate**size - (1 - rate) ** size)
    return missed / reached


def test_uniform_solve_rates_are_not_their_mean():
    """At the mean mass and the mean solve rate of correct rollouts, the lemma says 14 % for 40 %."""
    population = bank("uniform", 500, 0)
    truth = taught_against(population, 16)
    sizes = (8, 15, 16)
    misses = estimate_tail_misses(typical_solution(count_solutions(log(population, 32, 1)), LEVEL, 0, sizes), sizes)
    assert truth == pytest.approx(0.40, abs=0.02)
    for size, against in zip(sizes, misses.against, strict=True):
        assert against.value == pytest.approx(taught_against(population, size), abs=0.04)
        assert against.low <= taught_against(population, size) <= against.high
    mass, rate = misses.mass.value, misses.solve_rate.value
    at_means = ((1 - mass) ** 16 - (rate - mass) ** 16 - (1 - rate) ** 16) / (1 - rate**16 - (1 - rate) ** 16)
    assert at_means < 0.2


@pytest.mark.parametrize("trials", [4, 16])
def test_bounds_beyond_the_data_hold_exact_moments(trials):
    random = np.random.default_rng(trials)
    population = Bank(random.uniform(size=30), [zipf(count) for count in random.integers(1, 12, size=30)])
    columns, values = [("correct", 0), ("prompts", 0)], [float(population.rates.sum()), 30.0]
    for size in range(2, trials + 1):
        whole = float(sum(p * (1 - p**size - (1 - p) ** size) for p in population.rates))
        columns += [("active", size)]
        values += [float(sum(1 - p**size - (1 - p) ** size for p in population.rates))]
        if size < trials:
            columns += [("reached", size), ("missed", size)]
            values += [whole, whole * taught_against(population, size)]
    sums = Sums(tuple(columns), np.array([values]))
    for size in (trials, trials + 1, 2 * trials, 4 * trials):
        truth = taught_against(population, size)
        low, value, high = Typical.against(sums, size)[:, 0]
        assert low <= truth <= high
        assert low <= value <= high
        teaching = float(np.mean([1 - p**size - (1 - p) ** size for p in population.rates]))
        low, _, high = (Typical.teaching(sums, size) * Typical.holding(sums, size))[:, 0]
        assert low <= teaching * (1 - truth) <= high
    width = [np.ptp(Typical.against(sums, size)) for size in (trials, 2 * trials)]
    assert width[0] < width[1]


def test_the_least_beyond_the_data_is_that_of_moments_of_one_point():
    """A measure at .3 alone has the moments .3^(G - 2), which log-convexity allows and nothing less."""
    sums = Sums((("missed", 2), ("missed", 3)), np.array([[2.0, 6 * 0.3]]))
    low, _, high = tail_misses.extrapolate(sums, "missed", 8)
    assert (low, high) == (pytest.approx(8 * 7 * 0.3**6), pytest.approx(8 * 7 * 0.3))


# Intervals
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
        position = share * (len(series) - 1)
        left = math.floor(position)
        ordered = sorted(series)
        ends.append(ordered[left] + (position - left) * (ordered[min(left + 1, len(draws) - 1)] - ordered[left]))
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
    interval = accelerated_bootstrap("x", 2.5, draws, np.array(influence), with_more=with_more, level=LEVEL, method="m")
    low, high = naive_interval(2.5, draws.tolist(), influence, student, [series.tolist() for series in with_more])
    assert (interval.low, interval.high) == (pytest.approx(low), pytest.approx(high))
    assert interval.method == "accelerated m"


def test_the_jackknife_leaves_out_one_prompt_after_the_other():
    """Three of the prompts with 3, 1, 0 and 2 rollouts count: two degrees of freedom."""
    sums, rollouts = [6.0, 4.0, 0.0, 3.0], [3.0, 1.0, 0.0, 2.0]
    without = [(13 - sums[out]) / (6 - rollouts[out]) for out in (0, 1, 3)]
    moved = [mean - 13 / 6 for mean in without]
    interval = jackknife("x", np.array(sums), np.array(rollouts), LEVEL)
    half = STUDENT[2] * math.sqrt(2 / 3 * sum(shift**2 for shift in moved))
    assert interval.value == pytest.approx(13 / 6)
    assert (interval.low, interval.high) == (pytest.approx(13 / 6 - half), pytest.approx(13 / 6 + half))


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_an_interval_does_not_depend_on_the_unit(unit):
    """The squares and cubes of such numbers are 0 or infinite."""
    sums, rollouts = np.array([6.0, 4.0, 0.0, 3.0]), np.array([3.0, 1.0, 0.0, 2.0])
    expected, scaled = jackknife("x", sums, rollouts, LEVEL), jackknife("x", unit * sums, rollouts, LEVEL)
    assert (scaled.low, scaled.high) == (pytest.approx(unit * expected.low), pytest.approx(unit * expected.high))
    draws, influence = np.random.default_rng(0).gamma(3.0, size=999), np.array([1.0, 2.0, 4.0])
    expected, scaled = (
        accelerated_bootstrap(
            "x", 2.5 * each, each * draws, each * influence, with_more=(each * draws,) * 2, level=LEVEL, method="m"
        )
        for each in (1, unit)
    )
    assert (scaled.low, scaled.high) == (pytest.approx(unit * expected.low), pytest.approx(unit * expected.high))


def test_prompts_cut_short_leave_the_others_their_groups():
    """One of eight prompts has a single rollout: the other seven tell of groups of four."""
    counts = SolutionCounts(np.full(8, 1), np.array([8] * 7 + [1]), np.arange(8), np.full(8, 1))
    several = counts._replace(
        successes=np.array([4] * 7 + [1]), prompt=np.repeat(np.arange(7), 2), times=np.full(14, 2)
    )
    misses = estimate_tail_misses(typical_solution(several, LEVEL, 0, (4,)), (4,))
    assert 0 < misses.missed[0].low < misses.missed[0].high < 1


def test_intervals_where_nothing_varies_or_nothing_is_known():
    same, unknown = np.full(100, 0.5), np.full(10, math.nan)
    interval = accelerated_bootstrap("x", 0.5, same, np.zeros(10), with_more=(same, same), level=LEVEL, method="m")
    assert (interval.value, interval.low, interval.high) == (0.5, 0.5, 0.5)
    settings = {"with_more": (unknown, unknown), "level": LEVEL, "method": "m"}
    assert math.isnan(accelerated_bootstrap("x", math.nan, unknown, np.zeros(2), **settings).low)
    alone = jackknife("x", np.array([2.0, 0.0]), np.array([4.0, 0.0]), LEVEL)
    assert alone.value == 0.5
    assert math.isnan(alone.low)
    assert math.isnan(jackknife("x", np.zeros(2), np.zeros(2), LEVEL).value)
    most = jackknife_of("x", np.array([[3 * 0.1, 0.1]] * 2), quotient, LEVEL, (0, 3))  # rounded, 3 * 0.1 is above 0.3
    assert most.low <= most.value <= most.high == 3
    agreed = jackknife("x", np.array([2.0, 1.0]), np.array([4.0, 2.0]), LEVEL)
    assert (agreed.low, agreed.value, agreed.high) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("trials", "differ", "measure", "value"), [(2, True, "mass", 0), (4, False, "against", 0), (4, True, "against", 1)]
)
def test_an_event_that_has_not_come_may_come(trials, differ, measure, value):
    """50 prompts of two right rollouts, all alike: three pairs are the 95 % bound of a number that is 0."""
    prompt, times = (np.repeat(np.arange(50), 2), np.ones(100, int)) if differ else (np.arange(50), np.full(50, 2))
    pairs = SolutionCounts(np.full(50, 2), np.full(50, trials), prompt, times)
    misses = estimate_tail_misses(typical_solution(pairs, LEVEL, 0, (2,)), (2,))
    estimate = misses.mass if measure == "mass" else misses.against[0]
    assert estimate.value == value == (estimate.low if value == 0 else estimate.high)
    assert estimate.high - estimate.low == pytest.approx(-math.log(0.05) / 50, rel=0.1)


@pytest.mark.parametrize("trials", [1, 10])
def test_groups_of_one_teach_nothing(trials):
    counts = SolutionCounts(np.full(20, trials), np.full(20, trials), np.arange(20), np.full(20, trials))
    misses = estimate_tail_misses(typical_solution(counts, LEVEL, 0, (1,)), (1,))
    assert misses.missed[0].value == 0 or math.isnan(misses.missed[0].value)
    assert math.isnan(misses.against[0].value)
    now = fit_population(plain([1, 0], 1), LEVEL)
    in_use, other = predict_groups(now, (1, 2), 2)
    split = evaluate_split(now, typical_solution(counts, LEVEL, 0, (1, 2)), other, in_use, 8)
    assert math.isnan(split.net.value)


def test_without_pairs_of_correct_rollouts_nothing_is_told():
    single = SolutionCounts(np.ones(20, int), np.full(20, 4), np.arange(20), np.ones(20, int))
    none = SolutionCounts(np.zeros(5, int), np.full(5, 4), np.zeros(0, int), np.zeros(0, int))
    for seen in (single, none):
        misses = estimate_tail_misses(typical_solution(seen, LEVEL, 0, (4,)), (4,))
        assert math.isnan(misses.mass.high)
        assert math.isnan(misses.missed[0].high)
