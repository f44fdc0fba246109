"""Offline runs of W&B: what is handed to its library, and that its library takes it."""

import sys
from types import SimpleNamespace

import pytest
from sweep_cases import refusal
from training_cases import settings

from simlab.cli import main
from simlab.llm.training.folder import EVALUATIONS, METRICS, ArmFolder, evaluation_scalars
from simlab.llm.training.run_folder import RunFolder
from simlab.llm.wandb_files import WandbFiles
from simlab.seals import Damaged


class Library:
    """In place of wandb: the runs that were begun, and what each was given."""

    def __init__(self):
        self.runs = []

    def Settings(self, **named):  # as wandb calls it
        return named

    def init(self, **named):
        run = SimpleNamespace(asked=named, logged=[], ended=None)
        run.log = lambda values, step: run.logged.append((step, values))
        run.finish = lambda exit_code: setattr(run, "ended", exit_code)
        self.runs.append(run)
        return run


@pytest.fixture
def library(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", found := Library())
    return found


def arm_of(out):
    """The folder of an arm of a run that writes for W&B."""
    run = RunFolder(out, settings(), wandb=True)
    run.origins = [{}]
    return run.arm("grpo", 0)


def test_an_arm_is_an_offline_run_with_the_settings_and_numbers(tmp_path, library):
    with arm_of(tmp_path / "study") as folder:
        folder.append(METRICS, {"step": 1, "reward": 0.5, "group_share": [1.0, 2.0], "grad_norm": float("nan")})
        folder.append(EVALUATIONS, {"step": 1, "samples": 4, "pass_at_k": {"1": {"mean": 0.25}}, "entropy": 1.5})
    (run,) = library.runs
    assert run.logged == [(1, {"reward": 0.5}), (1, {"evaluation/entropy": 1.5, "evaluation/pass@1": 0.25})]
    assert (run.asked["mode"], run.asked["name"], run.asked["group"]) == ("offline", "grpo, seed 0", "study")
    assert run.asked["dir"] == str(tmp_path / "study" / "arms" / "grpo" / "seed-0")
    assert run.asked["config"]["rl"]["prompts"] == settings().rl.prompts
    assert run.asked["settings"]["console"] == "off"
    assert run.ended == 0


def test_an_arm_that_goes_on_hands_over_its_former_steps_again_under_one_id(tmp_path, library):
    """Killed after step 3, it goes on from step 2: the lines of the steps up to it, each step's metrics first."""
    killed = arm_of(tmp_path)
    for step in (1, 2, 3):
        files = killed.record()["files"]  # of the steps before
        killed.append(METRICS, {"step": step, "reward": step / 10})
        killed.append(EVALUATIONS, {"step": step, "samples": 4, "length": float(step)})
    with arm_of(tmp_path) as folder:
        folder.cut_lines(files)
        folder.append(METRICS, {"step": 3, "reward": 0.9})
    first, second = library.runs
    assert second.logged == [
        (1, {"reward": 0.1}), (1, {"evaluation/length": 1.0}),
        (2, {"reward": 0.2}), (2, {"evaluation/length": 2.0}),
        (3, {"reward": 0.9}),
    ]  # fmt: skip
    assert first.asked["id"] == second.asked["id"] != arm_of(tmp_path / "other").writers[0]._run.asked["id"]


def test_several_evaluation_sets_have_their_own_names():
    line = {"step": 2, "samples": 4, "entropy": 1.0, "set": "near", "sets": {"far": {"samples": 4, "entropy": 2.0}}}
    assert evaluation_scalars(line) == {"evaluation/entropy": 1.0, "far/entropy": 2.0}


def test_what_fails_ends_the_run_as_failed(tmp_path, library):
    with pytest.raises(Damaged), arm_of(tmp_path):
        raise Damaged("a line")
    assert library.runs[0].ended == 1


def test_without_wandb_the_extra_is_named_before_the_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)
    out = tmp_path / "runs" / "one"
    assert main(["train", "--wandb", "--out", str(out)]) == 2
    assert "install it with: pip install 'simlab[wandb]'" in capsys.readouterr().err
    assert not out.parent.exists()
    own = {"name": "a", "group": "b", "identity": "c", "config": {}}
    assert "wandb cannot be imported" in refusal(WandbFiles, tmp_path, **own)


@pytest.mark.filterwarnings("default")
def test_the_library_writes_a_file_that_can_be_uploaded(tmp_path):
    wandb = pytest.importorskip("wandb")
    with ArmFolder(tmp_path, [], [WandbFiles(tmp_path, name="grpo", group="g", identity="abc1", config={})]) as folder:
        folder.append(METRICS, {"step": 1, "reward": 0.5})
    wandb.teardown()  # waits for the process that writes
    (written,) = tmp_path.glob("wandb/offline-run-*-abc1/run-abc1.wandb")
    assert b"reward" in written.read_bytes()
