"""A finished arm: its checkpoints are gone, it is not trained again, and damage to its files is noticed."""

import shutil

import pytest
from refusals import refusal
from training_cases import contents, settings, task

from simlab.cli import main
from simlab.llm.compare import read_run
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.run import train
from simlab.seals import Damaged

pytestmark = pytest.mark.usefixtures("quickly")

SHORT = {
    "rl": {"steps": 3}, "warm_start": {"steps": 2}, "evaluation": {"every": 2}, "record": {"checkpoint_every": 2},
    "seeds": 2,
}  # fmt: skip


def short_run(out):
    train(settings(SHORT), out, own_task=task())


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """A run of one arm and two seeds that nothing has happened to."""
    out = tmp_path_factory.mktemp("finished") / "run"
    short_run(out)
    return out


@pytest.fixture
def out(unbroken, tmp_path):
    """A copy of it, in a folder of the same name."""
    return shutil.copytree(unbroken, tmp_path / "run")


def arm_of(out, seed=0):
    return out / "arms" / "grpo" / f"seed-{seed}"


def test_checkpoints_are_gone_and_the_same_command_computes_nothing(unbroken, out, monkeypatch):
    assert not list(out.rglob("state.npz"))
    monkeypatch.setattr(Trainer, "step", None)
    short_run(out)
    assert contents(out) == contents(unbroken)


def test_checkpoints_that_a_kill_has_left_are_removed(unbroken, out):
    (arm_of(out) / "state.npz").write_bytes(b"of the last step")
    (arm_of(out) / "trl" / "checkpoint-3").mkdir(parents=True)
    short_run(out)
    assert contents(out) == contents(unbroken)


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def change_a_digit(path):
    path.write_bytes(path.read_bytes().replace(b"0.", b"1.", 1))


DAMAGES = {
    "model": lambda own, other: cut(own / "model" / "model.safetensors"),
    "no model": lambda own, other: shutil.rmtree(own / "model"),
    "another's model": lambda own, other: shutil.copytree(other / "model", own / "model", dirs_exist_ok=True),
    "lines": lambda own, other: cut(own / "metrics.jsonl"),
    "another's lines": lambda own, other: shutil.copy(other / "metrics.jsonl", own / "metrics.jsonl"),
    "a digit": lambda own, other: change_a_digit(own / "evaluation.jsonl"),
    "finished.json": lambda own, other: cut(own / "finished.json"),
}


@pytest.mark.parametrize("folder", ["arms/grpo", "start"])
@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_damaged_or_exchanged_is_named_and_the_arm_is_trained_again(name, folder, unbroken, out, capsys):
    own, other = (out / folder / f"seed-{seed}" for seed in (0, 1))
    DAMAGES[name](own, other)
    short_run(out)
    assert f"{own} begins anew" in capsys.readouterr().err
    assert contents(out) == contents(unbroken)


@pytest.mark.parametrize("name", ["another's lines", "a digit"])
def test_the_comparison_names_a_changed_file(name, out):
    DAMAGES[name](arm_of(out), arm_of(out, 1))
    with pytest.raises(Damaged, match=r"grpo/seed-0/\w+\.jsonl is damaged"):
        read_run(out)


def test_a_damaged_run_json_is_refused_wherever_it_is_read(out, capsys):
    path = out / "run.json"
    content = path.read_bytes()
    for damaged in (content.replace(b'"steps": 3', b'"steps": 4'), content[:-9], b""):
        path.write_bytes(damaged)
        assert f"{path} is damaged" in refusal(short_run, out)
        assert main(["compare", str(out)]) == 2
        assert str(path) in capsys.readouterr().err
        if damaged:
            assert main(["train", "--config", str(path), "--out", str(out / "other")]) == 2
