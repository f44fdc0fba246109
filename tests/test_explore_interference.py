"""The explorer's panel of interference: its simulations, the edge by theory, and the map computed in advance."""

import json

import numpy as np
import pytest

from figures.interference_map import DATA, LABELS, crossing, of_explorer
from simlab.errors import InputError
from simlab.estimators import estimator
from simlab.explore.controls import BY_NAME, MAPS
from simlab.explore.interference import KS, edge, simulate_interference
from simlab.explore.interference_map import MAP, interference_map
from simlab.explore.reading import asked_of
from simlab.explore.settings import hold, hold_panel
from simlab.explore.shapes import GROUPS, SEEDS
from simlab.problems import interference
from simlab.problems.interference import overlap_edge
from simlab.simulator.api import simulate
from simlab.theory import expected_speed, transfer


def settings(**changes):
    return hold_panel("interference", changes)[0]


def ignored(event):
    assert event in ("compiling", "simulating")


def mean(result, k):
    return np.array(result["metrics"][f"pass_at_{k}"]["mean"])


# Simulations


@pytest.mark.browser
@pytest.mark.usefixtures("quickly")
def test_a_block_is_the_simulators_own_run():
    """Groups of a compiled size, for one that is filled up draws other rollouts."""
    size, own = GROUPS[0], {"conflict": 0.5, "hard_rate": 0.02}
    given = settings(group_size=size, overlap=-0.2, temperature=0.8, learning_rate=0.5, steps=40, **own)
    found = simulate_interference(given, 0, ignored)
    runs = simulate(
        interference(overlap=-0.2, **own),
        "grpo+reinforce",
        group_size=size,
        optimizer="sgd",
        optimizer_parameters={"learning_rate": 0.5},
        temperature=0.8,
        pass_at_k=KS,
        storage="dense",
        seeds=SEEDS,
        steps=40,
        record_every=1,
    ).pass_at_k
    assert found["step"] == list(range(41))
    assert (found["seeds"], found["k"]) == (SEEDS, KS)
    for k in KS:
        np.testing.assert_allclose(mean(found, k), runs.sel(k=k).mean("seed"), rtol=5e-5)
        scatter = runs.sel(k=k).var("seed") * SEEDS
        np.testing.assert_allclose(found["metrics"][f"pass_at_{k}"]["m2"], scatter, rtol=0.02, atol=1e-9)


@pytest.mark.browser
@pytest.mark.usefixtures("quickly")
def test_the_usual_settings_show_the_phenomenon_and_no_overlap_does_not():
    fallen, whole = (simulate_interference(settings(overlap=overlap), 0, ignored) for overlap in (0.3, 0.0))
    assert mean(fallen, 1)[[0, -1]] == pytest.approx([0.155, 0.497], abs=0.005)
    assert mean(fallen, 256)[[0, -1]] == pytest.approx([0.962, 0.527], abs=0.01)
    assert mean(whole, 256)[-1] > mean(whole, 256)[0]


# The edge by theory


def hard_changes(overlap, estimator, group_size, **own):
    """What the first expected step adds to the solve rates of hard prompts."""
    problem = interference(overlap=overlap, **own)
    counts, correct = np.asarray(problem.tabular.counts), np.asarray(problem.tabular.correct)
    likely = np.exp(np.asarray(problem.tabular.logits))
    policies = likely / (likely @ counts)[:, None]
    speeds = expected_speed(estimator, group_size, problem.solve_rates)
    effects = transfer(policies, correct, problem.kernel, speeds, learning_rate=1.0, counts=counts)
    return effects.sum(axis=0)[problem.hard]


@pytest.mark.parametrize(
    ("sign", "estimator", "group_size", "own"),
    [
        (1, "grpo", 8, {}),
        (1, "maxrl", 32, {"hard_rate": 0.03}),
        (1, "nsr", 4, {"conflict": 0.5}),
        (-1, "grpo", 8, {"conflict": 0.5}),
    ],
)
def test_a_hard_prompt_falls_beyond_the_edge_and_none_falls_before_it(sign, estimator, group_size, own):
    found = overlap_edge(sign, estimator, group_size=group_size, **own)
    assert 0 < found < 1
    assert (hard_changes(0.99 * sign * found, estimator, group_size, **own) > 0).all()
    assert (hard_changes(1.01 * sign * found, estimator, group_size, **own) < 0).any()


def test_where_the_hard_prompts_agree_positive_overlap_has_no_edge():
    assert overlap_edge(1, conflict=0.0) == np.inf
    assert 0 < overlap_edge(-1, conflict=0.0) < 1


def test_the_panel_has_both_edges_or_none_where_theory_does_not_apply():
    assert edge(settings()) == [None, pytest.approx(overlap_edge(1), rel=1e-5)]
    given = settings(weight="f_grpo(gamma=2)", temperature=0.7, conflict=0.5, group_size=4)
    wanted = overlap_edge(-1, estimator("f_grpo", gamma=2.0), group_size=4, temperature=0.7, conflict=0.5)
    assert edge(given)[0] == pytest.approx(-wanted, rel=1e-5)
    assert edge(settings(optimizer="adam")) is None
    assert edge(settings(weight="cw_grpo")) is None, "its weights depend on more than rewards"
    assert edge(settings(weight="a_grae")) is None, "its weights depend on the other prompts of the batch"
    assert edge(settings(weight="running_mean")) is None, "its weights depend on the batches before"


# The map


def test_the_map_is_that_of_the_figure():
    """Where it is not: ``python -m figures.interference_map --explorer``."""
    assert json.loads(MAP.read_text()) == of_explorer(json.loads(DATA.read_text()))


def test_the_map_offers_what_the_panel_chooses_from():
    assert tuple(interference_map()["maps"]) == MAPS == tuple(LABELS)


def test_the_sliders_reach_every_cell_of_the_map():
    all_maps = interference_map()
    for one in all_maps["maps"].values():
        for name, values in (("overlap", all_maps["overlap"]), (one["setting"], one["values"])):
            assert [hold(BY_NAME[f"interference.{name}"], value)[1] for value in values] == [""] * len(values)
        assert hold_panel("interference", one["settings"])[1] == []


@pytest.mark.browser
@pytest.mark.usefixtures("quickly")
def test_a_cell_of_the_map_is_what_its_settings_simulate():
    """The panel's records are as far apart as the map's: the gain where pass@1 reaches the level, by as many steps."""
    all_maps = interference_map()
    one = all_maps["maps"]["conflict"]
    row, column = one["values"].index(1.0), all_maps["overlap"].index(0.3)
    found = simulate_interference(settings(overlap=0.3, conflict=1.0), 0, ignored)
    after = int(np.argmax(mean(found, 1) >= all_maps["level"]))
    around = slice(after - 1, after + 1)
    curve = np.array([np.interp(all_maps["level"], mean(found, 1)[around], mean(found, k)[around]) for k in KS])
    gains = curve - np.array([mean(found, k)[0] for k in KS])
    assert gains[KS.index(256)] == pytest.approx(one["mean"][row][column], abs=0.01)
    assert crossing(np.array(KS), gains) == pytest.approx(one["crossing"][row][column], rel=0.03)


# Bad input


def test_a_request_is_held_to_its_ranges_and_says_so():
    asked = asked_of({"panel": "interference", "settings": {"overlap": 2, "steps": 4000, "seeds": 99}})
    assert [asked.job["settings"][name] for name in ("overlap", "steps", "seeds")] == [0.9, 400, 16]
    assert asked.held == [
        "overlap of features = 2 is outside [-0.5, 0.9]; held at 0.9",
        "steps = 4000 is outside [20, 400]; held at 400",
        "seeds = 99 is outside [4, 16]; held at 16",
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"overlap": "much"}, "interference.overlap = 'much' is not a number"),
        ({"optimizer": "lion"}, "interference.optimizer = 'lion' is unknown; allowed: sgd, adam"),
        ({"map": "seeds"}, "interference.map = 'seeds' is unknown; allowed: conflict"),
        ({"weight": "grpo+casp"}, "more than an estimator"),
        ({"prompts": 9}, "setting = 'prompts' is unknown"),
    ],
)
def test_what_cannot_be_read_is_refused(given, message):
    with pytest.raises(InputError) as refused:
        asked_of({"panel": "interference", "settings": given})
    assert message in str(refused.value)
