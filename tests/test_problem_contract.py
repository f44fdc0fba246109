"""What holds of every problem, in every storage, for every kind of step; a new problem is one row of problem_contract.py."""

import numpy as np
import pytest
from problem_contract import KINDS, ROWS, can, naive_run, naive_of, run_of

pytestmark = pytest.mark.usefixtures("quickly")

ALL = [
    (name, kind, storage)
    for name, row in ROWS.items()
    for storage in row.storages
    for kind in KINDS
    if can(row, KINDS[kind])
]


@pytest.mark.parametrize(("name", "kind", "storage"), ALL)
def test_every_step_and_record_equals_the_naive_loops(name, kind, storage):
    found, taken = run_of(name, kind, storage), naive_run(name, kind, storage)
    expected = ROWS[name].records(naive_of(ROWS[name], KINDS[kind]), taken)
    for index, (own, row) in enumerate(zip(taken, expected, strict=True)):
        np.testing.assert_allclose(found.parameters[index], own.after.logits, rtol=0, atol=1e-9, err_msg=f"step {index}")
        assert row.keys() == found.rows.keys()
        for metric, value in row.items():
            wanted, mine = comparable(metric, value), comparable(metric, found.rows[metric][index])
            tolerance = 1e-7 if metric in ("own_effect", "cross_effect") else 1e-8  # by differences, and by SVDs
            np.testing.assert_allclose(mine, wanted, rtol=0, atol=tolerance, err_msg=f"{metric}, step {index}")


def comparable(metric, values):
    """Values of a metric as they are to agree: of a rank-1 matrix rounding decides how large s_1 / s_2 is."""
    return 1 / np.asarray(values) if metric.endswith("singular_gap") else values
