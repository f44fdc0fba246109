"""``simlab diagnose`` from a log to its summary, report and JSON, on logs whose truth is known."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from simlab.cli import main
from simlab.diagnose.summary import LINES

ROOT = Path(__file__).parent.parent
PROMPTS, STEPS, GROUP = 40, 12, 8


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Prompts of solve rates .05, .5 and .95, each with three solutions of unequal probability."""
    random, path = np.random.default_rng(3), tmp_path_factory.mktemp("log") / "log.jsonl"
    rates = random.choice([0.05, 0.5, 0.95], PROMPTS)
    rows = []
    for step in range(STEPS):
        for prompt in random.choice(PROMPTS, 20, replace=False):
            for _ in range(GROUP):
                correct = random.random() < rates[prompt]
                answer = str(random.choice(3, p=[0.8, 0.15, 0.05])) if correct else "no"
                rows.append({"step": step, "prompt": f"p{prompt}", "reward": float(correct), "answer": answer,
                             "log_probability": -3.0 - random.random()})  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run(capsys, *arguments):
    assert main(["diagnose", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_the_summary_has_at_most_25_lines_that_fit_a_screen(log, capsys):
    lines = run(capsys, log, "--holdout", "0.4").splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= 150
    text = "\n".join(lines)
    for part in (
        "mean solve rate",
        "dead groups",
        "pass@8",
        "unseen solutions",
        "typical solution",
        "budget",
        "held out",
    ):
        assert part in text
    assert re.search(r"mean solve rate +0\.\d+ \[0\.\d+, 0\.\d+\]", text)


@pytest.mark.slow
def test_json_and_report_hold_every_estimate_and_open_offline(log, capsys, tmp_path):
    run(capsys, log, "--json", tmp_path / "a" / "found.json", "--html", tmp_path / "found.html")
    found = json.loads((tmp_path / "a" / "found.json").read_text())
    mean = found["diagnosis"]["solve_rates"]["mean"]
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    truth = np.mean([row["reward"] for row in rows if row["step"] >= STEPS - STEPS // 4])
    assert mean["low"] <= truth <= mean["high"]
    assert found["contents"]["rows"] == len(rows)
    page = (tmp_path / "found.html").read_text()
    assert page.count("<svg") == 1
    assert not re.findall(r"(?:src|href)=[\"']?(?!#)", page.replace('xlink:href="#', ""))
    assert "mean solve rate" in page


@pytest.mark.slow
def test_the_page_shows_what_the_command_prints(capsys):
    page = (ROOT / "docs" / "diagnose.md").read_text(encoding="utf-8")
    command, shown = re.search(
        r"```sh\nsimlab diagnose (figures/.*)\n```\n\n```text\n(.*?)```", page, re.DOTALL
    ).groups()
    path, *options = command.split()
    assert run(capsys, ROOT / path, *options) == shown


@pytest.mark.slow
def test_the_same_log_gives_the_same_numbers(log, capsys):
    assert run(capsys, log) == run(capsys, log)


def test_texts_of_a_log_are_text_in_the_report(tmp_path, capsys):
    """A column may be named as it likes."""
    name = "<script>alert(1)</script>"
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps({"prompt": "p", name: i % 2}) + "\n" for i in range(8)))
    run(capsys, path, "--columns", f"reward={name}", "--html", tmp_path / "found.html")
    assert "<script" not in (tmp_path / "found.html").read_text()


def test_contents_alone_estimate_nothing(log, capsys):
    text = run(capsys, log, "--contents")
    assert "no signal" in text
    assert "budget" not in text


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--rollouts", "1"], "rollouts"),
        (["--holdout", "1"], "holdout"),
        (["--seed", "-1"], "seed"),
        (["--estimator", "gpro"], "gpro"),
        (["--threshold", "nan"], "threshold"),
    ],
)
def test_bad_input_is_refused_in_one_line_before_anything_is_read(log, capsys, monkeypatch, arguments, reason):
    monkeypatch.setattr("simlab.diagnose.reading.read_log", lambda *_, **__: pytest.fail("the log was read"))
    assert main(["diagnose", str(log), *arguments]) == 2
    complaint = capsys.readouterr().err
    assert reason in complaint
    assert complaint.count("\n") == 1
