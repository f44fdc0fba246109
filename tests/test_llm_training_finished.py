"""An arm that is done: its checkpoints are gone, it is not trained again, and what happens to its files is noticed."""

import shutil

import pytest
from training_cases import contents, settings, task

from simlab.llm.training import disk
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.run import train

pytestmark = pytest.mark.usefixtures("quickly")

SHORT = {"rl": {"steps": 3}, "evaluation": {"every": 2}, "record": {"checkpoint_every": 2}, "seeds": 2}


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
    assert not list(out.rglob("state.safetensors"))
    monkeypatch.setattr(Trainer, "step", None)
    short_run(out)
    assert contents(out) == contents(unbroken)


def test_a_checkpoint_that_a_kill_has_left_is_removed(unbroken, out):
    (arm_of(out) / "state.safetensors").write_bytes(b"of the last step")
    (arm_of(out) / "trl" / "checkpoint-3").mkdir(parents=True)
    short_run(out)
    assert contents(out) == contents(unbroken)


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


DAMAGES = {
    "model": (lambda own, other: cut(own / "model" / "model.safetensors"), "model is not whole"),
    "no model": (lambda own, other: shutil.rmtree(own / "model"), "model is not whole"),
    "another's model": (
        lambda own, other: shutil.copytree(other / "model", own / "model", dirs_exist_ok=True),
        "is not the model that",
    ),
    "lines": (lambda own, other: cut(own / "metrics.jsonl"), "has 2 lines up to step 3, where 3 were written"),
    "an evaluation": (lambda own, other: cut(own / "evaluation.jsonl"), "has 1 lines up to step 3, where 2 were"),
    "finished.json": (lambda own, other: cut(own / "finished.json"), "finished.json is damaged (it is no JSON)"),
    "another's finished.json": (
        lambda own, other: shutil.copy(other / "finished.json", own / "finished.json"),
        "finished.json is damaged (its checksum differs)",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_damaged_or_exchanged_is_named_and_the_arm_is_trained_again(name, unbroken, out, capsys):
    damage, reason = DAMAGES[name]
    damage(arm_of(out), arm_of(out, 1))
    short_run(out)
    said = capsys.readouterr().err
    assert reason in said
    assert f"{arm_of(out)} begins anew" in said
    for path in out.rglob("*.damaged*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert contents(out) == contents(unbroken)


# The disk


def test_free_disk_is_that_of_the_nearest_folder_that_is_there(tmp_path):
    free = disk.free_disk(tmp_path / "not" / "there")
    assert free == pytest.approx(shutil.disk_usage(tmp_path).free, abs=2**30)
    assert disk.in_words({"models": 2**20}, 2**31) == "disk: about 1 MiB (models 1 MiB); 2.0 GiB are free"
