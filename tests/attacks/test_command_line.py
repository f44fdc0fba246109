"""Hostile command lines: exit code 2 and one line, no traceback, before anything is computed.

What would compute is replaced by an end, so that a value that is allowed costs nothing here either.
"""

import os
import random
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from run_folders import evaluation, metrics, write_run

from simlab.cli import main

DIGITS = "9" * 29
VALUES = (
    "", " ", "\n", "\0", "-1", "0", "1e400", "nan", "inf", "-inf", "1_000", "٣", "²", DIGITS, "9" * 400, "9" * 5000,
    "1e999999999", "x" * 10**5, "1,2,...,1e30", "0,0,...,1", "1,2,...,nan", "2,4,...,inf", "1,2,...,100001",
    "0,1e-320,...,1", "...", ",", ",,,", "=", "a=", "=b", "a=1", "1/0", "\udcff", "\ud800", "/dev/zero", "/", ".",
    "/proc/self/mem", "/nonexistent/a/b", "a/" * 3000, "--", "-", "None", "[]", "{}", "\x1b[2J", "0/0", "2/1",
    "1/" + "9" * 30, "local:0", "tcp://x:99999", "1e99TB", "-1GB", "10**30", "(", "f_grpo(", "f_grpo(gamma=1e400)",
    "(" * 10**4, "grpo+" * 5000, "\u202e", "a\r\nb", "%s", "1;2", "'", '"',
)  # fmt: skip
TINY = ("--steps", "2", "--record-every", "1", "--seeds", "1", "--group-size", "2")
OPTIONS = {
    "sweep": (
        "preset", "arms", "estimator", "group-size", "surrogate", "gamma", "learning-rate", "seeds", "param", "problem",
        "optimizer", "steps", "record-every", "pass-at-k", "top-n", "dtype", "storage", "engine", "out", "figure",
        "memory", "shard", "scheduler", "shard-actions",
    ),
    "train": (
        "preset", "config", "arms", "seeds", "task", "model", "steps", "prompts", "group-size", "learning-rate",
        "param", "engine", "out", "figure",
    ),
    "compare run": ("figure", "at", "pass-at-k", "baseline", "histograms"),
    "check": ("paper", "tag", "jobs", "json", "html"),
    "figures casp_fig1": ("out",),
    "explore": ("preset", "export", "estimator", "port"),
    "notebooks": ("port", "folder"),
}  # fmt: skip
PARAMETERS = {
    "sweep": (
        "gamma", "learning_rate", "temperature", "kl", "logits", "correct", "target", "actions", "positive", "eps",
        "prompts", "supervised", "update_norm", "epochs", "update_rule", "depth", "aggregation",
        "problem.logits",
    ),
    "train": (
        "task.digits", "task.size", "task.seed", "task.evaluation_size", "task.dataset", "task.options",
        "model.hidden_size", "model.num_layers", "model.num_heads", "model.max_positions", "rl.steps", "rl.group_size",
        "rl.microbatch", "rl.temperature", "rl.max_new_tokens", "warm_start.steps", "evaluation.rollouts", "task", ".",
    ),
}  # fmt: skip
PLACES = ("merge", "merge out.nc", "merge --overwrite", "where", "where fade", "compare", "figures", "")


def command_lines():
    """Every option of every subcommand with every value, parameters of sweep and train, and places."""
    for command, options in OPTIONS.items():
        base = [*command.split(), *(TINY if command == "sweep" else ())]
        for option in options:
            yield from ([*base, f"--{option}={value}"] for value in VALUES)
        for name in PARAMETERS.get(command, ()):
            yield from ([*base, f"--param={name}={value}"] for value in VALUES)
    for place in PLACES:
        yield from ([*place.split(), value] for value in VALUES)


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

    for place in (
        "simlab.sweeps.run.run", "simlab.llm.training.run.train", "paper_checks.run.judge_all",
        "figures.shared.images.write", "simlab.notebooks.open_in_marimo", "simlab.explore.server.serve",
        "simlab.explore.html.export", "simlab.sweeps.cluster.connected",
    ):  # fmt: skip
        with suppress(ImportError):  # of an extra that is not installed: the command says so, in one line
            monkeypatch.setattr(place, stop, raising=False)
    return tmp_path


def complaint(line, capsys):
    """What a command line prints to standard error where it is refused; None where it is taken."""
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


def attack(lines, capsys):
    """How many command lines are refused; each is, or is taken, without much work."""
    refused = 0
    for line in lines:
        start = time.process_time()
        refused += complaint(line, capsys) is not None
        assert time.process_time() - start < 20, line
    return refused


@pytest.mark.slow
def test_a_sample_of_hostile_command_lines(here, capsys):
    sample = random.Random(19).sample(LINES, 60)
    assert attack(sample, capsys) > 40


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_all_hostile_command_lines(part, here, capsys):
    lines = LINES[part::8]
    assert attack(lines, capsys) > len(lines) / 2


KNOWN = {
    "many digits of k": (["compare", "run", f"--pass-at-k={DIGITS}"], "cannot be told of 8 samples"),
    "many digits of a sweep's k": (["sweep", f"--pass-at-k={DIGITS}"], "is outside its range [1, 2147483647]"),
    "a value that argparse takes for a mark": (["explore", "--export=--"], "argument --export: '--' is no value"),
    "no path": (["merge", ""], "'' is no path"),
    "the present folder": (["merge", "."], "cannot write .: it is not a regular file"),
    "the root": (["merge", "/"], "'/' is a folder; allowed: a file, such as /sweep.nc"),
    "a list without end": (["sweep", "--gamma=1,2,...,1e30"], "does not fit"),
    "a grid without end": (
        ["sweep", "--gamma=0,1,...,9999", "--group-size=2,3,...,9999"],
        "a grid of 99980000 cells; allowed: up to 100000",
    ),
    "every k": (["sweep", "--pass-at-k=1,2,...,99999"], "--pass-at-k lists 99999 values; allowed: up to 1000"),
    "a device of numbers": (["sweep", "--problem=custom", "--param=logits=/dev/zero"], "/dev/zero is no regular file"),
    "a config that is a device": (["train", "--config=/dev/zero"], "/dev/zero is no regular file"),
    "a name of two lines": (["compare", "two\nlines"], "two\\nlines is not a training run"),
}


@pytest.mark.parametrize("case", KNOWN)
def test_a_line_names_the_value_and_what_is_allowed(case, here, capsys):
    line, message = KNOWN[case]
    assert message in complaint(line, capsys)


@pytest.mark.parametrize("name", ["pipe", "deep", "digits", "twice"])
def test_a_config_that_is_hostile_is_refused(name, here, capsys):
    os.mkfifo("pipe")
    (here / "deep").write_text("[" * 10**5)
    (here / "digits").write_text('{"seeds": ' + "9" * 5000 + "}")
    (here / "twice").write_text('{"seeds": 1, "seeds": 2}')
    assert complaint(["train", f"--config={name}"], capsys).startswith(f"simlab: {name} is n")


# Real processes


def shell(command, **environment):
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command.replace("simlab", f'"{sys.executable}" -m simlab.cli')],
        capture_output=True, text=True, env=os.environ | environment, errors="backslashreplace", check=False,
    )  # fmt: skip


CLOSED = "simlab: standard output is closed; allowed: a terminal, a file, a pipe or /dev/null\n"


@pytest.mark.parametrize(
    ("command", "code", "printed"),
    [
        ("simlab estimators >&-", 2, CLOSED),
        ("simlab --help >&-", 2, CLOSED),
        ("simlab nonsense >&- 2>&-", 2, ""),
        ("simlab estimators 2>&- | grep -c grpo", 0, ""),
        ("simlab estimators | head -0", 0, ""),
        ("simlab estimators > /dev/full", 2, "simlab: [Errno 28] No space left on device\n"),
    ],
)
def test_closed_and_full_streams_end_in_one_line(command, code, printed):
    done = shell(command)
    assert (done.returncode, done.stderr) == (code, printed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}]
)
def test_a_path_that_the_terminal_cannot_show_is_escaped(environment, tmp_path):
    """As a path that bash hands over byte by byte, and that is no UTF-8 either."""
    done = shell(f"cd {tmp_path} && simlab compare $'\\xc3\\xa9\\xff'", **environment)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.isascii()
    assert "is not a training run" in done.stderr


def test_a_result_has_no_part_in_a_closed_stream(tmp_path):
    """With standard error closed, a file that is opened would take its number, and get what libraries print there."""
    done = shell(f"cd {tmp_path} && simlab check --tag f-grpo:lemma-3.1 --json é.json 2>&-", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert (tmp_path / "é.json").read_bytes().startswith(b"[")
