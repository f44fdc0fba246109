"""Runs that were computed in advance are those that the page wants, and the simulator's own numbers."""

import json

import numpy as np
import pytest

from simlab.explore.axes import AXES
from simlab.explore.controls import SIMULATED
from simlab.explore.in_advance import RUNS, SEEDS, computed, differing, focal, in_advance, wanted
from simlab.explore.presets import PRESETS
from simlab.explore.settings import hold_panel

LARGEST = 2**20  # bytes that they may add to a page


def test_the_file_holds_every_run_that_the_page_wants_and_no_other():
    assert [(run["panel"], run["settings"]) for run in in_advance()] == list(wanted())
    assert RUNS.stat().st_size < LARGEST


def test_every_cell_of_the_map_as_it_opens_and_every_simulated_preset_is_there():
    held = [(run["panel"], run["settings"]) for run in in_advance()]
    for gamma in AXES["gamma"].values:
        for size in AXES["group size"].values:
            assert ("run", differing("run", {"weight": focal(gamma), "group_size": size})) in held
    for view in PRESETS.values():
        if view.panel in SIMULATED:
            assert (view.panel, differing(view.panel, dict(view.settings))) in held


@pytest.mark.parametrize("run", in_advance(), ids=lambda run: json.dumps([run["panel"], run["settings"]]))
def test_every_run_is_one_that_its_panel_would_take_with_all_its_seeds(run):
    _, said = hold_panel(run["panel"], run["settings"])
    assert said == []
    assert run["result"]["seeds"] == SEEDS[run["panel"]]
    methods = run["result"]["methods"].values() if run["panel"] == "tree" else [run["result"]]
    for method in methods:
        for metric in method["metrics"].values():
            assert len(metric["mean"]) == len(metric["m2"]) == len(run["result"]["step"])


@pytest.mark.browser
@pytest.mark.usefixtures("quickly")
@pytest.mark.parametrize("place", [3, 40])
def test_a_run_computed_anew_has_the_same_numbers(place):
    run = in_advance()[place]
    anew = computed(run["panel"], run["settings"])
    for name, metric in run["result"]["metrics"].items():
        ours, theirs = (np.array(one["mean"], dtype=float) for one in (anew["metrics"][name], metric))
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-3, err_msg=name)
