"""Forecasts of training logs: the score, each forecaster against a naive reference, and the kept numbers."""

import json
import sys

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks import forecasts
from benchmarks.forecasts import DATA, DIAGNOSE, RIVALS, about, crps, page, quantities, score
from figures.shared.oscillator import Oscillator
from simlab.bundled import SAMPLE_LOG
from simlab.diagnose.predict import predict
from simlab.diagnose.reading import read_log
from simlab.scaling.sigmoid import Sigmoid

STEPS, LATER = np.arange(1.0, 41), np.arange(41.0, 51)


@pytest.fixture
def metrics(tmp_path):
    """Forty steps of two rows each, whose reward is a hundredth of the step."""
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"step": s, "gain": s / 100 + up} for s in range(1, 41) for up in (0.1, -0.1)]))
    return path


@pytest.mark.parametrize(("mean", "deviation", "truth"), [(0.4, 0.1, 0.4), (0.4, 0.1, 0.7), (-1.0, 2.0, 0.3)])
def test_the_score_is_the_integral_of_the_squared_distance_of_distributions(mean, deviation, truth):
    points = np.linspace(-12, 12, 2_400_001)
    distance = norm.cdf(points, mean, deviation) - (points >= truth)
    assert crps(about(mean, deviation**2), truth) == pytest.approx(np.trapezoid(distance**2, points), abs=1e-5)


def test_no_change_is_the_mean_of_ten_steps_and_its_interval_that_of_a_difference_of_means():
    values = np.random.default_rng(0).uniform(size=40)
    told = RIVALS["no change"](STEPS, values, LATER)
    assert told.mean == pytest.approx(np.mean(values[30:]))
    half = 1.6448536 * np.sqrt(np.var(values[30:], ddof=1) * (1 / 10 + 1 / 10))
    assert (told.low, told.high) == pytest.approx((told.mean - half, told.mean + half))


def test_a_line_is_that_of_the_normal_equations():
    values = np.random.default_rng(0).uniform(size=40)
    for name, count in (("line", 20), ("last trend", 10)):
        design = np.stack([np.ones(count), STEPS[-count:]], axis=1)
        inverse, at = np.linalg.inv(design.T @ design), np.array([1.0, LATER.mean()])
        coefficients = inverse @ design.T @ values[-count:]
        noise = np.sum((values[-count:] - design @ coefficients) ** 2) / (count - 2)
        told = RIVALS[name](STEPS, values, LATER)
        assert told.mean == pytest.approx(at @ coefficients)
        half = 1.6448536 * np.sqrt(noise * (at @ inverse @ at + 1 / len(LATER)))
        assert told.high - told.mean == pytest.approx(half)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("last trend", lambda steps: 0.1 + 0.01 * steps),
        ("line", lambda steps: 0.1 + 0.01 * steps),
        ("sigmoid", Sigmoid(0.2, 0.8, 2.0, 15.0).at),
        ("oscillator", Oscillator(0.2, 0.8, 0.3, 0.6).at),
    ],
)
def test_a_curve_of_its_own_form_is_continued(name, values):
    past = np.concatenate([np.full(3, values(np.array([1e-9]))[0]), values(STEPS)])  # the forms rest on their base
    steps = np.arange(-2.0, 41)
    told = RIVALS[name](steps, past, LATER)
    assert told.mean == pytest.approx(values(LATER).mean(), abs=0.02)
    assert told.high - told.low < 0.05


def test_the_next_steps_of_a_log_of_rollouts_are_those_that_diagnose_tells():
    log = read_log([SAMPLE_LOG]).log
    for quantity in quantities(SAMPLE_LOG):
        for row in score(quantity):
            early = log.select(log.step < np.unique(log.step)[row["after"]])
            forecast = {entry.name: entry for entry in predict(early, 0.9, row["ahead"]).next_steps}[quantity.name]
            assert row["told"][DIAGNOSE] == pytest.approx([forecast.value, forecast.low, forecast.high], abs=1e-5)


def test_rows_of_a_step_are_averaged_and_cuts_have_a_past_and_a_future(metrics):
    (quantity,) = quantities(metrics, "gain")
    assert quantity.values == pytest.approx(STEPS / 100)
    rows = list(score(quantity))  # a quarter of forty steps is a past of ten, too few for a line through its later half
    assert [(row["after"], row["ahead"]) for row in rows] == [(20, 10), (30, 10)]
    assert rows[0]["truth"] == pytest.approx(np.mean(np.arange(21, 31)) / 100)
    assert rows[0]["told"]["line"][0] == pytest.approx(rows[0]["truth"], abs=1e-5)
    assert rows[0]["crps"]["line"] < rows[0]["crps"]["no change"]


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["forecasts", *map(str, arguments)])
    return forecasts.main()


def test_a_log_is_kept_once_and_the_table_has_a_row_a_forecaster(metrics, tmp_path, monkeypatch, capsys):
    out = tmp_path / "new" / "kept.json"
    for _ in range(2):
        assert run(monkeypatch, f"a run={metrics}", "--reward", "gain", "--out", out, "--set", "mine") == 0
    assert [log["log"] for log in json.loads(out.read_text())["logs"]] == ["a run"]
    capsys.readouterr()
    assert run(monkeypatch, "--table", "--out", out) == 0
    assert [line.split(" | ")[1] for line in capsys.readouterr().out.splitlines()[2:]] == [DIAGNOSE, *RIVALS]


@pytest.mark.parametrize("text", ["nothing", "{}", '[{"step": 1}]', '[{"gain": 1}]', "[1]"])
def test_what_holds_no_rewards_is_one_line_and_exit_code_2(text, tmp_path, monkeypatch, capsys):
    path = tmp_path / "rows.json"
    path.write_text(text)
    assert run(monkeypatch, path, "--reward", "gain", "--out", tmp_path / "kept.json") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "allowed: a list of objects" in line
    assert not (tmp_path / "kept.json").exists()


@pytest.mark.parametrize("options", [["kept.json"], ["kept.json", "--table"], ["rows.json"], ["page.json"]])
def test_what_is_no_file_of_forecasts_stays_as_it_is_and_exit_code_2(options, metrics, tmp_path, monkeypatch, capsys):
    for name in ("kept.json", "page.md"):
        (tmp_path / name).write_text("mine")
    before = {path: path.read_text() for path in tmp_path.iterdir()}
    assert run(monkeypatch, metrics, "--reward", "gain", "--out", tmp_path / options[0], *options[1:]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert {path: path.read_text() for path in tmp_path.iterdir()} == before


def test_kept_scores_are_those_of_what_was_told_and_the_page_shows_them():
    content = json.loads(DATA.read_text())
    for log in content["logs"]:
        for row in log["rows"]:
            for name, told in row["told"].items():
                assert row["crps"][name] == pytest.approx(crps(forecasts.Forecast(*told), row["truth"]), abs=3e-5)
    assert DATA.with_suffix(".md").read_text() == page(content)
