"""Numbers for TensorBoard, read back by TensorBoard, and offline runs of W&B: the calls of its library."""

import math
import sys
from types import SimpleNamespace

import pytest
from sweep_cases import refusal
from training_cases import settings

from simlab.cli import main
from simlab.llm.loggers import Scalars, WandbFiles
from simlab.llm.training.folder import EVALUATIONS, METRICS, ArmFolder, RunFolder, evaluation_scalars
from simlab.seals import Damaged

# TensorBoard


@pytest.fixture
def shown():
    """Read a folder by TensorBoard: (step, value) pairs by tag."""
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

    def read(folder):
        events = reader.EventAccumulator(str(folder), size_guidance={reader.SCALARS: 0})
        events.Reload()
        return {
            tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()[reader.SCALARS]
        }

    return read


def test_floats_and_lists_are_written_by_step(tmp_path, shown):
    with Scalars(tmp_path / "run") as scalars:
        scalars.write(1, {"reward": 0.5, "masses": [0.25, 2]})
        scalars.write(2, {"reward": math.nan, "masses": []})
        scalars.write(2, {"pass@1": 0.5})
        series = shown(tmp_path / "run")  # at once, before the file is closed
    assert series["masses/0"] == [(1, 0.25)]
    assert series["masses/1"] == [(1, 2.0)]
    assert series["reward"][0] == (1, 0.5)
    assert math.isnan(series["reward"][1][1])
    assert series["pass@1"] == [(2, 0.5)]


def test_a_run_that_goes_on_after_a_kill_shows_no_step_twice(tmp_path, shown):
    """Killed after step 7, it goes on from the checkpoint of step 4; the first file was never closed."""
    killed = Scalars(tmp_path)
    for step in range(1, 8):
        killed.write(step, {"reward": step, "masses": [step, step]})
    with Scalars(tmp_path) as scalars:
        assert shown(tmp_path)["reward"] == [(step, step) for step in range(1, 8)]
        for step in range(5, 7):
            scalars.write(step, {"reward": 10 * step})
    series = shown(tmp_path)
    assert series["reward"] == [(1, 1), (2, 2), (3, 3), (4, 4), (5, 50), (6, 60)]
    assert series["masses/1"] == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_without_tensorboard_the_extra_is_named(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    assert refusal(Scalars, tmp_path).endswith("install it with: pip install 'simlab[tensorboard]'")


# W&B


class Library:
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
    monkeypatch.setitem(sys.modules, "wandb", fake := Library())
    return fake


def arm_of(out):
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
        files = killed.record()["sizes"]  # of the steps before
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
    options = {"name": "a", "group": "b", "identity": "c", "config": {}}
    assert "wandb cannot be imported" in refusal(WandbFiles, tmp_path, **options)


@pytest.mark.filterwarnings("default")
def test_the_library_writes_a_file_that_can_be_uploaded(tmp_path):
    wandb = pytest.importorskip("wandb")
    with ArmFolder(tmp_path, [], [WandbFiles(tmp_path, name="grpo", group="g", identity="abc1", config={})]) as folder:
        folder.append(METRICS, {"step": 1, "reward": 0.5})
    wandb.teardown()  # waits for the process that writes
    (written,) = tmp_path.glob("wandb/offline-run-*-abc1/run-abc1.wandb")
    assert b"reward" in written.read_bytes()
