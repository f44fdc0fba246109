"""The command that runs every test: the result of a part, parts that do not run again, and the table."""

import os
import sys
from pathlib import Path

import everything
import pytest
from everything import ENVIRONMENTS, Environment, Outcome, Unusable, checkout, interpreter, read_page, run, table

TESTS = """
import pathlib, pytest
def test_passes(): pathlib.Path(__file__).with_name("runs").open("a").write("run ")
def test_fails(): assert 1 == 2
def test_errs(absent): ...
@pytest.mark.skip(reason="no moon tonight")
def test_skipped(): ...
"""


@pytest.fixture
def run_file(tmp_path, monkeypatch):
    """Run a file of tests as a part, with a limit in seconds."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run_part(text, limit=60.0, results=tmp_path):
        (tmp_path / "test_a.py").write_text(text)
        arguments = ["-q", "-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path / "test_a.py")]
        return run("python/part", Path(sys.executable), arguments, results, limit)

    return run_part


def test_a_part_counts_its_tests_and_is_not_run_again(run_file, tmp_path):
    first, second = run_file(TESTS), run_file(TESTS)
    assert (first.passed, first.skipped, first.ended) == (1, 1, "")
    assert [name.rpartition("::")[2] for name in first.failed] == ["test_fails", "test_errs"]
    assert (second.passed, list(second.failed)) == (first.passed, list(first.failed))
    assert (tmp_path / "runs").read_text() == "run "


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        pytest.param("import time\ndef test_sleeps(): time.sleep(100)", "its limit", marks=pytest.mark.slow),
        pytest.param("import os\ndef test_crashes(): os._exit(7)", "exit code 7", marks=pytest.mark.slow),
    ],
)
def test_a_part_that_does_not_end_by_itself_runs_again(run_file, text, ended):
    assert run_file(text, limit=3).ended.endswith(ended)
    assert run_file("def test_passes(): ...").passed == 1


def test_an_interpreter_of_another_version_is_unusable():
    with pytest.raises(Unusable, match=r"not Python 3\.9"):
        interpreter("3.9", {"3.9": sys.executable})
    with pytest.raises(Unusable, match="no python9"):
        interpreter("9", {})


def test_the_page_names_the_commit_and_what_failed_or_did_not_run_and_is_read_back(tmp_path):
    outcomes = [
        Outcome("a/torch", 3, ("tests.test_x::test_y[a `b`]",), 1, 2.0, commit="abc"),
        Outcome("a/slow/tests/test_z.py", 0, (), 0, 9.0, "its limit", "def"),
    ]
    versions = {"a": "python 3.11.7, jax 0.10.2"}
    page = tmp_path / "page.md"
    page.write_text(table(outcomes, {"b": "no python3.13"}, versions))
    for words in ("commit ", "3 passed, 1 failed", "test_x::test_y", "its limit", "did not run", "jax 0.10.2"):
        assert words in page.read_text()
    assert read_page(page) == ({outcome.part: outcome for outcome in outcomes}, versions)
    assert read_page(tmp_path / "absent.md") == ({}, {})


def test_a_part_that_passed_by_the_page_is_not_run_again(tmp_path, monkeypatch):
    page, ran = tmp_path / "page.md", []
    page.write_text(table([Outcome("e/unmarked", 1, (), 0, 1.0), Outcome("e/x", 0, (), 0, 1.0, "its limit")], {}, {}))
    monkeypatch.setattr(everything, "ENVIRONMENTS", [Environment("e", "3.11", ())])
    monkeypatch.setattr(everything, "make", lambda *_: Path(sys.executable))
    monkeypatch.setattr(everything, "list_parts", lambda *_: [("e/unmarked", []), ("e/x", []), ("e/new", [])])
    monkeypatch.setattr(everything, "run", lambda name, *_: ran.append(name) or Outcome(name, 1, (), 0, 1.0))
    arguments = ["--folder", str(tmp_path / "folder"), "--table", str(page)]
    assert everything.main([*arguments, "--mended", "--only", "e/x"]) == 0
    assert ran == ["e/x"]
    assert set(read_page(page)[0]) == {"e/unmarked", "e/x"}
    assert everything.main([*arguments, "--mended"]) == 0
    assert ran == ["e/x", "e/new"]
    assert everything.main(arguments) == 0
    assert ran == ["e/x", "e/new", "e/unmarked", "e/x", "e/new"]


def test_every_marker_of_the_project_runs_somewhere():
    project = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    for environment in ENVIRONMENTS:
        assert all(f'"{marker}: ' in project for marker in environment.markers)
    assert len(checkout()) == 40
