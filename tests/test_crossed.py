"""Intervals over seeds and problems: the variance components by hand and by enumeration, the coverage by simulation."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from sweep_cases import refusal

from simlab.llm.instruments.crossed import components, crossed_interval

T_2, T_3 = 4.302652729749464, 3.182446305283710  # the .975 quantiles for 2 and 3 degrees of freedom


def naive_components(rows):
    """In fractions: the expected mean squares of a crossed design, solved for its variances."""
    s, p = len(rows), len(rows[0])
    whole = sum(map(sum, rows)) / Fraction(s * p)
    of_rows = [sum(row) / Fraction(p) for row in rows]
    of_columns = [sum(column) / Fraction(s) for column in zip(*rows, strict=True)]
    square_rows = p * sum((mean - whole) ** 2 for mean in of_rows) / (s - 1)
    square_columns = s * sum((mean - whole) ** 2 for mean in of_columns) / (p - 1)
    square_rest = sum(
        (rows[i][j] - of_rows[i] - of_columns[j] + whole) ** 2 for i in range(s) for j in range(p)
    ) / Fraction((s - 1) * (p - 1))
    return (square_rows - square_rest) / p, (square_columns - square_rest) / s, square_rest


ROWS = [[Fraction(n, 8) for n in row] for row in ([5, 0, 3, 8], [6, 1, 2, 8], [8, 0, 0, 7])]


def test_the_components_are_those_of_the_mean_squares():
    assert components(np.array(ROWS, float)) == pytest.approx(tuple(map(float, naive_components(ROWS))), abs=1e-15)


def test_the_components_are_unbiased_in_a_design_that_is_enumerated():
    """Two seeds and three problems, whose effects and noise are each one of two values: all 2^11 outcomes."""
    a, b, e = 0.3, 0.2, 0.1
    found, means = [], []
    for signs in itertools.product((-1, 1), repeat=2 + 3 + 6):
        of_seed, of_problem, noise = (np.array(signs[part]) for part in (slice(0, 2), slice(2, 5), slice(5, 11)))
        values = 0.5 + a * of_seed[:, None] + b * of_problem + e * noise.reshape(2, 3)
        found.append(components(values))
        means.append(values.mean())
    assert np.mean(found, axis=0) == pytest.approx([a**2, b**2, e**2], abs=1e-12)
    assert np.mean([each.of_mean(2, 3) for each in found]) == pytest.approx(np.var(means), abs=1e-12)


def test_the_interval_is_that_over_seeds_widened_by_the_variance_of_problems():
    _, problems, _ = map(float, naive_components(ROWS))
    means = [float(sum(row)) / 4 for row in ROWS]
    half = (T_2**2 * np.var(means, ddof=1) / 3 + T_3**2 * problems / 4) ** 0.5
    found = crossed_interval(np.array(ROWS, float))
    assert found == pytest.approx((np.mean(means), np.mean(means) - half, np.mean(means) + half), rel=1e-12)


def test_where_problems_do_not_differ_it_is_the_t_interval_over_seeds():
    values = np.array([[0.2, 0.3], [0.5, 0.4], [0.1, 0.2]])
    assert components(values).problems < 0
    means = values.mean(axis=1)
    half = T_2 * means.std(ddof=1) / 3**0.5
    assert crossed_interval(values)[1:] == pytest.approx((means.mean() - half, means.mean() + half), rel=1e-12)


def test_equal_values_have_an_interval_of_no_width():
    assert crossed_interval(np.full((2, 2), 0.25)) == (0.25, 0.25, 0.25)


@pytest.mark.parametrize(
    ("seeds", "problems", "rest"),
    [(0.0, 1.0, 1.0), (0.3, 1.0, 1.0), (1.0, 0.0, 1.0), (0.05, 1.0, 0.3), (0.0, 0.0, 1.0)],
)
def test_it_covers_the_mean_in_95_of_100_runs_of_three_seeds(seeds, problems, rest):
    """2000 designs of 3 x 32 with these standard deviations: at least .95, less three standard errors of .0049.

    At most .99, as an interval that is too wide would cover too.
    """
    random, covered = np.random.default_rng(0), 0
    for _ in range(2000):
        values = (
            seeds * random.normal(size=(3, 1)) + problems * random.normal(size=32) + rest * random.normal(size=(3, 32))
        )
        _, low, high = crossed_interval(values)
        covered += low <= 0 <= high
    assert 0.95 - 3 * (0.95 * 0.05 / 2000) ** 0.5 <= covered / 2000 <= 0.99


@pytest.mark.parametrize(
    ("deviations", "axis", "quantile", "most"),
    [((0.05, 1.0, 0.3), 1, T_2, 0.75), ((1.0, 0.0, 1.0), 0, 2.04, 0.3)],
    ids=["over seeds alone", "over problems alone"],
)
def test_an_interval_over_one_of_both_covers_far_less(deviations, axis, quantile, most):
    """Over the seeds where problems differ more, over the problems where seeds do."""
    random = np.random.default_rng(2)
    shapes = (2000, 3, 1), (2000, 1, 32), (2000, 3, 32)
    values = sum(scale * random.normal(size=shape) for scale, shape in zip(deviations, shapes, strict=True))
    means = values.mean(axis=1 + axis)
    half = quantile * means.std(axis=1, ddof=1) / means.shape[1] ** 0.5
    assert np.mean(np.abs(means.mean(axis=1)) <= half) < most


def test_it_covers_the_pass_rate_of_binary_samples():
    """Rates in the unit interval, eight samples each: 2000 runs of three seeds and 64 problems."""
    random, covered = np.random.default_rng(1), 0
    for _ in range(2000):
        rates = np.clip(0.5 + 0.02 * random.normal(size=(3, 1)) + random.uniform(-0.4, 0.4, size=64), 0, 1)
        _, low, high = crossed_interval(random.binomial(8, rates) / 8)
        covered += low <= 0.5 <= high
    assert 0.95 - 3 * (0.95 * 0.05 / 2000) ** 0.5 <= covered / 2000 <= 0.99


def test_what_has_no_components_is_refused():
    assert "1 x 3 values have no variance components" in refusal(components, np.zeros((1, 3)))
    assert "two or more seeds and problems" in refusal(crossed_interval, np.zeros((3, 1)))
    assert "values hold NaN or infinity" in refusal(crossed_interval, np.array([[0, np.nan], [1, 1]]))
