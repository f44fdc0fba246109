"""Groups that teach against a solution: by enumeration, on banks of known truth, and within bounds beyond the data."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from diagnose_logs import Bank, bank, log, zipf

from simlab.diagnose import subsets
from simlab.diagnose.rarest import rarest
from simlab.diagnose.solutions import Solutions, solutions
from simlab.diagnose.subsets import Sums
from simlab.diagnose.tail_misses import tail_misses
from simlab.diagnose.typical import Typical, typical

LEVEL = 0.9
MASSES = [0.4, 0.15, 0.05]  # of a prompt's solutions; all else is wrong


def outcomes(masses, trials):
    """How often each solution comes, as its probability summed over every series of draws, and the counts."""
    every, found = [*masses, 1 - sum(masses)], Counter()
    for series in itertools.product(range(len(every)), repeat=trials):
        times = tuple(series.count(place) for place in range(len(masses)))
        found[times] += math.prod(every[place] for place in series)
    return [(chance, times) for times, chance in found.items()]


def seen(times, trials):
    """The outcome of one prompt."""
    drawn = [count for count in times if count]
    return Solutions(np.array([sum(times)]), np.array([trials]), np.zeros(len(drawn), int), np.array(drawn, dtype=int))


def naive(masses, size):
    """By drawing groups one by one: what teaches, what a rollout reaches, and what it reaches and the group misses."""
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
        of = getattr(subsets, name)
        found = sum(chance * of(seen(times, trials), size)[0] for chance, times in outcomes(MASSES, trials))
        assert found == pytest.approx(expected, abs=1e-12), name


@pytest.mark.parametrize("size", [2, 3])
def test_rollouts_beside_one_drawn_once_are_those_of_groups_that_miss_it(size):
    """The others are draws of all that is not this solution."""
    trials, mixed, wrong, expected = 4, 0.0, 0.0, np.zeros(2)
    for chance, times in outcomes(MASSES, trials):
        mixed += chance * subsets.mixed_without(seen(times, trials), size)[0]
        wrong += chance * subsets.not_all_right(seen(times, trials), size)[0]
    for place, mass in enumerate(MASSES):
        others = [own / (1 - mass) for other, own in enumerate(MASSES) if other != place]
        right = [(chance, sum(times)) for chance, times in outcomes(others, size)]
        once = trials * mass * (1 - mass) ** (trials - 1)
        expected += once * np.array(
            [sum(chance for chance, x in right if 0 < x < size), sum(chance for chance, x in right if x < size)]
        )
    assert (mixed, wrong) == pytest.approx(tuple(expected), abs=1e-12)


def taught_against(own, size):
    """Of groups that teach, weighted by solve rates: the share without the solution of another correct rollout."""
    missed = reached = 0.0
    for rate, shares in zip(own.rates, own.shares, strict=True):
        for share in shares:
            pi = rate * share
            missed += pi * ((1 - pi) ** size - (rate - pi) ** size - (1 - rate) ** size)
        reached += rate * (1 - rate**size - (1 - rate) ** size)
    return missed / reached


def test_uniform_solve_rates_are_not_their_mean():
    """At the mean mass and the mean solve rate of correct rollouts, the lemma says 14 % for 40 %."""
    own = bank("uniform", 500, 0)
    truth = taught_against(own, 16)
    sizes = (8, 15, 16)
    found = tail_misses(typical(solutions(log(own, 32, 1)), LEVEL, 0, sizes), sizes)
    assert truth == pytest.approx(0.40, abs=0.02)
    for size, against in zip(sizes, found.against, strict=True):
        assert against.value == pytest.approx(taught_against(own, size), abs=0.04)
        assert against.low <= taught_against(own, size) <= against.high
    mass, rate = found.mass.value, found.solve_rate.value
    at_means = ((1 - mass) ** 16 - (rate - mass) ** 16 - (1 - rate) ** 16) / (1 - rate**16 - (1 - rate) ** 16)
    assert at_means < 0.2


def test_prompts_that_are_alike_follow_the_lemma():
    own = Bank(np.full(3000, 0.6), [np.array([0.5, 0.5])] * 3000)
    found = tail_misses(typical(solutions(log(own, 9, 0)), LEVEL, 0, (2, 8)), (2, 8))
    for size, missed in zip((2, 8), found.missed, strict=True):
        assert missed.value == pytest.approx(0.7**size - 0.3**size - 0.4**size, abs=0.01)


@pytest.mark.parametrize("trials", [4, 8, 16])
def test_bounds_beyond_the_data_hold_exact_moments(trials):
    """The sums of a bank with known masses, not estimates, stand for the data."""
    random = np.random.default_rng(trials)
    own = Bank(random.uniform(size=30), [zipf(count) for count in random.integers(1, 12, size=30)])
    columns, values = [("correct", 0), ("prompts", 0)], [float(own.rates.sum()), 30.0]
    for size in range(2, trials + 1):
        whole = float(sum(p * (1 - p**size - (1 - p) ** size) for p in own.rates))
        columns += [("active", size)]
        values += [float(sum(1 - p**size - (1 - p) ** size for p in own.rates))]
        if size < trials:
            columns += [("reached", size), ("missed", size)]
            values += [whole, whole * taught_against(own, size)]
    sums = Sums(tuple(columns), np.array([values]))
    for size in (trials, trials + 1, 2 * trials, 4 * trials):
        truth = taught_against(own, size)
        found = Typical.against(sums, size)
        assert found.low[0] <= truth <= found.high[0]
        assert found.low[0] <= found.value[0] <= found.high[0]
        teaching = float(np.mean([1 - p**size - (1 - p) ** size for p in own.rates]))
        holding = Typical.teaching_holding(sums, size)
        assert holding.high[0] >= teaching * (1 - truth) >= holding.low[0]
    width = [float(np.diff(Typical.against(sums, size)[::2], axis=0)[0, 0]) for size in (trials, 2 * trials)]
    assert width[0] < width[1]


def test_rollouts_of_few_prompts_do_not_limit_the_size():
    """One prompt of one rollout among twenty of eight."""
    own = Bank(np.full(21, 0.5), [zipf(3)] * 21)
    whole = solutions(log(own, 8, 0))
    kept = whole.prompt != 20
    short = Solutions(
        np.append(whole.successes[:20], 1),
        np.append(whole.trials[:20], 1),
        np.append(whole.prompt[kept], 20),
        np.append(whole.times[kept], 1),
    )
    without = Solutions(whole.successes[:20], whole.trials[:20], whole.prompt[kept], whole.times[kept])
    first, second = (tail_misses(typical(given, LEVEL, 0, (4,)), (4,)) for given in (short, without))
    assert first == second


def test_a_solution_drawn_once_is_missed_within_its_bounds():
    """A hundred solutions of .008 each: a group of 16 misses one in 88 %, and others are right in 80 %."""
    own = Bank(np.full(500, 0.8), [np.full(100, 0.01)] * 500)
    found = tail_misses(rarest(solutions(log(own, 32, 0)), LEVEL, 0, (8, 16)), (8, 16))
    for size, missed in zip((8, 16), found.missed, strict=True):
        truth = 0.992**size - 0.792**size - 0.2**size
        assert missed.low <= truth <= missed.high
        assert missed.value == pytest.approx(truth, abs=0.03)
