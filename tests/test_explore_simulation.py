"""Blocks of seeds of the explorer's panels: the simulator's own numbers, theory beside them, and runs in advance."""

import json

import numpy as np
import pytest
import xarray as xr

from figures.interference_map import DATA, LABELS, of_explorer
from figures.shared.explorer_paths import LEVELS, path_of
from figures.shared.explorer_runs import RUN_SEEDS, changed_settings, compute_run, focal, runs_to_compute
from simlab.columns import at_equal_mass
from simlab.estimators import estimator
from simlab.explore.controls import AXES, BY_NAME, MAPS, SIMULATED, hold, hold_panel
from simlab.explore.in_advance import MAP, PATHS, RUNS, in_advance, interference_map, interference_paths
from simlab.explore.panel_runs import (
    ACTIONS,
    BLOCK_SEEDS,
    GROUP_SIZES,
    INTERFERENCE_KS,
    edge,
    fill_up,
    record_steps,
    simulate_panel,
)
from simlab.explore.presets import PRESETS
from simlab.problems import anchored, interference, network, tree
from simlab.problems.interference import overlap_edge
from simlab.simulator.runner import simulate
from simlab.theory import expected_speed, tail_miss, transfer

compiles = pytest.mark.usefixtures("quickly")
LARGEST = 2**20  # bytes that runs in advance may add to a page


def policy(**changes):
    return hold_panel("run", {"steps": 50, "learning_rate": 0.05} | changes)[0]


def interfering(**changes):
    return hold_panel("interference", changes)[0]


def by_simulator(problem, method, learning_rate, **options):
    usual = {"storage": "dense", "seeds": BLOCK_SEEDS, "record_every": 1}
    return simulate(problem, method, optimizer_parameters={"learning_rate": learning_rate}, **usual | options)


def ignored(event):
    assert event in ("compiling", "simulating")


def means(result, name):
    return np.array(result["metrics"][name]["mean"], dtype=float)


# Blocks


def test_sizes_are_filled_up_to_the_next_one_and_records_are_evenly_spread():
    assert [fill_up(size, GROUP_SIZES) for size in (2, 32, 33, 512)] == [32, 32, 128, 512]
    assert record_steps(50, 50).tolist() == list(range(1, 51))
    assert record_steps(333, 20)[-1] == 333
    assert (np.diff(record_steps(333, 20)) >= 16).all()


@pytest.mark.browser
@compiles
@pytest.mark.parametrize(
    ("surrogate", "others"), [("reinforce", {}), ("ppo_clip", {"epochs": 3, "lag": 2, "false_positive": 0.2})]
)
def test_a_full_group_of_all_actions_is_the_simulators_own_run(surrogate, others):
    actions, size = ACTIONS[0], GROUP_SIZES[0]
    changes = {"group_size": size, "actions": actions, "correct": 0.25, "weight": "dr_grpo", "seed": 0}
    block = simulate_panel("run", policy(**changes, surrogate=surrogate, **others), 0, ignored)
    runs = by_simulator(anchored(actions, 64), f"dr_grpo+{surrogate}", 0.05, group_size=size, steps=50, **others)
    for name in ("q_pos", "retained_mass", "entropy"):
        np.testing.assert_allclose(means(block, name), runs[name].mean("seed"), rtol=2e-5)
    np.testing.assert_allclose(means(block, "tail_miss_rate")[1:], runs["tail_miss_rate"].mean("seed")[1:], rtol=1e-5)


@pytest.mark.browser
@pytest.mark.slow
@compiles
def test_a_group_that_is_filled_up_learns_as_one_of_its_own_size():
    """Group sizes 3 in 32 places and 8 actions in 256: the mean over 64 seeds of each, within four standard errors."""
    settings = policy(group_size=3, actions=8, correct=0.5, anchor_logit=1, correct_logit=0, weight="dr_grpo")
    blocks = [simulate_panel("run", settings, BLOCK_SEEDS * block, ignored) for block in range(16)]
    filled = np.mean([means(block, "q_pos")[-1] for block in blocks])
    runs = by_simulator(
        anchored(8, 4, anchor_logit=1.0, correct_logit=0.0),
        "dr_grpo+reinforce",
        0.05,
        group_size=3,
        seeds=64,
        steps=50,
        record_every=50,
    ).q_pos.isel(step=-1)
    error = float(runs.std("seed", ddof=1)) * np.sqrt(2 / 64)
    assert abs(filled - float(runs.mean("seed"))) < 4 * error


@pytest.mark.browser
@compiles
def test_theory_is_close_at_a_small_rate_and_absent_where_it_does_not_apply():
    even = {"weight": "dr_grpo", "actions": 8, "correct": 0.5, "anchor_logit": 0, "correct_logit": 0}
    plain = policy(**even, optimizer="sgd", group_size=4)
    block = simulate_panel("run", plain, 0, ignored)
    assert block == simulate_panel("run", plain, 0, ignored)
    assert block != simulate_panel("run", plain, 4, ignored)
    for name in ("q_pos", "retained_mass", "entropy"):
        assert block["theory"][name][0] == pytest.approx(means(block, name)[0], rel=1e-5)
        assert abs(block["theory"][name][-1] - means(block, name)[-1]) < 0.1
    assert means(block, "tail_miss_expected")[0] == pytest.approx(tail_miss(4, 0.5, 0.125), rel=1e-5)
    # Adam, in groups so large that there is hardly any noise.
    large = simulate_panel("run", policy(**even, optimizer="adam", learning_rate=0.01, group_size=512), 0, ignored)
    gained = means(large, "q_pos")[-1] - means(large, "q_pos")[0]
    assert gained > 0.1
    assert abs(large["theory"]["q_pos"][-1] - means(large, "q_pos")[-1]) < 0.05 * gained
    for change in ({"lag": 1}, {"epochs": 2}, {"weight": "running_mean"}):
        other = simulate_panel("run", plain | change, 0, ignored)
        assert other["theory"] is None
        assert ("tail_miss_expected" in other["metrics"]) == ("lag" not in change)


@pytest.mark.browser
@compiles
def test_the_tree_starts_uniform_and_its_methods_are_the_simulators():
    settings = hold_panel("tree", {"group_size": 32, "steps": 60, "learning_rate": 1.0})[0]
    block = simulate_panel("tree", settings, 0, ignored)
    assert list(block["methods"]) == ["GRPO", "GRPO + entropy", "CaSP"]
    for method in block["methods"].values():
        np.testing.assert_allclose(method["policies"][0], np.full((21, 4), 0.25))
        assert np.shape(method["policies"]) == (21, 21, 4)
    runs = by_simulator(tree(), "grpo@constant", 1.0, group_size=32, optimizer="sgd", steps=60, record_every=3)
    np.testing.assert_allclose(means(block["methods"]["GRPO"], "q_pos"), runs.q_pos.mean("seed"), rtol=1e-4)


# Interference


@pytest.mark.browser
@compiles
@pytest.mark.parametrize(("representation", "problem_of"), [("linear head", interference), ("network", network)])
def test_a_block_of_interfering_prompts_is_the_simulators_own_run(representation, problem_of):
    size, problem = GROUP_SIZES[0], {"conflict": 0.5, "hard_rate": 0.02}
    others = {"representation": representation, "temperature": 0.8, "learning_rate": 0.5, "steps": 80}
    block = simulate_panel("interference", interfering(group_size=size, overlap=-0.2, **others, **problem), 0, ignored)
    runs = by_simulator(
        problem_of(overlap=-0.2, **problem),
        "grpo+reinforce",
        0.5,
        group_size=size,
        optimizer="sgd",
        temperature=0.8,
        pass_at_k=INTERFERENCE_KS,
        steps=80,
        record_every=1,
    ).pass_at_k
    assert (block["step"], block["seeds"], block["k"]) == (list(range(81)), BLOCK_SEEDS, INTERFERENCE_KS)
    for k in INTERFERENCE_KS:
        np.testing.assert_allclose(means(block, f"pass_at_{k}"), runs.sel(k=k).mean("seed"), rtol=5e-5)
        scatter = runs.sel(k=k).var("seed") * BLOCK_SEEDS
        np.testing.assert_allclose(block["metrics"][f"pass_at_{k}"]["m2"], scatter, rtol=0.02, atol=1e-9)


def hard_changes(overlap, weight, group_size, **parameters):
    problem = interference(overlap=overlap, **parameters)
    counts, correct = np.asarray(problem.tabular.counts), np.asarray(problem.tabular.correct)
    likely = np.exp(np.asarray(problem.tabular.logits))
    policies = likely / (likely @ counts)[:, None]
    speeds = expected_speed(weight, group_size, problem.solve_rates)
    effects = transfer(policies, correct, problem.kernel, speeds, learning_rate=1.0, counts=counts)
    return effects.sum(axis=0)[problem.hard]


@pytest.mark.parametrize(
    ("sign", "weight", "group_size", "parameters"),
    [
        (1, "maxrl", 32, {"hard_rate": 0.03}),
        (1, "nsr", 4, {"conflict": 0.5}),
        (-1, "grpo", 8, {"conflict": 0.5}),
    ],
)
def test_a_hard_prompt_falls_beyond_the_edge_and_none_falls_before_it(sign, weight, group_size, parameters):
    overlap = overlap_edge(sign, weight, group_size=group_size, **parameters)
    assert 0 < overlap < 1
    assert (hard_changes(0.99 * sign * overlap, weight, group_size, **parameters) > 0).all()
    assert (hard_changes(1.01 * sign * overlap, weight, group_size, **parameters) < 0).any()


def test_the_panel_has_both_edges_or_none_where_theory_does_not_apply():
    assert overlap_edge(1, conflict=0.0) == np.inf
    assert 0 < overlap_edge(-1, conflict=0.0) < 1
    assert edge(interfering()) == [None, pytest.approx(overlap_edge(1), rel=1e-5)]
    settings = interfering(weight="f_grpo(gamma=2)", temperature=0.7, conflict=0.5, group_size=4)
    weight = estimator("f_grpo", gamma=2.0)
    expected = overlap_edge(-1, weight, group_size=4, temperature=0.7, conflict=0.5)
    assert edge(settings)[0] == pytest.approx(-expected, rel=1e-5)
    assert edge(interfering(optimizer="adam")) is None
    assert edge(interfering(representation="network")) is None
    assert edge(interfering(weight="cw_grpo")) is None, "its weights depend on more than rewards"
    assert edge(interfering(weight="a_grae")) is None, "its weights depend on the other prompts of the batch"
    assert edge(interfering(weight="running_mean")) is None, "its weights depend on the batches before"


def test_the_map_is_that_of_the_figure_and_the_sliders_reach_every_cell():
    assert json.loads(MAP.read_text()) == of_explorer(json.loads(DATA.read_text()))
    all_maps = interference_map()
    assert tuple(all_maps["maps"]) == MAPS == tuple(LABELS)
    for cells in all_maps["maps"].values():
        for name, values in (("overlap", all_maps["overlap"]), (cells["setting"], cells["values"])):
            assert [hold(BY_NAME[f"interference.{name}"], value)[1] for value in values] == [""] * len(values)
        assert hold_panel("interference", cells["settings"])[1] == []


# Paths of interfering prompts


def test_a_path_has_means_over_seeds_up_to_the_last_level_that_all_of_them_reach():
    masses = np.array([[0.3, 0.38, 0.54, 0.7], [0.3, 0.34, 0.5, 0.66]])
    steps = np.array([0, 10, 15, 20])
    passed = np.stack([masses, 1 - masses])
    runs = xr.Dataset(
        {"q_pos": (("seed", "step"), masses), "pass_at_k": (("k", "seed", "step"), passed)},
        {"k": [1, 4], "step": steps},
    )
    path = path_of(runs)
    shown = [level for level in LEVELS if level <= 0.66]
    assert len(path["step"]) == len(path["mean"][0]) == len(path["half"][0]) == len(shown)
    for level, mean in zip(shown, path["mean"][0], strict=True):
        assert mean == (None if level < 0.3 else round(1000 * (1 - level)))
    for level in (0.4, 0.6):
        each = [np.interp(level, mass, steps) for mass in masses]
        assert path["step"][shown.index(level)] == round(np.mean(each))


def test_the_table_of_paths_is_small_and_each_of_its_cells_can_be_asked_for():
    table = interference_paths()
    assert PATHS.stat().st_size < 300_000
    assert table["shared"] == {name: BY_NAME[f"interference.{name}"].default for name in table["shared"]}
    assert [str(k) for k in table["k"]] == ["1", *BY_NAME["interference.k"].choices]
    assert set(table["k"]) <= set(INTERFERENCE_KS)
    assert {BY_NAME[f"interference.{name}"].default for name in ("weight", "second")} <= set(table["weights"])
    for name, values in (("weight", table["weights"]), ("hard_rate", table["hard_rate"])):
        assert [hold(BY_NAME[f"interference.{name}"], value) for value in values] == [(value, "") for value in values]
    shape = len(table["group_size"]), len(table["hard_rate"]), len(table["weights"])
    for representation in BY_NAME["interference.representation"].choices:
        for optimizer in BY_NAME["interference.optimizer"].choices:
            assert np.shape(table["paths"][representation][optimizer]) == shape
            rate = table["rates"][representation][optimizer]
            assert hold(BY_NAME["interference.learning_rate"], rate) == (rate, "")
    assert BY_NAME["interference.learning_rate"].default == table["rates"]["linear head"]["sgd"]
    assert PRESETS["when-a-weight-matters"].settings["learning_rate"] == table["rates"]["network"]["adam"]
    for hard_rate, base in zip(table["hard_rate"], table["base"], strict=True):
        exact = [1 - ((1 - 0.3) ** k + (1 - hard_rate) ** k) / 2 for k in table["k"]]
        np.testing.assert_allclose(base, exact, atol=6e-5)


def cell(representation, optimizer, weight, group_size=8, hard_rate=0.01):
    table = interference_paths()
    wanted = ("group_size", group_size), ("hard_rate", hard_rate), ("weights", weight)
    size, rate, position = (table[name].index(value) for name, value in wanted)
    return table["paths"][representation][optimizer][size][rate][position]


@pytest.mark.browser
@pytest.mark.slow
@compiles
@pytest.mark.parametrize(("representation", "optimizer"), [("linear head", "sgd"), ("network", "adam")])
def test_a_cell_of_the_table_is_the_panels_own_run(representation, optimizer):
    rate = interference_paths()["rates"][representation][optimizer]
    settings = {"representation": representation, "optimizer": optimizer, "learning_rate": rate, "group_size": 32}
    block = simulate_panel("interference", interfering(weight="maxrl", **settings), 0, ignored)
    masses, passed = (np.array(block["metrics"][f"pass_at_{k}"]["values"]) for k in (1, 256))
    table = interference_paths()
    stored = cell(representation, optimizer, "maxrl", group_size=32)["mean"][table["k"].index(256) - 1]
    levels = np.array(table["levels"][: len(stored)])
    anew = 1000 * at_equal_mass(masses, passed, levels).mean(axis=-1)
    np.testing.assert_allclose(anew, np.array(stored, dtype=float), atol=2)


# Runs in advance


def test_the_file_holds_every_run_that_the_page_opens_with_and_no_other():
    runs = [(run["panel"], run["settings"]) for run in in_advance()]
    assert runs == list(runs_to_compute())
    assert RUNS.stat().st_size < LARGEST
    for gamma in AXES["gamma"].values:
        for size in AXES["group size"].values:
            assert ("run", changed_settings("run", {"weight": focal(gamma), "group_size": size})) in runs
    for view in PRESETS.values():
        if view.panel in SIMULATED and view.panel != "interference":
            assert (view.panel, changed_settings(view.panel, dict(view.settings))) in runs


def test_every_run_in_advance_is_one_that_its_panel_would_take_with_all_its_seeds():
    for run in in_advance():
        assert hold_panel(run["panel"], run["settings"])[1] == []
        assert run["result"]["seeds"] == RUN_SEEDS[run["panel"]]
        methods = run["result"]["methods"].values() if run["panel"] == "tree" else [run["result"]]
        for method in methods:
            for metric in method["metrics"].values():
                assert len(metric["mean"]) == len(metric["m2"]) == len(run["result"]["step"])


@pytest.mark.browser
@pytest.mark.slow
@compiles
@pytest.mark.parametrize("index", [3, 40])
def test_a_run_computed_anew_has_the_same_numbers(index):
    run = in_advance()[index]
    anew = compute_run(run["panel"], run["settings"])
    for name, metric in run["result"]["metrics"].items():
        ours, theirs = (np.array(side["mean"], dtype=float) for side in (anew["metrics"][name], metric))
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-3, err_msg=name)
