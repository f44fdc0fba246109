"""The page of speed holds what the benchmarks have left, and nothing else."""

import json

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
    rows = speed_page.trainer_rows()
    assert len(rows) == 24  # two peers, two models, six measurements
    assert {row[0].split(":")[0] for row in rows} == {"maze, 3.94M", "SmolLM2, 135M"}
    assert {row[2].split(":")[0] for row in rows} == {"TRL", "TUNIX"}
