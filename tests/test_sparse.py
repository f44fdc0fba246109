"""Sparse steps are the ordinary ones of the lumped engine, and are taken only where coefficients sum to zero."""

from dataclasses import replace
from functools import partial

import engine
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simlab.estimators import chain, estimator
from simlab.problems import anchored, custom
from simlab.simulate import Numbers, Program, run_lanes, windows
from simlab.simulate.lane import Drawn
from simlab.simulate.lumped import LumpedLane
from simlab.simulate.policy import EMPTY
from simlab.simulate.sparse import SparseLane, may_be_sparse

PLACES = 1024
PROGRAM = Program(4, "dr_grpo", optimizer="sgd", engine="lumped", dtype="float64")
# Two classes, of three and two actions, then places of their own from 2 on, in the order in which they are drawn.
GROUPS = [  # the places drawn, and which member of a class each draw is
    ([0, 0, 1, 1], [0, 1, 0, 0]),  # two new ones, and one twice
    ([2, 2, 0, 4], [0, 0, 0, 0]),  # a touched one twice, the last of its class, and another touched one
    ([3, 1, 5, 3], [0, 0, 0, 0]),  # the last of the other class
    ([6, 2, 4, 3], [0, 0, 0, 0]),
    ([4, 4, 5, 2], [0, 0, 0, 0]),
]


def lane_of(kind, numbers):
    fixed = windows.prepared(PROGRAM, custom([0.5, -0.2, 0.5, -0.2, 0.5], [1, 3], [1, 3]), [(0, numbers)])
    return kind(PROGRAM, fixed.shared, PLACES, fixed.keys, numbers)


@partial(jax.jit, static_argnums=0)
def learn(kind, numbers, state, places, ordinals):
    """A step on a given group."""
    lane = lane_of(kind, numbers)
    policy = lane.policy(state)
    state, policy, actions = lane.single_out(state, policy, places, ordinals, places < len(lane.place.logits))
    return lane.learn(engine.lane_key(0), state, Drawn(policy, actions, *policy.top(0)))


@jax.jit
def refreshed(numbers, state):
    return lane_of(SparseLane, numbers).refreshed(state)


@pytest.mark.parametrize("learning_rate", [0.7, pytest.param(300.0, marks=pytest.mark.slow)])
def test_a_sparse_step_is_the_ordinary_one(learning_rate):
    """Repeats in a group, classes that lose all members, and weights that are computed again, or not."""
    stale = []
    with jax.enable_x64(True):
        numbers = Numbers({}, {}, {"learning_rate": learning_rate}, 1.0, 0.0, 1.3)
        numbers = jax.tree.map(lambda value: jnp.asarray(value, "float64"), numbers)
        ordinary, found = lane_of(LumpedLane, numbers), lane_of(SparseLane, numbers).start()
        expected = ordinary.start()
        for drawn in GROUPS:
            group = [jnp.asarray(column, jnp.int32) for column in drawn]
            expected, found = learn(LumpedLane, numbers, expected, *group), learn(SparseLane, numbers, found, *group)
            np.testing.assert_allclose(found.logits, expected.logits, rtol=1e-12)
            for name, values in expected.lumps._asdict().items():
                np.testing.assert_array_equal(getattr(found.lumps, name), values)
            stale.append(bool(found.tree.is_stale))
            found = refreshed(numbers, found)
            policy, tree = ordinary.policy(expected), found.tree
            np.testing.assert_allclose(tree.rows / tree.rows.sum(), policy.rows / policy.total, rtol=1e-10, atol=1e-25)
            np.testing.assert_allclose(tree.chunks, tree.rows.reshape(-1, 32).sum(axis=1), rtol=1e-12)
            assert not tree.is_stale
        np.testing.assert_array_equal(found.logits[:2], EMPTY)  # nobody is left in the classes
        assert int(found.lumps.touched) == 5
    assert any(stale) == (learning_rate > 1)


# Which programs and numbers take sparse steps.


def decided(chosen, *parameters, rewards=(1.0, 0.0), group_size=6, optimizer="sgd", **others):
    program = Program(group_size, chosen, optimizer=optimizer, engine="lumped", **others)
    lanes = [(0, Numbers(floats, {}, {}, *rewards)) for floats in parameters or ({},)]
    return windows.are_sparse(program, anchored(200, 20), lanes).tolist()


def test_zero_sum_coefficients_with_sgd_take_sparse_steps():
    assert decided("dr_grpo") == [True]
    assert decided("grpo", rewards=(0.7, -0.1), group_size=7) == [True]
    assert decided("psr") == [False]
    assert decided(chain(estimator("grpo"), lambda advantages, _: advantages * (jnp.arange(32) > 0))) == [False]
    assert decided("asym_grpo", {"delta": 1.0}, {"delta": 2.0}, {"delta": 1.0}) == [True, False, True]


def test_what_sgd_or_the_number_of_correct_rollouts_does_not_settle_takes_ordinary_steps():
    assert may_be_sparse(Program(6, "grpo", optimizer="sgd"))
    for name in ("running_mean", "unlikeliness", "fade"):  # with memory; of log-probabilities; of the entropy
        assert not may_be_sparse(Program(6, name, optimizer="sgd"))
    for other in (
        {"optimizer": "adam"},
        {"update_rule": "theorem"},
        {"gradient_steps": 2},
        {"uses_kl": True},
        {"uses_entropy_bonus": True},
        {"surrogate": "casp"},
        {"group_size": 5000},
    ):
        assert not may_be_sparse(Program(**{"group_size": 6, "estimator": "grpo", "optimizer": "sgd"} | other)), other


# Whole runs.


def agree(program, problem, numbers, steps, seeds):
    """Means over the seeds differ by at most 4.5 standard errors in every record from those of the dense engine."""
    runs = {}
    for engine_name in ("dense", "lumped"):
        lanes = [(seed + 1000 * (engine_name == "lumped"), numbers) for seed in range(seeds)]
        runs[engine_name] = run_lanes(replace(program, engine=engine_name), problem, np.array(steps), lanes)
    assert runs["dense"].keys() == runs["lumped"].keys()
    for metric, dense in runs["dense"].items():
        lumped = runs["lumped"][metric]
        assert np.isfinite(lumped[:, 1:]).all(), metric
        gap = np.abs(dense.mean(axis=0, dtype=float) - lumped.mean(axis=0, dtype=float))
        error = np.sqrt((dense.var(axis=0, ddof=1, dtype=float) + lumped.var(axis=0, ddof=1, dtype=float)) / seeds)
        rounding = 2e-5 * np.maximum(1, np.abs(dense.mean(axis=0)))
        within = (gap <= 4.5 * error + rounding) | np.isnan(gap)
        assert within.all(), (metric, gap, error)
    return runs["lumped"]


@pytest.fixture
def references(monkeypatch):
    """What the weights of each lane are relative to, at first and after each call."""
    seen = []

    def watched(name, *arguments, compiled=windows._compiled):
        result = compiled(name, *arguments)
        if name in ("start", "advance"):
            assert arguments[1].sparse
            seen.append(np.asarray(result[0].tree.reference).copy())
        return result

    monkeypatch.setattr(windows, "_compiled", watched)
    return seen


SMALL = anchored(200, 20, reward_incorrect=-1.0)
MOVING = Program(8, "dr_grpo", optimizer="sgd", pass_at_k=(1, 64), top_n=3)


def rate(learning_rate):
    return Numbers({}, {}, {"learning_rate": learning_rate})


@pytest.mark.slow
@pytest.mark.parametrize("learning_rate", [5.0, 1000.0])
def test_records_agree_in_the_mean(learning_rate, references):
    rows = agree(MOVING, SMALL, rate(learning_rate), [2, 30, 60], seeds=200)
    assert rows["q_pos"][:, 3].mean() > rows["q_pos"][:, 0].mean() + 0.1
    moved = np.ptp(references, axis=0) > 0
    assert moved.all() if learning_rate == 1000.0 else not moved.any()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "learning_rate"), [("dr_grpo", 5.0), ("grpo", 5.0), ("dr_grpo", 1000.0)])
def test_at_128000_actions_records_agree_in_the_mean(name, learning_rate, references):
    program = Program(32, name, optimizer="sgd", pass_at_k=(1, 64), top_n=3)
    agree(program, anchored(target=500), rate(learning_rate), [3, 40, 80], seeds=24)
    assert references


@pytest.mark.slow
def test_a_lane_is_the_same_alone_and_among_others_however_often_it_is_recorded(references):
    """Also where lanes compute their weights again at different steps, and places grow in between."""
    program = Program(20, "dr_grpo", optimizer="sgd", engine="lumped", top_n=2)
    lanes = [
        (seed, rate(learning_rate)._replace(reward_correct=1.0, reward_incorrect=0.0))
        for seed, learning_rate in [(0, 1.0), (1, 5000.0), (2, 1000.0)]
    ]
    problem = anchored(100_000, 200)
    together = windows.run_windows(program, problem, np.array([2, 50, 120]), lanes)
    assert (np.ptp(references, axis=0) > 0).tolist() == [False, True, True]
    for place, lane in enumerate(lanes):
        alone = windows.run_windows(program, problem, np.array([2, 120]), [lane])
        for metric, values in together.items():
            if metric not in ("active_rate", "tail_miss_rate"):
                # An entropy of 11.4 has steps of 1e-6, and its sums may round another way: four of these.
                rounding = 2**-21 if metric == "entropy" else 0
                np.testing.assert_allclose(
                    values[place, [0, 1, 3]], alone[metric][0], rtol=rounding, atol=1e-6, err_msg=metric
                )
            if metric in ("distinct_correct", "top_logp"):
                np.testing.assert_array_equal(values[place, [0, 1, 3]], alone[metric][0], err_msg=metric)
