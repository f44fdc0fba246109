"""Solutions that were never drawn: estimators by enumeration, and groups that teach against a solution."""

import itertools
import math

import numpy as np
import pytest
from diagnose_logs import Bank, bank, log, plain, undrawn, zipf

from simlab.diagnose.rarest import rarest
from simlab.diagnose.solutions import Solutions, drawn_once, estimated, linear, never_drawn, solutions
from simlab.diagnose.tail_misses import BOUNDED, tail_misses
from simlab.diagnose.typical import typical
from simlab.diagnose.unseen import unseen, unseen_mass

LEVEL = 0.9


def naive_expectation(pi, coefficients):
    """The mean of c_x over x ~ Binomial(N, pi)."""
    trials = len(coefficients) - 1
    return sum(
        math.comb(trials, x) * pi**x * (1 - pi) ** (trials - x) * coefficient
        for x, coefficient in enumerate(coefficients)
    )


@pytest.mark.parametrize("trials", [1, 2, 4, 8, 32, 100])
@pytest.mark.parametrize("prompts", [10, 10_000])
def test_an_estimator_is_off_by_no_more_than_it_says(trials, prompts):
    for wanted, truth in (
        (never_drawn, lambda pi: pi * (1 - pi) ** trials),
        (drawn_once, lambda pi: trials * pi**2 * (1 - pi) ** (trials - 1)),
    ):
        own = linear(wanted, trials, prompts)
        assert own.coefficients[0] == 0  # what was never drawn is not in the log
        for pi in [1e-4, 0.003, 0.02, 0.1, 0.31, 0.5, 0.77, 0.95, 1.0]:
            off = abs(naive_expectation(pi, own.coefficients) - truth(pi))
            assert off <= 1.01 * own.bias * pi + 1e-12


def test_many_rollouts_make_the_bias_small():
    """Chebyshev: no polynomial of degree N - 1 is closer to (1 - pi)^N than 2 / 4^N."""
    for trials in (2, 4, 6):
        best = linear(never_drawn, trials, 10**9).bias
        assert 2 / 4**trials <= best * 1.0001
        assert best < 4 / 4**trials


def test_the_expected_estimate_of_a_small_prompt_is_the_expected_mass_left():
    """All outcomes of three rollouts over two solutions and a wrong answer."""
    masses = [0.5, 0.2, 0.3]  # the last is wrong
    expected, left = 0.0, 0.0
    for outcome in itertools.product(range(3), repeat=3):
        chance = math.prod(masses[place] for place in outcome)
        times = [outcome.count(place) for place in (0, 1)]
        drawn = [count for count in times if count]
        right = sum(times)
        seen = Solutions(np.array([right]), np.array([3]), np.zeros(len(drawn), int), np.array(drawn, dtype=int))
        expected += chance * estimated(seen, never_drawn).per_prompt[0]
        left += chance * sum(mass for mass, count in zip(masses, times, strict=False) if not count)
    assert abs(expected - left) <= linear(never_drawn, 3, 1).bias * 0.7 + 1e-12


def test_solutions_of_all_groups_of_a_prompt_are_pooled():
    own = Bank(np.array([1.0, 0.0]), [zipf(2), zipf(3)])
    found = solutions(log(own, 50, 0, visits=2))
    assert found.successes.tolist() == [100, 0]
    assert found.trials.tolist() == [100, 100]
    assert found.prompt.tolist() == [0, 0]
    assert found.times.sum() == 100


def test_a_log_without_answers_tells_nothing():
    assert unseen([plain([1, 2], 4)], LEVEL, 0) is None
    assert solutions(plain([1, 2], 4)) is None


def test_one_solution_that_every_rollout_gives_leaves_nothing():
    found = unseen_mass(solutions(log(Bank(np.ones(200), [zipf(1)] * 200), 8, 0)), LEVEL)
    assert found.mass.value == pytest.approx(0, abs=1e-3)
    assert found.mass.high < 0.01
    assert found.good_turing == 0


def test_solutions_that_are_never_repeated_leave_everything():
    many = Bank(np.full(50, 0.9), [np.full(100_000, 1e-5)] * 50)
    found = unseen_mass(solutions(log(many, 8, 0)), LEVEL)
    assert found.share.value == pytest.approx(1, abs=0.01)
    assert found.share.low > 0.9


def test_no_correct_rollout_leaves_an_unknown_share():
    found = unseen([log(Bank(np.zeros(20), [zipf(3)] * 20), 4, 0)], LEVEL, 0)
    assert found.windows[0].mass.value == 0
    assert math.isnan(found.windows[0].share.value)
    assert math.isnan(found.typical.mass.value)
    assert math.isnan(found.typical.against[0].high)
    assert math.isnan(found.rarest.missed[0].low)


def test_the_estimate_is_closer_than_good_turing():
    """Good's estimate is what N - 1 rollouts leave: of four, too much by a twentieth or more."""
    errors = []
    for seed in range(20):
        own = bank("uniform", 300, seed)
        seen = log(own, 4, 100 + seed)
        found = unseen_mass(solutions(seen), LEVEL)
        truth = undrawn(own, seen)[1]
        errors.append((found.share.value - truth, found.good_turing - truth))
    ours, theirs = np.sqrt(np.mean(np.square(errors), axis=0))
    assert ours < 0.7 * theirs


def test_the_typical_solution_is_that_of_a_random_correct_rollout():
    """Prompts of two solutions, of which one is three times as likely: E pi = p (9 + 1) / 16."""
    own = Bank(np.full(400, 0.8), [np.array([0.75, 0.25])] * 400)
    found = tail_misses(typical(solutions(log(own, 8, 0)), LEVEL, 0, ()), ())
    assert found.mass.value == pytest.approx(0.8 * 10 / 16, abs=0.02)  # standard error .006
    assert found.solve_rate.value == pytest.approx(0.8, abs=0.02)


def test_what_is_drawn_once_is_rarer_than_once_in_n():
    own = Bank(np.full(1000, 0.8), [np.full(100, 0.01)] * 1000)
    found = tail_misses(rarest(solutions(log(own, 16, 0)), LEVEL, 0, ()), ())
    assert found.mass.value == pytest.approx(0.008, abs=0.002)  # 1 / 16 would be eight times as much
    assert found.solve_rate.value == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize("mass", [0.05, 0.2, 0.4])
def test_many_prompts_of_few_rollouts_leave_the_bias_of_what_is_drawn_once(mass):
    """One solution a prompt, of four rollouts: the bias is up to .03 of a solve rate, and noise a tenth of it."""
    own = Bank(np.full(20_000, mass), [np.ones(1)] * 20_000)
    found = tail_misses(rarest(solutions(log(own, 4, 0)), LEVEL, 0, ()), ())
    assert found.mass.low <= mass <= found.mass.high
    assert found.mass.high - found.mass.low < 0.12
    assert found.mass.method.endswith(BOUNDED)


def test_windows_tell_the_trend():
    wide, narrow = Bank(np.full(200, 0.8), [np.full(50, 0.02)] * 200), Bank(np.full(200, 0.8), [zipf(2)] * 200)
    found = unseen([log(wide, 8, 0), log(narrow, 8, 1)], LEVEL, 0)
    assert found.change.high < 0
    assert unseen([log(wide, 8, 0)], LEVEL, 0).change is None
