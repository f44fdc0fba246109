"""The command that runs every test: parts that resume, time limits, reasons, and what it says of what is missing."""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from everything.__main__ import TABLE, checkout, main
from everything.environments import ENVIRONMENTS, Environment, Unusable, _succeed, interpreter, oldest
from everything.parts import Part, markers, slow_tests
from everything.running import Outcome, outcome_of, run_all
from everything.table import table

PASSING = """
import pathlib, pytest
def test_passes(): pathlib.Path(__file__).with_name("runs").open("a").write("run ")
@pytest.mark.skip(reason="no moon tonight")
def test_skipped(): ...
"""
SKIPPED = "import pytest; pytest.importorskip('a_package_that_is_not_there')"
FAILING = "def test_fails(): assert 1 == 2\ndef test_errs(absent): ..."
SLEEPING = """
import pathlib, subprocess, sys
def test_sleeps():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    pathlib.Path(__file__).with_name("child").write_text(str(child.pid))
    child.wait()
"""
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def part(folder: Path, name: str, **files: str) -> Part:
    """A part of an environment called ``fake`` that runs these files."""
    home = folder / name
    home.mkdir()
    for file, text in files.items():
        (home / f"test_{file}.py").write_text(text)
    command = (sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(home), str(home))
    return Part(f"fake/{name}", "fake", command, variables=ALONE)


def told(part: Part, results: Path) -> Outcome:
    outcome = outcome_of(part.name, results)
    assert outcome is not None
    return outcome


def ends(process: int) -> bool:
    """Whether a process that was killed is gone within seconds, or waits to be buried."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_a_part_tells_what_passed_what_failed_and_why_tests_were_skipped(tmp_path):
    parts = [part(tmp_path, "good", a=PASSING, b=SKIPPED), part(tmp_path, "bad", a=FAILING)]
    run_all(parts, tmp_path / "results", limit=60, processes=2)
    good, bad = (told(one, tmp_path / "results") for one in parts)
    assert (good.passed, good.failed, good.ended) == (1, (), "")
    assert good.skipped == {
        "no moon tonight": 1,
        "could not import 'a_package_that_is_not_there': No module named 'a_package_that_is_not_there'": 1,
    }
    assert (bad.passed, bad.skipped, bad.done) == (0, {}, True)
    assert [name.rpartition("::")[2] for name in bad.failed] == ["test_fails", "test_errs"]


def test_what_is_done_is_not_run_again(tmp_path):
    one = part(tmp_path, "good", a=PASSING)
    for _ in range(2):
        run_all([one], tmp_path / "results", limit=60, processes=1)
    assert (tmp_path / "good" / "runs").read_text() == "run "


def test_a_part_that_takes_too_long_is_killed_with_what_it_has_started_and_runs_again(tmp_path):
    one = part(tmp_path, "long", a=SLEEPING)
    run_all([one], tmp_path / "results", limit=3, processes=1)
    assert told(one, tmp_path / "results").ended.endswith("its limit")
    assert ends(int((tmp_path / "long" / "child").read_text()))
    (tmp_path / "long" / "test_a.py").write_text(PASSING)
    run_all([one], tmp_path / "results", limit=60, processes=1)
    assert told(one, tmp_path / "results").passed == 1


def test_a_part_that_crashes_is_not_done(tmp_path):
    one = part(tmp_path, "crash", a="import os\ndef test_crashes(): os._exit(7)")
    run_all([one], tmp_path / "results", limit=60, processes=1)
    assert told(one, tmp_path / "results").ended == "ended with exit code 7"


def test_a_part_counts_only_if_the_checkout_stayed_as_it_was(tmp_path):
    one = part(tmp_path, "good", a=PASSING)
    run_all([one], tmp_path / "results", limit=60, processes=1, unchanged=lambda: False)
    assert told(one, tmp_path / "results").ended == "the checkout changed while it ran"
    assert not told(one, tmp_path / "results").passed


def test_a_signal_ends_what_is_running(tmp_path):
    one = part(tmp_path, "long", a=SLEEPING)
    program = (
        "import pathlib, sys; from tests.everything.running import *\n"
        "with ending_on_signals():\n"
        "    run_all([Part(*eval(sys.argv[1]))], pathlib.Path(sys.argv[2]), limit=60, processes=1)"
    )
    arguments = repr((one.name, one.environment, one.command, one.processes, one.variables))
    command = [sys.executable, "-c", program, arguments, str(tmp_path / "results")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[1])
    child = tmp_path / "long" / "child"
    while not (child.exists() and child.read_text()):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) != 0
    assert ends(int(child.read_text()))
    assert outcome_of(one.name, tmp_path / "results") is None


def test_an_interpreter_that_is_missing_is_a_row_and_a_failure(tmp_path):
    missing = [Environment("ancient", "3.99", ("test",))]
    arguments = [f"--folder={tmp_path}", f"--table={tmp_path / 'table.md'}"]
    assert main(arguments, missing) == 1
    written = (tmp_path / "table.md").read_text()
    assert "| ancient |  |  |  |  |  | **did not run**: no python3.99 on the PATH; name one" in written
    assert "not all of it ran and passed" in written


@pytest.mark.parametrize("path", ["/bin/false", sys.executable])
def test_an_interpreter_is_asked_for_its_version(path):
    with pytest.raises(Unusable, match=r"does not start|is Python 3\.1"):
        interpreter("3.99", {"3.99": path})


def test_what_cannot_be_installed_is_said_in_the_words_of_what_installs(tmp_path):
    program = "print('ERROR: no such package'); print('more'); raise SystemExit(1)"
    with pytest.raises(Unusable, match=r"^bare cannot be made: no such package$"):
        _succeed([[sys.executable, "-c", ""], [sys.executable, "-c", program]], "bare", tmp_path)
    with pytest.raises(Unusable, match=r"^bare cannot be made: see its log$"):
        _succeed([["a-program-that-is-not-there"]], "bare", tmp_path)


def test_the_table_has_every_part_and_every_reason():
    outcomes = [
        Outcome("one/unmarked", 3, (), {"no GPU": 2}, 1.0, "2026-01-01"),
        Outcome("one/slow/a.py", 1, ("a::b",), {"no GPU": 1}, 2.0, "2026-01-02"),
        Outcome("two/unmarked", 0, (), {}, 9.0, "2026-01-02", "ended after 9 s, its limit"),
    ]
    written = table("commit abc", {"one": {"python": "3.11.1"}}, {"three": "no network"}, outcomes, ["two/dask"])
    for row in (
        "| one | python 3.11.1 |",
        "| one/unmarked | 3 | 0 | 2 | 1 | 2026-01-01 |  |",
        "| one/slow/a.py | 1 | **1** | 1 | 2 | 2026-01-02 |  |",
        "| two/unmarked |  |  |  | 9 | 2026-01-02 | **ended after 9 s, its limit** |",
        "| two/dask |  |  |  |  |  | has not run |",
        "| three |  |  |  |  |  | **did not run**: no network |",
        "| one | 3 | no GPU |",
        "| one/slow/a.py | `a::b` |",
    ):
        assert row in written.splitlines()
    assert "4 passed, 1 failed, 3 skipped in 3 parts; not all of it ran and passed" in written


def test_every_test_is_in_a_part_of_an_environment_that_can_run_it():
    """A test is a set of markers here: none, one or two of packages, with slow or without."""
    for needed in itertools.chain.from_iterable(itertools.combinations(markers(), number) for number in range(3)):
        able = [one for one in ENVIRONMENTS if set(needed) <= set(one.markers) and (one.unmarked or needed)]
        if needed and "verl" in needed and len(needed) > 1:
            assert not able, "verl has an environment of its own"
            continue
        assert [one.slow for one in able].count(True) == 1, needed
        for one in able:
            truth = {name: name in needed for name in (*markers(), "slow")}
            assert eval(slow_tests(one), truth | {"slow": True})
            assert not eval(slow_tests(one), truth)
            assert needed or one.unmarked  # quick ones are in the part of their marker, or of those that have none


def test_the_oldest_version_is_the_one_that_the_project_allows():
    assert oldest("jax") == "jax==0.10.2"
    with pytest.raises(KeyError):
        oldest("a_package_that_is_not_there")


def test_the_name_of_a_checkout_is_that_of_its_files(tmp_path):
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments], cwd=tmp_path, check=True)

    git("init", "--quiet")
    (tmp_path / ".gitignore").write_text("ignored\n")
    (tmp_path / "code.py").write_text("1")
    git("add", ".")
    git("commit", "--quiet", "--message", "one")
    name = checkout(tmp_path)
    (tmp_path / "ignored").write_text("a result")
    (tmp_path / "tests").mkdir()
    (tmp_path / TABLE).write_text("a table")
    assert checkout(tmp_path) == name
    git("commit", "--quiet", "--allow-empty", "--message", "two")
    assert checkout(tmp_path) == name
    (tmp_path / "new.py").write_text("2")
    assert checkout(tmp_path) != name
    (tmp_path / "new.py").unlink()
    (tmp_path / "code.py").write_text("3")
    assert checkout(tmp_path) != name
    (tmp_path / "code.py").write_text("1")
    assert checkout(tmp_path) == name


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--only", "nowhere"], "error: --only nowhere names no environment; there are python3.11"),
        (["--jobs", "0"], "error: argument --jobs: '0' is not a whole number from 1 on"),
        (["--limit", "soon"], "error: argument --limit: 'soon' is not a whole number from 1 on"),
        (["--python", "3.12"], "error: argument --python: '3.12' is not VERSION=PATH with one of 3.11"),
        (["--python", "2.7=/bin/sh"], "error: argument --python: '2.7=/bin/sh' is not VERSION=PATH"),
        (["--nothing"], "error: unrecognized arguments: --nothing"),
    ],
)
def test_bad_input_is_one_line(arguments, line, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(line)
