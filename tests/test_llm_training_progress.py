"""The progress that a run shows, and Ctrl-C, which keeps every finished step."""

import io
import os
import signal
from unittest.mock import Mock

import pytest
from training_cases import contents, settings, task

from simlab.cli import main
from simlab.llm.training import arms
from simlab.llm.training.folder import read_lines
from simlab.llm.training.progress import TrainingProgress, catch_interrupts
from simlab.llm.training.run import train


def test_in_a_log_a_line_now_and_then_says_how_far_it_is(monkeypatch, capsys):
    clock = Mock(monotonic=Mock(return_value=100.0))
    monkeypatch.setattr("simlab.llm.training.progress.time", clock)
    with TrainingProgress("grpo, seed 0", 10, 2) as progress:
        for step in range(3, 11):
            clock.monotonic.return_value += 12
            progress.step(step, reward=step / 10, entropy=1.0)
            if step == 4:
                progress.evaluated({"pass_at_k": {"1": {"mean": 0.25}, "2": {"mean": 0.3}, "4": {"mean": 0.5}}})
    assert capsys.readouterr().err.splitlines() == [
        "grpo, seed 0: step 3 of 10, reward 0.300, entropy 1.000",
        "grpo, seed 0: step 6 of 10, 12 s a step, 00:48 left, reward 0.600, entropy 1.000, pass@1 0.250, pass@4 0.500",
        "grpo, seed 0: step 9 of 10, 12 s a step, 00:12 left, reward 0.900, entropy 1.000, pass@1 0.250, pass@4 0.500",
        "grpo, seed 0: step 10 of 10, 12 s a step, reward 1.000, entropy 1.000, pass@1 0.250, pass@4 0.500",
    ]


def test_on_a_terminal_a_bar_shows_the_same(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    with TrainingProgress("grpo, seed 0", 4, 0) as progress:
        progress.evaluated({"pass_at_k": {"1": {"mean": 0.25}, "8": {"mean": 0.5}}})
        progress.step(4, reward=0.5, entropy=1.0)
    for text in ("grpo, seed 0", "4/4", "reward=0.500", "pass@1=0.250", "pass@8=0.500"):
        assert text in terminal.getvalue()


def test_the_first_interrupt_is_remembered_and_the_second_stops_at_once(capsys):
    with catch_interrupts() as interrupted:
        assert not interrupted()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupted()
        assert "Ctrl-C again stops at once" in capsys.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
@pytest.mark.usefixtures("quickly")
@pytest.mark.parametrize("warm", [0, 3])
def test_an_interrupted_run_keeps_its_step_and_ends_as_if_it_had_not_been(tmp_path, monkeypatch, warm):
    """Interrupted in step 2 of the arm, or of the warm start; no checkpoint was due."""
    asked = settings({"rl": {"steps": 4}, "warm_start": {"steps": warm}, "evaluation": {"every": 2}})
    train(asked, tmp_path / "whole", own_task=task())
    name = "supervised_step" if warm else "step_key"  # each is called once a step
    calls, former = [], getattr(arms, name)

    def interrupted(*arguments):
        if warm or arguments[1] in range(1, 5):
            calls.append(arguments)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return former(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(arms, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(asked, tmp_path / "cut", own_task=task())
    folder = tmp_path / "cut" / ("start" if warm else "arms/grpo") / "seed-0"
    assert [line["step"] for line in read_lines(folder / "metrics.jsonl")] == [1, 2]
    assert (folder / "state.npz").exists()
    train(asked, tmp_path / "cut", own_task=task())
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


# Refusals come before the work


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--model", "nosuch"], "nosuch"),
        (["--tensorboard"], "tensorboard.summary.writer.event_file_writer cannot be imported"),
        (["--param", "task.name=nosuch"], "nosuch"),
    ],
)
def test_a_refused_run_leaves_no_folder(tmp_path, monkeypatch, capsys, arguments, reason):
    """A missing TensorBoard too, which once was told after the whole warm start."""
    monkeypatch.setitem(__import__("sys").modules, "tensorboard", None)
    monkeypatch.setitem(__import__("sys").modules, "tensorboard.summary", None)
    out = tmp_path / "runs" / "one"
    assert main(["train", *arguments, "--out", str(out)]) == 2
    assert reason in capsys.readouterr().err
    assert not out.parent.exists()
