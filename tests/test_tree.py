"""A tree of decisions: its shape, every step and record against naive loops, what is exact, and what is refused."""

import dataclasses
import functools
import math

import engine
import jax
import jax.numpy as jnp
import naive_tree
import numpy as np
import pytest
from naive_simulator import Setting
from naive_tree import Tree as Naive
from sweep_cases import asked, refusal

from simlab import cli
from simlab.errors import InputError
from simlab.estimators import REGISTRY
from simlab.problems import Tree, tree
from simlab.problems.tree_paths import leaf_of, path_sums, paths, word
from simlab.simulate import Program, run_lanes, simulate
from simlab.simulate.engine import step_costs
from simlab.simulate.lane import Drawn, Landscape, Lane
from simlab.simulate.sampling import draw_each
from simlab.simulate.tree_lane import TreeLane
from simlab.simulate.tree_metrics import TREE_DESCRIPTIONS
from simlab.simulate.update import exact_sums
from simlab.surrogates import SURROGATES
from simlab.sweep.result import read
from simlab.sweep.run import run

# The problem


def test_the_default_is_casps_toy():
    toy = tree()
    assert toy.mode_words == ["ACB", "ACD", "BDA", "BDC", "CAB", "DBA"]
    assert (toy.depth, toy.branching, toy.actions, toy.shape) == (3, 4, 64, (21, 4))
    np.testing.assert_allclose(np.exp(toy.leaf_logp), 1 / 64, rtol=1e-14)
    assert [word(int(leaf), 3, 4) for leaf in np.flatnonzero(toy.target)] == ["DBA"]


def test_a_path_leads_from_node_to_node_to_its_leaf():
    """Node n leads to n B + 1 + a; after T actions, past all nodes, lies the leaf."""
    nodes, actions = paths(np.arange(27), 3, 3)
    assert not nodes[:, 0].any()
    np.testing.assert_array_equal(nodes[:, 1:], nodes[:, :-1] * 3 + 1 + actions[:, :-1])
    np.testing.assert_array_equal(nodes[:, -1] * 3 + 1 + actions[:, -1], 13 + np.arange(27))
    values = np.random.default_rng(0).normal(size=(13, 3))
    np.testing.assert_allclose(path_sums(values), values[nodes, actions].sum(axis=1), rtol=1e-13)
    assert [leaf_of("a", word(leaf, 3, 3), 3, 3) for leaf in range(27)] == list(range(27))


def test_leaves_are_named_by_words_numbers_or_a_file(tmp_path):
    np.savetxt(tmp_path / "leaves.txt", [1, 6])
    same = [tree(2, 3, rewarded=rewarded) for rewarded in ("AB CA", "AB,CA", ["AB", "CA"], [1.0, 6.0], ("1", "6"))]
    same.append(tree(2, 3, rewarded=str(tmp_path / "leaves.txt")))
    assert {problem.fingerprint for problem in same} == {same[0].fingerprint}
    assert same[0].mode_words == ["AB", "CA"]


def test_an_anchor_starts_ahead_and_the_least_likely_mode_is_the_target():
    ahead = tree(2, 3, rewarded="CA AB BB", anchor_logit=1.0)
    assert np.argmax(ahead.leaf_logp) == leaf_of("anchor", "CA", 2, 3)
    assert np.flatnonzero(ahead.target).tolist() == [leaf_of("target", "BB", 2, 3)]
    other = tree(2, 3, rewarded="CA AB BB", anchor="BB", anchor_logit=1.0, logits=[0.0] * 12)
    logits = np.zeros((4, 3))
    logits[0, 1] = logits[2, 1] = 1
    np.testing.assert_array_equal(other.logits, logits)


def test_a_tree_is_known_by_all_that_it_is():
    base = {"depth": 2, "branching": 3, "rewarded": "AB CA"}
    changes = [{}, {"rewarded": "AB CB"}, {"target": "AB"}, {"anchor_logit": 1.0}, {"reward_incorrect": -1.0}]
    assert len({tree(**base | change).fingerprint for change in changes}) == len(changes)


# Steps and records against naive loops

LOGITS = tuple(map(tuple, np.random.default_rng(4).normal(scale=0.8, size=(13, 3)).round(2).tolist()))
BASE = Setting(
    (), frozenset({0, 7, 13, 14, 22}), frozenset({13}), 6, "grpo", surrogate="unclipped",
    optimizer_parameters={"learning_rate": 0.5}, top_n=4,
)  # fmt: skip
ADAM = {"optimizer": "adam", "optimizer_parameters": {"learning_rate": 0.1, "b1": 0.8, "b2": 0.95, "eps": 1e-5}}
TIGHT = {"eps_low": 0.1, "eps_high": 0.15}
CASP = {"alpha": 0.3, "candidates": 2, "quantile": 0.4, "top_penalty": 1.15}
# Aggregation and what differs from BASE.
SETTINGS = {
    "grpo, sgd": ("token_mean", {"surrogate": "reinforce"}),
    "f_grpo, clipped, adam": (
        "constant",
        ADAM
        | {"estimator": "f_grpo", "surrogate": "ppo_clip", "surrogate_parameters": TIGHT}
        | {"gradient_steps": 3, "temperature": 1.3},
    ),
    "cw_grpo": ("sequence_mean", {"estimator": "cw_grpo", "gradient_steps": 2, "rewards": (1.0, -1.0)}),
    "casp": (
        "constant",
        {"estimator": "dr_grpo", "surrogate": "casp", "surrogate_parameters": CASP, "gradient_steps": 2},
    ),
    "clip_cov": (
        "token_mean",
        {"surrogate": "clip_cov", "surrogate_parameters": {"share": 0.12, "low": 0.1, "high": 2.0}, "gradient_steps": 2}
        | {"optimizer_parameters": {"learning_rate": 3.0}},
    ),
    "casp, cw_grpo, regularised, adam": (
        "token_mean",
        ADAM
        | {"estimator": "cw_grpo", "surrogate": "casp", "surrogate_parameters": CASP, "gradient_steps": 2}
        | {"kl": 0.3, "entropy_bonus": 0.2},
    ),
    "cw_grpo, clip_cov": (
        "constant",
        {"surrogate": "clip_cov", "surrogate_parameters": {"share": 0.12, "low": 0.1, "high": 2.0}, "gradient_steps": 2}
        | {"estimator": "cw_grpo", "rewards": (1.0, -1.0), "temperature": 1.3},
    ),
    "kl_cov, adam": (
        "token_mean",
        ADAM | {"surrogate": "kl_cov", "surrogate_parameters": {"share": 0.25, "penalty": 0.5}, "gradient_steps": 2},
    ),
    "regularised, reads entropies": (
        "token_mean",
        ADAM | {"estimator": "entropy_advantage", "kl": 0.3, "entropy_bonus": 0.2, "gradient_steps": 2},
    ),
    "sequence ratios, remembers batches": (
        "sequence_mean",
        {"estimator": "ha_dw", "surrogate": "sequence_clip", "gradient_steps": 3}
        | {"surrogate_parameters": {"eps_low": 0.02, "eps_high": 0.02}},
    ),
    "one rollout, not zero-sum": ("constant", ADAM | {"estimator": "w_reinforce", "group_size": 1, "kl": 0.1}),
}  # fmt: skip
QUICK = ("casp, cw_grpo, regularised, adam",)
STEPS = 10


def some_slow(names, quick):
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


def naive(name):
    aggregation, changes = SETTINGS[name]
    return Naive(3, 3, LOGITS, dataclasses.replace(BASE, **changes), aggregation)


def program(case, dtype="float64"):
    return dataclasses.replace(engine.program(case.setting, dtype), aggregation=case.aggregation)


def problem(case):
    correct, target = (
        np.isin(np.arange(len(case.leaves)), list(members)) for members in (case.setting.correct, case.setting.target)
    )
    return Tree(np.array(case.logits), correct, target, *case.setting.rewards)


def arrays(case, dtype="float64"):
    place = problem(case)
    landscape = Landscape(
        jnp.asarray(place.logits, dtype),
        jnp.asarray(place.correct),
        jnp.asarray(place.target),
        modes=jnp.asarray(place.modes, jnp.int32),
    )
    return landscape, jax.tree.map(lambda value: jnp.asarray(value, dtype), engine.numbers(case.setting))


def every_step(case, seed, steps=STEPS, dtype="float64"):
    """Of each step of the engine's lane of that seed: leaves reached, noise, the logits after it, and its record."""

    def run_it(place, numbers):
        key = engine.lane_key(seed)
        lane = TreeLane(program(case, dtype), place, key, numbers)

        def one(state, index):
            following = lane.step(index, lane.counted_anew(state))
            noise = jax.random.uniform(jax.random.fold_in(jax.random.fold_in(key, index), 1), (group, depth), dtype)
            return following, (
                following.actions,
                noise,
                following.logits,
                lane.record(state.logits, following, jnp.int32(1)),
            )

        group, depth = case.setting.group_size, case.depth
        return jax.lax.scan(one, lane.start(), jnp.arange(steps, dtype=jnp.int32))[1]

    with jax.enable_x64(dtype == "float64"):
        leaves, noise, logits, rows = jax.tree.map(np.asarray, jax.jit(run_it)(*arrays(case, dtype)))
    words = [[case.leaves[leaf] for leaf in group] for group in leaves.tolist()]
    return words, noise.tolist(), logits, rows


@functools.cache
def lane_of(name):
    return every_step(naive(name), 3)


@pytest.mark.parametrize("name", some_slow(SETTINGS, QUICK))
def test_every_step_and_record_equals_the_naive_loops(name):
    case, (words, noise, logits, rows) = naive(name), lane_of(name)
    assert rows.keys() == TREE_DESCRIPTIONS.keys()
    memory = naive_tree.start(case)
    for index, group in enumerate(words):
        _, advantages = naive_tree.advantages_of(case, memory, group)
        following = naive_tree.step(case, memory, group, noise[index])
        np.testing.assert_allclose(logits[index], following.logits, rtol=0, atol=1e-9)
        expected = naive_tree.policy_record(case, following.logits)
        expected |= naive_tree.update_record(case, memory, following.logits, group, advantages)
        assert expected.keys() == rows.keys()
        for metric, value in expected.items():
            np.testing.assert_allclose(rows[metric][index], value, rtol=0, atol=1e-9, err_msg=metric)
        memory = following
    assert np.abs(logits[-1] - np.array(LOGITS)).max() > 1e-2


PLAIN = {
    "casp": {"alpha": 0.0, "candidates": 1, "quantile": 0.0, "top_penalty": 1.0},
    "clip_cov": {"share": 0.12, "low": 98.0, "high": 99.0},
    "casp, cw_grpo, regularised, adam": {"alpha": 0.0, "candidates": 1, "quantile": 0.0, "top_penalty": 1.0},
    "cw_grpo, clip_cov": {"share": 0.12, "low": 98.0, "high": 99.0},
    "kl_cov, adam": {"share": 0.25, "penalty": 0.0},
    "f_grpo, clipped, adam": {"eps_low": 1.0, "eps_high": 99.0},
    "sequence ratios, remembers batches": {"eps_low": 1.0, "eps_high": 99.0},
}


@pytest.mark.parametrize("name", some_slow(PLAIN, QUICK))
def test_what_the_surrogate_does_shows_in_the_lane(name):
    """So that the cases above test it: without it the naive lane ends elsewhere."""
    case, ends = naive(name), []
    free = dataclasses.replace(case.setting, surrogate_parameters=PLAIN[name])
    for own in (case, dataclasses.replace(case, setting=free)):
        memory = naive_tree.start(own)
        for group, noise in zip(*lane_of(name)[:2], strict=True):
            memory = naive_tree.step(own, memory, group, noise)
        ends.append(memory.logits)
    assert np.abs(ends[0] - ends[1]).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_a_run_records_the_same_lane_in_windows(name):
    case, (_, _, _, steps) = naive(name), lane_of(name)
    recorded, lanes = np.array([1, 7, 10]), [(3, engine.numbers(case.setting))]
    rows = {metric: row[0] for metric, row in run_lanes(program(case), problem(case), recorded, lanes).items()}
    for metric, row in rows.items():
        for place, (first, last) in enumerate(zip((0, 1, 7), recorded, strict=True), start=1):
            counted = metric in ("active_rate", "tail_miss_rate")
            of_window = steps[metric][first:last].mean(axis=0) if counted else steps[metric][last - 1]
            np.testing.assert_allclose(row[place], of_window, rtol=0, atol=1e-11, err_msg=metric)
    initial = naive_tree.policy_record(case, np.array(LOGITS))
    for metric, row in rows.items():
        np.testing.assert_allclose(row[0], initial.get(metric, np.full_like(row[0], np.nan)), atol=1e-12)


# A sequence and its tokens


@pytest.mark.parametrize("name", some_slow(SETTINGS, QUICK))
def test_entropies_of_the_levels_add_up_to_that_of_the_leaf(name):
    rows = lane_of(name)[3]
    np.testing.assert_allclose(rows["level_entropy"].sum(axis=1), rows["entropy"], rtol=1e-12)


def learned_from(case, groups):
    """The change of the logits by one step from each of some groups of leaves, and the first-order change of Q_pos."""

    def learn(place, numbers, group):
        lane = TreeLane(program(case), place, engine.lane_key(0), numbers)
        state, nothing = lane.start(), jnp.zeros((case.setting.group_size, case.depth, 0))
        drawn = Drawn(lane.initial, group, nothing, nothing.astype(jnp.int32))
        after = lane.learn(lane.key, state, drawn)
        row = lane.record(state.logits, after, jnp.int32(1))
        return after.logits - state.logits, row["d_q_pos"], row["d_q_pos_predicted"]

    with jax.enable_x64(True):
        learn_each = jax.jit(jax.vmap(learn, (None, None, 0)))
        return [np.asarray(found) for found in learn_each(*arrays(case), jnp.asarray(groups, jnp.int32))]


def slopes(function, logits, width=1e-6):
    """Central differences of a function of the logits, entry by entry: (*logits.shape, *values)."""
    found = np.empty((*logits.shape, *np.shape(function(logits))))
    for place in np.ndindex(logits.shape):
        step = np.zeros_like(logits)
        step[place] = width
        found[place] = (function(logits + step) - function(logits - step)) / (2 * width)
    return found


def test_every_sequence_moves_along_the_gradient_of_its_log_probability_and_the_mean_along_that_of_q_pos():
    """All B^T sequences: REINFORCE's step from one is grad log p(leaf) times its reward, and their mean grad Q_pos.

    With weights that add up a rollout's tokens; the mean over tokens is a T-th of it.
    """
    alone = dataclasses.replace(
        BASE, estimator="reinforce", surrogate="reinforce", group_size=1, rewards=(1.0, -1.0), temperature=0.8,
        optimizer_parameters={"learning_rate": 1e-4},
    )  # fmt: skip
    case = Naive(3, 3, LOGITS, alone, "constant")
    rewarded = np.isin(np.arange(27), list(alone.correct))
    changes, moved, predicted = learned_from(case, np.arange(27)[:, None])
    gradients = slopes(functools.partial(naive_tree.leaf_logp, case), np.array(LOGITS))
    signs = np.where(rewarded, 1, -1)
    np.testing.assert_allclose(np.moveaxis(changes, 0, -1) / 1e-4, gradients * signs, rtol=0, atol=1e-8)
    p = np.exp(naive_tree.leaf_logp(case, np.array(LOGITS)))
    q_pos = slopes(lambda logits: np.exp(naive_tree.leaf_logp(case, logits))[rewarded].sum(), np.array(LOGITS))
    np.testing.assert_allclose(np.einsum("i,ijk->jk", p, changes) / 1e-4, 2 * q_pos, rtol=0, atol=1e-8)
    np.testing.assert_allclose(predicted, np.einsum("ijk,jk->i", changes, q_pos), rtol=0, atol=1e-12)
    np.testing.assert_allclose(moved, predicted, rtol=0, atol=1e-7)
    assert np.abs(predicted).max() > 5e-6


@pytest.mark.slow
def test_leaves_come_as_often_as_they_are_likely():
    """Frequencies of the 27 leaves in 20,000 first groups of six, in float32, within 4 standard errors."""
    case = naive("grpo, sgd")
    p = np.exp(naive_tree.leaf_logp(case, np.array(LOGITS)))

    def group(place, numbers, seed):
        lane = TreeLane(program(case, "float32"), place, engine.lane_key(seed), numbers)
        return lane.step(jnp.int32(0), lane.start()).actions

    place, numbers = arrays(case, "float32")
    drawn = jax.jit(jax.vmap(group, (None, None, 0)))(place, numbers, jnp.arange(20_000, dtype=jnp.uint32))
    found = np.bincount(np.asarray(drawn).reshape(-1), minlength=27) / drawn.size
    assert np.all(np.abs(found - p) <= 4 * np.sqrt(p * (1 - p) / drawn.size))


def test_each_policy_draws_by_its_own_weights():
    """Of 100,000 draws from four policies, each share is within 4 standard errors, and weight 0 is never drawn."""
    p = np.array([[0.5, 0.25, 0.25, 0.0], [0.0, 1.0, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4], [1e-3, 0.0, 0.0, 0.999]])
    columns = jnp.tile(jnp.asarray(3 * p, jnp.float32), (25_000, 1)).T
    drawn = np.asarray(jax.jit(draw_each)(engine.lane_key(0), columns)).reshape(25_000, 4)
    for policy, actions in zip(p, drawn.T, strict=True):
        shares = np.bincount(actions, minlength=4) / 25_000
        assert np.all(np.abs(shares - policy) <= 4 * np.sqrt(policy * (1 - policy) / 25_000))
        assert not shares[policy == 0].any()


# A tree of one level

ONE_LEVEL = {
    "sgd, candidates, two steps": (
        "float32",
        {"surrogate": "casp", "surrogate_parameters": CASP | {"quantile": 0.0}, "gradient_steps": 2},
    ),
    "not zero-sum": ("float64", {"estimator": "w_reinforce", "temperature": 1.3}),
    "regularised, adam": ("float64", ADAM | {"kl": 0.3, "entropy_bonus": 0.2, "surrogate": "ppo_clip"}),
}


@pytest.mark.parametrize("name", some_slow(ONE_LEVEL, tuple(ONE_LEVEL)[:1]))
def test_a_tree_of_one_level_is_the_dense_engines_policy(name):
    """The same draws and, under SGD, logits bit by bit; records up to rounding."""
    dtype, changes = ONE_LEVEL[name]
    logits = (0.3, -0.7, 1.1, 0.2, -0.4, 0.9)
    setting = dataclasses.replace(BASE, logits=logits, correct=frozenset({1, 4, 5}), target=frozenset({4}), **changes)
    case = Naive(1, 6, (logits,), setting)

    def lanes(flat, place, numbers):
        found = []
        for lane in (
            Lane(program(case, dtype), flat, engine.lane_key(5), numbers),
            TreeLane(program(case, dtype), place, engine.lane_key(5), numbers),
        ):

            def one(state, index, lane=lane):
                following = lane.step(index, lane.counted_anew(state))
                return following, (following.actions, following.logits, lane.record(state.logits, following, index + 1))

            found.append(jax.lax.scan(one, lane.start(), jnp.arange(30, dtype=jnp.int32))[1])
        return found

    with jax.enable_x64(dtype == "float64"):
        (place, numbers), (flat, _) = arrays(case, dtype), engine.arrays(setting, dtype)
        single, levels = jax.tree.map(np.asarray, jax.jit(lanes)(flat, place, numbers))
    np.testing.assert_array_equal(levels[0], single[0])
    exact = setting.optimizer == "sgd"
    np.testing.assert_allclose(levels[1][:, 0], single[1], rtol=0, atol=0 if exact else 1e-12)
    for metric, values in single[2].items():
        np.testing.assert_allclose(levels[2][metric], values, rtol=0, atol=3e-6 if dtype == "float32" else 1e-12)


# The untouched stay untouched

of_segments = jax.jit(exact_sums, static_argnums=2)


def test_sums_that_are_no_more_than_rounding_are_exactly_zero_segment_by_segment():
    random = np.random.default_rng(0)
    for count in (1, 7):
        half = random.normal(size=300).astype(np.float32)
        values = np.concatenate([half, *np.split(-half, 10)[::-1], [0.25]])
        owner = random.integers(0, count, 300)
        segments = np.concatenate([owner, *np.split(owner, 10)[::-1], [count - 1]])
        order = random.permutation(len(values))
        sums = np.asarray(of_segments(jnp.asarray(values[order]), jnp.asarray(segments[order]), count))
        assert not sums[:-1].any()
        np.testing.assert_allclose(sums[-1], 0.25, rtol=1e-5)


def test_sums_of_segments_are_those_of_each_alone():
    random = np.random.default_rng(1)
    values, segments = random.normal(size=200), random.integers(0, 9, 200)
    with jax.enable_x64(True):
        sums = of_segments(jnp.asarray(values), jnp.asarray(segments), 12)
        alone = [math.fsum(values[segments == place]) for place in range(9)]
    np.testing.assert_allclose(sums, [*alone, 0, 0, 0], rtol=1e-13)


@pytest.mark.slow
def test_nodes_never_passed_and_root_actions_never_drawn_move_by_exactly_zero_under_zero_sum_weights():
    """Bit by bit, after 100 steps of an Adam whose eps is so small that rounding noise would show."""
    rare = np.random.default_rng(2).normal(size=(31, 5))
    rare[:, 3:] -= 30.0
    setting = Setting(
        (), frozenset(range(0, 125, 4)), frozenset({0}), 7, "f_grpo", optimizer="adam",
        optimizer_parameters={"eps": 1e-20}, pass_at_k=(), top_n=0,
    )  # fmt: skip
    case = Naive(3, 5, tuple(map(tuple, rare.tolist())), setting)
    words, _, logits, _ = every_step(case, 0, 100, "float32")
    passed = {leaf[:level] for group in words for leaf in group for level in range(3)}
    still = np.array([node not in passed for node in case.nodes])
    initial = rare.astype(np.float32)
    assert still.sum() >= 8
    np.testing.assert_array_equal(logits[-1][still], initial[still])
    np.testing.assert_array_equal(logits[-1][0, 3:], initial[0, 3:])
    assert np.abs(logits[-1] - initial)[~still].max() > 0.1


def assert_defined(result):
    """After step 0 nothing is NaN but covariances of a sign that no token has."""
    covariances = ["positive_covariance", "negative_covariance"]
    recorded = result.drop_vars([*covariances, "rank_logp", "group_rank_logp"], errors="ignore").isel(
        step=slice(1, None)
    )
    assert all(np.isfinite(values).all() for values in recorded.data_vars.values())


TEACH_NOTHING = {
    "all wrong": (4, {"rewarded": "DDD", "logits": np.tile([20.0, 20, 20, 0], 21)}),
    "all right": (4, {"rewarded": np.arange(64.0)}),
    "one rollout": (1, {}),
}


def test_a_group_of_equal_rewards_moves_nothing_and_another_only_the_nodes_it_passes():
    """Bit by bit; where the weights of a node sum to 0, as at the root, nor does an action move that was not drawn."""
    case = Naive(3, 3, LOGITS, dataclasses.replace(BASE, group_size=3))
    changes, _, _ = learned_from(case, [[0, 7, 7], [1, 2, 26], [0, 1, 9]])
    assert not changes[:2].any()
    moved = np.abs(changes[2]) > 0
    passed = {(), (0,), (0, 0), (1,), (1, 0)}
    assert {node for node, own in zip(case.nodes, moved, strict=True) if own.any()} == passed
    assert moved[0].tolist() == [True, True, False]


@pytest.mark.slow
@pytest.mark.parametrize("name", TEACH_NOTHING)
def test_groups_that_teach_nothing_leave_the_tree_as_it_is(name):
    group_size, parameters = TEACH_NOTHING[name]
    program = Program(group_size, "grpo", surrogate="casp", gradient_steps=2, pass_at_k=(1,))
    result = simulate(tree(**parameters), program, seeds=2, steps=4, record_every=2)
    for metric in ("q_pos", "entropy", "mode_probability", "level_entropy"):
        np.testing.assert_array_equal(result[metric][:, -1], result[metric][:, 0])
    assert not result.active_rate[:, 1:].any()
    assert result.positive_covariance[:, 1:].isnull().all()
    assert_defined(result)


# Every estimator, surrogate and optimiser

DRAWING = {"estimator": "unlikeliness", "surrogate": "clip_cov", "gradient_steps": 2, "optimizer": "adamw"}
ALONE = [{"estimator": name} for name in REGISTRY] + [{"surrogate": name, "gradient_steps": 2} for name in SURROGATES]


@pytest.mark.slow
@pytest.mark.parametrize("choices", [DRAWING, *ALONE], ids=str)
def test_everything_runs_on_a_tree(choices):
    result = simulate(tree(), Program(8, **choices), seeds=2, steps=10, record_every=5)
    assert_defined(result)
    assert (result.entropy[:, -1] != result.entropy[:, 0]).all()


@pytest.mark.slow
def test_lanes_do_not_influence_each_other():
    """Eleven lanes of different seeds and numbers, in two calls of eight; reversed; and one of them alone."""
    case = naive("casp")
    code, place, recorded = program(case), problem(case), np.array([3, 6])
    lanes = [
        (seed, engine.numbers(dataclasses.replace(case.setting, temperature=0.5 + seed / 10))) for seed in range(11)
    ]
    together, reverse = (run_lanes(code, place, recorded, some) for some in (lanes, lanes[::-1]))
    alone = run_lanes(code, place, recorded, lanes[7:8])
    assert len(np.unique(together["q_pos"][:, -1])) == 11
    for metric, rows in together.items():
        np.testing.assert_array_equal(rows, reverse[metric][::-1], err_msg=metric)
        np.testing.assert_array_equal(rows[7:8], alone[metric], err_msg=metric)


@pytest.mark.slow
def test_a_large_tree_runs():
    """2^17 leaves, of which every 1000th is rewarded: the first 64 of them are recorded one by one."""
    large = tree(17, 2, rewarded=np.arange(0.0, 2**17, 1000))
    result = simulate(large, Program(16, "grpo"), seeds=1, steps=2, record_every=1)
    assert result.sizes["mode"] == 64
    np.testing.assert_allclose(result.level_entropy.sum("level"), result.entropy, rtol=1e-5)
    np.testing.assert_allclose(result.q_pos[0, 0], 132 / 2**17, rtol=1e-4)


# Sweeps

OPTIONS = (
    "--problem", "tree", "--surrogate", "casp", "--param", "quantile=0", "--param", "rewarded=AB CA",
    "--param", "depth=2", "--param", "branching=3", "--param", "aggregation=constant", "--group-size", "4",
    "--estimator", "grpo", "--learning-rate", "0.1,0.2", "--seeds", "3", "--steps", "4", "--record-every", "2",
    "--pass-at-k", "1", "--top-n", "4",
)  # fmt: skip


@pytest.mark.slow
def test_the_command_sweeps_a_tree_and_labels_what_it_records(tmp_path, capsys):
    out = tmp_path / "tree.nc"
    assert cli.main(["sweep", *OPTIONS, "--out", str(out)]) == 0
    assert "engine dense for G = 4" in capsys.readouterr().out
    dataset = read(out)
    assert dataset.sizes == {
        "estimator": 1, "group_size": 1, "learning_rate": 2, "seed": 3, "step": 3,
        "k": 1, "rank": 4, "mode": 2, "level": 2, "percent": 5,
    }  # fmt: skip
    assert dataset.mode.values.tolist() == ["AB", "CA"]
    assert {name: values.attrs["long_name"] for name, values in dataset.data_vars.items()} == TREE_DESCRIPTIONS
    np.testing.assert_allclose(dataset.mode_probability.sum("mode"), dataset.q_pos, rtol=1e-5)
    assert dataset.rank_logp.isel(rank=3).isnull().all()
    cell = next(cell for index, cell in asked(*OPTIONS).cells() if index == (0, 0, 1))
    place = asked(*OPTIONS).build_problem(cell)
    choices = asked(*OPTIONS).program(cell), asked(*OPTIONS).numbers(cell, place)
    alone = simulate(place, choices[0], numbers=choices[1], seeds=3, steps=4, record_every=2)
    within = dataset.sel(estimator="grpo", group_size=4, learning_rate=0.2)
    for name in alone.data_vars:
        np.testing.assert_array_equal(within[name].values, alone[name].values, name)


def test_trees_of_different_depths_are_not_one_sweep(tmp_path):
    depths = asked("--problem", "tree", "--param", "depth=2,3", "--param", "rewarded=1,2", "--steps", "2")
    assert "the trees of this sweep differ in levels or rewarded leaves" in refusal(run, depths, tmp_path / "tree.nc")


def test_the_cost_model_counts_all_logits_and_tokens():
    small, large = (step_costs(Program(8), tree(depth, 2, rewarded=[0.0]), 10) for depth in (3, 12))
    assert small.lumped == math.inf
    assert small.dense < large.dense


# What is refused


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"depth": 0}, "depth = 0 is outside its range [1, 20]"),
        ({"branching": 1}, "branching = 1 is outside its range [2, "),
        ({"depth": 11, "branching": 4}, "leaves = 4194304 is outside its range [1, 1048576]"),
        ({"rewarded": "ACD ACE"}, "rewarded leaf 'ACE' is no path of the tree; allowed: 3 letters of A to D each"),
        ({"rewarded": "AC"}, "rewarded leaf 'AC' is no path of the tree"),
        ({"rewarded": [64.0]}, "rewarded leaf = 64.0 is outside its range [0, 63]"),
        ({"rewarded": [1.5]}, "rewarded leaf 1.5 is no whole number; allowed: 0 to 63"),
        ({"rewarded": ()}, "rewarded lists no leaf"),
        ({"target": "AAA"}, "the target set must be a non-empty subset"),
        ({"anchor": "AAA"}, "anchor = 'AAA' is not rewarded"),
        ({"logits": [0.0, 1.0]}, "logits are 2; allowed: 84, 4 of 21 nodes"),
        ({"logits": "nowhere.txt"}, "logits = 'nowhere.txt' is neither a list of numbers nor a file"),
        ({"logits": [math.inf] * 84}, "logit 0 is inf; allowed: finite numbers"),
        ({"reward_correct": 0.0}, "reward_correct = 0.0"),
    ],
    ids=str,
)
def test_a_tree_that_cannot_be_is_refused_with_what_is_allowed(parameters, message):
    assert message in refusal(tree, **parameters)


@pytest.mark.parametrize("shapes", [((4, 3), 8, 8), ((3, 3), 9, 9), ((4, 3), 9, 8), ((3, 1), 1, 1), ((1, 2), 1, 1)])
def test_arrays_that_are_no_tree_are_refused(shapes):
    logits, correct, target = (np.zeros(shapes[0]), *(np.ones(count, bool) for count in shapes[1:]))
    with pytest.raises((InputError, TypeError)) as error:
        Tree(logits, correct, target)
    assert isinstance(error.value, TypeError) or "allowed: ((B^T - 1) / (B - 1), B) logits" in str(error.value)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"engine": "lumped"}, "engine = 'lumped' does not run a tree; allowed: auto, dense"),
        ({"update_rule": "theorem"}, "update_rule = 'theorem' on a tree; allowed: simulator"),
        ({"prompts_per_step": 2}, "prompts_per_step = 2 is outside its range [0, 1]"),
        ({"top_n": 65}, "top_n = 65 is outside its range [0, 64]"),
        (
            {"surrogate": "casp", "surrogate_choices": (("candidates", 5),)},
            "candidates = 5 is outside its range [0, 4]",
        ),
    ],
    ids=str,
)
def test_programs_that_no_tree_can_run_are_refused(choices, message):
    assert message in refusal(simulate, tree(), Program(4, **choices))


def test_an_unknown_aggregation_is_refused():
    assert "aggregation = 'mean' is unknown; allowed: token_mean" in refusal(Program, 4, aggregation="mean")
