"""A training run that is killed, at any moment, goes on where it was and ends as if it had never been."""

import random
import signal
import time
from pathlib import Path

import pytest
import training_cases
from killed_in_a_write import killed_in_a_write
from sweep_cases import start
from training_cases import contents, long_run

KILLED_IN_A_WRITE = killed_in_a_write(
    "from quick_compilation import quick_compilation\nfrom training_cases import long_run",
    "with quick_compilation():\n    long_run(sys.argv[3], int(sys.argv[4]))",
)

pytestmark = pytest.mark.usefixtures("quickly")


@pytest.fixture(scope="module")
def unbroken_after_warm_start(tmp_path_factory):
    out = tmp_path_factory.mktemp("unbroken") / "run"
    long_run(out, warm_start=24)
    return contents(out)


def lines_of(out):
    return sum(len(path.read_bytes().splitlines()) for path in out.glob("*/**/metrics.jsonl"))


def kill_after(out, lines, delay, warm_start=0, kind="plain"):
    process = start(out, warm_start, kind, program=(training_cases.__file__,))
    while lines_of(out) < lines:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.001)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "lines"), [("plain", 7), ("off_policy", 8), ("own_settings", 30), ("probe", 10), ("remedy", 30)]
)
def test_a_run_that_is_killed_ends_as_if_it_had_not_been(kind, lines, tmp_path):
    """The checkpoint holds the parameters of the last steps, and what the verifier says depends on no process."""
    out, unbroken = tmp_path / "run", tmp_path / "unbroken" / "run"
    kill_after(out, lines=lines, delay=0.01, kind=kind)
    assert lines <= lines_of(out) < 48
    for path in (*out.glob("arms/*/*/metrics.jsonl"), *out.glob("arms/*/*/evaluation.jsonl")):
        with path.open("a") as file:
            file.write('{"step": 9, "rew')
    long_run(out, kind=kind, resume=True)
    long_run(unbroken, kind=kind)
    assert contents(out) == contents(unbroken)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_run_that_is_killed_several_times_ends_as_if_it_had_not_been(seed, unbroken_after_warm_start, tmp_path):
    out, moments = tmp_path / "run", random.Random(seed)
    for lines in sorted(moments.sample(range(1, 66), 3)):
        kill_after(out, lines, delay=moments.uniform(0, 0.05), warm_start=24)
    long_run(out, warm_start=24)
    assert contents(out) == unbroken_after_warm_start


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("replaced", [1, 2, 10, 11, 13, 15, 16, 23, 24, 26])
def test_a_run_that_is_killed_as_a_file_appears_ends_as_if_it_had_not_been(
    moment, replaced, unbroken_after_warm_start, tmp_path
):
    out = tmp_path / "run"
    program = ("-c", f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n{KILLED_IN_A_WRITE}")
    process = start(moment, replaced, out, 24, program=program)
    complaints = process.communicate()[1]
    assert process.returncode == -signal.SIGKILL, complaints
    long_run(out, warm_start=24)
    assert contents(out) == unbroken_after_warm_start
