"""Prompts that share a head: how they start, every step and record against naive loops, limits, and what is refused."""

import dataclasses
import functools
import itertools
import math

import engine
import jax
import jax.numpy as jnp
import naive_linear
import naive_simulator
import numpy as np
import pytest
from naive_simulator import Setting
from sweep_cases import asked, refusal

from simlab import cli
from simlab.errors import InputError
from simlab.estimators import REGISTRY
from simlab.problems import LinearSoftmax, linear_softmax, problem_size
from simlab.simulate import Numbers, Program, run_lanes, simulate
from simlab.simulate.bank_lane import BankLane
from simlab.simulate.bank_metrics import BINNED
from simlab.simulate.dense import landscape
from simlab.simulate.engine import step_costs
from simlab.simulate.labelled import labelled
from simlab.simulate.linear_lane import LinearLane
from simlab.simulate.linear_metrics import LINEAR_DESCRIPTIONS, residual_metrics
from simlab.surrogates import SURROGATES
from simlab.sweep.result import joining_bytes, read
from simlab.theory.rank import alignment, effective_rank, leading_share, mean_pairwise_cosine, singular_gap

# How it starts


@pytest.mark.parametrize("answers", ["shared", "own"])
@pytest.mark.parametrize("shared", [0.0, 1.0, 100.0])
def test_prompts_start_at_their_solve_rates_with_their_modes_answers(answers, shared):
    place = linear_softmax(
        prompts=10, actions=20, success_modes=2, failure_modes=3, shared=shared, easy_share=0.4, easy_rate=0.9,
        hard_rate=1e-3, answers=answers, wrong_answers=2, stray=0.05,
    )  # fmt: skip
    modes = [0, 1, 0, 1, 2, 3, 4, 2, 3, 4]
    p = np.array([naive_simulator.probabilities(logits, 1.0) for logits in place.logits])
    np.testing.assert_allclose(place.solve_rates, [0.9] * 4 + [1e-3] * 6, rtol=1e-9)
    for own, correct, mode in zip(p, place.correct, modes, strict=True):
        first = 5 + (2 * mode if answers == "own" else 0)
        failing = 1 - own[mode]
        expected = np.full(20, 0.05 * failing / 17)
        expected[first : first + 2] = 0.95 * failing / 2
        expected[mode] = own[mode]
        np.testing.assert_allclose(own, expected, rtol=1e-9)
        assert np.flatnonzero(correct).tolist() == [mode]
    cosines = place.features @ place.features.T
    same = np.equal.outer(modes, modes)
    np.testing.assert_allclose(cosines, np.where(same, 1, shared**2 / (1 + shared**2)), rtol=1e-12)


def test_a_problem_is_known_by_all_that_it_is():
    changes = {"prompts": 30, "actions": 63, "success_modes": 2, "failure_modes": 7, "shared": 0.5, "easy_share": 0.4}
    changes |= {"easy_rate": 0.7, "hard_rate": 0.1, "answers": "own", "wrong_answers": 3, "stray": 0.2}
    changes |= {"reward_correct": 2.0, "reward_incorrect": -1.0}
    places = [linear_softmax(), *(linear_softmax(**{name: value}) for name, value in changes.items())]
    assert len({place.fingerprint for place in places}) == len(places)
    assert linear_softmax().fingerprint == places[0].fingerprint


# Steps and records against naive loops

RANDOM = np.random.default_rng(4)
WEIGHTS = tuple(map(tuple, RANDOM.normal(size=(6, 4)).round(2).tolist()))
FEATURES = tuple(map(tuple, (RANDOM.normal(size=(5, 4)) + 0.5).round(2).tolist()))
CORRECT = tuple(map(frozenset, ({0, 2}, {0, 3, 5}, {1}, {2, 4}, {3, 4})))
BASE = Setting((), frozenset(), frozenset(), 4, "grpo", optimizer_parameters={"learning_rate": 0.3})
ADAM = {"optimizer": "adam", "optimizer_parameters": {"learning_rate": 0.1, "b1": 0.8, "b2": 0.95, "eps": 1e-5}}
CASP = {"alpha": 0.3, "candidates": 3, "quantile": 0.0, "top_penalty": 1.15}
SETTINGS = {
    "zero-sum, sgd": (3, {}),
    "regularised, several steps, adam": (
        2,
        ADAM | {"estimator": "ha_dw", "gradient_steps": 3, "temperature": 1.3, "kl": 0.3, "entropy_bonus": 0.05},
    ),
    "not zero-sum, adamw, all prompts": (
        5,
        {"optimizer": "adamw", "optimizer_parameters": {"learning_rate": 0.1, "weight_decay": 0.3}}
        | {"estimator": "w_reinforce", "rewards": (2.0, -0.5)},
    ),
    "theorem, one rollout": (2, {"estimator": "psr", "group_size": 1, "update_rule": "theorem"}),
    "candidates": (3, {"estimator": "dr_grpo", "surrogate": "casp", "surrogate_parameters": CASP}),
    "asymmetric": (4, {"estimator": "asym_grpo", "estimator_parameters": {"delta": 0.4}}),
}
QUICK = tuple(SETTINGS)[:1]
COMPARED = 12


def some_slow(names, quick):
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


def naive(name):
    prompts_per_step, changes = SETTINGS[name]
    return naive_linear.linear(WEIGHTS, FEATURES, CORRECT, dataclasses.replace(BASE, **changes), prompts_per_step)


def program(place, dtype="float64"):
    return dataclasses.replace(engine.program(place.setting, dtype), prompts_per_step=place.prompts_per_step)


def problem(place):
    members = [np.isin(np.arange(len(place.weights)), list(own)) for own in place.correct]
    first = [np.arange(len(place.weights)) == min(own) for own in place.correct]
    return LinearSoftmax(
        np.array(place.weights), np.array(place.features), np.array(members), np.array(first), *place.setting.rewards
    )


def arrays(place, dtype):
    return landscape(program(place, dtype), problem(place)), jax.tree.map(
        lambda value: jnp.asarray(value, dtype), engine.numbers(place.setting)
    )


def every_step(place, seed, steps=COMPARED, dtype="float64"):
    """Of each step of the engine's lane of that seed: the groups by prompt, the head after it, and its record."""

    def run(given, numbers):
        lane = LinearLane(program(place, dtype), given, engine.lane_key(seed), numbers)

        def step(state, index):
            following = lane.step(index, lane.counted_anew(state))
            row = lane.record(state.logits, following, jnp.int32(1))
            return following, (following.bank.prompts, following.actions, following.logits, row)

        return jax.lax.scan(step, lane.start(), jnp.arange(steps, dtype=jnp.int32))[1]

    with jax.enable_x64(dtype == "float64"):
        prompts, actions, heads, rows = jax.tree.map(np.asarray, jax.jit(run)(*arrays(place, dtype)))
    groups = [dict(zip(*pair, strict=True)) for pair in zip(prompts.tolist(), actions.tolist(), strict=True)]
    return groups, heads, rows


@functools.cache
def lane_of(name):
    """All steps of one lane of seed 3 of a setting."""
    return every_step(naive(name), 3)


def comparable(metric, values):
    """Values of a metric as they are to agree: of a rank-1 matrix rounding decides how large s_1 / s_2 is."""
    return 1 / np.asarray(values) if metric.endswith("singular_gap") else values


@pytest.mark.parametrize("name", some_slow(SETTINGS, QUICK))
def test_every_step_and_record_equals_the_naive_loops(name):
    place, (groups, heads, rows) = naive(name), lane_of(name)
    assert rows.keys() == LINEAR_DESCRIPTIONS.keys()
    expected_heads, expected_rows = naive_linear.records(place, groups)
    np.testing.assert_allclose(heads, expected_heads, rtol=0, atol=1e-9)
    for index, expected in enumerate(expected_rows):
        assert expected.keys() == rows.keys()
        for metric, value in expected.items():
            tolerance = 1e-7 if metric in ("own_effect", "cross_effect") else 1e-8  # by differences, and by SVDs
            found, wanted = comparable(metric, rows[metric][index]), comparable(metric, value)
            np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance, err_msg=f"{metric}, step {index}")


def test_the_case_above_meets_what_it_is_to_test():
    """Each metric is a number at a third of the steps or more, and prompts move one another."""
    _, _, rows = lane_of("zero-sum, sgd")
    for metric, values in rows.items():
        if metric != "singular_values":
            assert np.isfinite(values[1:]).mean() > 0.33, metric
    assert np.abs(rows["cross_effect"]).max() > 0.1 * np.abs(rows["own_effect"]).max() > 0
    assert np.ptp(rows["effective_rank"]) > 0


@pytest.mark.parametrize("name", some_slow(SETTINGS, []))
def test_a_run_records_the_same_lane_in_windows(name):
    """Of the head and the last update what the single steps say; of directions what changed since the last record."""
    place, (_, heads, steps) = naive(name), lane_of(name)
    recorded, lanes = np.array([1, 7, 12]), [(3, engine.numbers(place.setting))]
    rows = {metric: row[0] for metric, row in run_lanes(program(place), problem(place), recorded, lanes).items()}
    counted = {"active_rate", "tail_miss_rate", "unsolved_rate", "effective_prompts", "effective_rollouts"}
    counted |= {"success_mass", "failure_mass"}
    for metric, row in rows.items():
        for index, (first, last) in enumerate(itertools.pairwise((0, *recorded)), start=1):
            if metric == "direction_alignment":
                changes = [heads[step - 1] - np.array(WEIGHTS) for step in (first, last) if step]
                vectors = [naive_linear.leading_vectors(change)[0] for change in changes]
                value = naive_linear.absolute_cosine(*vectors) if first else math.nan
            else:
                value = steps[metric][first:last].mean(axis=0) if metric in counted else steps[metric][last - 1]
            found, wanted = comparable(metric, row[index]), comparable(metric, value)
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10, err_msg=metric)


# Limits


IDENTITY = naive_linear.linear(
    WEIGHTS, tuple(map(tuple, np.eye(4).tolist())), CORRECT[:4], dataclasses.replace(BASE, **ADAM), 3
)


def test_with_a_feature_of_its_own_each_prompt_is_a_prompt_of_a_bank():
    """W h with h_i = e_i: column i of W is the logits of prompt i, bit by bit."""

    def run(given, numbers):
        bank = given._replace(logits=given.logits.T, features=None)
        lanes = [
            kind(program(IDENTITY), place, engine.lane_key(3), numbers)
            for kind, place in ((LinearLane, given), (BankLane, bank))
        ]
        ends = [jax.lax.fori_loop(0, COMPARED, lane.step, lane.start()) for lane in lanes]
        return [(end.logits, end.actions, end.active) for end in ends]

    with jax.enable_x64(True):
        shared, tabular = jax.tree.map(np.asarray, jax.jit(run)(*arrays(IDENTITY, "float64")))
    np.testing.assert_array_equal(shared[0].T, tabular[0])
    np.testing.assert_array_equal(shared[1], tabular[1])
    assert shared[2] == tabular[2] > 0
    assert (np.abs(shared[0] - np.array(WEIGHTS)).max(axis=0) > 0.1).all()


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adam", "sgd", "adamw"])
def test_with_a_feature_of_its_own_a_prompt_has_the_records_of_a_bank(optimizer):
    """And under plain gradient steps no prompt moves another."""
    place = problem(IDENTITY)
    code = Program(
        4, "a_grae", optimizer=optimizer, dtype="float64", prompts_per_step=3, uses_kl=True, uses_entropy_bonus=True
    )
    numbers = Numbers({}, {}, {"learning_rate": 0.2}, temperature=1.2, kl=0.1, entropy_bonus=0.02)
    steps = {"numbers": numbers, "seeds": 2, "steps": 12, "record_every": 4}
    shared, tabular = simulate(place, code, **steps), simulate(place.tabular, code, **steps)
    for name in tabular.data_vars:
        np.testing.assert_array_equal(shared[name], tabular[name], name)
    assert (shared.q_pos[:, -1] != shared.q_pos[:, 0]).all()
    np.testing.assert_allclose(shared.cross_effect[:, 1:], 0, atol=1e-15)
    if optimizer == "sgd":
        np.testing.assert_allclose(shared.d_q_pos_outside[:, 1:], 0, atol=1e-15)


@functools.cache
def stepper():
    """A compiled step on given groups of all prompts: the head after it, and its record."""

    def step(given, actions, numbers):
        code = Program(4, "dr_grpo", optimizer="sgd", dtype="float64")
        lane = LinearLane(code, given, engine.lane_key(0), numbers)
        start = lane.counted_anew(lane.start())
        start = start._replace(bank=start.bank._replace(prompts=jnp.arange(len(actions), dtype=jnp.int32)))
        keys = jax.random.split(lane.key, len(actions))
        drawn = jax.vmap(lane.drawn)(keys, lane.policy(start))._replace(actions=actions)
        after = lane.learn(keys, start, drawn)
        return after.logits, lane.record(start.logits, after, jnp.int32(1))

    return jax.jit(step)


def one_step(place, groups, learning_rate=1.0):
    """A step on given groups of all prompts: the head after it, and its record."""
    with jax.enable_x64(True):
        numbers = jax.tree.map(jnp.asarray, Numbers({}, {}, {"learning_rate": learning_rate}, 1.0, 0.0))
        arguments = landscape(Program(4, dtype="float64"), place), jnp.asarray(groups, jnp.int32), numbers
        return jax.tree.map(np.asarray, stepper()(*arguments))


TWO_MODES = {"prompts": 2, "actions": 8, "failure_modes": 1, "wrong_answers": 2}


def test_orthogonal_features_do_not_interfere_and_shared_ones_do():
    """A step on prompt 0 alone: prompt 1, all of whose rollouts fail, has nothing to teach."""
    groups = [[0, 2, 2, 5], [2, 2, 3, 3]]
    for shared, changed in ((0.0, False), (1.0, True)):
        place = linear_softmax(**TWO_MODES, shared=shared)
        after, row = one_step(place, groups)
        moved = place.features @ (after - place.weights).T
        assert moved[0].any()
        assert moved[1].any() == changed
        assert (abs(float(row["cross_effect"])) > 1e-3) == changed
        np.testing.assert_allclose(row["leading_share"], 1, rtol=1e-12)


def test_an_action_no_rollout_drew_moves_by_exactly_zero_at_every_prompt():
    """But one that another prompt drew moves: that is what sharing a head means."""
    place = linear_softmax(**TWO_MODES)
    after, _ = one_step(place, [[0, 2, 2, 5], [1, 2, 3, 3]])
    undrawn = np.setdiff1d(np.arange(8), [0, 1, 2, 3, 5])
    np.testing.assert_array_equal(after[undrawn], place.weights[undrawn])
    moved = place.features @ (after - place.weights).T
    assert abs(moved[1, 5]) > 1e-3


@pytest.mark.parametrize("estimator", some_slow(["grpo", "power_alpha"], []))
def test_an_action_never_drawn_stays_where_it_was_for_a_whole_run(estimator):
    """Bit by bit in float32, under an Adam whose eps is so small that rounding noise would show."""
    place = linear_softmax(prompts=6, actions=40, failure_modes=3)
    weights = place.weights - np.where(np.arange(40) < 20, 0.0, 20.0)[:, None]  # so that no prompt draws these
    setting = Setting((), frozenset(), frozenset(), 7, estimator, optimizer="adam", optimizer_parameters={"eps": 1e-20})
    correct = tuple(frozenset(np.flatnonzero(own).tolist()) for own in place.correct)
    cast = [tuple(map(tuple, values.astype(np.float32).tolist())) for values in (weights, place.features)]
    groups, heads, _ = every_step(naive_linear.linear(*cast, correct, setting, 3), 0, steps=200, dtype="float32")
    drawn = {action for batch in groups for group in batch.values() for action in group}
    undrawn = np.setdiff1d(np.arange(40), list(drawn))
    assert len(undrawn) >= 15
    np.testing.assert_array_equal(heads[-1][undrawn], np.array(cast[0], np.float32)[undrawn])
    assert np.abs(heads[-1] - np.array(cast[0], np.float32))[list(drawn)].max() > 0.1


# Gradients


def test_the_gradient_is_that_of_the_objective():
    """A step of rate 1 against central differences of the mean of A log pi over the batch, entry by entry of W."""
    place, groups = linear_softmax(**TWO_MODES), [[0, 2, 2, 5], [1, 2, 3, 3]]
    after, _ = one_step(place, groups)
    rewards = np.array([[1, 0, 0, 0], [1, 0, 0, 0]])

    def objective(weights):
        total = 0.0
        for feature, actions, own in zip(place.features, groups, rewards - 0.25, strict=True):
            logp = np.log(naive_simulator.probabilities(weights @ feature, 1.0))
            total += sum(a * logp[action] for a, action in zip(own, actions, strict=True))
        return total / 8

    step = 1e-6
    for entry in itertools.product(*map(range, place.weights.shape)):
        moved = np.zeros_like(place.weights)
        moved[entry] = step
        slope = (objective(place.weights + moved) - objective(place.weights - moved)) / (2 * step)
        assert (after - place.weights)[entry] == pytest.approx(slope, abs=1e-8)


def test_own_and_cross_effects_predict_a_small_step():
    """Their sum times the learning rate is the change of the mean Q_pos, up to the square of the learning rate."""
    place, groups = linear_softmax(**TWO_MODES), [[0, 2, 2, 5], [1, 2, 3, 3]]
    errors = []
    for rate in (1e-3, 5e-4):
        after, row = one_step(place, groups, rate)
        new = LinearSoftmax(after, place.features, place.correct, place.target).solve_rates
        predicted = rate * (row["own_effect"] + row["cross_effect"])
        np.testing.assert_allclose(row["d_q_pos_predicted"], predicted, rtol=1e-9)
        errors.append(abs((new - place.solve_rates).mean() - predicted) / predicted)
    assert errors[0] < 1e-3
    assert errors[1] == pytest.approx(errors[0] / 2, rel=0.01)


# Exact expectations

LANES = 20_000
SMALL = naive_linear.linear(
    ((0.7, -0.4), (-0.2, 0.5), (0.1, -0.6)),
    ((1.0, 0.2), (0.5, -0.7), (0.3, 0.9)),
    (frozenset({0}), frozenset({1}), frozenset({0, 2})),
    Setting((), frozenset(), frozenset(), 2, "a_grae", optimizer_parameters={"learning_rate": 0.3}, top_n=0),
    2,
)


def outcomes(place):
    """Every batch of a first step with its probability, and its change of the head."""
    p = [naive_simulator.probabilities(np.array(logits), 1.0) for logits in place.logits]
    batches = list(itertools.combinations(range(len(p)), place.prompts_per_step))
    draws = list(itertools.product(range(len(p[0])), repeat=place.setting.group_size))
    memory = naive_linear.start(place)
    for batch in batches:
        for groups in itertools.product(draws, repeat=len(batch)):
            chance = math.prod(p[m][a] for m, group in zip(batch, groups, strict=True) for a in group) / len(batches)
            named = {m: list(group) for m, group in zip(batch, groups, strict=True)}
            yield chance, naive_linear.step(place, memory, named).logits - memory.logits


def test_the_engines_mean_change_is_the_exact_expectation():
    """Every batch of two of three prompts, every pair of groups of two; within 4 standard errors, for fixed seeds."""
    chances, changes = map(np.array, zip(*outcomes(SMALL), strict=True))
    assert chances.sum() == pytest.approx(1, abs=1e-12)
    mean = np.einsum("i,ijk->jk", chances, changes)
    error = np.sqrt(np.einsum("i,ijk->jk", chances, (changes - mean) ** 2) / LANES)

    def first_step(given, numbers, seed):
        lane = LinearLane(program(SMALL), given, engine.lane_key(seed), numbers)
        return lane.step(jnp.int32(0), lane.start()).logits

    with jax.enable_x64(True):
        seeds = jnp.arange(LANES, dtype=jnp.uint32)
        after = jax.jit(jax.vmap(first_step, (None, None, 0)))(*arrays(SMALL, "float64"), seeds)
    found = np.asarray(after).mean(axis=0) - np.array(SMALL.weights)
    assert np.all(np.abs(found - mean) <= np.maximum(4 * error, 1e-9))
    assert np.abs(mean).max() > 10 * error.max()


# Metrics


def test_measures_of_rank_and_alignment_on_cases_known_by_hand():
    assert float(leading_share(np.array([3.0, 4.0])[::-1])) == pytest.approx(16 / 25)
    assert float(leading_share(jnp.array([2e-30, 0.0], jnp.float32))) == 1  # whose square is 0 in float32
    assert float(singular_gap(np.array([6.0, 3.0, 1.0]))) == 2
    assert float(singular_gap(np.array([6.0, 0.0]))) == math.inf
    assert float(effective_rank(np.array([99.0, 1.0]))) == 1
    assert float(effective_rank(np.array([98.0, 2.0]))) == 2
    assert float(effective_rank(np.array([1.0, 1.0, 1.0]), delta=0.4)) == 2
    assert float(alignment(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[-2.0, 0.0], [0.0, 0.0]]))) == pytest.approx(
        math.sqrt(0.5)
    )
    for nothing in (leading_share(np.zeros(3)), singular_gap(np.zeros(3)), effective_rank(np.zeros(3))):
        assert math.isnan(nothing)
    assert math.isnan(singular_gap(np.array([2.0])))
    assert math.isnan(alignment(np.zeros(3), np.ones(3)))


def test_pairs_count_rollouts_and_no_rollout_with_itself():
    vectors = np.array([[3.0, 0.0], [0.0, 0.5], [0.0, 0.0]])
    assert float(mean_pairwise_cosine(vectors, np.array([2.0, 1.0, 5.0]))) == pytest.approx(1 / 3)
    assert float(mean_pairwise_cosine(vectors, np.array([1.0, 1.0, 0.0]))) == pytest.approx(0, abs=1e-15)
    assert math.isnan(mean_pairwise_cosine(vectors, np.array([1.0, 0.0, 4.0])))


def test_one_mode_of_successes_is_correlated_and_many_failures_are_not():
    """Features along orthonormal modes beside u_1: successes of one mode have rho = 1, one failure of each of six 0."""
    features = np.hstack([np.ones((8, 1)), np.eye(7)[[0, 0, 1, 2, 3, 4, 5, 6]]])
    correct = np.tile([True, False, False], (8, 1))
    times = np.array([[2.0, 0.0, 0.0]] * 2 + [[0.0, 1.0, 0.0]] * 6)
    with jax.enable_x64(True):
        row = jax.jit(residual_metrics)(jnp.eye(8)[0], features, times, np.full((8, 3), 1 / 3), correct)
    assert float(row["residual_correlation_correct"]) == pytest.approx(1)
    assert float(row["residual_correlation_failed"]) == pytest.approx(0, abs=1e-12)
    assert float(row["residual_norm_ratio_predicted"]) == pytest.approx(math.sqrt(4 / 6))
    error = math.sqrt(6) / 3  # |e_y - pi| of a uniform policy over three actions
    assert float(row["residual_norm_correct"]) == pytest.approx(error)
    assert float(row["residual_norm_failed"]) == pytest.approx(error / math.sqrt(6))  # [fade:cor-15.2-norm]


@pytest.mark.parametrize("groups", [[[2, 3, 2, 4]] * 2, [[0] * 4, [1] * 4]], ids=["all wrong", "all right"])
def test_groups_that_teach_nothing_leave_the_head_as_it_is(groups):
    """What is undefined is NaN, and nothing else."""
    place = linear_softmax(**TWO_MODES)
    after, row = one_step(place, groups)
    np.testing.assert_array_equal(after, place.weights)
    rank = {"leading_share", "singular_gap", "effective_rank"}
    undefined = rank | {f"update_{name}" for name in rank} | {name for name in row if name.endswith("alignment")}
    undefined |= {f"residual_{what}_{of}" for what in ("correlation", "norm") for of in ("correct", "failed")}
    undefined |= {"d_q_pos_outside"} | ({"residual_norm_ratio_predicted"} if groups[0][0] == 0 else set())
    np.testing.assert_array_equal(row.pop("singular_values"), [0, 0, 0] + [math.nan] * 5)
    assert {name for name, value in row.items() if np.isnan(value).any()} == undefined


# Every estimator, surrogate and optimiser

HERE = linear_softmax(prompts=6, actions=12, failure_modes=3)
DRAWING = {"estimator": "unlikeliness", "surrogate": "clip_cov", "gradient_steps": 2, "optimizer": "adamw"}
MOVING = {"estimator": "cw_grpo", "surrogate": "casp"}
ALONE = [{"estimator": name} for name in REGISTRY] + [{"surrogate": name, "gradient_steps": 2} for name in SURROGATES]


@pytest.mark.parametrize("choices", some_slow([DRAWING, MOVING, *ALONE], []), ids=str)
def test_everything_runs_on_a_shared_head(choices):
    """Groups are larger than k of the pass@k weights: of k rollouts there is one subset, which teaches nothing."""
    result = simulate(HERE, Program(8, prompts_per_step=3, **choices), seeds=2, steps=10, record_every=5)
    for name in ("q_pos", "entropy", "leading_share", "cross_effect", "update_leading_share"):
        assert np.isfinite(result[name][:, 1:]).all()
    assert (result.entropy[:, -1] != result.entropy[:, 0]).all()


@pytest.mark.slow
def test_lanes_do_not_influence_each_other():
    """Eleven lanes of different seeds and numbers, in two calls of eight; reversed; and one of them alone."""
    place = naive("regularised, several steps, adam")
    code, own, recorded = program(place), problem(place), np.array([3, 6])
    lanes = [
        (seed, engine.numbers(dataclasses.replace(place.setting, temperature=0.5 + seed / 10))) for seed in range(11)
    ]
    together, reverse = (run_lanes(code, own, recorded, some) for some in (lanes, lanes[::-1]))
    alone = run_lanes(code, own, recorded, lanes[7:8])
    assert len(np.unique(together["q_pos"][:, -1])) == 11
    for metric, rows in together.items():
        np.testing.assert_array_equal(rows, reverse[metric][::-1], err_msg=metric)
        np.testing.assert_array_equal(rows[7:8], alone[metric], err_msg=metric)


# Sweeps

OPTIONS = (
    "--problem", "linear_softmax", "--param", "prompts=6", "--param", "actions=12", "--param", "prompts_per_step=2",
    "--param", "failure_modes=1,3", "--param", "answers=own", "--param", "wrong_answers=2", "--estimator", "asym_grpo",
    "--param", "delta=0.5", "--group-size", "4", "--seeds", "2", "--steps", "4", "--record-every", "4",
)  # fmt: skip


@pytest.mark.slow
def test_the_command_sweeps_the_diversity_of_failures(tmp_path, capsys):
    """Heads of two sizes in one result, whose smaller ones have fewer singular values."""
    out = tmp_path / "linear.nc"
    assert cli.main(["sweep", *OPTIONS, "--out", str(out)]) == 0
    assert "engine dense for G = 4" in capsys.readouterr().out
    dataset = read(out)
    assert dataset.sizes == {
        "estimator": 1, "group_size": 1, "failure_modes": 2, "seed": 2, "step": 2, "k": 4, "rank": 5, "bin": 10,
        "singular": 8,
    }  # fmt: skip
    assert {name: values.attrs["long_name"] for name, values in dataset.data_vars.items()} == LINEAR_DESCRIPTIONS
    there = dataset.singular_values.isel(step=-1).notnull().sum("singular")
    assert (there.sel(failure_modes=1) == 3).all()
    assert (there.sel(failure_modes=3) == 5).all()
    np.testing.assert_allclose(dataset.q_pos.isel(step=0), 0.5, rtol=1e-6)


def test_singular_values_are_labelled_from_the_largest_on():
    rows = {name: np.zeros((2, 3)) for name in LINEAR_DESCRIPTIONS} | {"singular_values": np.zeros((2, 3, 8))}
    rows |= {name: np.zeros((2, 3, 10)) for name in BINNED}
    rows |= {"pass_at_k": np.zeros((2, 3, 1)), "top_logp": np.zeros((2, 3, 2))}
    dataset = labelled(rows, {"seed": [0, 1]}, np.array([4, 8]), {"k": (1,)})
    assert dataset.singular_values.dims == ("seed", "step", "singular")
    assert dataset.singular.values.tolist() == list(range(1, 9))
    assert {name: values.attrs["long_name"] for name, values in dataset.data_vars.items()} == LINEAR_DESCRIPTIONS


def test_memory_and_costs_count_the_head_and_the_features():
    place = linear_softmax(prompts=10, actions=50, failure_modes=3)
    assert problem_size(place) == 10 * 50 + 50 * 5 + 10 * 5
    assert problem_size(place.tabular) == 10 * 50
    few, all_prompts = (step_costs(Program(8, prompts_per_step=number), place, 10) for number in (2, 0))
    assert few.lumped == math.inf
    assert few.dense < all_prompts.dense
    linear, bank = (asked("--problem", name, "--param", "prompts=16") for name in ("linear_softmax", "prompt_bank"))
    assert joining_bytes(linear) > joining_bytes(bank)


# What is refused


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"success_modes": 0}, "success_modes = 0"),
        ({"failure_modes": 0}, "failure_modes = 0"),
        ({"wrong_answers": 0}, "wrong_answers = 0"),
        ({"answers": "any"}, "answers = 'any' is unknown; allowed: shared, own"),
        ({"actions": 12}, "actions = 12 is outside its range [13, "),
        ({"actions": 44, "answers": "own"}, "actions = 44 is outside its range [45, "),
        ({"shared": -1.0}, "shared = -1.0 is outside its range [0, 100.0]"),
        ({"easy_share": 1.5}, "easy_share = 1.5"),
        ({"easy_share": 0.0}, "easy prompts = 0 are fewer than their modes; allowed: 1 or more"),
        ({"prompts": 8}, "hard prompts = 4 are fewer than their modes; allowed: 8 or more"),
        ({"prompts": 2**20, "actions": 2**10}, "prompts x actions = 1073741824"),
        ({"easy_rate": 1.0}, "easy_rate = 1.0 is outside its range"),
        ({"hard_rate": 0.0}, "hard_rate = 0.0 is outside its range"),
        ({"stray": 0.0}, "stray = 0.0 is outside its range"),
        ({"reward_correct": 0.0}, "reward_correct = 0.0"),
    ],
    ids=str,
)
def test_a_problem_that_cannot_be_is_refused_with_what_is_allowed(parameters, message):
    assert message in refusal(linear_softmax, **parameters)


YES, HEAD, STATES = np.ones((2, 3), bool), np.ones((3, 4)), np.ones((2, 4))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((HEAD, np.ones((2, 5)), YES, YES), "allowed: (actions, d) and (prompts, d), with one d"),
        ((np.ones((3, 0)), np.ones((2, 0)), YES, YES), "allowed: (actions, d) and (prompts, d), with one d"),
        ((HEAD, np.full((2, 4), np.nan), YES, YES), "features hold a number that is not finite"),
        ((HEAD * np.inf, STATES, YES, YES), "weights hold a number that is not finite"),
        ((HEAD, STATES, YES[:1], YES), "allowed: one shape (prompts, actions)"),
        ((HEAD, STATES, ~YES, YES), "prompt 0: the correct set is empty"),
    ],
)
def test_arrays_that_are_no_such_problem_are_refused(arrays, message):
    with pytest.raises((InputError, TypeError)) as error:
        LinearSoftmax(*arrays)
    assert isinstance(error.value, TypeError) or message in str(error.value)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"engine": "lumped"}, "engine = 'lumped' does not run a bank of prompts; allowed: auto, dense"),
        ({"prompts_per_step": 7}, "prompts_per_step = 7 is outside its range [0, 6]"),
        ({"top_n": 13}, "top_n = 13 is outside its range [0, 12]"),
    ],
)
def test_programs_that_cannot_run_are_refused(choices, message):
    assert message in refusal(simulate, HERE, Program(4, **choices))
