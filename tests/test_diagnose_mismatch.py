"""The gap of sampler and trainer equals loops over tokens; impossible logs are named."""

import itertools
import json
import math

import numpy as np
import pytest
from diagnose_logs import windows_of

from simlab.diagnose.mismatch import do_sampler_and_trainer_agree
from simlab.diagnose.reading import read_log

STEPS, PROMPTS, SIZE, TOKENS = 4, 20, 4, 12


def told(folder, rows):
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    reading = read_log([folder / "log.jsonl"])
    return do_sampler_and_trainer_agree(reading, windows_of(reading))


def rows_of(spread, tilt=0.0, later=1.0):
    """Normal log-ratios of mean -spread^2 / 2, for which weights have the mean 1; ``tilt`` shifts them."""
    random = np.random.default_rng(1)
    for step in range(STEPS):
        width = spread * (later if step == STEPS - 1 else 1)
        for prompt in range(PROMPTS):
            for _ in range(SIZE):
                sampler = -random.exponential(2.0, TOKENS) - 1
                ratio = random.normal(tilt - width**2 / 2, width, TOKENS)
                yield {"step": step, "prompt": f"p{prompt}", "reward": int(random.integers(2)),
                       "old_log_probs": (sampler + ratio).tolist(), "rollout_log_probs": sampler.tolist(),
                       "response_mask": [1] * (TOKENS - 2) + [0, 0]}  # fmt: skip


def naive(ratios):
    weights = [math.exp(ratio) for ratio in ratios]
    mean = sum(ratios) / len(ratios)
    return {
        "mean log-ratio": mean,
        "spread of log-ratio": math.sqrt(sum((ratio - mean) ** 2 for ratio in ratios) / len(ratios)),
        "effective share": sum(weights) ** 2 / len(weights) / sum(weight**2 for weight in weights),
        "share of weights above 2": sum(weight > 2 for weight in weights) / len(weights),
        "weight lost by truncation at 2": 1 - sum(min(weight, 2) for weight in weights) / sum(weights),
        "weight lost by a mask above 2": sum(weight for weight in weights if weight > 2) / sum(weights),
    }


def test_tokens_and_rollouts_are_those_of_loops_over_what_the_mask_leaves(tmp_path):
    rows = list(rows_of(0.5))
    finding = told(tmp_path, rows)
    estimates = dict(finding.rows)
    pairs = [list(zip(row["old_log_probs"], row["rollout_log_probs"], strict=True))[:-2] for row in rows]
    ratios = [[p - q for p, q in tokens] for tokens in pairs]
    for unit, values in (("tokens", list(itertools.chain(*ratios))), ("rollouts", [sum(each) for each in ratios])):
        for name, value in naive(values).items():
            assert estimates[f"{unit}: {name}"].value == pytest.approx(value), (unit, name)
    assert estimates["tokens: spread of log-ratio"].low < 0.5 < estimates["tokens: spread of log-ratio"].high
    assert estimates["tokens: effective share"].low < math.exp(-0.25) < estimates["tokens: effective share"].high
    assert finding.sentence.startswith("Sampler and trainer differ")
    assert finding.concern >= 0.5
    assert len(finding.sentence.split()) <= 40


def test_rollouts_alone_are_told_where_sums_are_logged(tmp_path):
    rows = [
        row | {"old_log_probs": sum(row["old_log_probs"]), "rollout_log_probs": sum(row["rollout_log_probs"])}
        for row in rows_of(0.01)
    ]
    finding = told(tmp_path, rows)
    assert finding.sentence.startswith("Sampler and trainer agree")
    assert finding.concern < 0.01
    assert not any(label.startswith("tokens") for label, _ in finding.rows)
    for row in rows:
        del row["rollout_log_probs"]
    assert told(tmp_path, rows) is None


def test_a_trainer_that_is_surer_of_every_rollout_than_the_sampler_cannot_be(tmp_path):
    """The mean of log p - log q over draws of q is minus a divergence: another temperature was logged."""
    finding = told(tmp_path, rows_of(0.1, tilt=0.2))
    assert finding.sentence.startswith("They cannot both be right")
    assert finding.concern >= 0.7
    assert len(finding.sentence.split()) <= 40


def test_a_mismatch_that_grows_is_a_change(tmp_path):
    change = dict(told(tmp_path, rows_of(0.1, later=5.0)).rows)["tokens: effective share, change"]
    assert change.low < math.exp(-0.25) - math.exp(-0.01) < change.high < 0
