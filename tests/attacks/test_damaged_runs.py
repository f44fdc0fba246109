"""A training run whose files are damaged, exchanged or cut: the same numbers, or one line that names the file."""

import json
import random
import re
import shutil

import jax
import numpy as np
import pytest
from damaged_copies import damaged, flipped
from sweep_cases import refusal
from training_cases import contents, settings, task
from training_cases import trainer_and_state as built

from simlab.errors import InputError
from simlab.llm.checkpoint import read_checkpoint
from simlab.llm.compare import read_run
from simlab.llm.training.lines import read_lines
from simlab.llm.training.run import train
from simlab.llm.training.state import load_state, save_state
from simlab.seals import Damaged

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


def test_a_damaged_checkpoint_is_noticed_whatever_the_damage(tmp_path):
    """Of 400 damaged ones; no error of a library comes through."""
    _, state = built("ha_dw")
    path, refused = tmp_path / "state", 0
    save_state(path, state, {"arm": "ha_dw"})
    for content in damaged(path.read_bytes(), 400):
        path.write_bytes(content)
        try:
            found = load_state(path, state, [{"arm": "ha_dw"}])
        except Damaged as error:
            refused += str(error).startswith(f"checkpoint {path} is damaged (")
        else:
            refused += 1
            jax.tree.map(np.testing.assert_array_equal, found, state)
    assert refused == 400


@pytest.mark.slow
def test_an_arm_with_a_damaged_checkpoint_begins_anew_and_ends_the_same(unbroken, out, capsys):
    path = arm_of(out) / "state.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    said, aside = goes_on(out, unbroken, capsys)
    assert said == [
        f"checkpoint {path} is damaged (its checksum differs): the checkpoint is set aside, and {path.parent} "
        "begins anew"
    ]
    assert aside == ["arms/grpo/seed-0/state.safetensors.damaged"]


# Lines


@pytest.mark.parametrize("name", ["metrics.jsonl", "evaluation.jsonl"])
def test_damaged_lines_are_refused_or_are_the_first_of_those_that_were(name, unbroken, out):
    """Of 150 damaged files; one that is cut off reads as that of a run that came so far."""
    path = arm_of(out) / name
    whole, refused = read_lines(path).lines, 0
    for content in damaged(path.read_bytes(), 150):
        path.write_bytes(content)
        found = read_lines(path)
        assert found.lines == whole[: len(found.lines)]
        if found.damage:
            assert f"{path} line {len(found.lines) + 1} is damaged (" in refusal(read_run, out)
            refused += 1
    assert refused > 100


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


def test_lines_of_another_arm_are_not_taken_for_this_one_s(unbroken, out, capsys):
    shutil.copy(arm_of(out, "ha_dw") / "metrics.jsonl", arm_of(out) / "metrics.jsonl")
    assert "metrics.jsonl line 1 is damaged (its checksum differs)" in refusal(read_run, out)
    said, aside = goes_on(out, unbroken, capsys)
    assert len(said) == 2
    assert "arms/grpo/seed-0/metrics.jsonl.damaged" in aside


def test_an_evaluation_that_is_lost_is_made_again(unbroken, out, capsys):
    path = arm_of(out) / "evaluation.jsonl"
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    said, _ = goes_on(out, unbroken, capsys)
    assert said[0].startswith(f"{path} has 1 lines up to step 6, where 2 were written")


def test_damaged_lines_after_the_checkpoint_are_named_and_computed_again(unbroken, out, capsys):
    """As after a power loss, when what was not yet synced may have become zeros."""
    _, fresh = built("grpo")
    path = arm_of(out)
    state = load_state(path / "state.safetensors", fresh)
    (path / "state.safetensors").unlink()
    with (path / "metrics.jsonl").open("ab") as file:
        file.write(bytes(100) + b"\n")
    assert state.step == 6
    said, aside = goes_on(out, unbroken, capsys)
    assert said == [
        f"{path / 'metrics.jsonl'} line 7 is damaged (it is no JSON): the file is set aside, and what is lost is "
        "computed again"
    ]
    assert aside == ["arms/grpo/seed-0/metrics.jsonl.damaged"]


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


def test_lines_with_checksums_under_a_run_json_without_one_are_refused(out):
    content = json.loads((out / "run.json").read_text())
    del content["checksum"]
    (out / "run.json").write_text(json.dumps(content))
    assert "is damaged: it has no checksum, but the lines have" in refusal(read_run, out)


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


def test_a_model_of_another_program_has_no_checksums_and_is_read(out):
    folder = arm_of(out) / "model"
    before = read_checkpoint(folder)
    (folder / "checksums.json").unlink()
    jax.tree.map(np.testing.assert_array_equal, read_checkpoint(folder).parameters, before.parameters)
