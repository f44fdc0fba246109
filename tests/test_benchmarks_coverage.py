"""The committed coverage of intervals: how its logs are put together, and that the page says what its numbers say."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import diagnose_coverage as module


@pytest.mark.parametrize("path", [module.DATA, module.OF_SOLUTIONS])
def test_the_page_is_made_of_the_numbers(path):
    kept = json.loads(path.read_text())
    assert path.with_suffix(".md").read_text().endswith(module.table(kept) + "\n")
    assert len({own["code"] for own in kept["cells"]}) == 1


def test_the_docs_count_the_cells_that_hold_the_truth():
    words = " ".join((Path(module.__file__).parents[1] / "docs" / "diagnose.md").read_text().split())
    held = [one["held"] for own in json.loads(module.DATA.read_text())["cells"] for one in own["estimates"].values()]
    assert f"{sum(own >= 0.84 for own in held)} of {len(held)} cells hold it in 84 % and more" in words


def test_no_two_banks_share_a_log_and_more_logs_begin_alike():
    banks = list(itertools.product(module.SHAPES, (4, 64), (100, 1000)))
    seeds = [own for bank in banks for log in module.seeds_of_logs(*bank, 50) for own in log]
    assert len(set(seeds)) == len(seeds)
    assert module.seeds_of_logs(*banks[0], 50)[:20] == module.seeds_of_logs(*banks[0], 20)


def test_the_logs_of_two_runs_make_one_cell():
    """Of 5 logs and 3, one without a value and an interval."""
    rows = np.random.default_rng(0).normal(size=(8, 4)) + np.array([0.0, -1.0, 1.0, 0.0])
    rows[1, :3] = np.nan
    parts = [
        {"shape": "uniform", "repetitions": len(own), "estimates": {"x": module.summary(own)}}
        for own in (rows[:5], rows[5:])
    ]
    found = module.joined(*parts)
    assert found["repetitions"] == 8
    assert found["estimates"]["x"] == pytest.approx(module.summary(rows))
    told = rows[np.isfinite(rows[:, 0])]
    held = [low <= truth <= high for _, low, high, truth in rows]
    assert found["estimates"]["x"]["held"] == pytest.approx(sum(held) / 8)
    assert found["estimates"]["x"]["error"] == pytest.approx(np.sqrt(np.mean((told[:, 0] - told[:, 3]) ** 2)))
    assert found["estimates"]["x"]["width"] == pytest.approx(np.mean(told[:, 2] - told[:, 1]))


@pytest.mark.parametrize("first", [4, 8])
def test_logs_without_an_interval_do_not_hold_where_others_have_one(first):
    """The first four logs have none, or none has."""
    rows = np.zeros((8, 4))
    rows[:first, 1:3] = np.nan
    found = module.both(module.summary(rows[:4]), module.summary(rows[4:]))
    assert found == module.summary(rows)
    assert found["held"] == (0.5 if first == 4 else None)
