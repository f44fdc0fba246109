"""Hostile command lines: exit code 2 and one line, no traceback, before anything is computed.

Whatever would compute ends at once, so that an allowed value costs nothing here either.
"""

import os
import random
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from run_folders import evaluation, metrics, write_run

from simlab.cli import build_parser, main

VALUES = (
    "", "\n", "-1", "0", "1e400", "nan", "1_000", "²", "9" * 5000, "x" * 10**5, "1,2,...,1e30", "0,1e-320,...,1",
    "...", ",", "=", "a=", "a=1", "1/0", "\udcff", "/dev/zero", "/", ".", "a/" * 3000, "None", "{}", "\x1b[2J",
    "1/" + "9" * 30, "local:0", "1e99TB", "f_grpo(", "f_grpo(gamma=1e400)", "(" * 10**4, "grpo+" * 5000, "\u202e",
    "a\r\nb",
)  # fmt: skip
TINY = ("--steps", "2", "--record-every", "1", "--seeds", "1", "--group-size", "2")
PARAMETERS = {
    "sweep": ("gamma", "learning_rate", "logits", "correct", "actions", "prompts", "update_rule", "problem.logits"),
    "train": ("task.digits", "task.options", "model.hidden_size", "rl.steps", "rl.temperature", "task", "."),
}
COMMANDS = {"sweep": TINY, "train": (), "compare": ("run",), "check": (), "figures": ("casp_fig1",), "explore": ()}
PLACES = ("merge", "merge out.nc", "where", "where fade", "compare", "figures", "")


def command_lines():
    """Every option of every subcommand with every value, parameters of sweep and train, and paths."""
    for command, base in COMMANDS.items():
        for flag in build_parser()[1][command].flags():
            if flag.startswith("--") and flag != "--help":
                yield from ([command, *base, f"{flag}={value}"] for value in VALUES)
        for name in PARAMETERS.get(command, ()):
            yield from ([command, *base, f"--param={name}={value}"] for value in VALUES)
    for prefix in PLACES:
        yield from ([*prefix.split(), value] for value in VALUES)


LINES = tuple(command_lines())


class WouldCompute(Exception):
    """The command line was taken."""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to work in, in which a run lies, and where nothing is computed."""
    monkeypatch.chdir(tmp_path)
    arms = {"grpo": {seed: (metrics([0.5, 1.0]), [evaluation(2, [4, 8])]) for seed in range(3)}}
    write_run(tmp_path / "run", arms)

    def stop(*_, **__):
        raise WouldCompute

    for target in (
        "simlab.sweeps.run.run", "simlab.llm.training.run.train", "paper_checks.run.judge_all",
        "figures.shared.images.write", "simlab.pages.open_in_marimo", "simlab.explore.server.serve",
        "simlab.explore.page.export", "simlab.sweeps.cluster.connected",
    ):  # fmt: skip
        with suppress(ImportError):  # an extra is not installed: the command says so, in one line
            monkeypatch.setattr(target, stop, raising=False)
    return tmp_path


def complaint(line, capsys):
    """The line that a refused command prints to standard error; None for one that is taken."""
    capsys.readouterr()
    try:
        code = main(line)
    except (WouldCompute, SystemExit):
        return None
    printed = capsys.readouterr()
    assert code in (0, 2), line
    if code == 0:
        return None
    assert printed.err.startswith("simlab: "), line
    assert printed.err.endswith("\n"), line
    message = printed.err[:-1]
    assert message.isprintable(), line
    assert len(message) < 2100, line
    return message


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(4))
def test_hostile_command_lines_are_refused_or_taken_without_much_work(shard, here, capsys):
    lines, refused = random.Random(19).sample(LINES, 1200)[shard::4], 0
    for line in lines:
        start = time.process_time()
        refused += complaint(line, capsys) is not None
        assert time.process_time() - start < 20, line
    assert refused > len(lines) / 2


def shell(command, **environment):
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command.replace("simlab", f'"{sys.executable}" -m simlab.cli')],
        capture_output=True, text=True, env=os.environ | environment, errors="backslashreplace", check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("command", "code", "printed"),
    [
        ("simlab estimators | head -0", 0, ""),
        ("simlab estimators > /dev/full", 2, "simlab: [Errno 28] No space left on device\n"),
    ],
)
def test_streams_that_nobody_reads_or_that_are_full_end_in_one_line(command, code, printed):
    done = shell(command)
    assert (done.returncode, done.stderr) == (code, printed)


@pytest.mark.slow
def test_a_path_that_the_terminal_cannot_show_is_escaped(tmp_path):
    """The path is no UTF-8: bash hands it over byte by byte."""
    done = shell(f"cd {tmp_path} && simlab compare $'\\xc3\\xa9\\xff'", PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.isascii()
    assert "is not a training run" in done.stderr
