"""Entropy and distinct answers equal loops over rollouts and subsets, and a collapse is told as such."""

import itertools
import json
from collections import Counter

import numpy as np
import pytest
from diagnose_logs import windows_of

from simlab.diagnose.diversity import do_rollouts_become_alike
from simlab.diagnose.reading import read_log

STEPS, PROMPTS, SIZE = 8, 16, 6


def told(folder, rows):
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    reading = read_log([folder / "log.jsonl"])
    return do_rollouts_become_alike(reading, windows_of(reading))


def rows_of(first=18.6, last=1.0, solutions=5, left=1):
    """-log p falls in equal steps; right answers are some of ``solutions`` at first, and in the end of ``left``."""
    random = np.random.default_rng(2)
    for step in range(STEPS):
        mean, many = np.interp(step, [1, STEPS - 2], [first, last]), left if step >= STEPS - 2 else solutions
        for prompt in range(PROMPTS):
            for rollout in range(SIZE):
                right = bool(random.random() < 0.6)
                yield {"step": step, "prompt": f"p{prompt}", "reward": int(right),
                       "length": int(random.integers(5, 15)), "answer": str(random.integers(many)) if right else "no",
                       "log_probability": float(-mean * (1 + (rollout - 2.5) * (prompt % 4) / 10))}  # fmt: skip


def without(rows, *names):
    return [{name: cell for name, cell in row.items() if name not in names} for row in rows]


def distinct(rows, size):
    """Mean distinct answers of the subsets of ``size`` rollouts, averaged over prompts."""
    by_prompt = {}
    for row in rows:
        by_prompt.setdefault(row["prompt"], []).append(row["answer"])
    means = [
        np.mean([len(set(subset)) for subset in itertools.combinations(answers, size)])
        for answers in by_prompt.values() if len(answers) >= size
    ]  # fmt: skip
    return sum(means) / len(means)


def test_entropy_and_distinct_answers_are_those_of_loops(tmp_path):
    rows = list(rows_of())
    finding = told(tmp_path, rows)
    values = {label: row.value for label, row in finding.rows}
    counts = [
        Counter(row["prompt"] for row in rows if row["reward"] and row["step"] in steps) for steps in ((0, 1), (6, 7))
    ]
    both = {prompt for prompt in counts[0] if min(count[prompt] for count in counts) >= 4}
    for steps, name in (((0, 1), "steps 0 to 1"), ((6, 7), "steps 6 to 7")):
        window = [row for row in rows if row["step"] in steps]
        surprise = -sum(row["log_probability"] for row in window)
        assert values[f"nats a rollout, {name}"] == pytest.approx(surprise / len(window))
        assert values[f"nats a token, {name}"] == pytest.approx(surprise / sum(row["length"] for row in window))
        right = [row for row in window if row["reward"]]
        assert values[f"distinct of 8 rollouts, {name}"] == pytest.approx(distinct(window, 8))
        several = [row for row in right if row["prompt"] in both]
        assert values[f"distinct of 4 right ones, {name}"] == pytest.approx(distinct(several, 4))


def test_a_fall_is_said_with_both_ends(tmp_path):
    finding = told(tmp_path, without(rows_of(), "length", "answer"))
    change = dict(finding.rows)["nats a rollout, change"]
    assert finding.sentence.startswith("It collapses: entropy (-log p) 18.6 -> 1 (-17.6 [")
    assert change.value == pytest.approx(-17.6)
    assert finding.concern >= 0.7
    assert len(told(tmp_path, rows_of()).sentence.split()) <= 40


def test_answers_alone_tell_of_diversity(tmp_path):
    alike = told(tmp_path, without(rows_of(), "length", "log_probability"))
    assert alike.sentence.startswith("It collapses: distinct answers of 8 rollouts ")
    assert dict(alike.rows)["distinct of 4 right ones, steps 6 to 7"][1:4] == (1, 1, 1)
    steady = told(tmp_path, without(rows_of(left=5), "length", "log_probability"))
    assert steady.sentence.startswith("Rollouts stay as different as they were")
    assert steady.concern < 0.2
    assert told(tmp_path, without(rows_of(), "length", "log_probability", "answer")) is None


def test_entropies_that_are_logged_come_first_and_one_step_has_no_change(tmp_path):
    rows = [row | {"entropy": [0.5, 1.5], "step": 0} for row in without(rows_of(), "length", "answer")]
    assert told(tmp_path, rows).sentence == "Entropy as logged 1 [1, 1] nats a token."


@pytest.mark.slow
def test_intervals_of_distinct_answers_hold_the_truth(tmp_path):
    """Four rollouts show s (1 - (1 - 1/s)^4) of s equally frequent answers; prompts have 1 to 5, then 1 to 3."""
    held, count = 0, 300
    truth = [np.mean([s * (1 - (1 - 1 / s) ** 4) for s in range(1, most + 1)]) for most in (5, 3)]
    for seed in range(count):
        random, rows = np.random.default_rng(seed), []
        for step, most in enumerate((5, 3)):
            for prompt, many in enumerate(random.integers(1, most + 1, size=30)):
                rows += [{"step": step, "prompt": f"p{prompt}", "reward": 0, "answer": str(random.integers(many))}
                         for _ in range(4)]  # fmt: skip
        change = dict(told(tmp_path, rows).rows)["distinct of 4 rollouts, change"]
        held += change.low <= truth[1] - truth[0] <= change.high
    assert 0.85 < held / count < 0.95
