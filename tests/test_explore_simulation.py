"""Blocks of seeds of the explorer: filled up to a compiled size, and yet the simulator's own numbers."""

import numpy as np
import pytest

from simlab.explore.moments import record_steps
from simlab.explore.settings import hold_panel
from simlab.explore.shapes import ACTIONS, GROUPS, SEEDS, filled_to
from simlab.explore.simulation import simulate_policy, simulate_tree
from simlab.problems import anchored, tree
from simlab.simulator.api import simulate
from simlab.theory import tail_miss

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("quickly")]


def policy(**changes):
    return hold_panel("run", {"steps": 50, "learning_rate": 0.05} | changes)[0]


def ignored(event):
    assert event in ("compiling", "simulating")


def means(result, name):
    return np.array(result["metrics"][name]["mean"], dtype=float)


def test_sizes_are_filled_up_to_the_next_one():
    assert [filled_to(size, GROUPS) for size in (2, 32, 33, 512)] == [32, 32, 128, 512]


def test_records_are_evenly_spread_and_end_with_the_last_step():
    assert record_steps(50, 50).tolist() == list(range(1, 51))
    assert record_steps(333, 20)[-1] == 333
    assert (np.diff(record_steps(333, 20)) >= 16).all()


@pytest.mark.parametrize(
    ("surrogate", "others"), [("reinforce", {}), ("ppo_clip", {"epochs": 3, "lag": 2, "false_positive": 0.2})]
)
def test_a_full_group_of_all_actions_is_the_simulators_own_run(surrogate, others):
    """Where nothing is filled up, the same seeds give the same numbers as ``simulate``."""
    actions, size = ACTIONS[0], GROUPS[0]
    asked = {"group_size": size, "actions": actions, "correct": 0.25, "weight": "dr_grpo", "seed": 0}
    settings = policy(**asked, surrogate=surrogate, **others)
    found = simulate_policy(settings, 0, ignored)
    runs = simulate(
        anchored(actions, 64),
        f"dr_grpo+{surrogate}",
        group_size=size,
        optimizer_parameters={"learning_rate": 0.05},
        storage="dense",
        seeds=SEEDS,
        steps=50,
        record_every=1,
        **others,
    )
    for name in ("q_pos", "retained_mass", "entropy"):
        np.testing.assert_allclose(means(found, name), runs[name].mean("seed"), rtol=2e-5)
    np.testing.assert_allclose(means(found, "tail_miss_rate")[1:], runs["tail_miss_rate"].mean("seed")[1:], rtol=1e-5)


def test_a_group_that_is_filled_up_learns_as_one_of_its_own_size():
    """Group sizes 3 in 32 places and 8 actions in 256: the mean over 64 seeds of each, within four standard errors."""
    settings = policy(group_size=3, actions=8, correct=0.5, anchor_logit=1, correct_logit=0, weight="dr_grpo")
    blocks = [simulate_policy(settings, SEEDS * block, ignored) for block in range(16)]
    found = np.mean([means(block, "q_pos")[-1] for block in blocks])
    runs = simulate(
        anchored(8, 4, anchor_logit=1.0, correct_logit=0.0),
        "dr_grpo+reinforce",
        group_size=3,
        optimizer_parameters={"learning_rate": 0.05},
        storage="dense",
        seeds=64,
        steps=50,
        record_every=50,
    ).q_pos.isel(step=-1)
    error = float(runs.std("seed", ddof=1)) * np.sqrt(2 / 64)
    assert abs(found - float(runs.mean("seed"))) < 4 * error


def test_theory_is_drawn_for_plain_steps_and_close_at_a_small_rate():
    settings = policy(
        weight="dr_grpo", optimizer="sgd", learning_rate=0.05, group_size=4, actions=8, correct=0.5,
        anchor_logit=0, correct_logit=0,
    )  # fmt: skip
    found = simulate_policy(settings, 0, ignored)
    for name in ("q_pos", "retained_mass", "entropy"):
        assert found["theory"][name][0] == pytest.approx(means(found, name)[0], rel=1e-5)
        assert abs(found["theory"][name][-1] - means(found, name)[-1]) < 0.1
    assert means(found, "tail_miss_expected")[0] == pytest.approx(tail_miss(4, 0.5, 0.125), rel=1e-5)
    assert simulate_policy(policy(weight="running_mean", actions=8, group_size=4), 0, ignored)["theory"] is None


def test_theory_of_adam_is_that_of_gradients_without_noise():
    """Where groups are so large that there is hardly any noise, the mean over seeds follows it."""
    settings = policy(
        weight="dr_grpo", optimizer="adam", learning_rate=0.01, group_size=512, actions=8, correct=0.5,
        anchor_logit=0, correct_logit=0,
    )  # fmt: skip
    found = simulate_policy(settings, 0, ignored)
    gained = means(found, "q_pos")[-1] - means(found, "q_pos")[0]
    assert gained > 0.1
    assert abs(found["theory"]["q_pos"][-1] - means(found, "q_pos")[-1]) < 0.05 * gained


@pytest.mark.parametrize("change", [{"epochs": 2}, {"lag": 1}, {"false_positive": 0.1}])
def test_theory_is_not_drawn_where_it_does_not_speak(change):
    found = simulate_policy(policy(weight="dr_grpo", optimizer="sgd", actions=8, group_size=4, **change), 0, ignored)
    assert found["theory"] is None
    assert ("tail_miss_expected" in found["metrics"]) == ("epochs" in change)


def test_the_tree_starts_uniform_and_its_methods_are_the_simulators():
    settings = hold_panel("tree", {"group_size": 32, "steps": 60, "learning_rate": 1.0})[0]
    found = simulate_tree(settings, 0, ignored)
    assert list(found["methods"]) == ["GRPO", "GRPO + entropy", "CaSP"]
    for method in found["methods"].values():
        np.testing.assert_allclose(method["policies"][0], np.full((21, 4), 0.25))
        assert np.shape(method["policies"]) == (21, 21, 4)
    runs = simulate(
        tree(),
        "grpo@constant",
        group_size=32,
        optimizer="sgd",
        optimizer_parameters={"learning_rate": 1.0},
        seeds=SEEDS,
        steps=60,
        record_every=3,
    )
    np.testing.assert_allclose(means(found["methods"]["GRPO"], "q_pos"), runs.q_pos.mean("seed"), rtol=1e-4)


def test_the_same_seeds_give_the_same_block():
    settings = policy(group_size=4, actions=16)
    assert simulate_policy(settings, 8, ignored) == simulate_policy(settings, 8, ignored)
    assert simulate_policy(settings, 8, ignored) != simulate_policy(settings, 12, ignored)
