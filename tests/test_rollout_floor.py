"""The floor under the rollouts that keep a hard prompt, against loops over every sequence of groups."""

import itertools
import math

import numpy as np
import pytest
from refusals import refusal

from simlab.theory import chance_of_rise, groups_to_rise, pull_on_hard, unsolved_chance


def waiting_times(solve_rate, size, rise, most):
    """The chances of a success in a group after each success, by a loop."""
    chances, log_odds, risen = [], math.log(solve_rate / (1 - solve_rate)), 0.0
    while risen < rise - 1e-12:
        rate = 1 / (1 + math.exp(-log_odds))
        chances.append(1 - (1 - rate) ** size)
        log_odds += most
        risen += most
    return chances


@pytest.mark.parametrize("case", [(0.1, 2, 0.5, 0.2), (0.01, 8, 0.4, 0.1), (0.3, 1, 0.7, 0.7)])
def test_the_chance_of_a_rise_is_that_of_a_sum_of_waiting_times(case):
    chances = waiting_times(*case)
    expected = []
    for groups in range(7):  # over every sequence of groups with and without a success
        total = 0.0
        for drawn in itertools.product((True, False), repeat=groups):
            chance, successes = 1.0, 0
            for success in drawn:
                if successes < len(chances):
                    chance *= chances[successes] if success else 1 - chances[successes]
                elif not success:
                    chance = 0.0
                successes += success
            total += chance * (successes >= len(chances))
        expected.append(total)
    np.testing.assert_allclose(chance_of_rise(*case, 6), expected, rtol=1e-12, atol=1e-15)
    assert groups_to_rise(*case) == pytest.approx(sum(1 / chance for chance in chances), rel=1e-12)


def test_no_group_size_is_left_in_the_rollouts_that_a_rare_answer_needs():
    rollouts = [size * groups_to_rise(1e-5, size, 0.5, 0.01) for size in (2, 8, 64)]
    assert max(rollouts) / min(rollouts) < 1.001
    assert rollouts[0] == pytest.approx((1 - math.exp(-0.5)) / (1e-5 * 0.01), rel=0.01)


def test_one_success_is_enough_where_nothing_bounds_a_step_and_none_where_nothing_is_lost():
    assert groups_to_rise(0.01, 8, 3.0, math.inf) == pytest.approx(1 / (1 - 0.99**8))
    assert groups_to_rise(0.01, 8, 0.0, 0.1) == 0
    np.testing.assert_array_equal(chance_of_rise(0.01, 8, 0.0, 0.1, 3), 1)
    assert unsolved_chance(0.01, 100) == pytest.approx(0.99**100)
    assert pull_on_hard(0.5, 3, 0.2, 2.0, 0.0) == pytest.approx(0.5 * 3 * 0.2 * 2 / 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: chance_of_rise(0.0, 8, 1, 1, 3), "solve_rate = 0.0"),
        (lambda: groups_to_rise(0.1, 0, 1, 1), "group_size = 0"),
        (lambda: groups_to_rise(0.1, 8, -1, 1), "rise = -1"),
        (lambda: groups_to_rise(0.1, 8, 1, 0), "most = 0"),
        (lambda: pull_on_hard(-0.1, 3, 0.2, 1.0), "overlap = -0.1"),
    ],
)
def test_numbers_outside_their_range_are_refused(call, words):
    assert words in refusal(call)
