"""Hostile questions about results, seeded: a slice or one clear line each, and no file but those that are open."""

import json
import random

import numpy as np
import pytest
import xarray as xr

from simlab.errors import InputError
from simlab.explore.reading import json_of
from simlab.explore.refused import Refused
from simlab.explore.results import ENTRIES, Results

QUESTIONS = 400
NAMES = ("q_pos", "rate", "step", "arm", "seed", "", "k", "__class__", "../mine.nc", "q_pos\0", "q" * 3000, "é", "'\"")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("results") / "mine.nc"
    xr.Dataset(
        {"q_pos": (("arm", "seed", "step"), np.ones((2, 3, 4))), "rate": (("step",), np.ones(4))},
        coords={"arm": ["grpo", "maxrl"]},
    ).to_netcdf(path, engine="h5netcdf")
    return Results((path,))


def hostile_value(moments):
    """Some value of JSON."""
    number = moments.choice([0, 1, 2, -1, 10**20, 0.5, 1e300])
    name = moments.choice(NAMES)
    return moments.choice([None, True, [], {}, [[1]], {"step": 0}, number, name])


def hostile_question(moments):
    """What could be asked, most of it nearly right."""
    right = {"file": 0, "variable": "q_pos", "across": "step", "lines": moments.choice(["", "arm"]), "at": {"arm": 1}}
    for name in moments.sample([*ENTRIES, "path", "__proto__"], moments.randrange(3)):
        right[name] = hostile_value(moments)
    if moments.random() < 0.3:
        right["at"] = {moments.choice(NAMES): hostile_value(moments) for _ in range(moments.randrange(4))}
    return moments.choice([right] * 9 + [hostile_value(moments)])


def test_hostile_questions_about_results_get_one_line_or_a_slice(results):
    moments, answered, refused = random.Random(0), 0, []
    for _ in range(QUESTIONS):
        try:
            found = results.answer(json_of(json.dumps(hostile_question(moments)).encode()))
        except (InputError, Refused) as error:
            refused.append(str(error))
        else:
            answered += 1
            assert {one for row in found["mean"] for one in row} == {1.0}
    assert answered > QUESTIONS / 10
    assert len(refused) > QUESTIONS / 4
    assert all("\n" not in line and len(line) < 400 for line in refused)
