"""Damaged logs: rows are left out and named, files too."""

import random

import pytest
from damage import damaged, outcomes
from log_files import row, write_csv, write_jsonl, write_parquet

from simlab.diagnose.reading import read_log


@pytest.mark.slow
@pytest.mark.parametrize("write", [write_csv, write_jsonl, write_parquet])
def test_a_damaged_log_is_read_as_far_as_it_goes_or_refused_in_one_line(write, tmp_path):
    rows = [row(n // 4, f"p{n % 2}", float(n % 3 > 0), str(n % 5)) for n in range(40)]
    content, random_numbers = write(tmp_path, rows).read_bytes(), random.Random(25)
    (path,) = tmp_path.iterdir()

    def read(_):
        path.write_bytes(damaged(content, random_numbers))
        log = read_log([path], threshold=0.5).log
        assert 0 < log.group_size.sum() <= 41 + log.refused.count
        assert (log.correct <= log.group_size).all()

    assert outcomes(read, range(60))["read"] > 10
