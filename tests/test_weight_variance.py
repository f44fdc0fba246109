"""The variance of a weight of an estimated solve rate, against sums over every group written out."""

import itertools

import numpy as np
import pytest

from simlab.errors import InputError
from simlab.theory.weight_variance import peak_constant, power_alpha_variance, weight_variance

RATES = np.array([0.0, 0.1, 0.25, 0.5, 0.9, 1.0])


def over_every_group(weights, p):
    """The variance over all 2^G sequences of right and wrong."""
    size = len(weights) - 1
    values, chances = [], []
    for group in itertools.product((0, 1), repeat=size):
        values.append(weights[sum(group)])
        chances.append(np.prod([p if right else 1 - p for right in group]))
    mean = sum(c * w for c, w in zip(chances, values, strict=True))
    return sum(c * (w - mean) ** 2 for c, w in zip(chances, values, strict=True))


def power(rate, alpha):
    return (1 + alpha) ** (1 + alpha) / (4 * alpha**alpha) * rate * (1 - rate) ** alpha


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_the_exact_variance_is_that_over_every_group(size):
    weights = np.random.default_rng(size).normal(size=size + 1)
    expected = [over_every_group(weights, p) for p in RATES]
    np.testing.assert_allclose(weight_variance(weights, RATES), expected, atol=1e-14)


@pytest.mark.parametrize("alpha", [1.0, 2.0, 3.5])
def test_the_constant_brings_the_peak_to_a_quarter(alpha):
    rates = np.linspace(0, 1, 100_001)
    assert np.max(peak_constant(alpha) * rates * (1 - rates) ** alpha) == pytest.approx(0.25, abs=1e-9)


@pytest.mark.parametrize("alpha", [1.0, 2.0, 3.0])
def test_the_first_order_is_the_limit_of_large_groups(alpha):
    """The difference falls as 1/G^2: times G it falls to a tenth from G = 400 to 4000."""
    inside = np.array([0.1, 0.4, 0.7])
    gaps = []
    for size in (400, 4000):
        exact = weight_variance(power(np.arange(size + 1) / size, alpha), inside)
        gaps.append(size * np.abs(exact - power_alpha_variance(inside, alpha, size)))
    np.testing.assert_allclose(gaps[1] / gaps[0], 0.1, rtol=0.05)


def test_the_first_order_vanishes_at_the_peak_and_for_certain_prompts():
    np.testing.assert_allclose(power_alpha_variance(np.array([0.0, 0.25, 1.0]), 3.0, 16), 0, atol=1e-30)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: peak_constant(0.0), r"alpha = 0\.0 is outside its range \(0, inf"),
        (lambda: power_alpha_variance(RATES, 0.4, 16), r"alpha = 0\.4 is outside"),
        (lambda: power_alpha_variance(RATES, 2.0, 0), r"group_size = 0"),
        (lambda: power_alpha_variance(np.array([1.5]), 2.0, 4), r"p = 1\.5 is outside its range \[0, 1\]"),
        (lambda: weight_variance(np.array([0.0, 1.0]), np.array([-0.1])), r"p = -0\.1 is outside"),
        (lambda: weight_variance(np.array([1.0]), RATES), r"weights have shape \(1,\); allowed: one axis of two"),
    ],
)
def test_bad_input_is_one_clear_line(call, complaint):
    with pytest.raises(InputError, match=complaint):
        call()
