"""A training run whose files are damaged, exchanged or cut: the same numbers, or one line that names the file."""

import random
import re
import shutil

import pytest
from damaged_copies import damaged, flipped
from sweep_cases import refusal
from training_cases import contents, settings, task

from simlab.errors import InputError
from simlab.llm.checkpoint import read_checkpoint
from simlab.llm.compare import read_run
from simlab.llm.training.run import train

ARMS = ["ha_dw", "grpo"]
SHORT = {
    "rl": {"steps": 6}, "warm_start": {"steps": 2}, "evaluation": {"every": 2}, "arms": ARMS,
    "record": {"checkpoint_every": 3, "keep_checkpoint": True},
}  # fmt: skip

pytestmark = pytest.mark.usefixtures("quickly")


def short_run(out):
    train(settings(SHORT), out, own_task=task())


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """A run that nothing has happened to."""
    out = tmp_path_factory.mktemp("unbroken") / "run"
    short_run(out)
    return out


@pytest.fixture
def out(unbroken, tmp_path):
    """A copy of it."""
    return shutil.copytree(unbroken, tmp_path / "run")


def arm_of(out, name="grpo"):
    return out / "arms" / name / "seed-0"


def numbers_of(out):
    """What ``simlab compare`` reads."""
    run = read_run(out)
    every = [training for arms in (*run.arms.values(), run.starts) for training in arms.values()]
    return [
        [{name: values.tolist() for name, values in one.metrics.items()} for one in every],
        [[(line.step, line.samples, line.correct.tolist()) for line in one.evaluations] for one in every],
        dict(run.settings),
    ]


def same(found, wanted):
    return repr(found) == repr(wanted)  # NaN is like NaN


def left_aside(out):
    """The files that were set aside; they are removed."""
    found = sorted(out.rglob("*.damaged*"))
    for path in found:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return [path.relative_to(out).as_posix() for path in found]


def goes_on(out, unbroken, capsys):
    """Run again; what it says, when all is as if nothing had happened, and what it set aside."""
    capsys.readouterr()
    short_run(out)
    aside = left_aside(out)
    assert contents(out) == contents(unbroken)
    assert same(numbers_of(out)[1:], numbers_of(unbroken)[1:])
    progress = re.compile(r".*, seed \d+: step \d+ of \d+")
    return [line for line in capsys.readouterr().err.splitlines() if not progress.match(line)], aside


# Checkpoints


# Lines


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], 3),
        (lambda lines: [*lines[:3], *lines[2:]], 4),
        (lambda lines: [*lines[:3], *lines[4:]], 4),
        (lambda lines: [*lines[:1], lines[1].replace(b'"reward"', b'"rewerd"'), *lines[2:]], 2),
        (lambda lines: [*lines[:1], lines[1].replace(b'"checksum"', b'"checksun"'), *lines[2:]], 2),
        (lambda lines: lines[:4], 5),
    ],
    ids=["exchanged", "doubled", "gone", "a letter", "the checksum's name", "cut between lines"],
)
def test_lines_before_the_checkpoint_are_named_and_the_arm_begins_anew(change, line, unbroken, out, capsys):
    path = arm_of(out) / "metrics.jsonl"
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    if line < 5:
        assert f"{path} line {line} is damaged (its checksum " in refusal(read_run, out)
    said, aside = goes_on(out, unbroken, capsys)
    what = f"{path} line {line} is damaged (" if line < 5 else f"{path} has 4 lines up to step 6, where 6 were written"
    assert said[0].startswith(what)
    assert said[0].endswith(f"the checkpoint is set aside, and {path.parent} begins anew")
    assert "arms/grpo/seed-0/state.safetensors.damaged" in aside


# run.json


def test_a_damaged_run_json_is_refused_or_says_the_same(unbroken, out):
    path, whole, refused = out / "run.json", numbers_of(unbroken), 0
    for content in damaged(path.read_bytes(), 150):
        path.write_bytes(content)
        try:
            assert same(numbers_of(out), whole)
        except InputError as error:
            refused += str(path) in str(error)
    assert refused > 130


def test_settings_are_not_taken_from_a_damaged_run_json(out):
    from simlab.llm.training.options import _of_file  # noqa: PLC0415  # what reads --settings

    path = out / "run.json"
    assert _of_file(path)["rl"]["steps"] == 6
    path.write_text(path.read_text().replace('"steps": 6', '"steps": 7'))
    assert refusal(_of_file, path) == f"{path} is damaged (its checksum differs)"


# The start and its model


@pytest.mark.parametrize("name", ["followed.json", "evaluation.jsonl"])
def test_what_is_followed_since_the_start_is_made_again(name, unbroken, out, capsys):
    path = out / "start" / "seed-0" / name
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    said, aside = goes_on(out, unbroken, capsys)
    assert len(said) == 1
    assert "are set aside, and made anew" in said[0]
    assert aside == ["start/seed-0/evaluation.jsonl.damaged", "start/seed-0/followed.json.damaged"]


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "checksums.json"])
def test_a_damaged_model_is_refused_and_that_of_a_start_is_made_again(name, unbroken, out, capsys):
    path = out / "start" / "seed-0" / "model" / name
    path.write_bytes(flipped(path.read_bytes(), random.Random(3)))
    message = refusal(read_checkpoint, path.parent)
    assert message.startswith(f"{path} is damaged (")
    said, aside = goes_on(out, unbroken, capsys)
    assert said == [f"{message}: {path.parent}.damaged has it now, and it is made anew"]
    assert aside[0] == "start/seed-0/model.damaged"
