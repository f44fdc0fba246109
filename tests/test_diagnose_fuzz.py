"""Random small logs through the whole report: no error, no warning, every estimate in its range and order."""

import itertools
import json
import math
import warnings

import numpy as np
import pytest
from log_files import write_rows

from simlab.diagnose import dead_groups
from simlab.diagnose.diagnosis import diagnose
from simlab.diagnose.estimate import IntervalEstimate, as_json
from simlab.diagnose.live import Live
from simlab.diagnose.questions import list_findings
from simlab.diagnose.reading import read_log
from simlab.diagnose.report import report
from simlab.diagnose.summary import summary

ROUNDING = 1e-9
MOST_ROLLOUTS = 32


def random_rows(seed):
    """The rollouts of a log: 1 to 50 prompts in groups of 1 to 32, some of them never or always right."""
    random = np.random.default_rng(seed)
    prompts, largest = int(random.choice([1, 2, 3, 5, 10, 20, 50])), int(random.choice([1, 2, 4, 8, 16, MOST_ROLLOUTS]))
    is_uneven = random.random() < 0.4
    steps, solutions = (int(random.choice(numbers)) for numbers in ([1, 2, 5, 14], [1, 2, 40]))
    has_answers, has_lengths, has_log_probs = random.random(3) < 0.5
    never, always = random.choice([0, 0.15, 0.5, 1]), random.choice([0, 0.2, 0.5, 1])
    kind, rates = random.random(prompts), random.beta(1, 1, prompts)
    rates = np.select([kind < never, kind < never + always], [0.0, 1.0], rates)
    rows = []
    for prompt, rate in enumerate(rates.tolist()):
        for step in random.choice(steps, min(steps, int(random.integers(1, 5))), replace=False).tolist():
            for _ in range(int(random.integers(1, largest + 1)) if is_uneven else largest):
                is_right = bool(random.random() < rate)
                row = {"step": step, "prompt": f"p{prompt}", "reward": float(is_right)}
                if has_answers:
                    row["answer"] = str(random.integers(solutions)) if is_right else "wrong"
                if has_lengths:
                    row |= {"length": int(random.integers(1, 50)), "truncated": bool(random.random() < rate)}
                if has_log_probs:
                    row["log_probability"] = float(random.choice([0.0, -1e-300, -random.gamma(2)]))
                    row["rollout_logp"] = row["log_probability"] + float(random.choice([0.0, 1e-9, random.normal()]))
                rows.append(row)
    return rows


def check_order(estimates, ends=("value", "low", "high")):
    for end in ends:
        numbers = [getattr(entry, end) for entry in estimates]
        assert all(first <= last + ROUNDING or math.isnan(first + last) for first, last in itertools.pairwise(numbers))


def check_share(entry, most=1.0):
    for number in (entry.value, entry.low, entry.high):
        assert -ROUNDING <= number <= most + ROUNDING or math.isnan(number), entry


def list_estimates(record):
    if isinstance(record, IntervalEstimate):
        return [record]
    return [entry for field in record for entry in list_estimates(field)] if isinstance(record, tuple) else []


def check_diagnosis(result):
    for entry in list_estimates(result):
        assert math.isnan(entry.low) == math.isnan(entry.high)
        assert math.isnan(entry.low) or entry.low <= entry.value <= entry.high, entry
        assert not math.isinf(entry.value + entry.low + entry.high), entry
    check_rates(result)
    check_next_steps({entry.name: entry for entry in result.prediction.next_steps})
    if result.groups is None:
        assert result.recommendation is None
    else:
        check_groups(result.groups)
        for split in result.recommendation.splits:
            for entry in filter(None, (split.teaching, split.against, split.holding)):
                check_share(entry, result.recommendation.rollouts / split.group_size)
    if result.unseen is not None:
        typical = result.unseen.typical
        windows = [entry for window in result.unseen.windows for entry in (window.mass, window.share)]
        for entry in (*windows, typical.mass, typical.solve_rate, *typical.missed, *typical.against):
            check_share(entry)


def check_rates(result):
    rates, curve = result.solve_rates, result.pass_at_k
    for entry in (rates.mean, *rates.below, *curve.carried, *curve.beyond):
        check_share(entry)
    check_order((rates.mean, *curve.carried[1:], *curve.beyond))
    check_order(rates.below)
    if rates.change is not None:
        assert -1 <= rates.change.low <= rates.change.high <= 1
    if rates.learnability is not None:
        check_share(rates.learnability, 0.25)
        assert rates.learnability.value <= rates.mean.value + ROUNDING


def check_next_steps(steps):
    for name, entry in steps.items():
        check_share(entry, math.inf if name.startswith("distinct") else 1.0)
    if "all right" in steps:
        right, wrong = steps["all right"], steps["all wrong"]
        assert right.value + wrong.value <= 1 + ROUNDING
        assert math.isnan(right.low) or right.low + wrong.low <= 1 + ROUNDING
        check_order((wrong, steps["groups below a quarter right"]))
        check_order((right, steps["mean solve rate"]))


def check_groups(groups):
    for kind in ("all_right", "all_wrong", "dead"):
        entries = [getattr(predicted, kind) for predicted in groups.at_sizes]
        check_order(entries[::-1])
        for entry in entries:
            check_share(entry)
    for predicted in groups.at_sizes:
        assert predicted.all_right.value + predicted.all_wrong.value == pytest.approx(predicted.dead.value)
        check_share(predicted.effective_prompts, groups.observed.groups_per_step)
    for masses in groups.gradient_masses:
        for shares in (masses.of_prompts, masses.of_groups):
            total = sum(entry.value for entry in shares)
            assert math.isnan(total) or total == pytest.approx(1)
            for entry in shares:
                check_share(entry)


def check_log(seed, tmp_path, options, draws_page=False):
    rows = random_rows(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reading = read_log([write_rows(tmp_path, rows)])
        result = diagnose(reading.log, **options)
        findings = list_findings(reading, result)
        for entry in list_estimates(tuple(findings)):
            assert math.isnan(entry.low) or entry.low <= entry.value <= entry.high, entry
        assert not any("nan" in line.lower().split() for line in summary(reading, result, findings))
        json.dumps(as_json(result), allow_nan=False)
        if draws_page:
            report(reading, result, findings)
        check_diagnosis(result)
        steps = sorted({row["step"] for row in rows})
        live = Live(every=len(steps))
        for step in steps:
            batch = [row for row in rows if row["step"] == step]
            texts = [rf"\boxed{{{row.get('answer', 1)}}}" for row in batch]
            metrics = live.observe([row["prompt"] for row in batch], [row["reward"] for row in batch], texts)
            assert all(map(math.isfinite, metrics.values()))


@pytest.mark.parametrize("seed", range(3))
def test_a_random_log_is_reported(seed, tmp_path, monkeypatch):
    monkeypatch.setattr(dead_groups, "SIZES", (2, 8))
    check_log(seed, tmp_path, {"others": ()})


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 400, 100))
def test_hundreds_of_random_logs_are_reported(first, tmp_path, monkeypatch):
    monkeypatch.setattr(dead_groups, "SIZES", (2, 8, 64))
    for seed in range(first, first + 100):
        check_log(seed, tmp_path, {"others": ()}, draws_page=seed % 20 == 0)
