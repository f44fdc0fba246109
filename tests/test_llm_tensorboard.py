"""Event files for TensorBoard, read back by TensorBoard."""

import math
import sys

import pytest
from sweep_cases import refusal

from simlab.llm.tensorboard import Scalars


@pytest.fixture
def shown():
    """What TensorBoard shows of a folder: (step, value) pairs by tag."""
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

    def read(folder):
        found = reader.EventAccumulator(str(folder), size_guidance={reader.SCALARS: 0})
        found.Reload()
        return {
            tag: [(event.step, event.value) for event in found.Scalars(tag)] for tag in found.Tags()[reader.SCALARS]
        }

    return read


def test_floats_and_lists_are_written_by_step(tmp_path, shown):
    with Scalars(tmp_path / "run") as scalars:
        scalars.write(1, {"reward": 0.5, "masses": [0.25, 2]})
        scalars.write(2, {"reward": math.nan, "masses": []})
        found = shown(tmp_path / "run")  # at once, before the file is closed
    assert found["masses/0"] == [(1, 0.25)]
    assert found["masses/1"] == [(1, 2.0)]
    assert found["reward"][0] == (1, 0.5)
    assert math.isnan(found["reward"][1][1])


def test_a_run_that_goes_on_after_a_kill_shows_no_step_twice(tmp_path, shown):
    """Killed after step 7, it goes on from the checkpoint of step 4; the first file was never closed."""
    killed = Scalars(tmp_path)
    for step in range(1, 8):
        killed.write(step, {"reward": step, "masses": [step, step]})
    with Scalars(tmp_path) as scalars:
        assert shown(tmp_path)["reward"] == [(step, step) for step in range(1, 8)]
        for step in range(5, 7):
            scalars.write(step, {"reward": 10 * step})
    found = shown(tmp_path)
    assert found["reward"] == [(1, 1), (2, 2), (3, 3), (4, 4), (5, 50), (6, 60)]
    assert found["masses/1"] == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_what_is_written_twice_in_a_session_at_one_step_stays(tmp_path, shown):
    """The metrics of a step, then its evaluation."""
    with Scalars(tmp_path) as scalars:
        scalars.write(3, {"reward": 1.0})
        scalars.write(3, {"pass@1": 0.5})
    assert shown(tmp_path) == {"reward": [(3, 1.0)], "pass@1": [(3, 0.5)]}


def test_without_tensorboard_the_extra_is_named(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    assert refusal(Scalars, tmp_path).endswith("install it with: pip install 'simlab[tensorboard]'")
