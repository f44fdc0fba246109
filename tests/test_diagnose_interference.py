"""The finding names planted harm, and accuses nobody where nobody harms."""

import dataclasses
import json

import numpy as np
import pytest
from diagnose_logs import windows_of
from log_files import row, write_jsonl, write_trl
from probe_records import PACE, measurement, planted, written

from simlab.cli import main
from simlab.diagnose.interference import do_prompts_harm_one_another, mean_changes, pass_at_k_change
from simlab.diagnose.interference_map import sorted_moves
from simlab.diagnose.reading import read_log
from simlab.interference.kernel import measure
from simlab.interference.weights import rollout_weights
from simlab.methods import method
from simlab.rollouts import Rollouts

LEVEL = 0.9
ALLOWED = 0.05  # share of logs without harm that may tell of some
ROWS = [row(step, prompt, float(at < 2)) for step in range(4) for prompt in "abc" for at in range(4)]


@pytest.fixture(scope="module")
def reading(tmp_path_factory):
    return read_log([write_jsonl(tmp_path_factory.mktemp("log"), ROWS)])


def told(reading, records):
    return do_prompts_harm_one_another(dataclasses.replace(reading, probe=tuple(records)), windows_of(reading))


def numbers(finding):
    return {label: value for label, value in finding.rows if not isinstance(value, str)}


# Planted harm


def test_prompts_in_danger_and_those_who_harm_them_are_named(reading):
    finding = told(reading, planted())
    assert finding.sentence.startswith("Prompts harm one another: 25% [25%, 25%] of the watched prompts")
    assert "(100% [100%, 100%] of the hard ones), surely " in finding.sentence
    surely, by = finding.sentence.partition("surely ")[2].partition(". At this pace")[0].split("; mostly by ")
    assert set(surely.split(", ")) == {"'p9'", "'p10'", "'p11'"}
    assert set(by.split(", ")) == {"'s0'", "'s1'"}
    rows = numbers(finding)
    assert rows["  'p9'"].low <= PACE * 2 * -0.6 <= rows["  'p9'"].high < 0
    assert rows["  's0'"].low <= PACE * -0.6 <= rows["  's0'"].high < 0


def test_the_share_is_held_by_its_interval_and_its_value_is_near(reading):
    """A fifth of 60 prompts is in danger, and noise is a third of their movement: 40 logs."""
    held, values = 0, []
    for seed in range(40):
        records = planted(harm=-0.3, help_=0.6, error=0.16, lost=12, prompts=60, seed=seed)
        share = numbers(told(reading, records))["prompts in danger"]
        held += share.low <= 0.2 <= share.high
        values.append(share.value)
    assert held >= 40 * LEVEL
    assert np.mean(values) == pytest.approx(0.2, abs=0.02)


def test_a_prompt_of_the_batch_is_in_danger_where_others_push_more_than_itself(reading):
    """A record's net push includes its own; without watched prompts the finding asks about those of the batches."""
    records = [record._replace(batch=np.ones(len(record.prompts), bool)) for record in planted(harmful=1, harm=-2.0)]
    finding = told(reading, records)
    assert "of the prompts are pushed down by others more than up by themselves" in finding.sentence
    assert "mostly by 's0'" in finding.sentence


def test_pass_at_k_moves_as_its_derivative_says():
    """Q = 0.1, R = 17, k = 8: over 20,000 draws of m within 4 standard errors of k Q (1 - Q)^k times the push."""
    random, rate, count, push, draws = np.random.default_rng(0), 0.1, 17, 0.7, 20_000
    right = random.binomial(count, rate, draws)
    net = push * right * (count - right) / (count * (count - 1))
    (record,) = planted(steps=1)
    pushes = record.interference.push._replace(net=net), record.interference.error._replace(net=np.ones(draws))
    record = record._replace(
        prompts=[f"p{at}" for at in range(draws)], batch=np.ones(draws, bool), rollouts=np.full(draws, count),
        solve_rate=right / count, interference=record.interference._replace(push=pushes[0], error=pushes[1]),
    )  # fmt: skip
    k, estimate = pass_at_k_change([record] * 3, LEVEL)
    of_each = [8 * PACE * change * sum_of_subsets(m, count, 8) for m, change in zip(right, net, strict=True)]
    assert k == 8
    assert estimate.value == pytest.approx(np.mean(of_each), rel=1e-9)
    assert abs(estimate.value - 8 * PACE * push * rate * (1 - rate) ** 8) < 4 * np.std(of_each) / np.sqrt(draws)


def sum_of_subsets(right, count, k):
    """C(R - 1 - m, k - 1) / C(R - 2, k - 1), factor by factor."""
    share = 1.0
    for drawn in range(k - 1):
        share *= max(count - 1 - right - drawn, 0) / (count - 2 - drawn)
    return share


def test_a_loss_of_pass_at_k_is_said_with_its_steps(reading):
    falling = told(reading, planted(lost=9, help_=0.01))
    assert "At this pace pass@16 falls by " in falling.sentence
    assert numbers(falling)["pass@16, predicted change in 10 steps"].high < 0
    assert falling.concern > told(reading, planted(lost=0)).concern


def test_without_the_optimizer_it_is_said_that_pass_at_k_falls_and_not_how_fast(reading):
    records = planted(lost=9, help_=0.01)
    records = [record._replace(facts=record.facts | {"estimator": "head", "optimizer": "adamw"}) for record in records]
    finding = told(reading, records)
    assert "At this pace pass@16 falls; how fast is not told" in finding.sentence
    assert "pass@16, predicted change in 10 plain gradient steps" in numbers(finding)
    assert ("measurements", "4 at steps 10 to 40, by the last layer alone") in finding.rows


# Logs without harm


def shared_errors(seed, prompts=24, steps=4):
    """No true push; the errors of a batch's prompts go together, like errors of one noisy update."""
    random = np.random.default_rng(seed)
    for step in range(steps):
        noise = random.normal(size=prompts) + 2 * random.normal()
        yield measurement(step, ["s"], [f"p{at}" for at in range(prompts)], noise[None], np.sqrt(5.0))


def test_nobody_is_accused_where_nobody_harms(reading):
    """Names, or a loss of pass@k, each in 5 % of 400 logs and 3 standard errors more at most."""
    names = losses = 0
    for seed in range(400):
        records = list(shared_errors(seed))
        names += mean_changes(records).surely(LEVEL).any()
        losses += pass_at_k_change(records, LEVEL)[1].high < 0
    most = 400 * ALLOWED + 3 * np.sqrt(400 * ALLOWED * (1 - ALLOWED))
    assert names <= most
    assert losses <= most
    finding = told(reading, shared_errors(1))
    assert finding.sentence.startswith("Whether prompts harm one another is open: which of 24 are pushed down is lost")


@pytest.mark.slow
def test_nor_where_the_pushes_are_measured_from_rollouts():
    """Scores are noise, nearly all in one direction: 200 logs, with the errors of the estimator."""
    trials, names, losses = 200, 0, 0
    for seed in range(trials):
        random = np.random.default_rng(seed)
        records = [measured(random, step, prompts=12, group=6) for step in range(3)]
        names += mean_changes(records).surely(LEVEL).any()
        losses += pass_at_k_change(records, LEVEL)[1].high < 0
    most = trials * ALLOWED + 3 * np.sqrt(trials * ALLOWED * (1 - ALLOWED))
    assert names <= most
    assert losses <= most


def measured(random, step, prompts, group):
    rates = random.uniform(0.1, 0.9, prompts)
    correct = random.random((prompts, group)) < rates[:, None]
    scores = random.normal(size=(prompts, group, prompts + 3))
    scores[..., -1] *= 4
    weights = rollout_weights(method("grpo"), Rollouts(correct.astype(float)))
    interference = measure([scores], correct, *weights)
    texts = [f"{step}.{at}" for at in range(prompts)]
    record = measurement(step, texts, [], np.zeros((prompts, 0)), np.zeros((prompts, 0)))
    return record._replace(rollouts=np.full(prompts, group), solve_rate=correct.mean(axis=1), interference=interference)


@pytest.mark.parametrize(
    ("planting", "words"),
    [
        ({"lost": 0, "harmful": 0}, "No prompt is surely pushed down by others, and 100% are surely pushed up."),
        ({"steps": 2}, "What pass@16 loses is not told by fewer than 3 measurements."),
    ],
)
def test_prompts_that_are_helped_are_in_no_danger_and_few_measurements_tell_no_loss(reading, planting, words):
    assert words in told(reading, planted(**planting)).sentence


def test_prompts_all_right_or_all_wrong_tell_nothing(reading):
    (record,) = planted(steps=1)
    nothing = record.interference._replace(push=record.interference.push._replace(net=np.zeros(18)),
                                           error=record.interference.error._replace(net=np.zeros(18)))  # fmt: skip
    finding = told(reading, [record._replace(interference=nothing)])
    assert "is not told: all rollouts of each are right, or all are wrong" in finding.sentence
    assert ("prompts whose push is known", "0 of 12") in finding.rows
    assert told(reading, []) is None


# The map


def test_the_map_begins_with_those_in_danger_and_those_who_harm():
    moves = sorted_moves(planted(steps=3))
    assert set(moves.targets[:3]) == {"p9", "p10", "p11"}
    assert set(moves.sources[:2]) == {"s0", "s1"}
    at = moves.sources.index("s1"), moves.targets.index("p10")
    assert moves.change[at] == pytest.approx(-0.6 * PACE, abs=4 * 0.05 * PACE / np.sqrt(3))
    assert moves.error[at] == pytest.approx(0.05 * PACE / np.sqrt(3))


def test_a_pair_that_was_never_together_is_unknown():
    first, second = planted(steps=2)
    second = second._replace(prompts=["t0", *second.prompts[1:]])
    moves = sorted_moves([first, second])
    assert moves.change.shape == (7, 12)
    assert not np.isnan(moves.change).any(), "each source was measured with every watched prompt"
    alone = first._replace(prompts=[*first.prompts[:-1], "q"])
    both = sorted_moves([alone, second])
    assert np.isnan(both.change[both.sources.index("t0"), both.targets.index("q")])


# The files


def cut(content):
    return content[: len(content) // 2]


def flipped(content):
    at = content.index(b"kernel.npy") + 60  # within the packed values
    return content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :]


def flipped_flag(content):
    at = content.index(b"PK\1\2") + 8  # a flag in the list of members: this one claims encryption
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


@pytest.mark.parametrize("damage", [cut, flipped, flipped_flag])
def test_measurements_beside_a_log_are_read_and_damaged_ones_named(tmp_path, capsys, damage):
    out = write_trl(tmp_path, ROWS)
    folder = written(out / "probe", planted(steps=9))
    path = folder / "00000090.full.npz"
    path.write_bytes(damage(path.read_bytes()))
    reading = read_log([out])
    assert [record.step for record in reading.probe] == [20, 30, 40, 50, 60, 70, 80], "the last eight, less one"
    (warning,) = reading.warnings
    assert warning.startswith(f"a measurement of the probe is left out: {path} is damaged (")
    for more in ([], ["--contents"]):
        assert main(["diagnose", str(out), *more]) == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert printed.startswith("WARNING a measurement of the probe is left out: ")
        assert "00000090.full.npz is damaged (" in printed
    written(out / "probe", [record._replace(facts=record.facts | {"estimator": "head"}) for record in planted()])
    assert {record.facts["estimator"] for record in read_log([out]).probe} == {"full"}


def test_the_command_says_it_and_draws_the_map(tmp_path, capsys):
    path = write_jsonl(tmp_path, ROWS)
    assert main(["diagnose", str(path), "--json", str(tmp_path / "bare.json")]) == 0
    (gap,) = (gap for gap in untold(tmp_path / "bare.json") if gap.startswith("what prompts share"))
    assert "docs/how-to/interference.md" in gap
    written(tmp_path / "probe", planted())
    page = tmp_path / "page.html"
    assert main(["diagnose", str(path), "--json", str(tmp_path / "told.json"), "--html", str(page)]) == 0
    assert "1. Prompts harm one another: 25% [25%, 25%]" in capsys.readouterr().out
    assert not any("what prompts share" in gap for gap in untold(tmp_path / "told.json"))
    assert "Who harms whom, predicted change a step" in page.read_text()
    assert page.read_text().count("<svg") == 4


def untold(path):
    return json.loads(path.read_text())["diagnosis"]["untold"]
