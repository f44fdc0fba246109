"""Answers about signal, trainer and several rewards are right on logs that are made, and whose truth is known."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from diagnose_logs import plain

from simlab.diagnose import signal
from simlab.diagnose.dead_groups import dead_share, observe_groups
from simlab.diagnose.diagnosis import Diagnosis
from simlab.diagnose.reading import read_log
from simlab.diagnose.solve_rates import fit_population

LEVEL = 0.9


def reading_of(tmp_path, rows):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_log([path])


def diagnosis_of(reading):
    """The estimates that the answers read, of a log of one window."""
    now, observed = fit_population(reading.log, LEVEL), observe_groups(reading.log)
    sizes = (observed.group_size * 2**power for power in range(3))
    read = SimpleNamespace(
        level=LEVEL,
        solve_rates=SimpleNamespace(windows=[SimpleNamespace(first=int(reading.log.step.min()))]),
        groups=SimpleNamespace(
            observed=observed,
            at_sizes=[SimpleNamespace(group_size=size, dead=now.estimate("", dead_share(size))) for size in sizes],
        ),
    )
    return Diagnosis(**dict.fromkeys(Diagnosis._fields) | vars(read))


def answer(tmp_path, rows, question=signal.is_the_loss_broken):
    reading = reading_of(tmp_path, rows)
    result = question(reading, diagnosis_of(reading))
    assert result is None or len(result.sentence.split()) <= 40, result.sentence
    return result


def groups_of_rewards(groups, **columns):
    """Rows of one step; a group is a list of rewards, or of the names of columns with their values."""
    return [
        {"step": 1, "prompt": f"p{prompt}", **(entry if isinstance(entry, dict) else {"reward": entry})} | columns
        for prompt, group in enumerate(groups)
        for entry in group
    ]


# Signal


def drawn(rates, group_size, seed, visits=1):
    random = np.random.default_rng(seed)
    return [(random.random(group_size) < rate).astype(int).tolist() for _ in range(visits) for rate in rates]


def test_all_wrong_is_told_with_the_first_thing_to_check(tmp_path):
    result = answer(tmp_path, groups_of_rewards([[0] * 4] * 9 + [[0] * 4], truth="1"))
    assert result.concern == 1
    assert result.sentence.startswith(
        "Yes, nothing is learned: all 10 groups have equal rewards, and no rollout is right"
    )
    assert "verifier" in result.sentence


def test_all_right_is_no_fault(tmp_path):
    result = answer(tmp_path, groups_of_rewards([[1] * 4] * 10))
    assert result.sentence.startswith("Nothing is left to learn: all 10 groups")


def test_share_without_signal_is_counted_and_its_interval_holds_the_truth(tmp_path):
    rates = np.array([0.0] * 30 + [0.5] * 70)
    groups = drawn(rates, 4, seed=2)
    dead = [len(set(group)) == 1 for group in groups]
    result = answer(tmp_path, groups_of_rewards(groups))
    estimate = dict(result.rows)["groups without signal"]
    assert estimate.value == np.mean(dead)
    assert estimate.low < 0.3 + 0.7 * 2 * 0.5**4 < estimate.high
    assert estimate.high - estimate.low < 0.2
    assert result.sentence.startswith("Not broken: ")
    assert "easier prompts" in result.sentence


def test_larger_groups_are_named_where_they_help(tmp_path):
    result = answer(tmp_path, groups_of_rewards(drawn([0.5] * 300, 2, seed=1)))
    assert "G = 4 leaves" in result.sentence
    hopeless = answer(tmp_path, groups_of_rewards([[0, 0, 0, 0]] * 150 + [[0, 0, 1, 1]] * 150))
    assert "G = 16 would leave" in hopeless.sentence


def test_graded_rewards_below_the_threshold_have_signal(tmp_path):
    rows = groups_of_rewards([[0.05, 0.05, 0.1, 0.15]] * 8 + [[0.1, 0.2, 1, 1]] * 8)
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    reading = read_log([path], threshold=1)
    result = signal.is_the_loss_broken(reading, diagnosis_of(reading))
    assert result.concern == signal.CALM
    assert dict(result.rows)["groups without signal"].value == 0
    assert dict(result.rows)["all wrong or all right, but graded"].value == 0.5


def test_parts_that_cancel_are_told_from_parts_that_are_equal(tmp_path):
    def part(correct, short):
        return {"reward_correct": float(correct), "reward_short": float(short), "reward": float(correct + short)}

    cancels = [part(0, 1), part(1, 0), part(1, 0), part(0, 1)]
    equal = [part(1, 0)] * 4
    teaches = [part(1, 1), part(1, 0), part(0, 0), part(0, 0)]
    result = answer(tmp_path, [row | {"correct": row["reward_correct"]} for row in
                               groups_of_rewards([cancels] * 3 + [equal] * 2 + [teaches] * 5)])  # fmt: skip
    shares = dict(result.rows)
    assert shares["groups without signal"].value == 0.5
    assert shares["of parts that cancel"].value == 0.3
    assert result.concern >= 0.5
    assert "cancel in the sum" in result.sentence


def test_sums_that_differ_by_rounding_have_no_signal(tmp_path):
    residue = [{"r_a": 0.1, "r_b": 0.2, "r_c": 0.3}, {"r_a": 0.3, "r_b": 0.2, "r_c": 0.1}] * 2
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1
    reading = reading_of(tmp_path, [row | {"correct": 1} for row in groups_of_rewards([residue] * 5)])
    groups = signal.group_signal(reading, 0)
    assert groups.silent.all()
    assert groups.residue.all()
    assert groups.cancel.all()


def test_a_log_whose_groups_all_teach_is_calm(tmp_path):
    result = answer(tmp_path, groups_of_rewards([[0, 1]] * 20))
    assert result.concern == signal.CALM
    assert "sum to 0" in result.sentence
    assert dict(result.rows)["groups without signal"].high < 0.1


def test_groups_of_one_rollout_have_no_answer(tmp_path):
    assert answer(tmp_path, groups_of_rewards([[0], [1], [1]])) is None
    assert answer(tmp_path, groups_of_rewards([[0], [1], [1]]), signal.were_prompts_filtered) is None


# Filter


def kept_groups(rates, group_size, seed):
    return [group for group in drawn(rates, group_size, seed) if 0 < sum(group) < group_size]


def test_a_filtered_log_is_told_with_a_bound_on_the_prompts_drawn(tmp_path):
    rates = np.random.default_rng(5).uniform(size=600)
    groups = kept_groups(rates, 4, seed=5)
    result = answer(tmp_path, groups_of_rewards(groups), signal.were_prompts_filtered)
    assert result.sentence.startswith(f"Filtered: none of {len(groups)} groups")
    draws = float(dict(result.rows)["prompts drawn for a group that is kept"].removeprefix("at least "))
    assert 1.15 < draws < 1 / (1 - 2 / 5)  # a uniform rate makes E p^4 = 1/5


def test_a_log_without_dead_groups_by_chance_is_not_called_filtered(tmp_path):
    groups = [group for group in drawn([0.5] * 60, 8, seed=1) if 0 < sum(group) < 8]
    result = answer(tmp_path, groups_of_rewards(groups), signal.were_prompts_filtered)
    assert result.sentence.startswith("It cannot be told")


def test_a_log_with_dead_groups_is_not_filtered(tmp_path):
    assert answer(tmp_path, groups_of_rewards([[0, 0], [0, 1]]), signal.were_prompts_filtered) is None


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.3, 0.3), (1.0, 4.0)])
def test_bound_on_draws_is_below_the_truth(a, b):
    """The lower end of a 90 % interval, in 40 logs: a right one is above the truth in 2 of them."""
    rates = np.random.default_rng(0).beta(a, b, size=200_000)
    truth, above = 1 / np.mean(1 - rates**8 - (1 - rates) ** 8), 0
    for seed in range(40):
        groups = kept_groups(np.random.default_rng(seed).beta(a, b, size=200), 8, seed)
        log = plain([sum(group) for group in groups], 8)
        above += signal.least_draws(log, 8, LEVEL) > truth
    assert above <= 6
