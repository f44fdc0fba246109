"""Sigmoid fits against compute: known curves found again, curves refused that tell no asymptote, arms compared."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

from simlab.scaling import Curves, Fit, Refusal, Sigmoid, against, estimates, fit, fit_curves, scaling_tables

COMPUTE = np.arange(1, 41) * 100.0
FEW = COMPUTE[::3]
RISING = Sigmoid(0.2, 0.6, 1.7, 500.0)
HIGHER = RISING._replace(asymptote=0.7)
FALLING = Sigmoid(0.9, 0.5, 1.3, 700.0)


def naive_value(compute, base, asymptote, exponent, midpoint):
    """R_0 + (A - R_0) / (1 + (C_mid / C)^B), one number."""
    return base + (asymptote - base) / (1 + (midpoint / compute) ** exponent)


def naive_squares(compute, values, curve):
    return sum((naive_value(c, *curve) - value) ** 2 for c, value in zip(compute, values, strict=True))


def naive_fit(compute, values, base):
    """The best point of a grid of A, B and C_mid, and of ever finer grids around it."""
    widths = [0.5, 1.5, 3.0]
    best = [0.5, math.log(1.5), math.log(500.0)]
    for _ in range(45):
        axes = [
            [middle + width * part for part in (-1, -0.5, 0, 0.5, 1)]
            for middle, width in zip(best, widths, strict=True)
        ]
        points = [point for point in itertools.product(*axes) if 0 <= point[0] <= 1]
        best = min(
            points, key=lambda own: naive_squares(compute, values, (base, own[0], math.exp(own[1]), math.exp(own[2])))
        )
        widths = [width * 0.75 for width in widths]
    return Sigmoid(base, best[0], math.exp(best[1]), math.exp(best[2]))


def seeds_of(curve, count=8, *, noise=0.005, spread=0.0, seed=0, compute=COMPUTE):
    """A curve's seeds: white noise at each record, and an asymptote that differs from seed to seed."""
    random = np.random.default_rng(seed)
    asymptotes = curve.asymptote + spread * random.normal(size=count)
    values = np.array([curve._replace(asymptote=own).at(compute) for own in asymptotes])
    return Curves(
        np.arange(count), compute, values + noise * random.normal(size=values.shape), np.full(count, curve.base)
    )


def one_seed(values, base=0.2, compute=COMPUTE):
    return Curves(np.array([0]), compute, np.asarray(values, dtype=float)[None], np.array([base]))


def reason_of(curves):
    found = fit_curves(curves)
    assert isinstance(found, Refusal)
    assert "\n" not in found.reason
    return found.reason


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """To save time: the error of an interval's width is 11 %."""
    monkeypatch.setattr(estimates, "RESAMPLES", 40)


# The curve and its fit


def test_the_curve_is_scale_rls_formula():
    for compute in (1.0, 500.0, 1e4):
        assert RISING.at(np.array([compute]))[0] == pytest.approx(naive_value(compute, *RISING), rel=1e-14)
    np.testing.assert_allclose(RISING.at(np.array([0.0, 500.0, 1e12])), [0.2, 0.4, 0.6], atol=1e-9)


@pytest.mark.parametrize("curve", [RISING, FALLING, Sigmoid(0.1, 1.0, 0.8, 900.0), Sigmoid(0.4, 0.0, 3.0, 1500.0)])
def test_an_exact_curve_is_found_again(curve):
    found = fit(COMPUTE, curve.at(COMPUTE), curve.base)
    np.testing.assert_allclose(found, curve, rtol=1e-6, atol=1e-6)


@given(
    base=st.floats(0, 1),
    asymptote=st.floats(0, 1),
    exponent=st.floats(0.5, 5),
    midpoint=st.floats(200, 2000),
)
def test_any_exact_curve_that_bends_within_the_data_is_found_again(base, asymptote, exponent, midpoint):
    if abs(asymptote - base) < 1e-3:
        return  # flat: nobody can tell its exponent
    curve = Sigmoid(base, asymptote, exponent, midpoint)
    # The search stays inside its bounds: an asymptote of 0 or 1 is approached, and the other parameters with it.
    rtol = 1e-4 if asymptote in (0, 1) else 1e-5
    np.testing.assert_allclose(fit(COMPUTE, curve.at(COMPUTE), base), curve, rtol=rtol, atol=1e-6)


@pytest.mark.parametrize(("curve", "seed"), [(RISING, 0), (RISING, 1), (FALLING, 2)])
def test_a_noisy_curve_has_the_fit_of_a_search_by_hand(curve, seed):
    compute = COMPUTE[::4]
    values = curve.at(compute) + np.random.default_rng(seed).normal(scale=0.02, size=len(compute))
    found, naive = fit(compute, values, curve.base), naive_fit(compute, values, curve.base)
    assert naive_squares(compute, values, found) <= naive_squares(compute, values, naive) * (1 + 1e-9)
    np.testing.assert_allclose(found, naive, rtol=2e-3)


def test_the_unit_of_compute_moves_the_midpoint_alone():
    values = RISING.at(COMPUTE) + np.random.default_rng(0).normal(scale=0.02, size=len(COMPUTE))
    found, other = fit(COMPUTE, values, 0.2), fit(COMPUTE / 1000, values, 0.2)
    np.testing.assert_allclose(other, found._replace(midpoint=found.midpoint / 1000), rtol=1e-6)


def test_a_falling_curve_is_a_rising_one_in_the_mirror():
    values = RISING.at(COMPUTE) + np.random.default_rng(0).normal(scale=0.02, size=len(COMPUTE))
    found, mirrored = fit(COMPUTE, values, 0.2), fit(COMPUTE, 1 - values, 0.8)
    expected = found._replace(base=0.8, asymptote=1 - found.asymptote)
    np.testing.assert_allclose(mirrored, expected, rtol=1e-6)
    assert mirrored.asymptote < mirrored.base


# Intervals


def fits_of_sets(count):
    """Of 6 seeds each, which differ by noise and by their asymptotes."""
    return [fit_curves(seeds_of(RISING, 6, noise=0.01, spread=0.01, seed=seed, compute=FEW)) for seed in range(count)]


@pytest.mark.parametrize("count", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_intervals_cover_the_truth_as_often_as_they_say(count):
    """95 % of them, with a standard error of 3.4 % (1.1 %)."""
    found = fits_of_sets(count)
    for name, truth in (("asymptote", 0.6), ("exponent", 1.7), ("midpoint", 500.0)):
        intervals = [getattr(own, name) for own in found]
        covered = np.mean([own.low <= truth <= own.high for own in intervals])
        assert abs(covered - 0.95) < 3 * np.sqrt(0.05 * 0.95 / count), name


@pytest.mark.slow
def test_an_interval_is_as_wide_as_the_estimates_spread():
    """Half of it is t(5) = 2.571 standard errors; the spread of 400 estimates is known to 3.5 %."""
    found = [own.asymptote for own in fits_of_sets(400)]
    spread = np.std([own.mean for own in found])
    errors = np.array([(own.high - own.low) / 2 / 2.571 for own in found])
    assert np.sqrt((errors**2).mean()) == pytest.approx(spread, rel=3 * 0.035)


def test_two_calls_give_the_same():
    curves = seeds_of(RISING)
    first, second = fit_curves(curves), fit_curves(curves)
    assert first.curve == second.curve
    np.testing.assert_array_equal(first.draws, second.draws)


def test_one_seed_has_a_fit_and_no_interval():
    found = fit_curves(one_seed(RISING.at(COMPUTE)))
    np.testing.assert_allclose(found.curve, RISING, rtol=1e-6)
    for number in (found.asymptote, found.exponent, found.midpoint):
        assert np.isfinite(number.mean)
        assert np.isnan([number.low, number.high]).all()
    assert found.r_squared == pytest.approx(1)


def test_an_interval_of_the_asymptote_ends_where_a_share_ends():
    """Two seeds, at 0.95 and 0.97: t(1) = 12.7 standard errors of 0.01 reach beyond 1."""
    values = np.array([Sigmoid(0.2, asymptote, 2.0, 300.0).at(COMPUTE) for asymptote in (0.95, 0.97)])
    found = fit_curves(Curves(np.arange(2), COMPUTE, values, np.full(2, 0.2))).asymptote
    assert found.low < 0.9
    assert found.high == 1


# What is refused


def test_a_flat_curve_is_refused():
    assert reason_of(one_seed(np.full(40, 0.2))).startswith("flat: the mean change, +0.0000 [")
    random = np.random.default_rng(0)
    values = 0.2 + 0.01 * random.normal(size=(5, 40))
    noisy = Curves(np.arange(5), COMPUTE, values, np.full(5, 0.2))
    mean = values.mean() - 0.2
    assert reason_of(noisy).startswith(f"flat: the mean change, {mean:+.4f} [")


def test_a_falling_curve_is_fitted_downwards():
    found = fit_curves(seeds_of(FALLING))
    assert found.asymptote.low < 0.5 < found.asymptote.high
    assert found.asymptote.high < found.curve.base == pytest.approx(0.9)


@pytest.mark.parametrize(
    "values",
    [0.2 + COMPUTE / 10_000, Sigmoid(0.2, 0.9, 1.5, 6000.0).at(COMPUTE), 0.9 - COMPUTE / 10_000],
    ids=["a line", "the start of a sigmoid", "a falling line"],
)
def test_a_curve_that_does_not_bend_yet_is_refused(values):
    base = 0.9 if values[-1] < values[0] else 0.2
    assert reason_of(one_seed(values, base)).startswith("not bending yet, so that A is open: C_mid is ")


def test_an_asymptote_that_a_bound_alone_holds_is_refused():
    """Ever less steep, but far from 1 at the end, where the best sigmoid goes; what ends near 1 may go there."""
    slow = 0.2 + 0.5 * np.sqrt(COMPUTE / COMPUTE[-1])
    assert fit(COMPUTE, slow, 0.2).asymptote == pytest.approx(1, abs=1e-9)
    assert reason_of(one_seed(slow)).endswith("the curve ends at 0.700, and nothing but the bound holds A")
    near = Sigmoid(0.2, 1.0, 1.5, 300.0)
    assert fit_curves(one_seed(near.at(COMPUTE))).curve.asymptote == pytest.approx(1, abs=1e-6)


def test_a_midpoint_that_may_lie_beyond_the_data_is_refused_too():
    """The estimate is 3200 of 4000, and the noise leaves it open by more than that."""
    curve = Sigmoid(0.2, 0.6, 1.5, 3300.0)
    curves = seeds_of(curve, 4, noise=0.02, seed=2)
    assert fit(COMPUTE, curves.values.mean(axis=0), 0.2).midpoint < 4000
    assert reason_of(curves).startswith("not bending yet")
    assert isinstance(fit_curves(seeds_of(curve, 4, noise=0.0001)), Fit)


def test_a_curve_that_turns_or_has_two_steps_is_refused():
    there = Sigmoid(0.2, 0.6, 4.0, 400.0).at(COMPUTE)
    back = 0.4 * np.clip((COMPUTE - 2000) / 2000, 0, 1)
    away_and_back = 0.2 + 0.1 * np.sin(
        2 * np.pi * COMPUTE / COMPUTE[-1]
    )  # not flat, though its mean is that of the start
    for values in (there - back, there + back, away_and_back):
        assert reason_of(one_seed(values)).startswith("no sigmoid: at compute ")
    assert isinstance(fit_curves(one_seed(there - back / 20)), Fit)


def test_too_few_points_are_refused():
    few = Curves(np.array([0]), COMPUTE[:4], RISING.at(COMPUTE[:4])[None], np.array([0.2]))
    assert reason_of(few) == "too few points: 4 behind the base model; a fit takes 5 or more"
    none = Curves(np.array([0]), np.array([]), np.zeros((1, 0)), np.array([0.2]))
    assert reason_of(none).startswith("too few points: 0 ")


@pytest.mark.parametrize("value", [np.nan, 1.5, -0.1, np.inf])
def test_what_is_no_share_is_refused(value):
    values = RISING.at(COMPUTE)
    values[7] = value
    assert reason_of(one_seed(values)) == f"the value at compute 800 is {value:.3g}; a fit takes numbers from 0 to 1"
    assert reason_of(one_seed(RISING.at(COMPUTE), value)).startswith("the base model's value is ")


def test_curves_say_what_is_wrong_with_them():
    values, base = np.zeros((1, 2)), np.zeros(1)
    assert "increasing, above 0" in refusal(Curves, np.array([0]), np.array([0.0, 1.0]), values, base)
    assert "increasing, above 0" in refusal(Curves, np.array([0]), np.array([2.0, 1.0]), values, base)
    assert "each once" in refusal(Curves, np.array([3, 3]), np.array([1.0, 2.0]), np.zeros((2, 2)), np.zeros(2))
    none = np.array([], dtype=int)
    assert "one or more" in refusal(Curves, none, np.array([1.0, 2.0]), np.zeros((0, 2)), np.zeros(0))
    assert "from = -1" in refusal(seeds_of(RISING).between, -1.0)


def test_early_points_can_be_left_out():
    """A jump at the start, which the later points do not share, bends the fit unless it is left out."""
    values = RISING.at(COMPUTE)
    values[0] = 0.27
    curves = one_seed(values)
    assert abs(fit_curves(curves).curve.exponent - 1.7) > 0.005
    np.testing.assert_allclose(fit_curves(curves.between(400.0)).curve, RISING, rtol=1e-6)


# Arms against a baseline


def compared(arm, baseline=RISING, noise=0.002, **options):
    found = [fit_curves(seeds_of(curve, noise=noise)) for curve in (baseline, arm)]
    return against(*found, **options)


@pytest.mark.parametrize(
    ("arm", "verdict"),
    [
        (RISING._replace(asymptote=0.7), "higher asymptote"),
        (RISING._replace(asymptote=0.5), "lower asymptote"),
        (RISING._replace(midpoint=250.0), "same asymptote, faster"),
        (RISING._replace(midpoint=900.0), "same asymptote, slower"),
        (RISING, "same asymptote, same pace"),
        (RISING._replace(asymptote=0.62), "undecided"),
    ],
)
def test_a_verdict_tells_the_asymptote_from_the_pace(arm, verdict):
    found = compared(arm)
    assert found.verdict == verdict
    assert found.asymptote.low <= arm.asymptote - 0.6 <= found.asymptote.high
    assert found.midpoint.low <= arm.midpoint / 500 <= found.midpoint.high


def test_the_pace_is_open_where_its_interval_holds_1_and_more():
    curves = seeds_of(RISING, noise=0.01), seeds_of(RISING, noise=0.01, seed=1)
    assert against(*map(fit_curves, curves), margin=0.1).verdict == "same asymptote, pace open"


def test_what_two_arms_share_by_seed_does_not_count():
    """The same seeds have the same noise: the difference is surer than either asymptote."""
    first, second = (
        fit_curves(seeds_of(curve, spread=0.05, noise=0.001)) for curve in (RISING, RISING._replace(asymptote=0.65))
    )
    found = against(first, second)
    width = found.asymptote.high - found.asymptote.low
    assert width < 0.1 * (first.asymptote.high - first.asymptote.low)
    assert found.verdict == "higher asymptote"


@pytest.mark.parametrize("count", [20, pytest.param(400, marks=pytest.mark.slow)])
def test_intervals_of_differences_cover_the_truth_as_often_as_they_say(count):
    """Pairs of 6 seeds with common asymptotes: 95 % hold 0.1, with a standard error of 4.9 % (1.1 %)."""
    covered = []
    for seed in range(count):
        pair = [seeds_of(curve, 6, noise=0.01, spread=0.03, seed=seed, compute=FEW) for curve in (RISING, HIGHER)]
        pair[1].values[...] += np.random.default_rng([seed, 1]).normal(scale=0.01, size=pair[1].values.shape)
        found = against(*map(fit_curves, pair)).asymptote
        covered.append(found.low <= 0.1 <= found.high)
    assert abs(np.mean(covered) - 0.95) < 3 * np.sqrt(0.05 * 0.95 / count)


def test_a_difference_that_moves_with_the_compute_is_undecided():
    """Slower than any sigmoid: the first half of the compute puts the asymptote elsewhere than all of it."""
    slow = 0.2 + 0.27 * np.log1p(COMPUTE / 30) / np.log1p(COMPUTE[-1] / 30)
    noise = 0.0005 * np.random.default_rng(0).normal(size=(8, 40))
    arm = fit_curves(Curves(np.arange(8), COMPUTE, slow + noise, np.full(8, 0.2)))
    baseline = fit_curves(seeds_of(RISING, noise=0.0005))
    found = against(baseline, arm)
    assert -0.02 < found.asymptote.low < found.asymptote.high < 0.02
    assert found.drift > 0.03
    assert found.verdict == "undecided"


def test_one_seed_decides_nothing():
    first, second = (fit_curves(one_seed(curve.at(COMPUTE))) for curve in (RISING, RISING._replace(asymptote=0.9)))
    found = against(first, second)
    assert found.asymptote.mean == pytest.approx(0.3)
    assert np.isnan(found.asymptote.low)
    assert found.verdict == "undecided"


def test_fits_of_other_seeds_are_not_paired():
    first, second = seeds_of(RISING), seeds_of(RISING, 6)
    assert "allowed: the same" in refusal(against, fit_curves(first), fit_curves(second))
    assert "margin = 2" in refusal(against, fit_curves(first), fit_curves(first), 2)


# The table


def test_the_table_has_a_row_for_each_fit_and_a_line_for_each_refusal():
    arms = {
        "grpo": seeds_of(RISING),
        "slow": seeds_of(RISING._replace(midpoint=900.0)),
        "line": one_seed(0.2 + COMPUTE / 10_000),
    }
    lines = scaling_tables("pass@1", "rollouts", arms, "grpo")
    assert lines[0].startswith("pass@1 = R0 + (A - R0) / (1 + (C_mid / C)^B), C in rollouts; ")
    assert [line.split()[0] for line in lines[1:4]] == ["arm", "grpo", "slow"]
    assert lines[4].startswith("line: not bending yet")
    assert lines[6] == "against grpo, paired by seed; asymptotes within 0.02 are the same (ScaleRL's margin: 0.02)"
    assert lines[8].startswith("slow ")
    assert lines[8].endswith("same asymptote, slower")
    assert lines[9].startswith("line: not bending yet")
    assert len(lines) == 10


def test_arms_are_compared_by_the_seeds_that_both_have():
    whole = seeds_of(RISING, 8, spread=0.05, noise=0.001)
    better = seeds_of(RISING._replace(asymptote=0.7), 8, spread=0.05, noise=0.001)
    part = better.of_seeds(np.array([6, 1, 3, 4]))
    row = scaling_tables("pass@1", "rollouts", {"grpo": whole, "arm": part}, "grpo")[-1]
    common = np.array([1, 3, 4, 6])
    expected = against(fit_curves(whole.of_seeds(common)), fit_curves(better.of_seeds(common)))
    assert f"{expected.asymptote.mean:+.3f} [{expected.asymptote.low:+.3f}, {expected.asymptote.high:+.3f}]" in row
    apart = Curves(np.array([98, 99]), COMPUTE, whole.values[:2], whole.base[:2])
    lines = scaling_tables("pass@1", "rollouts", {"grpo": whole, "arm": apart}, "grpo")
    assert lines[-1] == "arm: no seed in common with the baseline"


def test_a_baseline_without_a_fit_compares_nothing():
    arms = {"flat": one_seed(np.full(40, 0.2)), "grpo": one_seed(RISING.at(COMPUTE))}
    assert (
        scaling_tables("pass@1", "rollouts", arms, "flat")[-1] == "flat has no fit, so that nothing is compared with it"
    )
    assert (
        refusal(scaling_tables, "pass@1", "rollouts", arms, "fgrpo")
        == "baseline = 'fgrpo' is unknown (did you mean 'grpo'?); allowed: flat, grpo"
    )
