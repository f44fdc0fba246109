"""Sigmoid fits against compute: known curves found again, curves refused that tell no asymptote, arms compared."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from refusals import refusal
from run_folders import evaluation, metrics, write_run

from simlab.cli import main
from simlab.llm.compare import fit_tables, read_run
from simlab.scaling import Curves, Fit, Refusal, Sigmoid, against, estimates, fit, fit_curves, scaling_tables
from simlab.sweeps.result import read
from simlab.sweeps.table import curves as curves_of

COMPUTE = np.arange(1, 41) * 100.0
FEW = COMPUTE[::3]
RISING = Sigmoid(0.2, 0.6, 1.7, 500.0)
HIGHER = RISING._replace(asymptote=0.7)
FALLING = Sigmoid(0.9, 0.5, 1.3, 700.0)


def naive_value(compute, base, asymptote, exponent, midpoint):
    return base + (asymptote - base) / (1 + (midpoint / compute) ** exponent)


def naive_squares(compute, values, curve):
    return sum((naive_value(c, *curve) - value) ** 2 for c, value in zip(compute, values, strict=True))


def naive_fit(compute, values, base):
    """The best point of a grid of A, B and C_mid, and of ever finer grids around it."""
    widths, best = np.array([0.5, 1.5, 3.0]), np.array([0.5, math.log(1.5), math.log(500.0)])

    def curve(point):
        return Sigmoid(base, point[0], math.exp(point[1]), math.exp(point[2]))

    for _ in range(45):
        grid = best + widths * np.array(list(itertools.product((-1, -0.5, 0, 0.5, 1), repeat=3)))
        points = [point for point in grid if 0 <= point[0] <= 1]
        best = min(points, key=lambda point: naive_squares(compute, values, curve(point)))
        widths = widths * 0.75
    return curve(best)


def seeds_of(curve, count=8, *, noise=0.005, spread=0.0, seed=0, compute=COMPUTE):
    random = np.random.default_rng(seed)
    asymptotes = curve.asymptote + spread * random.normal(size=count)
    values = np.array([curve._replace(asymptote=asymptote).at(compute) for asymptote in asymptotes])
    values += noise * random.normal(size=values.shape)
    return Curves(np.arange(count), compute, values, np.full(count, curve.base))


def one_seed(values, base=0.2, compute=COMPUTE):
    return Curves(np.array([0]), compute, np.asarray(values, dtype=float)[None], np.array([base]))


def reason_of(curves):
    refused = fit_curves(curves)
    assert isinstance(refused, Refusal)
    return refused.reason


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """Save time: the error of an interval's width is 13 %."""
    monkeypatch.setattr(estimates, "RESAMPLES", 30)


@given(base=st.floats(0, 1), asymptote=st.floats(0, 1), exponent=st.floats(0.5, 5), midpoint=st.floats(200, 2000))
def test_an_exact_curve_that_bends_within_the_data_is_found_again(base, asymptote, exponent, midpoint):
    assume(abs(asymptote - base) >= 1e-3)  # nobody can tell the exponent of a flat one
    curve = Sigmoid(base, asymptote, exponent, midpoint)
    values = [naive_value(compute, *curve) for compute in COMPUTE]
    np.testing.assert_allclose(curve.at(COMPUTE), values, rtol=1e-12, atol=1e-15)  # a difference of shares
    # The search stays inside its bounds: an asymptote of 0 or 1, to six digits, is approached, and the others with it.
    rtol = 1e-4 if min(asymptote, 1 - asymptote) < 1e-6 else 1e-5
    np.testing.assert_allclose(fit(COMPUTE, np.array(values), base), curve, rtol=rtol, atol=1e-6)


@pytest.mark.parametrize(("curve", "seed"), [(RISING, 0), (FALLING, 2)])
def test_a_noisy_curve_has_the_fit_of_a_search_by_hand(curve, seed):
    compute = COMPUTE[::4]
    values = curve.at(compute) + np.random.default_rng(seed).normal(scale=0.02, size=len(compute))
    fitted, naive = fit(compute, values, curve.base), naive_fit(compute, values, curve.base)
    assert naive_squares(compute, values, fitted) <= naive_squares(compute, values, naive) * (1 + 1e-9)
    np.testing.assert_allclose(fitted, naive, rtol=2e-3)


@pytest.mark.slow
def test_intervals_cover_the_truth_as_often_as_they_say():
    """95 % of the intervals of 6 seeds do, which differ by noise and asymptotes; the standard error is 1.1 %."""
    count = 400
    sets = (seeds_of(RISING, 6, noise=0.01, spread=0.01, seed=seed, compute=FEW) for seed in range(count))
    fits = [fit_curves(curves) for curves in sets]
    for name, truth in (("asymptote", 0.6), ("exponent", 1.7), ("midpoint", 500.0)):
        intervals = [getattr(estimate, name) for estimate in fits]
        covered = np.mean([interval.low <= truth <= interval.high for interval in intervals])
        assert abs(covered - 0.95) < 3 * np.sqrt(0.05 * 0.95 / count), name


def test_one_seed_has_a_fit_and_no_interval():
    fitted = fit_curves(one_seed(RISING.at(COMPUTE)))
    np.testing.assert_allclose(fitted.curve, RISING, rtol=1e-6)
    numbers = np.array([fitted.asymptote, fitted.exponent, fitted.midpoint])
    assert np.isfinite(numbers[:, 0]).all()
    assert np.isnan(numbers[:, 1:]).all()
    assert fitted.r_squared == pytest.approx(1)


def test_an_interval_of_the_asymptote_ends_where_a_share_ends():
    """Two seeds, at 0.95 and 0.97: t(1) = 12.7 standard errors of 0.01 reach beyond 1."""
    values = np.array([Sigmoid(0.2, asymptote, 2.0, 300.0).at(COMPUTE) for asymptote in (0.95, 0.97)])
    asymptote = fit_curves(Curves(np.arange(2), COMPUTE, values, np.full(2, 0.2))).asymptote
    assert asymptote.low < 0.9
    assert asymptote.high == 1


def test_a_flat_curve_is_refused_and_a_falling_one_fitted():
    assert reason_of(one_seed(np.full(40, 0.2))).startswith("flat: ")
    noise = 0.2 + 0.01 * np.random.default_rng(0).normal(size=(5, 40))
    assert reason_of(Curves(np.arange(5), COMPUTE, noise, np.full(5, 0.2))).startswith("flat: ")
    falling = fit_curves(seeds_of(FALLING))
    assert falling.asymptote.low < 0.5 < falling.asymptote.high < falling.curve.base == pytest.approx(0.9)


def test_a_curve_that_does_not_bend_yet_is_refused():
    """A line, the start of a sigmoid, and a falling line."""
    line, start = 0.2 + COMPUTE / 10_000, Sigmoid(0.2, 0.9, 1.5, 6000.0).at(COMPUTE)
    for values, base in ((line, 0.2), (start, 0.2), (1.1 - line, 0.9)):
        assert reason_of(one_seed(values, base)).startswith("not bending yet")


def test_a_midpoint_that_may_lie_beyond_the_data_or_an_asymptote_that_a_bound_holds_is_refused():
    """The estimate is 3200 of 4000, and the noise leaves it open by more; a square root goes to 1, far from 0.7."""
    curve = Sigmoid(0.2, 0.6, 1.5, 3300.0)
    curves = seeds_of(curve, 4, noise=0.02, seed=2)
    assert fit(COMPUTE, curves.values.mean(axis=0), 0.2).midpoint < 4000
    assert reason_of(curves).startswith("not bending yet")
    assert isinstance(fit_curves(seeds_of(curve, 4, noise=0.0001)), Fit)
    slow = 0.2 + 0.5 * np.sqrt(COMPUTE / COMPUTE[-1])
    assert fit(COMPUTE, slow, 0.2).asymptote == pytest.approx(1, abs=1e-9)
    assert "bound" in reason_of(one_seed(slow))
    near = Sigmoid(0.2, 1.0, 1.5, 300.0)
    assert fit_curves(one_seed(near.at(COMPUTE))).curve.asymptote == pytest.approx(1, abs=1e-6)


def test_a_curve_that_turns_or_has_two_steps_is_refused():
    there = Sigmoid(0.2, 0.6, 4.0, 400.0).at(COMPUTE)
    back = 0.4 * np.clip((COMPUTE - 2000) / 2000, 0, 1)
    away_and_back = 0.2 + 0.1 * np.sin(2 * np.pi * COMPUTE / COMPUTE[-1])  # not flat, though its mean is the start's
    for values in (there - back, there + back, away_and_back):
        assert reason_of(one_seed(values)).startswith("no sigmoid: at compute ")
    assert isinstance(fit_curves(one_seed(there - back / 20)), Fit)


@pytest.mark.parametrize("value", [np.nan, 1.5, -0.1, np.inf])
def test_what_is_no_share_is_refused(value):
    values = RISING.at(COMPUTE)
    values[7] = value
    assert f"compute 800 is {value:.3g}" in reason_of(one_seed(values))
    assert "base model" in reason_of(one_seed(RISING.at(COMPUTE), value))


def test_curves_say_what_is_wrong_with_them():
    for seeds, compute, reason in (
        ([0], [0.0, 1.0], "increasing, above 0"),
        ([0], [2.0, 1.0], "increasing, above 0"),
        ([3, 3], [1.0, 2.0], "[3, 3]"),
        ([], [1.0, 2.0], "one or more"),
    ):
        count = len(seeds)
        assert reason in refusal(Curves, np.array(seeds, int), np.array(compute), np.zeros((count, 2)), np.zeros(count))


def test_early_points_can_be_left_out():
    """A jump at the start, which the later points do not share, bends the fit unless it is left out."""
    values = RISING.at(COMPUTE)
    values[0] = 0.27
    curves = one_seed(values)
    assert abs(fit_curves(curves).curve.exponent - 1.7) > 0.005
    assert reason_of(curves.between(0.0, 400.0)).startswith("too few points: 4 ")
    np.testing.assert_allclose(fit_curves(curves.between(400.0)).curve, RISING, rtol=1e-6)


@pytest.mark.parametrize(
    ("arm", "verdict"),
    [
        (HIGHER, "higher asymptote"),
        (RISING._replace(asymptote=0.5), "lower asymptote"),
        (RISING._replace(midpoint=250.0), "same asymptote, faster"),
        (RISING._replace(midpoint=900.0), "same asymptote, slower"),
        (RISING, "same asymptote, same pace"),
        (RISING._replace(asymptote=0.62), "undecided"),
    ],
)
def test_a_verdict_tells_the_asymptote_from_the_pace(arm, verdict):
    difference = against(*(fit_curves(seeds_of(curve, noise=0.002)) for curve in (RISING, arm)))
    assert difference.verdict == verdict
    assert difference.asymptote.low <= arm.asymptote - 0.6 <= difference.asymptote.high
    assert difference.midpoint.low <= arm.midpoint / 500 <= difference.midpoint.high


def test_the_pace_is_open_where_its_interval_holds_1_and_more():
    curves = seeds_of(RISING, noise=0.01), seeds_of(RISING, noise=0.01, seed=1)
    assert against(*map(fit_curves, curves), margin=0.1).verdict == "same asymptote, pace open"


def test_what_two_arms_share_by_seed_does_not_count():
    """The same seeds have the same noise: the difference is surer than either asymptote."""
    arms = (RISING, RISING._replace(asymptote=0.65))
    first, second = (fit_curves(seeds_of(curve, spread=0.05, noise=0.001)) for curve in arms)
    difference = against(first, second)
    width = difference.asymptote.high - difference.asymptote.low
    assert width < 0.1 * (first.asymptote.high - first.asymptote.low)
    assert difference.verdict == "higher asymptote"


def test_a_difference_that_moves_with_the_compute_is_undecided():
    """Slower than any sigmoid: the first half of the compute puts the asymptote elsewhere than all of it."""
    slow = 0.2 + 0.27 * np.log1p(COMPUTE / 30) / np.log1p(COMPUTE[-1] / 30)
    noise = 0.0005 * np.random.default_rng(0).normal(size=(8, 40))
    arm = fit_curves(Curves(np.arange(8), COMPUTE, slow + noise, np.full(8, 0.2)))
    difference = against(fit_curves(seeds_of(RISING, noise=0.0005)), arm)
    assert -0.02 < difference.asymptote.low < difference.asymptote.high < 0.02
    assert difference.drift > 0.03
    assert difference.verdict == "undecided"
    assert difference.advice.endswith("times as long a run would tell")


def test_one_seed_decides_nothing_and_other_seeds_are_not_paired():
    first, second = (fit_curves(one_seed(curve.at(COMPUTE))) for curve in (RISING, RISING._replace(asymptote=0.9)))
    difference = against(first, second)
    assert difference.asymptote.mean == pytest.approx(0.3)
    assert np.isnan(difference.asymptote.low)
    assert difference.verdict == "undecided"
    assert "[0, 1]" in refusal(against, first, fit_curves(seeds_of(RISING, 2)))
    assert "margin = 2" in refusal(against, first, first, 2)


def test_the_table_has_a_row_for_each_fit_and_a_line_for_each_refusal():
    arms = {
        "grpo": seeds_of(RISING),
        "slow": seeds_of(RISING._replace(midpoint=900.0)),
        "line": one_seed(0.2 + COMPUTE / 10_000),
    }
    lines = scaling_tables("pass@1", "rollouts", arms, "grpo")
    assert [line.split()[0] for line in lines[1:4]] == ["arm", "grpo", "slow"]
    assert lines[4].startswith("line: not bending yet")
    assert lines[6].startswith("against grpo, paired by seed; asymptotes within 0.02 are the same")
    assert lines[8].startswith("slow ")
    assert lines[8].endswith("same asymptote, slower")
    assert lines[9].startswith("line: not bending yet")
    assert lines[9].endswith("it ends 0.002 above grpo: not told apart, one seed")
    assert len(lines) == 10
    assert scaling_tables("pass@1", "rollouts", arms, "grpo") == lines
    of_line = scaling_tables("pass@1", "rollouts", arms, "line")
    assert of_line[-1].startswith("slow: the baseline has no fit: not bending yet")
    assert of_line[-1].endswith("not told apart, one seed")
    assert "'fgrpo'" in refusal(scaling_tables, "pass@1", "rollouts", arms, "fgrpo")


def test_arms_are_compared_by_the_seeds_that_both_have():
    whole = seeds_of(RISING, 8, spread=0.05, noise=0.001)
    better = seeds_of(HIGHER, 8, spread=0.05, noise=0.001)
    arms = {"grpo": whole, "arm": better.of_seeds(np.array([6, 1, 3, 4]))}
    row = scaling_tables("pass@1", "rollouts", arms, "grpo")[-1]
    common = np.array([1, 3, 4, 6])
    expected = against(fit_curves(whole.of_seeds(common)), fit_curves(better.of_seeds(common)))
    assert f"{expected.asymptote.mean:+.3f} [{expected.asymptote.low:+.3f}, {expected.asymptote.high:+.3f}]" in row
    apart = Curves(np.array([98, 99]), COMPUTE, whole.values[:2], whole.base[:2])
    lines = scaling_tables("pass@1", "rollouts", {"grpo": whole, "arm": apart}, "grpo")
    assert lines[-1] == "arm: no seed in common with the baseline"


def exponentials(last, count=40):
    """A bank whose prompts are solved at rates over four decades: its asymptote seems to rise with the run."""
    compute = np.arange(1, count + 1) * last / count
    paces = np.logspace(-6, -2, 40)
    curve = 0.9 - 0.9 * np.exp(-compute[:, None] * paces).mean(axis=1)
    return Curves(np.arange(6), compute, curve + 0.002 * np.random.default_rng(0).normal(size=(6, count)), np.zeros(6))


@pytest.mark.parametrize("last", [5e3, 1e4])
def test_an_interval_holds_what_a_longer_run_gives(last):
    asymptote, longer = (fit_curves(exponentials(end)).asymptote for end in (last, 3 * last))
    assert asymptote.mean + 0.1 < longer.mean <= asymptote.high
    assert fit_curves(seeds_of(RISING, noise=0.0)).asymptote.high < 0.6001  # a sigmoid has the same A at any length


BANK = (
    "--problem", "prompt_bank", "--estimator", "nsr", "--group-size", "2,4", "--seeds", "3", "--steps", "12",
    "--record-every", "2", "--param", "prompts=4", "--param", "actions=8", "--param", "prompts_per_step=3",
    "--pass-at-k", "1,8",
)  # fmt: skip


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    """Two group sizes on 3 of 4 prompts a step, recorded six times."""
    out = tmp_path_factory.mktemp("bank") / "bank.nc"
    assert main(["sweep", "--out", str(out), *BANK]) == 0
    return out


@pytest.mark.slow
def test_a_cell_is_fitted_against_the_rollouts_of_its_steps(bank):
    """Steps times 3 prompts times G; the record at step 0 is the base model."""
    dataset = read(bank)
    by_cell = curves_of(dataset, "pass@8")
    assert list(by_cell) == ["group_size = 2", "group_size = 4"]
    for size in (2, 4):
        cell = by_cell[f"group_size = {size}"]
        np.testing.assert_array_equal(cell.compute, np.array([2, 4, 6, 8, 10, 12]) * 3 * size)
        expected = dataset.pass_at_k.sel(k=8, estimator="nsr", group_size=size).values
        np.testing.assert_allclose(np.concatenate([cell.base[:, None], cell.values], axis=1), expected)
        np.testing.assert_array_equal(cell.seeds, [0, 1, 2])


@pytest.mark.slow
def test_fit_prints_the_tables_of_each_metric(bank, capsys):
    baseline, metrics = "group_size = 4", ("pass@1", "pass@8")
    assert main(["fit", str(bank), "--metric", ",".join(metrics), "--baseline", baseline]) == 0
    printed, dataset = capsys.readouterr().out.splitlines(), read(bank)
    first, second = (scaling_tables(metric, "rollouts", curves_of(dataset, metric), baseline) for metric in metrics)
    assert printed == [*first, "", *second]
    assert main(["fit", str(bank), "--from", "30"]) == 0
    assert "group_size = 2: too few points: 4 " in capsys.readouterr().out


@pytest.mark.slow
def test_a_wrong_option_of_fit_is_refused_in_one_line(bank, capsys):
    for option, value, words in (
        ("metric", "pass@3", "pass@3 is not recorded"),
        ("metric", "pass_at_k", "metric 'pass_at_k' has several numbers"),
        ("baseline", "rloo", "baseline = "),
        ("from", "-1", "from = "),
    ):
        assert main(["fit", str(bank), f"--{option}", value]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line
        assert value in line


PROBLEMS, SAMPLES = 4, 64


def rising(seed, half):
    """Evaluations of 4 problems, 64 samples each, whose pass@1 has done half of its way after ``half`` steps."""
    random = np.random.default_rng(seed)
    lines = [evaluation(0, [8, 8, 8, 8], samples=SAMPLES)]
    for step in range(10, 210, 10):
        solved = 8 + 40 / (1 + (half / step) ** 2) + random.normal(scale=0.5, size=PROBLEMS)
        lines.append(evaluation(step, solved.round().astype(int).tolist(), samples=SAMPLES))
    return metrics([0.5]), lines


@pytest.fixture
def run(tmp_path):
    """Two arms that go to the same pass@1, one at half the pace, of 6 seeds; 8 prompts and 4 rollouts each a step."""
    arms = {name: {seed: rising(seed, half) for seed in range(6)} for name, half in (("grpo", 40), ("f_grpo", 80))}
    return write_run(tmp_path / "run", arms, rl={"prompts": 8, "group_size": 4})


@pytest.mark.slow
def test_an_arm_is_fitted_to_its_evaluations_from_the_start_on(run, tmp_path, capsys):
    """The table is that of curves read from the files by hand."""
    table = fit_tables([read_run(run)], pass_at_k=[1], baseline="f_grpo")
    by_hand = {}
    for name, half in (("grpo", 40), ("f_grpo", 80)):
        lines = [rising(seed, half)[1] for seed in range(6)]
        rates = np.array([[sum(line["correct"]) / SAMPLES / PROBLEMS for line in records] for records in lines])
        by_hand[name] = Curves(np.arange(6), np.arange(10.0, 210.0, 10.0) * 8 * 4, rates[:, 1:], rates[:, 0])
    assert table == scaling_tables("pass@1", "rollouts", by_hand, "f_grpo")
    assert table[-1].endswith("same asymptote, faster")
    command = ["compare", str(run), "--figure", str(tmp_path / "compare.png"), "--fit", "320", "--baseline", "grpo"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    tables = fit_tables([read_run(run)], 320.0, baseline="grpo")
    assert "\n".join(tables) in printed
    assert [line.split(" = ")[0] for line in tables if " = R0" in line] == ["pass@1", "pass@64"]


def test_runs_that_do_not_say_enough_are_refused(run, tmp_path):
    bare = write_run(tmp_path / "bare", {"grpo": {0: rising(0, 40)}})
    assert "prompts and group_size" in refusal(fit_tables, [read_run(bare)])
    lines = rising(0, 40)
    late = write_run(tmp_path / "late", {"grpo": {0: (lines[0], lines[1][1:])}}, rl={"prompts": 8, "group_size": 4})
    assert "grpo" in refusal(fit_tables, [read_run(late)])
    assert "pass@65" in refusal(fit_tables, [read_run(run)], pass_at_k=[65])
    assert "'nsr'" in refusal(fit_tables, [read_run(run)], baseline="nsr")
    seeds = {seed: rising(seed, 40) for seed in range(6)}
    seeds[5] = (seeds[5][0], seeds[5][1][:4])  # one has come less far: too few for a fit of all
    short = write_run(tmp_path / "short", {"grpo": seeds}, rl={"prompts": 8, "group_size": 4})
    assert "grpo: too few points: 3 " in "\n".join(fit_tables([read_run(short)]))


def test_where_there_is_no_sigmoid_the_ends_are_compared():
    plateau = np.where(COMPUTE < 2000, 0.49, 0.9)
    noise = 0.005 * np.random.default_rng(1).normal(size=(8, 40))
    late = Curves(np.arange(8), COMPUTE, plateau + noise, np.full(8, 0.2))
    early = seeds_of(Sigmoid(0.2, 0.5, 2.0, 200.0))
    line = scaling_tables("pass@1", "rollouts", {"grpo": early, "late": late}, "grpo")[-1]
    assert line.startswith("late: no sigmoid")
    assert "it ends 0.40" in line
    assert line.endswith("not a clock in this run")
    rising = seeds_of(Sigmoid(0.2, 0.9, 1.0, 9000.0))
    line = scaling_tables("pass@1", "rollouts", {"grpo": early, "rising": rising}, "grpo")[-1]
    assert line.endswith("below grpo, still moving: a longer run would tell a clock from a ceiling") or "still" in line


def test_what_is_undecided_says_what_would_tell():
    def compared(count):
        curves = RISING._replace(asymptote=0.45), RISING._replace(asymptote=0.53)
        return against(*(fit_curves(seeds_of(each, count, spread=0.08, seed=n)) for n, each in enumerate(curves)))

    few = compared(6)
    assert few.verdict == "undecided"
    assert few.advice.endswith("times as many seeds would tell")
    assert compared(6 * int(few.advice.split()[1])).verdict == "higher asymptote"
