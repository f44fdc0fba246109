"""The rule by which predictors of lost solve rates are judged, and the runs that it reads."""

import itertools
import json

import numpy as np
import pytest

from figures import interference_predictions
from figures.shared import loses_rate, watched_runs

PROMPTS = 4000


def a_window(seed=0, pace=1.0, slope=0.5, noise=1.0, rate=None):
    """Net pushes of standard deviation .1, half by half with noise; changes are ``slope`` of the predicted ones."""
    random = np.random.default_rng(seed)
    push = 0.1 * random.standard_normal(PROMPTS)
    halves = push + 0.1 * noise * random.standard_normal((2, PROMPTS))
    before = np.full(PROMPTS, 0.5)
    known = np.full(PROMPTS, 0.5) if rate is None else np.asarray(rate)
    pushes = dict.fromkeys(loses_rate.ESTIMATORS, (halves.mean(axis=0), halves))
    return loses_rate.Window(known, known, pushes, pace, np.zeros(PROMPTS), before, before + slope * pace * push)


def test_the_area_is_the_share_of_pairs_in_order():
    random = np.random.default_rng(1)
    scores, falls = random.integers(0, 6, 40).astype(float), random.random(40) < 0.3
    pairs = [(a > b) + (a == b) / 2 for a, b in itertools.product(scores[falls], scores[~falls])]
    assert loses_rate.area(scores, falls) == pytest.approx(np.mean(pairs))
    assert loses_rate.area(np.zeros(40), falls) == 0.5, "a constant"
    assert np.isnan(loses_rate.area(scores, np.zeros(40, bool)))


def test_only_a_loss_beyond_two_standard_errors_counts():
    """192 samples at each end: the standard error of a difference is .051 near one half."""
    before, after = np.array([0.5, 0.5, 0.5, 0.0]), np.array([0.39, 0.43, 0.61, 0.0])
    window = a_window()._replace(before=before, after=after)
    assert window.falls.tolist() == [True, False, False, False]
    assert window.rises.tolist() == [False, False, True, False]


def test_noise_in_a_prediction_does_not_flatten_the_slope():
    """Over 4,000 prompts whose halves are as noisy as they vary; the standard error is by 40 draws."""
    draws = [loses_rate.slope([[a_window(seed, pace=2.0)]], "full") for seed in range(40)]
    error = np.std(draws, ddof=1)
    assert error < 0.02
    assert abs(np.mean(draws) - 0.5) < 4 * error / np.sqrt(len(draws))
    assert abs(draws[0] - 0.5) < 4 * error


def test_prompts_of_which_nothing_is_known_are_not_read():
    rate = np.where(np.arange(PROMPTS) % 2, 0.5, 0.0)
    window = a_window(rate=rate)
    spoilt = window._replace(after=np.where(rate > 0, window.after, 0.0))
    assert loses_rate.slope([[window]], "full") == loses_rate.slope([[spoilt]], "full")
    assert loses_rate.areas(window, [], "area") == loses_rate.areas(spoilt, [], "area")


def test_a_solve_rate_learns_from_other_seeds_how_often_such_a_rate_falls():
    rate = np.where(np.arange(PROMPTS) < PROMPTS / 2, 0.2, 0.8)
    other = a_window(rate=rate)._replace(before=np.full(PROMPTS, 0.5), after=np.where(rate < 0.5, 0.5, 0.2))
    np.testing.assert_array_equal(loses_rate.learned(np.array([0.1, 0.9]), [other]), [0, 1])


def test_pushes_age_as_their_true_values_do():
    """Correlations of .9, .5 and .1 after 5, 10 and 20 steps, under noise as large as the pushes."""
    random, truth = np.random.default_rng(3), [0.9, 0.5, 0.1]
    first = random.standard_normal(PROMPTS)

    def watched(push):
        halves = push + random.standard_normal((2, PROMPTS))
        return {"rate": [0.5] * PROMPTS, "full": {"halves": halves.tolist()}}

    later = [c * first + np.sqrt(1 - c * c) * random.standard_normal(PROMPTS) for c in truth]
    steps = [str(watched_runs.WATCHED[0] + lag) for lag in (0, *loses_rate.LAGS)]
    arm = {"outside": PROMPTS, "watched": dict(zip(steps, map(watched, (first, *later)), strict=True))}
    correlations = [loses_rate.ages([arm], "full", lag) for lag in loses_rate.LAGS]
    np.testing.assert_allclose(correlations, truth, atol=0.12)  # 4 standard errors


def test_the_jackknife_of_a_mean_is_the_mean():
    assert loses_rate.pseudo_values(np.mean, [1.0, 2.0, 6.0]) == pytest.approx([1.0, 2.0, 6.0])


def test_a_ratio_that_rests_on_a_single_seed_has_no_interval():
    """Two seeds in which nothing is known would else agree to all digits."""
    assert np.isnan(
        loses_rate.pseudo_values(
            lambda seeds: np.divide(sum(seeds), sum(seeds), out=np.array(np.nan), where=sum(seeds) > 0), [0.0, 3.0, 0.0]
        )
    ).all()
    assert np.isnan(loses_rate.over_seeds([np.nan, np.nan, 1.0])).all()


@pytest.mark.slow
def test_a_watched_run_is_kept_once_it_is_finished_and_is_judged(tmp_path, monkeypatch):
    rates = {"adamw": (2e-4,), "sgd": (0.05,)}
    watch = watched_runs.USUAL._replace(outside=4, trained=2, samples=64, rates=rates)
    monkeypatch.setitem(watched_runs.WATCHES, "countdown", watch)
    monkeypatch.setattr(watched_runs.PartlyCountdown, "trained", 2)
    changes = {
        "task": {"numbers": 2, "largest": 8},
        "model": {"hidden_size": 16, "intermediate_size": 32, "num_layers": 1},
        "warm_start": {"steps": 150, "batch": 32, "learning_rate": 0.01},
    }
    arms = watch.arms
    assert list(watched_runs.train_seed("countdown", 1, tmp_path, changes, "sgd")) == arms[1:]
    assert list(watched_runs.train_seed("countdown", 1, tmp_path, changes)) == arms[:1]
    assert list(watched_runs.train_seed("countdown", 1, tmp_path, changes)) == [], "nothing is made twice"
    content = json.loads((tmp_path / "countdown-1.json").read_text())
    arm = content["arms"][arms[0]]
    assert set(arm["measured"]) == {"0", "10", "30", "50"}
    assert set(arm["watched"]) == {"10", "15", "20", "30"}
    assert len(arm["watched"]["10"]["full"]["net"]) == len(content["prompts"]) == 6
    condensed = interference_predictions.condense(tmp_path, {"provenance": [], "prompts": {}, "seeds": {}})
    assert list(interference_predictions.judging(condensed, "countdown")) == ["1"]
    assert loses_rate.window(arm, arms[0], 10).pace == pytest.approx(20 * 2e-4)


def test_many_rollouts_say_how_reliable_a_push_is_and_how_much_of_it_comes():
    """Sources and targets add noise of their own, each half the variance of the push: a reliability of 1/2."""
    random = np.random.default_rng(4)
    push = random.standard_normal(PROMPTS)
    sources, targets = random.standard_normal((2, 2, PROMPTS)) * np.sqrt(0.5)
    nets = push + sources[:, None] + targets[None]
    fewer = {"net": [0.0] * PROMPTS, "halves": [[0.0] * PROMPTS] * 2, "error": [1.0] * PROMPTS}
    watched = {"rate": [0.5] * PROMPTS, "full": fewer, "head": fewer}
    even = [0.5] * PROMPTS
    arm = {
        "outside": PROMPTS,
        "measured": {"0": even, "10": even, "30": (0.5 + 0.3 * 20 * 0.01 * push).tolist()},
        "watched": {"10": watched},
        "sharper": {"rate": even, "net": nets.tolist()},
    }
    results = loses_rate.sharper([arm], "grpo@learning_rate=0.01", 30)
    assert results["reliability"] == pytest.approx(0.5, abs=0.06)  # 4 standard errors
    assert results["slope"] == pytest.approx(0.3, abs=0.03)
    assert 0.75 < results["sharper"] < 0.9
    assert results["full"] == results["trend"] == 0.5
    assert np.isnan(results["less full, low"]), "a single seed has no interval"


def test_sizes_are_read_beside_their_errors_and_beside_what_comes():
    """Trained prompts have pushes of .25 and gain .1; the others have errors of half the deviation of their pushes."""
    random = np.random.default_rng(5)
    net = random.standard_normal(64 + 32)
    net[64:] = 0.25
    pushes = {
        "net": net.tolist(),
        "halves": [net.tolist(), (3 * net).tolist()],
        "error": [0.5 * float(net[:64].std())] * len(net),
    }
    even = [0.5] * len(net)
    after = {step: [0.5] * 64 + [0.5 + gain] * 32 for step, gain in (("30", 0.1), ("50", 0.2))}
    watched = {"rate": even, "full": pushes, "head": pushes}
    arm = {"measured": {"0": even, "10": even, **after}, "watched": {step: watched for step in ("10", "20", "30")}}
    sizes = loses_rate.sizes([arm], "grpo@learning_rate=0.01")
    assert sizes == pytest.approx({"noise": 0.5, "halves": 1.0, "predicted": 20 * 0.01 * 0.25, "measured": 0.1})
