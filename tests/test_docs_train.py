"""The files, commands and Python of docs/train.md work; it names every setting and every metric."""

import dataclasses
import inspect
import json
import re
import shlex
from pathlib import Path

import pytest
from refusals import refusal
from training_cases import settings, task

from benchmarks import training_sizes
from simlab import cli
from simlab.llm.compare import read_run
from simlab.llm.tasks import task as named_task
from simlab.llm.tasks.data import data
from simlab.llm.tasks.verifiers import VERIFIERS
from simlab.llm.training.options import build_settings
from simlab.llm.training.run import train
from simlab.llm.training.settings import SECTIONS, TrainingSettings

pytestmark = pytest.mark.usefixtures("quickly", "library_alone")
PAGE = (Path(__file__).parent.parent / "docs" / "train.md").read_text()
FILES = re.findall(r"^`([\w.]+)`[^\n]*:\n\n```\w+\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
    if line.startswith("simlab ")
]
NAMED = set(re.findall(r"`([\w.]+)`", PAGE))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the page's files, which commands and Python are run in."""
    for name, content in FILES:
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.startswith("simlab train")])
def test_each_command_describes_a_run_of_all_rows_of_the_files(folder, command):
    asked = build_settings(cli.build_parser()[0].parse_args(shlex.split(command)[1:]))
    assert asked == TrainingSettings.from_data(asked.as_data())
    here = named_task(**asked.task)
    problems = sum(map(len, here.evaluation_sets.values())) + len(here.listed)
    assert problems == 3 + ("other.jsonl" in command)
    for problem in here.listed:
        answer = str(problem.answer).split()[-1]
        assert here.reward(problem, answer) == (
            1.0 if answer == str(problem.answer) or "--verifier" in command else 0.5
        )
        assert here.reward(problem, "none") == 0


@pytest.mark.slow
def test_the_python_example_trains(folder):
    (_, example) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(example, {})
    assert len(read_run(folder / "reversed").arms["grpo"][0].metrics["step"]) == 2
    record = json.loads((folder / "reversed" / "run.json").read_text())
    assert record["settings"]["task"] == {"name": "own", "called": "own"}


def test_every_setting_is_named():
    names = {field.name for section in SECTIONS.values() for field in dataclasses.fields(section)}
    assert sorted({*names, *SECTIONS, *inspect.signature(data).parameters} - NAMED) == []


def test_the_table_of_models_that_fit_is_that_of_the_script():
    assert f"\n\n{training_sizes.table()}\n\n" in PAGE


def test_every_verifier_is_named_and_no_other():
    (table,) = re.findall(r"\n\| `--verifier`.*?\n\n", PAGE, re.DOTALL)
    _, *named = re.findall(r"^\| `([\w:-]+)`", table, re.MULTILINE)
    assert named == ["exact", "number", "boxed", "math-verify", "regex:PATTERN"]
    assert named[:-1] == list(VERIFIERS)
    assert "verifier = 'llm' is unknown" in refusal(data, train="a.jsonl", verifier="llm")


@pytest.mark.slow
def test_every_metric_is_named(tmp_path):
    asked = settings(
        {
            "rl": {"steps": 1, "false_positive": 0.1},
            "warm_start": {"steps": 1},
            "record": {"instruments_every": 1, "top_n": 2},
        }
    )
    train(asked, tmp_path / "run", own_task=task())
    files = [*tmp_path.rglob("metrics.jsonl"), *tmp_path.rglob("evaluation.jsonl")]
    assert len(files) == 4
    names = {name for file in files for line in file.read_text().splitlines() for name in json.loads(line)}
    assert sorted(names - NAMED) == []


def test_the_page_shows_what_was_stated_and_measured_last():
    """The table that ``benchmarks.training_peak`` has written, misses included."""
    table = (Path(__file__).parent.parent / "benchmarks" / "results" / "training_peak.md").read_text().split("\n\n")[0]
    assert table.count("\n") > 3
    assert f"\n\n{table}\n\n" in PAGE
