"""Lengths, truncation, mismatch and diversity of rollouts equal loops over the rows, and intervals hold the truth."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from diagnose_logs import windows_of
from log_files import write_rows

from simlab.diagnose.diversity import do_rollouts_become_alike
from simlab.diagnose.lengths import are_lengths_a_bias
from simlab.diagnose.mismatch import do_sampler_and_trainer_agree
from simlab.diagnose.reading import read_log


def told(question, folder, rows):
    reading = read_log([write_rows(folder, rows)])
    finding = question(reading, windows_of(reading))
    assert finding is None or len(finding.sentence.split()) <= 40, finding.sentence
    return finding


def mean(values):
    values = list(values)
    return sum(values) / len(values)


# Lengths and truncation


def cut_rows(seed):
    """Wrong rollouts are 400 tokens and 50 more each step, right ones 200; half of the wrong ones are cut off."""
    random = np.random.default_rng(seed)
    for step in range(8):
        for prompt, _ in itertools.product(random.choice(30, 15, replace=False), range(4)):
            right = random.random() < (prompt % 3) / 2
            length = random.poisson(200 if right else 400 + 50 * step)
            cut = bool(not right and random.random() < 0.5)
            yield {"step": step, "prompt": f"p{prompt}", "reward": int(right), "length": int(length), "truncated": cut}


def test_shares_lengths_and_weights_are_those_of_loops(tmp_path):
    rows = list(cut_rows(1))
    finding = told(are_lengths_a_bias, tmp_path, rows)
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
    assert finding.concern == pytest.approx(0.8 * values["wrong rollouts cut off"])


def test_the_drift_of_wrong_rollouts_is_sure_and_that_of_right_ones_is_not(tmp_path):
    rows = dict(told(are_lengths_a_bias, tmp_path, cut_rows(2)).rows)
    wrong, right = (rows[f"tokens of {kind} rollouts, change"] for kind in ("wrong", "right"))
    assert wrong.low < 300 < wrong.high
    assert right.low < 0 < right.high


def test_the_sentence_about_lengths_says_what_is_there(tmp_path):
    right = [{"step": 0, "prompt": row["prompt"], "reward": 1, "length": 7} for row in cut_rows(3)]
    finding = told(are_lengths_a_bias, tmp_path, right)
    assert (finding.sentence, finding.concern) == ("Right rollouts have 7 [7, 7] tokens.", 0)
    assert told(are_lengths_a_bias, tmp_path, without(right, "length")) is None


# Sampler and trainer


def token_rows(spread, tilt=0.0, later=1.0, tokens=12):
    """Normal log-ratios of mean -spread^2 / 2, for which weights have the mean 1; ``tilt`` shifts them."""
    random = np.random.default_rng(1)
    for step, prompt, _ in itertools.product(range(4), range(20), range(4)):
        width = spread * (later if step == 3 else 1)
        sampler = -random.exponential(2.0, tokens) - 1
        ratio = random.normal(tilt - width**2 / 2, width, tokens)
        yield {"step": step, "prompt": f"p{prompt}", "reward": int(random.integers(2)),
               "old_log_probs": (sampler + ratio).tolist(), "rollout_log_probs": sampler.tolist(),
               "response_mask": [1] * (tokens - 2) + [0, 0]}  # fmt: skip


def naive(ratios):
    weights = [math.exp(ratio) for ratio in ratios]
    middle = mean(ratios)
    return {
        "mean log-ratio": middle,
        "spread of log-ratio": math.sqrt(mean((ratio - middle) ** 2 for ratio in ratios)),
        "effective share": sum(weights) ** 2 / len(weights) / sum(weight**2 for weight in weights),
        "share of weights above 2": mean(weight > 2 for weight in weights),
        "weight lost by truncation at 2": 1 - sum(min(weight, 2) for weight in weights) / sum(weights),
        "weight lost by a mask above 2": sum(weight for weight in weights if weight > 2) / sum(weights),
    }


def test_tokens_and_rollouts_are_those_of_loops_over_what_the_mask_leaves(tmp_path):
    rows = list(token_rows(0.5))
    finding = told(do_sampler_and_trainer_agree, tmp_path, rows)
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


def test_rollouts_alone_are_told_where_sums_are_logged(tmp_path):
    rows = [row | {name: sum(row[name]) for name in ("old_log_probs", "rollout_log_probs")} for row in token_rows(0.01)]
    finding = told(do_sampler_and_trainer_agree, tmp_path, rows)
    assert finding.sentence.startswith("Sampler and trainer agree")
    assert finding.concern < 0.01
    assert not any(label.startswith("tokens") for label, _ in finding.rows)
    assert told(do_sampler_and_trainer_agree, tmp_path, without(rows, "rollout_log_probs")) is None


def test_a_trainer_that_is_surer_of_every_rollout_than_the_sampler_cannot_be(tmp_path):
    """The mean of log p - log q over draws of q is minus a divergence: another temperature was logged."""
    finding = told(do_sampler_and_trainer_agree, tmp_path, token_rows(0.1, tilt=0.2))
    assert finding.sentence.startswith("They cannot both be right")
    assert finding.concern >= 0.7


def test_a_mismatch_that_grows_is_a_change(tmp_path):
    finding = told(do_sampler_and_trainer_agree, tmp_path, token_rows(0.1, later=5.0))
    change = dict(finding.rows)["tokens: effective share, change"]
    assert change.low < math.exp(-0.25) - math.exp(-0.01) < change.high < 0


# Diversity


def answer_rows(left=1):
    """-log p falls from 18.6 to 1 in equal steps; right answers are one of five, and in the end one of ``left``."""
    random = np.random.default_rng(2)
    for step, prompt, rollout in itertools.product(range(8), range(16), range(6)):
        surprise, many = np.interp(step, [1, 6], [18.6, 1.0]), left if step >= 6 else 5
        right = bool(random.random() < 0.6)
        yield {"step": step, "prompt": f"p{prompt}", "reward": int(right), "length": int(random.integers(5, 15)),
               "answer": str(random.integers(many)) if right else "no",
               "log_probability": float(-surprise * (1 + (rollout - 2.5) * (prompt % 4) / 10))}  # fmt: skip


def without(rows, *names):
    return [{name: cell for name, cell in row.items() if name not in names} for row in rows]


def distinct(rows, size):
    """Mean distinct answers of the subsets of ``size`` rollouts, averaged over prompts."""
    by_prompt = {}
    for row in rows:
        by_prompt.setdefault(row["prompt"], []).append(row["answer"])
    subsets = [itertools.combinations(answers, size) for answers in by_prompt.values() if len(answers) >= size]
    return mean(mean(len(set(subset)) for subset in of_prompt) for of_prompt in subsets)


def test_entropy_and_distinct_answers_are_those_of_loops(tmp_path):
    rows = list(answer_rows())
    values = {label: row.value for label, row in told(do_rollouts_become_alike, tmp_path, rows).rows}
    counts = [
        Counter(row["prompt"] for row in rows if row["reward"] and row["step"] in steps) for steps in ((0, 1), (6, 7))
    ]
    both = {prompt for prompt in counts[0] if min(count[prompt] for count in counts) >= 4}
    for steps, name in (((0, 1), "steps 0 to 1"), ((6, 7), "steps 6 to 7")):
        window = [row for row in rows if row["step"] in steps]
        surprise = -sum(row["log_probability"] for row in window)
        assert values[f"nats a rollout, {name}"] == pytest.approx(surprise / len(window))
        assert values[f"nats a token, {name}"] == pytest.approx(surprise / sum(row["length"] for row in window))
        assert values[f"distinct of 8 rollouts, {name}"] == pytest.approx(distinct(window, 8))
        several = [row for row in window if row["reward"] and row["prompt"] in both]
        assert values[f"distinct of 4 right ones, {name}"] == pytest.approx(distinct(several, 4))


def test_a_fall_is_said_with_both_ends(tmp_path):
    finding = told(do_rollouts_become_alike, tmp_path, without(answer_rows(), "length", "answer"))
    assert finding.sentence.startswith("It collapses: entropy (-log p) 18.6 -> 1 (-17.6 [")
    assert dict(finding.rows)["nats a rollout, change"].value == pytest.approx(-17.6)
    assert finding.concern >= 0.7


def test_answers_alone_tell_of_diversity(tmp_path):
    alike = told(do_rollouts_become_alike, tmp_path, without(answer_rows(), "length", "log_probability"))
    assert alike.sentence.startswith("It collapses: distinct answers of 8 rollouts ")
    assert dict(alike.rows)["distinct of 4 right ones, steps 6 to 7"][1:4] == (1, 1, 1)
    steady = told(do_rollouts_become_alike, tmp_path, without(answer_rows(left=5), "length", "log_probability"))
    assert steady.sentence.startswith("Rollouts stay as different as they were")
    assert steady.concern < 0.2
    nothing = without(answer_rows(), "length", "log_probability", "answer")
    assert told(do_rollouts_become_alike, tmp_path, nothing) is None


def test_entropies_that_are_logged_come_first_and_one_step_has_no_change(tmp_path):
    rows = [row | {"entropy": [0.5, 1.5], "step": 0} for row in without(answer_rows(), "length", "answer")]
    finding = told(do_rollouts_become_alike, tmp_path, rows)
    assert finding.sentence == "Entropy as logged 1 [1, 1] nats a token."


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
        change = dict(told(do_rollouts_become_alike, tmp_path, rows).rows)["distinct of 4 rollouts, change"]
        held += change.low <= truth[1] - truth[0] <= change.high
    assert 0.85 < held / count < 0.95
