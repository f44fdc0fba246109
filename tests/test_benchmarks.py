"""The benchmarks: two commits side by side, committed pages hold the committed numbers, each script runs (slow)."""

import json
import math
import statistics
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import compare, diagnose_coverage, diagnose_recommendation, interval_coverage, speed_page
from benchmarks.machine import RESULTS
from benchmarks.program_memory import estimate

KILO = jax.ShapeDtypeStruct((1000,), jnp.float32)


@pytest.fixture
def repository(tmp_path):
    """Two commits of a package ``simlab``: the second takes a hundredth of the time to import."""
    folder = tmp_path / "repository"
    (folder / "simlab").mkdir(parents=True)

    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)

    git("init")
    for numbers in (20_000_000, 200_000):
        (folder / "simlab" / "__init__.py").write_text(f"sum(range({numbers}))\n")
        git("add", ".")
        git("commit", "-m", "work")
    return folder


def test_a_ratio_is_a_geometric_mean_with_the_t_interval_of_its_logarithms():
    """By hand: t of 2 degrees of freedom at 97.5 % is 4.3027."""
    ratio = compare.ratio([1.0, 2.0, 4.0], [2.0, 2.0, 2.0])
    half = 4.302653 * statistics.stdev([math.log(2), 0.0, -math.log(2)]) / math.sqrt(3)
    assert (ratio.value, ratio.high) == (pytest.approx(1), pytest.approx(math.exp(half), rel=1e-6))
    assert ratio.verdict == "not told apart"
    assert compare.ratio([1.0, 1.0, 1.0], [3.0, 3.1, 2.9]).verdict == "slower by 3.00"


@pytest.mark.slow
def test_a_commit_that_does_less_is_faster_and_its_checkout_is_gone_afterwards(repository):
    printed = compare.compare(repository, "HEAD~1", "HEAD", ["import"], pairs=3, cold=False)
    assert "faster by" in printed.splitlines()[-1]
    listed = subprocess.run(["git", "-C", repository, "worktree", "list"], capture_output=True, text=True, check=True)
    assert len(listed.stdout.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["nosuch", "HEAD"], ["HEAD", "HEAD", "--measure", "denze"]])
def test_bad_input_is_one_line_and_exit_code_2(arguments, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["compare", *arguments])
    assert compare.main() == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert arguments[-1] in printed.err or "nosuch" in printed.err


def test_committed_pages_hold_the_committed_numbers():
    assert speed_page.PAGE.read_text(encoding="utf-8") == speed_page.page()
    for path in (diagnose_coverage.DATA, diagnose_coverage.OF_SOLUTIONS):
        assert (
            path.with_suffix(".md").read_text().endswith(diagnose_coverage.table(json.loads(path.read_text())) + "\n")
        )
    covered = json.loads(interval_coverage.DATA.read_text())
    assert interval_coverage.DATA.with_suffix(".md").read_text() == interval_coverage.page(covered) + "\n"
    recommended = json.loads(diagnose_recommendation.DATA.read_text())
    assert diagnose_recommendation.PAGE.read_text() == diagnose_recommendation.page(recommended)


def test_the_limit_of_a_step_counts_what_it_needs():
    """By hand: N = 128,000 takes 4 (8 N + 6 G) bytes; 2 G words, or N + G / 4 from G = 64,000; 3 N functions."""
    rows = {row[0]: row for row in speed_page.limit_rows()}
    assert list(rows) == [str(2**power) for power in range(1, 18)]
    assert rows["32768"][1:5] == ["4.88", "0.0655", "3.83", "0.384"]
    assert rows["131072"][1:5] == ["7.24", "0.161", "9.4", "0.384"]
    cells = {cell["group_size"]: cell for cell in json.loads((RESULTS / "dense_storage.json").read_text())["cells"]}
    row = next(row for row in speed_page.simulator_rows() if "G = 32," in row[0] and "NumPy" in row[2])
    seconds = cells[32]["seconds_per_seed_step"]
    assert row[3] == f"{seconds['numpy'] / seconds['simlab']:.3g}"


def test_coverage_joins_the_logs_of_two_runs():
    """The runs have 5 logs and 3, one without a value and an interval."""
    rows = np.random.default_rng(0).normal(size=(8, 4)) + np.array([0.0, -1.0, 1.0, 0.0])
    rows[1, :3] = np.nan
    runs = [
        {"shape": "uniform", "repetitions": len(logs), "estimates": {"x": diagnose_coverage.summary(logs)}}
        for logs in (rows[:5], rows[5:])
    ]
    joined = diagnose_coverage.joined(*runs)["estimates"]["x"]
    assert joined == pytest.approx(diagnose_coverage.summary(rows))
    assert joined["held"] == pytest.approx(sum(low <= truth <= high for _, low, high, truth in rows) / 8)


@pytest.mark.parametrize(
    ("program", "arguments", "expected"),
    [
        (lambda x, y: 2 * x + y, (KILO, KILO), (8000, 12_000, 12_000, 12_000)),  # one fused pass
        (lambda x, y: jax.lax.fori_loop(0, 5, lambda _, x: x + y, x), (KILO, KILO), None),
    ],
)
def test_bytes_that_a_program_holds_and_moves_are_those_counted_by_hand(program, arguments, expected):
    counted = tuple(estimate(jax.make_jaxpr(program)(*arguments), "cuda", [expected is not None] * 2, fused=True))
    if expected is None:  # x, y and the loop's counter; five passes of 12,000 bytes and 8 of the counter
        assert (counted[0], counted[1], counted[2]) == (8000, 8004, 5 * 12_008)
    else:
        assert counted == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", compare.MEASUREMENTS)
def test_every_measurement_runs(name, tmp_path, monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)  # conftest's: unoptimised, a sweep takes 8 times as long
    checkout = Path(compare.__file__).parents[1]
    assert compare.run_once(checkout, compare.MEASUREMENTS[name], tmp_path).processor > 0


@pytest.mark.slow
def test_the_quick_run_of_an_accelerator_prints_every_part(monkeypatch, capsys):
    from benchmarks import accelerator  # noqa: PLC0415  # it loads the language models

    monkeypatch.setattr(sys, "argv", ["accelerator", "--quick"])
    accelerator.main()
    printed = capsys.readouterr().out
    for heading in ("agreement with the CPU", "simulator", "language model"):
        assert f"## {heading}\n" in printed


@pytest.mark.torch
@pytest.mark.slow
def test_dense_storage_and_storages_are_timed_beside_their_peers():
    from benchmarks import dense_storage, storages  # noqa: PLC0415  # they import torch
    from benchmarks.processes import Processes  # noqa: PLC0415

    cell = dense_storage.measure(8, 2, 1, dense_storage.peers())
    assert 0 < cell["times_larger_limit"] <= cell["times_floor"]
    row = storages.beside(8, 2, Processes(1))
    assert min(row[name] for name in ("dense", "lumped", "torch", "dense_first_run")) > 0
