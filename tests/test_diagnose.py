"""``simlab diagnose`` as a whole: summary, report, JSON, advice and simulated weights, on logs of known truth."""

import dataclasses
import json
import re
from functools import partial
from html import escape
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from diagnose_logs import bank, log, plain
from log_files import write_rows
from refusals import refusal

from simlab.bundled import SAMPLE_LOG
from simlab.cli import main
from simlab.cli.training import read_log_path
from simlab.diagnose import dead_groups, diagnosis, recommend
from simlab.diagnose.diagnosis import Diagnosis
from simlab.diagnose.estimate import IntervalEstimate, as_json, shown
from simlab.diagnose.prompts import are_solutions_lost, who_is_heard
from simlab.diagnose.questions import list_findings
from simlab.diagnose.reading import read_log
from simlab.diagnose.reading.cells import LARGEST
from simlab.diagnose.solve_rates import fit_population
from simlab.diagnose.summary import SENTENCES, WIDTH

ROOT = Path(__file__).parent.parent
PROMPTS, STEPS, GROUP, LEVEL = 40, 12, 8, 0.9

# The command

REWARD = "<script>alert(1)</script>"  # text of a log stays text in the report


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Prompts of solve rates .05, .5 and .95, each with three solutions of unequal probability."""
    random = np.random.default_rng(3)
    rates = random.choice([0.05, 0.5, 0.95], PROMPTS)
    rows = []
    for step in range(STEPS):
        for prompt in random.choice(PROMPTS, 20, replace=False):
            for _ in range(GROUP):
                correct = random.random() < rates[prompt]
                answer = str(random.choice(3, p=[0.8, 0.15, 0.05])) if correct else "no"
                rows.append({"step": step, "prompt": f"p{prompt}", REWARD: float(correct), "answer": answer,
                             "log_probability": -3.0 - random.random()})  # fmt: skip
    return write_rows(tmp_path_factory.mktemp("log"), rows)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(dead_groups, "SIZES", (2, 4))
    monkeypatch.setattr(diagnosis, "diagnose", partial(diagnosis.diagnose, others=("maxrl",)))
    return diagnosis.diagnose


def run(capsys, *arguments):
    assert main(["diagnose", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def estimates(node):
    if isinstance(node, dict) and "value" in node:
        yield node
    elif isinstance(node, dict | list):
        for entry in node.values() if isinstance(node, dict) else node:
            yield from estimates(entry)


@pytest.mark.usefixtures("quick")
def test_summary_json_and_report_of_one_log(path, capsys, tmp_path):
    out, html = tmp_path / "a" / "found.json", tmp_path / "found.html"
    options = ["--columns", f"reward={REWARD}", "--holdout", "0.4", "--json", out, "--html", html]
    lines = run(capsys, path, *options).partition("\n\nreport")[0].splitlines()
    document, page = json.loads(out.read_text()), html.read_text()
    findings = document["findings"]
    assert max(map(len, lines)) <= WIDTH
    assert [line[:2] for line in lines if re.match(r"\d\. ", line)] == [f"{n}." for n in range(1, SENTENCES + 1)]
    # The first sentences, then their numbers; the other questions are named, and answered in the page and the JSON.
    text = " ".join(" ".join(lines).split())
    concerns = [finding["concern"] for finding in findings]
    assert concerns == sorted(concerns, reverse=True)
    for number, finding in enumerate(findings):
        assert (finding["sentence"] in text) == (number < SENTENCES)
        assert finding["question"] in text
        assert escape(finding["sentence"]) in page
        assert escape(finding["question"].capitalize()) in page
        for label, value in finding["rows"]:
            assert f"<td>{escape(label)}</td>" in page
            in_table = any(re.match(rf"  {re.escape(label)}(:|  |$)", line) for line in lines)
            assert in_table == (number < SENTENCES)
            assert isinstance(value, str) or value["low"] <= value["value"] <= value["high"]
    assert text.count("not told") == 1
    assert all(escape(gap) in page for gap in document["diagnosis"]["untold"])
    every = list(estimates(document["diagnosis"]))
    assert len(every) > 70
    for entry in every:
        assert entry["low"] <= entry["value"] <= entry["high"], entry
        assert entry["level"] == 0.9
        assert entry["method"]
    assert document["diagnosis"]["unseen"] is not None
    assert document["diagnosis"]["prediction"]["scored"]
    assert len(document["diagnosis"]["solve_rates"]["windows"]) == 4
    mean = document["diagnosis"]["solve_rates"]["mean"]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    truth = np.mean([row[REWARD] for row in rows if row["step"] >= STEPS - STEPS // 4])
    assert mean["low"] <= truth <= mean["high"]
    assert document["contents"]["rows"] == len(rows)
    assert page.count("<svg") == 3
    assert not re.findall(r"(?:src|href)=[\"']?(?!#)", page.replace('xlink:href="#', ""))
    assert "<script" not in page


@pytest.mark.usefixtures("quick")
def test_of_the_largest_numbers_that_are_read_none_overflows_and_no_estimate_is_nan(capsys, tmp_path):
    out, random = tmp_path / "out.json", np.random.default_rng(0)
    names = ("math_reward", "format_reward", "advantage", "entropy")
    rows = [dict(zip(names, random.choice([LARGEST, 1.0, -LARGEST], 4).tolist(), strict=True)) for _ in range(96)]
    lines = [
        {"step": n // 24, "prompt": f"p{n // 8 % 3}", "completion": f"{n % 3}", **row} for n, row in enumerate(rows)
    ]
    run(capsys, write_rows(tmp_path, lines), "--threshold", 0, "--json", out)  # pytest turns a warning into an error
    json.loads(out.read_text(), parse_constant=pytest.fail)


def test_a_sample_comes_with_the_package_unless_there_is_another(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_log_path("sample") == SAMPLE_LOG
    assert SAMPLE_LOG.stat().st_size < 100_000
    Path("sample").write_text("prompt,reward\na,1\na,0\n")
    assert "2, and 0 refused" in run(capsys, "sample", "--contents")


@pytest.mark.slow
def test_the_answers_that_pages_show_are_those_of_the_sample(capsys):
    page, readme = ((ROOT / name).read_text(encoding="utf-8") for name in ("docs/diagnose.md", "README.md"))
    shown = [paragraph for block in re.findall(r"```text\n([^`]*)```", page) for paragraph in block.split("\n\n")]
    shown += [re.search(r"simlab diagnose sample[^`]*```\n\nOne of its answers: \"([^\"]*)\"", readme)[1]]
    told = " ".join(run(capsys, "sample", "--rollouts", 256).split())
    assert len(shown) == 6
    for paragraph in shown:
        assert " ".join(paragraph.split()) in told


@pytest.mark.parametrize(
    ("option", "value"),
    [("rollouts", "1"), ("holdout", "1"), ("seed", "-1"), ("estimator", "gpro"), ("threshold", "nan")],
)
def test_bad_input_is_refused_in_one_line_before_anything_is_read(path, capsys, monkeypatch, option, value):
    monkeypatch.setattr("simlab.diagnose.reading.read_log", lambda *_, **__: pytest.fail("the log was read"))
    assert main(["diagnose", str(path), f"--{option}", value]) == 2
    complaint = capsys.readouterr().err
    assert (value if option == "estimator" else option) in complaint
    assert complaint.count("\n") == 1


# Sentences about a known truth


@pytest.mark.parametrize(
    ("first", "last", "answers"),
    [
        (0.9, 0.02, ("It unlearns", "The prompts are hard")),
        pytest.param(0.1, 0.98, ("It learns", "The prompts are easy"), marks=pytest.mark.slow),
    ],
)
def test_a_change_and_hard_and_easy_prompts_are_told(first, last, answers, quick, tmp_path):
    random, path = np.random.default_rng(5), tmp_path / "log.csv"
    rows = [
        f"{step},{step}-{prompt},{int(random.random() < (first if step < 2 else last))}"
        for step in range(4) for prompt in range(30) for _ in range(8)
    ]  # fmt: skip
    path.write_text("\n".join(["step,prompt,reward", *rows]))
    reading = read_log([path])
    findings = {finding.question: finding for finding in list_findings(reading, quick(reading.log))}
    learn, hard = findings["does it learn?"], findings["are the prompts too hard, or too easy?"]
    assert learn.sentence.startswith(answers[0])
    assert hard.sentence.startswith(answers[1])
    assert (learn.concern > hard.concern) == (last < first)  # unlearning comes first
    change = dict(learn.rows)["change of pass@1"]
    assert change.low < last - first < change.high


def between(value, low, high):
    return IntervalEstimate("share", value, low, high, 0.9, "made")


def sentence(tmp_path, question, **estimates):
    reading = read_log([write_rows(tmp_path, [{"prompt": "p", "reward": reward} for reward in (0, 1)])])
    return question(reading, Diagnosis(**dict.fromkeys(Diagnosis._fields) | estimates)).sentence


@pytest.mark.parametrize(
    ("against", "never_drawn", "verdict"),
    [
        (between(0, 0, 0.19), between(0, 0, 0.19), "Whether solutions are lost from sight is open"),
        (between(0, 0, 0.09), between(0, 0, 0.03), "Few solutions are lost"),
        (between(0, 0, 0.09), between(0.8, 0.7, 0.9), "Some solutions are lost"),
        (between(0.3, 0.2, 0.4), between(0, 0, 0.03), "Some solutions are lost"),
        (between(0.8, 0.7, 0.9), between(0.8, 0.7, 0.9), "Solutions are lost from sight, and larger groups"),
    ],
)
def test_solutions_are_lost_where_the_intervals_say_so(tmp_path, against, never_drawn, verdict):
    window = SimpleNamespace(share=never_drawn, distinct=3)
    unseen = SimpleNamespace(windows=[window], typical=SimpleNamespace(against=[against], group_sizes=[8]))
    groups = SimpleNamespace(observed=SimpleNamespace(group_size=8))
    assert sentence(tmp_path, are_solutions_lost, unseen=unseen, groups=groups).startswith(verdict)


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ([between(0.2, 0.1, 0.3), between(0.7, 0.6, 0.8), between(0.1, 0, 0.2)], "The update listens most to prompts"),
        ([between(0.3, 0, 1), between(0.4, 0, 1), between(0.3, 0, 1)], "Whom the update listens to is open"),
    ],
)
def test_whom_the_update_listens_to_is_open_where_intervals_overlap(tmp_path, shares, verdict):
    groups = SimpleNamespace(gradient_masses=[SimpleNamespace(of_prompts=shares, estimator="grpo")])
    assert sentence(tmp_path, who_is_heard, groups=groups).startswith(verdict)


# All estimates at once; test_diagnose_fuzz.py has logs of one prompt, all right or wrong, and of uneven groups


def test_one_rollout_a_prompt_tells_pass_at_1_and_no_more_and_the_same_every_time(quick, tmp_path, capsys):
    path = write_rows(tmp_path, [{"prompt": f"p{at}", "reward": reward} for at, reward in enumerate((0, 1, 1, 0))])
    one_each = read_log([path]).log
    result = as_json(quick(one_each))
    assert result == as_json(quick(one_each))
    assert result["unseen"] is result["groups"] is result["recommendation"] is None
    assert result["pass_at_k"]["k"] == [1]
    for reason in ("only pass@1 can be said", "no answers", "one step"):
        assert any(reason in line for line in result["untold"])
    text = run(capsys, path, "--html", tmp_path / "page.html")
    assert "One rollout a prompt: only pass@1 can be said, 0.5 [" in " ".join(text.split())
    assert "group" not in text.partition("\nlog ")[0]
    assert "<svg" not in (tmp_path / "page.html").read_text()


def test_what_is_in_use_is_what_the_log_holds(quick):
    """12 prompts x 8 rollouts a step, by a trainer whose options nobody knows."""
    recommendation = quick(plain([0, 8, 4] * 8, 8, step=[0] * 12 + [1] * 12), others=()).recommendation
    assert recommendation.rollouts == 96
    assert (12, 8) in {(split.prompts, split.group_size) for split in recommendation.splits}
    uneven = dataclasses.replace(plain([0, 2, 4] * 2, 4, step=[0] * 3 + [1] * 3), group_size=np.array([8, 8, 5] * 2))
    assert quick(uneven, others=()).recommendation.rollouts == 21


def test_graded_rewards_of_a_group_all_wrong_are_a_signal(quick):
    """Rewards .05 .05 .10 .15 and a threshold of 1: all wrong, and not without signal."""
    graded = dataclasses.replace(plain([0, 0, 4, 2], 4), equal=np.array([False, True, True, False]))
    result = quick(graded, others=())
    observed = result.groups.observed
    assert (observed.all_wrong, observed.all_right, observed.no_signal) == (0.5, 0.25, 0.5)
    assert result.recommendation.recommended is None
    assert "graded" in result.recommendation.reason


def test_what_cannot_be_diagnosed_is_refused():
    assert "no group" in refusal(diagnosis.diagnose, plain([], 4))
    assert "level" in refusal(diagnosis.diagnose, plain([1], 4), level=1.5)
    assert "[4, inf)" in refusal(diagnosis.diagnose, plain([1], 4), rollouts=3)
    assert "no_such" in refusal(diagnosis.diagnose, plain([1], 4), estimator="no_such")
    assert "a group of 1" in refusal(recommend.simulate_weights, fit_population(plain([1], 1), 0.9), "grpo", 1)


# Advice in the words of the log's trainer, numbers in the words of the summary

ONE = IntervalEstimate("x", 1.0, 0.5, 1.5, 0.9, "m")
BEST = recommend.BudgetSplit(32, 4, ONE, ONE, ONE, ONE, ONE, ONE)
ADVICE = recommend.Recommendation(128, 16, (BEST,), BEST, "why")
NOTHING = recommend.Recommendation(128, 16, (BEST,), None, "why")
EFFECT = recommend.WeightEffect("f_grpo(gamma=1)", None, ONE, ONE)
BETTER, WORSE = recommend.WeightEffects((), (), EFFECT, None), recommend.WeightEffects((), (), None, EFFECT)
EXPECTED = {
    "trl": (
        "GRPOConfig(num_generations=4, generation_batch_size=128)",
        'SimlabGRPOTrainer(..., method="f_grpo(gamma=1)")',
    ),
    "verl": (
        "data.train_batch_size=32 actor_rollout_ref.rollout.n=4 algorithm.adv_estimator=simlab_f_grpo "
        "+algorithm.simlab.gamma=1",
    ),
    "simlab": ('simlab train --prompts 32 --group-size 4 --arms "f_grpo(gamma=1)"',),
    "table": (
        "32 prompts a step with 4 rollouts each, in your trainer",
        'simlab.advantages("f_grpo(gamma=1)", rewards), in place of your trainer\'s advantages',
    ),
}


@pytest.mark.parametrize("form", EXPECTED)
def test_a_log_gets_the_commands_of_its_trainer_and_none_without_a_recommendation(form):
    assert recommend.trainer_commands(form, ADVICE, BETTER) == EXPECTED[form]
    assert recommend.trainer_commands(form, NOTHING) == recommend.trainer_commands(form, NOTHING, WORSE) == ()
    assert len(recommend.trainer_commands(form, NOTHING, BETTER)) == 1
    # The split is advice for pass@1, so a weight that raises pass@k alone is no part of it.
    assert recommend.trainer_commands(form, ADVICE, WORSE) == recommend.trainer_commands(form, ADVICE)


def test_what_rounding_leaves_of_0_is_written_as_0():
    assert shown(ONE._replace(value=-1.11e-16), "+") == "+0 [+0.5, +1.5]"


# Effects of difficulty weights

STUDENT = 2.3533634348018264  # quantile of 3 degrees of freedom at 95 %
HALF = STUDENT * np.sqrt(0.0002 / 3) / 2


@pytest.fixture
def simulated(monkeypatch):
    """A simulator in which a weight adds to pass@1 and pass@k what the test says, by its name and the overlap."""
    effects, calls = {}, []

    def fake(rates, overlap, method, group_size):
        calls.append((group_size, len(rates)))
        noise = np.array([-0.01, 0.0, 0.0, 0.01]) * (method != "grpo")
        return tuple(0.4 + more + noise for more in effects.get((method, overlap), (0, 0)))

    monkeypatch.setattr(recommend, "_simulate", fake)
    return effects, calls


def now():
    return fit_population(plain([0, 1, 2, 4, 4], 4), LEVEL)


def test_an_interval_is_students_over_seeds(simulated):
    effects, calls = simulated
    effects |= {("a", 0.0): (0.1, -0.2)}
    [effect] = recommend.simulate_weights(now(), "grpo", 4, weights=("a", "grpo"), overlaps=(0.0,)).effects
    assert (effect.weight, effect.overlap) == ("a", 0.0)
    estimate = effect.pass_at_1
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((0.1, 0.1 - HALF, 0.1 + HALF))
    assert effect.pass_at_k.high == pytest.approx(-0.2 + HALF)
    assert calls == [(4, recommend.PROMPTS)] * 6  # three banks, each with the weight and the method in use


def test_a_weight_is_recommended_where_every_overlap_agrees(simulated):
    effects, _ = simulated
    effects |= {("a", 0.0): (0.05, 0.1), ("a", 0.3): (-0.05, 0.1)}
    effects |= {("b", 0.0): (-0.1, 0.3), ("b", 0.3): (-0.1, 0.05)}
    result = recommend.simulate_weights(now(), "grpo", 4, weights=("a", "b"), overlaps=(0.0, 0.3))
    assert result.for_pass_at_1 is None  # the bracket of a holds both signs, and b is lower
    assert result.for_pass_at_k.weight == "a"
    first = result.brackets[0].pass_at_1
    assert result.brackets[0].overlap is None
    assert first.value == pytest.approx(0.05)
    assert (first.low, first.high) == pytest.approx((-0.05 - HALF, 0.05 + HALF))


def test_banks_that_disagree_leave_it_open(simulated, monkeypatch):
    effects, _ = simulated
    effects |= {("a", 0.0): (0.05, 0.05)}
    inner, calls = recommend._simulate, []

    def disagreeing(rates, overlap, method, group_size):
        calls.append(method)
        sign = 1 if len(calls) <= 2 else -1  # up in the first bank, down in the others
        return tuple(0.4 + sign * (values - 0.4) for values in inner(rates, overlap, method, group_size))

    monkeypatch.setattr(recommend, "_simulate", disagreeing)
    result = recommend.simulate_weights(now(), "grpo", 4, weights=("a",), overlaps=(0.0,))
    assert result.effects[0].pass_at_1.sign == 0
    assert result.for_pass_at_1 is None
    assert result.for_pass_at_k is None


@pytest.mark.slow
def test_the_simulator_says_what_a_weight_would_change(tmp_path, capsys):
    seen = fit_population(log(bank("many at 0", 400, 0), 8, 1), LEVEL)
    result = recommend.simulate_weights(seen, "grpo", 8, weights=("grpo", "easy_power(alpha=4)"), overlaps=(0.0, 0.3))
    assert [effect.overlap for effect in result.effects] == [0.0, 0.3]
    assert result.effects[0].pass_at_1.sign < 0  # it learns from what is solved already
    assert result.for_pass_at_1 is None
    path, out = tmp_path / "log.csv", tmp_path / "found.json"
    path.write_text("prompt,reward\n" + "".join(f"p{i % 20},{int(i % 20 > i // 20 + 6)}\n" for i in range(160)))
    assert "Simulated on these prompts" in run(capsys, path, "--simulate", "--json", out)
    weights = json.loads(out.read_text())["diagnosis"]["weights"]
    assert len(weights["effects"]) == len(recommend.WEIGHTS) * len(recommend.OVERLAPS)
    for effect in (*weights["effects"], *weights["brackets"]):
        for change in (effect["pass_at_1"], effect["pass_at_k"]):
            assert -1 <= change["low"] <= change["value"] <= change["high"] <= 1
