"""The command that runs every test: the result of a part, parts that do not run again, and the table."""

import os
import sys
from pathlib import Path

import pytest
from everything import ENVIRONMENTS, Outcome, Unusable, checkout, interpreter, passed_before, run, table

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


def test_after_a_mend_a_part_counts_if_it_has_passed_on_earlier_files(run_file, tmp_path):
    earlier, now = tmp_path / "earlier", tmp_path / "now"
    for folder in (earlier, now):
        folder.mkdir()
    assert passed_before("python/part", now) is None
    passed = run_file("def test_passes(): ...", results=earlier)
    assert passed_before("python/part", now).commit == passed.commit
    run_file(TESTS, results=now)
    assert passed_before("python/part", now) is None


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


def test_the_table_names_the_commit_and_what_failed_or_did_not_run():
    outcomes = [Outcome("a/torch", 3, ("tests.test_x::test_y",), 1, 2.0), Outcome("a/slow", 0, (), 0, 9.0, "its limit")]
    text = table(outcomes, {"b": "no python3.13"}, {"a": "python 3.11.7, jax 0.10.2"})
    for words in ("commit ", "3 passed, 1 failed", "test_x::test_y", "its limit", "did not run", "jax 0.10.2"):
        assert words in text


def test_every_marker_of_the_project_runs_somewhere():
    project = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    for environment in ENVIRONMENTS:
        assert all(f'"{marker}: ' in project for marker in environment.markers)
    assert len(checkout()) == 40
