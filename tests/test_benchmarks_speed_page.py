"""The page of speed holds what the benchmarks have left, and nothing else."""

import json

import pytest

from benchmarks import speed_page
from benchmarks.machine import RESULTS


def test_the_page_is_what_its_command_writes():
    assert speed_page.PAGE.read_text(encoding="utf-8") == speed_page.page()


def test_a_row_of_the_simulator_holds_the_numbers_of_its_cell():
    cells = {cell["group_size"]: cell for cell in json.loads((RESULTS / "dense_storage.json").read_text())["cells"]}
    row = next(row for row in speed_page.simulator_rows() if "G = 32," in row[0] and "NumPy" in row[2])
    own = cells[32]["seconds_per_seed_step"]
    assert row[1] == f"{1000 * own['simlab']:.3g}"
    assert row[3] == f"{own['numpy'] / own['simlab']:.3g}"
    assert row[5] == f"{cells[32]['times_floor']:.3g}"


def test_every_row_of_the_trainer_names_its_model_and_its_peer():
    for peer in ("trl", "tunix"):
        rows = speed_page.trainer_rows(peer)
        assert len(rows) == 12  # two models, six measurements
        assert {row[0].split(":")[0] for row in rows} == {"maze, 3.94M", "SmolLM2, 135M"}
        assert {row[2].split(":")[0] for row in rows} == {peer.upper()}


def test_the_limit_of_all_17_cells_counts_what_a_step_needs():
    """By hand: N = 128,000 takes 4 (8 N + 6 G) bytes; 2 G words, or N + G / 4 from G = 64,000; 3 N functions."""
    rows = {row[0]: row for row in speed_page.limit_rows()}
    assert list(rows) == [str(2**power) for power in range(1, 18)]
    assert rows["32768"][1:5] == ["4.88", "0.0655", "3.83", "0.384"]
    assert rows["131072"][1:5] == ["7.24", "0.161", "9.4", "0.384"]
    cell = json.loads((RESULTS / "dense_storage.json").read_text())["cells"][0]
    assert rows["2"][7] == f"{1000 * cell['arithmetic_seconds']:.3g}"
    larger = max(cell["floor_seconds"], cell["arithmetic_seconds"])
    assert float(rows["2"][8]) == pytest.approx(cell["seconds_per_seed_step"]["simlab"] / larger, rel=0.01)


def test_measuring_runs_each_benchmark_once_before_the_page_is_written(monkeypatch):
    done = []
    monkeypatch.setattr("sys.argv", ["speed_page", "--measure"])
    monkeypatch.setattr(speed_page.subprocess, "run", lambda command, check: done.append(command[2:]))
    monkeypatch.setattr(speed_page, "write_whole", lambda path, content: done.append(path.name))
    speed_page.main()
    assert [" ".join(command) for command in done[:-1]] == [
        "benchmarks.dense_storage",
        "benchmarks.storages",
        "benchmarks.sweep_parts",
        "benchmarks.language_models --peer trl",
        "benchmarks.language_models --peer tunix",
        "benchmarks.start_up",
    ]
    assert done[-1] == "speed.md"
