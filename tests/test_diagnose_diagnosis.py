"""All estimates of a log at once: as JSON, of degenerate logs, and refused."""

import json

import pytest
from diagnose_logs import bank, log, plain, with_surprise
from refusals import refusal

from simlab.diagnose.diagnosis import diagnosis
from simlab.diagnose.difficulty import weigh
from simlab.diagnose.estimate import as_json
from simlab.diagnose.solve_rates import population

DEGENERATE = {
    "one prompt": plain([2], 4),
    "all right": plain([4] * 10, 4),
    "all wrong": plain([0] * 10, 4),
    "G = 1": plain([0, 1, 1, 0, 1], 1),
    "groups of several sizes": plain([0, 1, 5, 8], [2, 4, 8, 8]),
}


def estimates(found):
    """Every estimate in JSON."""
    if isinstance(found, dict):
        if "value" in found:
            yield found
        for own in found.values():
            yield from estimates(own)
    elif isinstance(found, list):
        for own in found:
            yield from estimates(own)


def test_a_diagnosis_is_json_with_an_interval_level_and_method_everywhere():
    seen = with_surprise(log(bank("u-shaped", 120, 0), 8, 1, steps=24), 2)
    found = json.loads(json.dumps(as_json(diagnosis(seen, holdout=0.5)), allow_nan=False))
    every = list(estimates(found))
    assert len(every) > 100
    for own in every:
        assert own["low"] <= own["value"] <= own["high"], own
        assert own["level"] == 0.9
        assert own["method"]
    assert found["unseen"] is not None
    assert found["confidence"] is not None
    assert found["prediction"]["scored"]
    assert len(found["solve_rates"]["windows"]) == 4


QUICK = {"all wrong", "G = 1"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in DEGENERATE]
)
def test_a_degenerate_log_is_diagnosed(name):
    found = as_json(diagnosis(DEGENERATE[name]))
    json.dumps(found, allow_nan=False)
    for own in estimates(found):
        if own["value"] is not None and own["low"] is not None:
            assert own["low"] <= own["value"] <= own["high"], own
    assert found["unseen"] is None
    assert found["recommendation"]["recommended"] is None
    assert any("no answers" in line for line in found["untold"])
    assert any("one step" in line for line in found["untold"])


@pytest.mark.slow
def test_the_same_seed_gives_the_same_diagnosis():
    seen = log(bank("uniform", 40, 0), 4, 1)
    first, second = (as_json(diagnosis(seen)) for _ in range(2))
    assert first == second


def test_what_cannot_be_diagnosed_is_refused():
    assert "no group" in refusal(diagnosis, plain([], 4))
    assert "level" in refusal(diagnosis, plain([1], 4), level=1.5)
    assert "rollouts" in refusal(diagnosis, plain([1], 4), rollouts=0)
    assert "'no_such' is unknown" in refusal(diagnosis, plain([1], 4), estimator="no_such")
    assert "a group of 1" in refusal(weigh, population(plain([1], 1), 0.9), "grpo", 1)
