"""Lengths and truncation of right and wrong rollouts equal loops over the rows, and intervals hold the truth."""

import json

import numpy as np
import pytest
from diagnose_logs import windows_of

from simlab.diagnose.lengths import are_lengths_a_bias
from simlab.diagnose.reading import read_log


def judged(folder, rows):
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    reading = read_log([folder / "log.jsonl"])
    return are_lengths_a_bias(reading, windows_of(reading))


def rows_of(random, prompts=30, steps=8, size=4):
    """Wrong rollouts are 400 tokens and 50 more each step, right ones 200; half of the wrong ones are cut off."""
    for step in range(steps):
        for prompt in random.choice(prompts, prompts // 2, replace=False):
            for _ in range(size):
                right = random.random() < (prompt % 3) / 2
                length = random.poisson(200 if right else 400 + 50 * step)
                cut = bool(not right and random.random() < 0.5)
                yield {"step": step, "prompt": f"p{prompt}", "reward": int(right), "length": int(length),
                       "truncated": cut}  # fmt: skip


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def test_shares_lengths_and_weights_are_those_of_loops(tmp_path):
    rows = list(rows_of(np.random.default_rng(1)))
    finding = judged(tmp_path, rows)
    values = {label: row.value for label, row in finding.rows}
    wrong, right = ([row for row in rows if row["reward"] == reward] for reward in (0, 1))
    groups = {(row["step"], row["prompt"]): [] for row in rows}
    for row in rows:
        groups[row["step"], row["prompt"]].append(row)
    mixed = [row for group in groups.values() if 0 < sum(row["reward"] for row in group) < 4 for row in group]
    # The weight of each wrong token in the mean over sequences, and in that over tokens.
    by_sequence = [1 / (len(mixed) * row["length"]) for row in mixed if not row["reward"] for _ in range(row["length"])]
    by_token = 1 / sum(row["length"] for row in mixed)
    assert values["wrong rollouts cut off"] == pytest.approx(mean(row["truncated"] for row in wrong))
    assert values["right rollouts cut off"] == 0
    assert values["tokens of wrong rollouts"] == pytest.approx(mean(row["length"] for row in wrong))
    assert values["tokens of right rollouts"] == pytest.approx(mean(row["length"] for row in right))
    assert values["weight of wrong tokens if averaged by sequence"] == pytest.approx(mean(by_sequence) / by_token)
    late, early = (mean(row["length"] for row in wrong if row["step"] in steps) for steps in ((6, 7), (0, 1)))
    assert values["tokens of wrong rollouts, change"] == pytest.approx(late - early)


def test_the_drift_of_wrong_rollouts_is_sure_and_that_of_right_ones_is_not(tmp_path):
    rows = dict(judged(tmp_path, rows_of(np.random.default_rng(2))).rows)
    wrong, right = (rows[f"tokens of {kind} rollouts, change"] for kind in ("wrong", "right"))
    assert wrong.low < 300 < wrong.high
    assert right.low < 0 < right.high


def test_the_sentence_is_short_and_says_what_is_there(tmp_path):
    rows = list(rows_of(np.random.default_rng(3)))
    finding = judged(tmp_path, rows)
    assert len(finding.sentence.split()) <= 40
    assert finding.concern == pytest.approx(0.8 * dict(finding.rows)["wrong rollouts cut off"].value)
    right = [{"step": 0, "prompt": row["prompt"], "reward": 1, "length": 7} for row in rows]
    assert judged(tmp_path, right).sentence == "Right rollouts have 7 [7, 7] tokens."
    assert judged(tmp_path, right).concern == 0
    bare = [{name: row[name] for name in ("step", "prompt", "reward")} for row in rows]
    assert judged(tmp_path, bare) is None
