"""A sweep that is killed, at any moment, goes on where it was and ends as if it had never been."""

import os
import random
import signal
import time

import pytest
from killed_in_a_write import killed_in_a_write
from sweep_cases import TINY, command, parts_of, start

from simlab.sweeps.result import read
from simlab.sweeps.run import parts_folder

# 24 units of one program, a tenth of a second each.
OPTIONS = (*TINY, "--group-size", 2, "--gamma", "0,1", "--seeds", 96, "--steps", 3000, "--record-every", 1000)
UNITS = 24

KILLED_IN_A_WRITE = killed_in_a_write("from simlab.cli import main", "main(sys.argv[3:])")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    out = tmp_path_factory.mktemp("unbroken") / "sweep.nc"
    code, _, complaints = command("sweep", "--out", out, *OPTIONS)
    assert (code, complaints) == (0, "")
    assert len(parts_of(out)) == UNITS
    return out


def start_and_stop(out, count, stop, delay):
    process = start("sweep", "--out", out, *OPTIONS)
    while len(list(parts_folder(out).glob("*.npz"))) < count:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.001)
    time.sleep(delay)
    process.send_signal(stop)
    return process.communicate()[1], process.returncode


def killed_at_some_moment(out, more, delay):
    return start_and_stop(out, len(parts_of(out)) + more, signal.SIGKILL, delay)[1]


def killed_in_a_write(out, moment, write):
    """Let a run kill itself just before or after it puts a file in its place."""
    return command(moment, write, "sweep", "--out", out, *OPTIONS, program=("-c", KILLED_IN_A_WRITE))[0]


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_with_the_numbers_of_an_unbroken_one(unbroken, tmp_path):
    out, moments = tmp_path / "sweep.nc", random.Random(0)
    manifest, result = 1, 1
    finished = [0]
    for kill in (
        lambda: killed_in_a_write(out, "before", manifest),
        lambda: killed_at_some_moment(out, 1, moments.uniform(0, 0.02)),
        lambda: killed_in_a_write(out, "before", manifest + 3),
        lambda: killed_in_a_write(out, "after", manifest + 6),
        lambda: killed_in_a_write(out, "before", manifest + UNITS - finished[-1] + result),
    ):
        assert kill() == -signal.SIGKILL
        assert not out.exists()
        assert parts_of(out).items() <= parts_of(unbroken).items()
        finished.append(len(parts_of(out)))
    assert finished == sorted(finished)
    assert [finished[1], finished[-1]] == [0, UNITS]
    assert finished[2] < finished[-2] < UNITS
    unfinished = [*tmp_path.rglob(".unfinished-*")]
    assert unfinished, "what the kills left is there until it is an hour old"
    for path in unfinished:
        os.utime(path, (0, 0))

    code, _, complaints = command("sweep", "--out", out, *OPTIONS)
    assert (code, complaints) == (0, f"{UNITS} of {UNITS} units are finished already\n")
    assert parts_of(out) == parts_of(unbroken)
    assert read(out).identical(read(unbroken))
    assert not list(tmp_path.rglob(".unfinished-*"))


def test_an_interrupt_ends_with_one_line_and_keeps_the_parts(tmp_path):
    out = tmp_path / "sweep.nc"
    message, code = start_and_stop(out, 3, signal.SIGINT, 0)
    assert code == 130
    assert message == "simlab: interrupted; finished parts are kept, the same command goes on from them\n"
    assert 3 <= len(parts_of(out)) < UNITS
    assert not list(parts_folder(out).glob(".unfinished-*"))
    assert not out.exists()
