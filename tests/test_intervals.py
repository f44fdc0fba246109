"""Intervals over seeds: inside a quantity's bounds, Student's where they are narrow, and their coverage."""

import json
import math

import numpy as np
import pytest

from benchmarks.interval_coverage import DATA, measure
from simlab.intervals import ANY, CHANGE, POSITIVE, SHARE, bounds_of, change_of, over_seeds, sign_of

T = {2: 12.706204736432095, 4: 3.182446305284263}  # 97.5 % of Student's t with one degree less


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ([0.45, 0.60], SHARE),  # the case of the issue: .526 [-.463, 1.515]
        ([0.0, 0.0, 0.0, 1.0], SHARE),
        ([0.99, 0.9999, 1.0, 1.0], SHARE),
        ([0.9, -0.8, 0.9, 0.9], CHANGE),
        ([0.01, 0.02, 0.5, 0.01], POSITIVE),
    ],
)
def test_the_ends_are_inside_of_what_can_be_and_around_the_mean(values, bounds):
    estimate = over_seeds(np.array(values), bounds)
    assert bounds[0] < estimate.low < estimate.mean < estimate.high < bounds[1]


def test_the_interval_of_a_share_is_symmetric_in_its_log_odds():
    """.2 and .4: a mean of .3 and a standard error of .1."""
    estimate = over_seeds(np.array([0.2, 0.4]), SHARE)
    step = T[2] * 0.1 / (0.3 * 0.7)
    ends = [1 / (1 + math.exp(-(math.log(3 / 7) + sign * step))) for sign in (-1, 1)]
    assert [estimate.low, estimate.high] == pytest.approx(ends, rel=1e-9)


def test_the_interval_of_an_entropy_is_symmetric_in_its_logarithm():
    values = np.array([1.0, 1.0, 1.0, 2.0])
    ends = [1.25 * math.exp(sign * T[4] * 0.25 / 1.25) for sign in (-1, 1)]
    assert list(over_seeds(values, POSITIVE)[2:]) == pytest.approx(ends, rel=1e-9)


@pytest.mark.parametrize("bounds", [SHARE, CHANGE, POSITIVE, ANY])
def test_a_narrow_interval_is_students(bounds):
    values = 0.3 + 1e-5 * np.array([-1.0, 0.0, 1.0, 2.0])
    half = T[4] * values.std(ddof=1) / 2
    estimate = over_seeds(values, bounds)
    assert [estimate.low, estimate.high] == pytest.approx([values.mean() - half, values.mean() + half], abs=1e-8)


@pytest.mark.parametrize("values", [[0.3], [0.3, 0.3], [0.02, 0.02, 0.02], [1.0, 1.0, 1.0]])
def test_one_seed_and_equal_seeds_tell_no_interval(values):
    assert np.isnan([*over_seeds(np.array(values), SHARE)[2:]]).all()


def test_each_column_has_an_interval_of_its_seeds():
    values = np.random.default_rng(0).random((5, 3))
    for column, ends in zip(values.T, zip(*over_seeds(values, SHARE)[2:], strict=True), strict=True):
        assert list(ends) == pytest.approx(list(map(float, over_seeds(column, SHARE)[2:])))


def test_bounds_are_those_of_the_metric_and_a_metric_of_yours_has_none():
    assert [bounds_of(name) for name in ("pass@256", "q_pos_by_kind hard", "entropy", "d_q_pos", "mine")] == [
        *(SHARE, SHARE, POSITIVE, ANY, ANY)
    ]
    assert [change_of(bounds) for bounds in (SHARE, POSITIVE, ANY)] == [CHANGE, ANY, ANY]
    assert change_of((0.0, 8.0)) == (-8.0, 8.0)


@pytest.mark.parametrize(
    ("differences", "sign"),
    [
        ([0.1, 0.11, 0.1, 0.1], 1),
        ([-0.1, -0.11, -0.1, -0.1], -1),
        ([0.1, -0.1, 0.1, -0.09], 0),
        ([0.1, 0.1, 0.1, 0.1], 1),
        ([0.0, 0.0, 0.0, 0.0], 0),
        ([0.1, 0.10001, 0.1], 0),  # three seeds tell nothing
        ([math.nan, 0.1, 0.1, 0.1], 0),
    ],
)
def test_a_difference_has_a_sign_where_four_seeds_or_more_tell_it_from_0(differences, sign):
    assert sign_of(np.array(differences)) == sign


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [2, 3, 4, 8, 32])
@pytest.mark.parametrize(
    ("law", "least"),
    [("Beta, mean .9, sd .04", 0.94), ("Beta, mean .1, sd .12", 0.91), ("0 or 1, mean .2", 0.95)],
)
def test_the_mean_is_inside_about_as_often_as_the_interval_says(law, least, seeds):
    """8000 samples, whose share has a standard error of .0025 to .0031."""
    assert measure(law, seeds, 8000)["simlab"] >= least - 3 * 0.0031


def test_the_committed_page_has_intervals_that_cover_more_than_cut_ones_near_a_bound():
    laws = json.loads(DATA.read_text())
    for law in ("Beta, mean .9, sd .12", "Beta, mean .98, sd .06", "gamma, sd / mean 1.4"):
        assert all(shares["simlab"] > shares["cut"] for shares in laws[law].values())
