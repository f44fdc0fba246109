"""Changes of metrics are dated to their start, and signs of a collapse raise a warning."""

import json

import numpy as np
import pytest
from log_files import write_rows

from simlab.cli import main
from simlab.diagnose.change import FEWEST, find_change
from simlab.diagnose.metrics_report import report_metrics
from simlab.diagnose.reading import Metrics


def autoregression(source, count, correlation):
    noise = source.standard_normal(count)
    for t in range(1, count):
        noise[t] = correlation * noise[t - 1] + np.sqrt(1 - correlation**2) * noise[t]
    return noise


def shape(kind, count, start):
    """A unit change: at once, at a constant pace to the end, or ever slower."""
    after = np.maximum(np.arange(count) - start + 1, 0)
    shapes = {"step": after > 0, "bend": 2 * after / (count - start), "decay": 1 - np.exp(-7 * after / count)}
    return shapes[kind].astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.9])
@pytest.mark.parametrize("count", [30, 100, 400])
def test_intervals_hold_the_start_of_a_change_and_noise_is_no_change(count, correlation):
    """90 % intervals hold the start in 86 of 100 series or more, and noise is a change in ten of 100 at most."""
    source, steps, repeats = np.random.default_rng(count), np.arange(count), 100
    size = 4 * np.sqrt((1 + correlation) / (1 - correlation) * 30 / count)
    alarms = [find_change(steps, autoregression(source, count, correlation)) for _ in range(repeats)]
    assert sum(alarm is not None for alarm in alarms) <= 10
    for kind in ("step", "bend", "decay"):
        held = []
        for _ in range(repeats):
            start = source.integers(count // 5, 4 * count // 5)
            series = size * shape(kind, count, start) + autoregression(source, count, correlation)
            if (change := find_change(steps, series)) is not None:
                held.append(change.low <= start <= change.high)
        assert len(held) > repeats / 2
        assert np.mean(held) >= 0.86, kind


def test_a_change_is_where_it_was_made():
    steps = np.arange(0, 600, 10)
    series = np.where(steps >= 300, 2.0, 1.0) + 0.1 * np.random.default_rng(0).standard_normal(60)
    series[7] = np.nan
    change = find_change(steps, series)
    assert change.is_sudden
    assert change.low <= 300 <= change.high < change.low + 60
    assert (change.before, change.after) == pytest.approx((1, 2), abs=0.1)
    assert find_change(steps[: FEWEST - 1], series[: FEWEST - 1]) is None
    assert find_change(steps, np.ones(60)) is None


def logged(count=60):
    """A run whose entropy decays from step 20 on, and in which all groups are alike from step 40 on."""
    noise = 0.02 * np.random.default_rng(3).standard_normal((count, 5))
    return [
        {"step": s, "loss": a / 1e3, "reward": 0.3 + b, "entropy": np.exp(-max(0, s - 19) / 8) + c, "kl": 0.1 + d,
         "frac_reward_zero_std": 0.2 + 0.6 * (s >= 40) + e} for s, (a, b, c, d, e) in enumerate(noise)]  # fmt: skip


def test_what_precedes_a_collapse_is_said_first_drawn_and_written(tmp_path, capsys):
    path = write_rows(tmp_path, [{"global_step": 60, "log_history": logged()}], "trainer_state.json")
    page, table = tmp_path / "report.html", tmp_path / "report.json"
    assert main(["diagnose", str(path), "--html", str(page), "--json", str(table)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("1. entropy falls from step")
    report = json.loads(table.read_text())
    trends = {trend["name"]: trend["change"] for trend in report["trends"]}
    assert trends["kl"] is trends["loss"] is None
    assert trends["entropy"]["low"] <= 20 <= trends["entropy"]["high"]
    assert trends["no_signal"]["low"] <= 40 <= trends["no_signal"]["high"]
    assert [sentence.split()[0] for sentence in report["sentences"]][:3] == ["entropy", "no_signal", "A"]
    assert page.read_text().count("<svg") == 1
    assert "entropy collapses" in page.read_text()


def test_a_quiet_run_is_not_warned_of():
    source, steps = np.random.default_rng(1), np.arange(50)
    values = {name: 1 + 0.1 * source.standard_normal(50) for name in ("entropy", "kl", "length")}
    report = report_metrics(Metrics(steps, values, {name: name for name in values}, {}, 1))
    assert report.sentences == ("Nothing changes that is known to precede a collapse.",)


def test_a_run_whose_groups_have_no_signal_is_told_so_first_and_not_reassured(tmp_path, capsys):
    rows = [{"step": step, "loss": 0.0, "reward": 0.0, "frac_reward_zero_std": 1.0} for step in range(1, 21)]
    assert main(["diagnose", str(write_rows(tmp_path, [{"log_history": rows}], "trainer_state.json"))]) == 0
    printed = capsys.readouterr().out
    assert "1. 100% of the last groups teach nothing, 100% of the first: run the verifier" in printed
    assert "no fault" not in printed
