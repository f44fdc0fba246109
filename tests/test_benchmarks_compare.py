"""Two commits side by side: ratios with their intervals, and what is refused."""

import math
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import compare as module
from benchmarks.compare import checked_out, compare, ratio
from simlab.errors import InputError

WORK = "sum(range({}))\n"


@pytest.fixture
def repository(tmp_path):
    """Two commits of a package ``simlab``: the second takes a hundredth of the time to import."""
    folder = tmp_path / "repository"
    (folder / "simlab").mkdir(parents=True)

    def git(*arguments):
        own = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", folder, *own, *arguments], check=True, capture_output=True)

    git("init")
    for numbers in (20_000_000, 200_000):
        (folder / "simlab" / "__init__.py").write_text(WORK.format(numbers))
        git("add", ".")
        git("commit", "-m", "work")
    return folder


def test_a_ratio_is_a_geometric_mean_with_the_t_interval_of_its_logarithms():
    """By hand: t of 2 degrees of freedom at 97.5 % is 4.3027."""
    found = ratio([1.0, 2.0, 4.0], [2.0, 2.0, 2.0])
    logs = [math.log(2), 0.0, -math.log(2)]
    half = 4.302653 * statistics.stdev(logs) / math.sqrt(3)
    assert found.value == pytest.approx(1)
    assert (found.low, found.high) == (
        pytest.approx(math.exp(-half), rel=1e-6),
        pytest.approx(math.exp(half), rel=1e-6),
    )
    assert found.verdict == "not told apart"


@pytest.mark.parametrize(
    ("new", "verdict"), [([0.5, 0.49, 0.51], "faster by 2.00"), ([3.0, 3.1, 2.9], "slower by 3.00")]
)
def test_an_interval_without_1_says_which_is_faster(new, verdict):
    assert ratio([1.0, 1.0, 1.0], new).verdict == verdict


def test_a_commit_that_does_less_is_found_faster(repository):
    found = compare(repository, "HEAD~1", "HEAD", ["import"], pairs=3, cold=False)
    assert "faster by" in found.splitlines()[-1]


def test_checkouts_are_gone_afterwards(repository):
    with checked_out(repository, "HEAD~1") as folder:
        assert (folder / "simlab" / "__init__.py").read_text() == WORK.format(20_000_000)
    assert not folder.parent.exists()
    listed = subprocess.run(["git", "-C", repository, "worktree", "list"], capture_output=True, text=True, check=True)
    assert len(listed.stdout.splitlines()) == 1


def test_a_command_that_fails_is_named_with_what_it_said(repository):
    with pytest.raises(InputError, match=r"--help ends with 1 in checkout: .*No module named simlab\.cli"):
        compare(repository, "HEAD", "HEAD", ["help"], pairs=2, cold=False)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nosuch", "HEAD"], "revision 'nosuch' is unknown"),
        (["HEAD", "HEAD", "--measure", "denze"], "measure = 'denze' is unknown (did you mean 'dense'?)"),
        (["HEAD", "HEAD", "--pairs", "1"], "pairs = 1"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, reason, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["compare", *arguments])
    assert module.main() == 2
    printed = capsys.readouterr()
    assert reason in printed.err
    assert (printed.out, printed.err.count("\n")) == ("", 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", module.MEASUREMENTS)
def test_every_measurement_runs(name, tmp_path):
    checkout = Path(module.__file__).parents[1]
    assert module.run_once(checkout, module.MEASUREMENTS[name], tmp_path).processor > 0
