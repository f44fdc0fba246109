"""The contract of every problem, storage and kind of step; a new problem is a row of problem_contract.py."""

import dataclasses
import itertools
import math
from collections import defaultdict

import jax
import jax.numpy as jnp
import naive_steps
import numpy as np
import pytest
from problem_contract import (
    ADAM,
    EDGES,
    KINDS,
    ROWS,
    Bench,
    Kind,
    can,
    naive_of,
    naive_run,
    row_of,
    run_of,
    settings_of,
    storages_of,
)
from refusals import refusal

from simlab.arms import parse
from simlab.estimators import REGISTRY
from simlab.problems import anchored, linear_softmax, prompt_bank
from simlab.simulator.metrics import DECADES, EVERY_ASCENT, EVERY_STEP, POLICY, USUAL_METRICS
from simlab.simulator.runner import run, simulate
from simlab.simulator.settings import Settings
from simlab.simulator.trajectory import Learners, RecordSchedule, advance, begin
from simlab.surrogates import SURROGATES

pytestmark = pytest.mark.usefixtures("quickly")

QUICK = {
    ("anchored", "remembers entropies, regularised", "lumped"),
    ("prompt_bank", "all prompts in minibatches", "dense"),
    ("anchored", "supervised", "dense"),
    ("network", "focal, clipped", "dense"),
    ("tree", "candidates, regularised", "dense"),
    ("ring", "reads entropies, regularised", "dense"),
    ("anchored", "truncated sampler, masked", "dense"),
    ("anchored", "noise", "dense"),
    ("anchored", "theorem", "lumped"),
    ("prompt_bank", "reads greedy answers of an older sampler", "lumped"),
}
AT_EDGES = ("rewards", "candidates, regularised")
ALL = [
    (name, kind, storage)
    for name, row in ROWS.items()
    for kind in KINDS
    for storage in storages_of(row, KINDS[kind])
    if can(row, KINDS[kind])
]
ALL += [(name, kind, storage) for name, row in EDGES.items() for storage in row.storages for kind in AT_EDGES]
EACH = [(name, storage) for name, row in ROWS.items() for storage in row.storages]


def some_slow(cases, quick):
    return [case if case in quick else pytest.param(*case, marks=pytest.mark.slow) for case in cases]


@pytest.mark.parametrize(("name", "kind", "storage"), some_slow(ALL, QUICK))
def test_every_step_and_record_equals_the_naive_loops(name, kind, storage):
    history, taken, naive = (
        run_of(name, kind, storage),
        naive_run(name, kind, storage),
        naive_of(row_of(name), KINDS[kind]),
    )
    for index, (step, row) in enumerate(zip(taken, row_of(name).records(naive, taken), strict=True)):
        after = history.parameters[index]
        np.testing.assert_allclose(after, step.after.logits, rtol=0, atol=1e-9, err_msg=f"step {index}")
        assert row.keys() == history.rows.keys()
        for metric, value in row.items():
            if metric == "share_correct_kept" and np.array_equal(after, naive.parameters):
                continue  # rounding then decides if a probability is below its start
            if metric.endswith("_covariance") and kind == "one rollout":
                continue  # all its tokens have one advantage: the covariance is 0, and rounding decides its sign
            wanted, mine = comparable(metric, value), comparable(metric, history.rows[metric][index])
            tolerance = (
                1e-7 if metric in ("own_effect", "cross_effect", "effect") else 1e-8
            )  # by differences, and by SVDs
            np.testing.assert_allclose(mine, wanted, rtol=0, atol=tolerance, err_msg=f"{metric}, step {index}")
    assert np.abs(taken[-1].after.logits - naive.parameters).max() > 1e-2


def comparable(metric, values):
    """Values of a metric in the form that must agree: for a rank-1 matrix rounding decides how large s_1 / s_2 is."""
    return 1 / np.asarray(values) if metric.endswith(("singular_gap", "crossing_k")) else values


SEEDS = 20_000


def outcomes(row, kind):
    """Every first batch with its probability, and the parameters after it."""
    naive, bench = naive_of(row, kind, 2), Bench(row, kind, "dense", group_size=2)
    policies = naive_steps.policies(naive, naive.parameters)
    size = bench.static.prompts_per_step or len(policies)
    batches = list(itertools.combinations(range(len(policies)), size))
    pairs = list(itertools.product(naive.words, repeat=2))
    for batch in batches:
        for groups in itertools.product(pairs, repeat=len(batch)):
            named = dict(zip(batch, map(list, groups), strict=True))
            chance = math.prod(naive_steps.chance(policies[m], word) for m, group in named.items() for word in group)
            nothing = {m: [[0.0] * naive.depth] * 2 for m in named}
            after = naive_steps.step(naive, naive_steps.start(naive), named, nothing).after
            yield chance / len(batches), after.logits


@pytest.mark.slow
@pytest.mark.parametrize(("name", "storage"), EACH)
def test_a_first_step_leads_to_each_outcome_as_often_as_it_is_likely(name, storage):
    """All groups of two of all batches, by NumPy; frequencies among 20,000 seeds agree within 5 standard errors."""
    kind = Kind({"estimator": "w_reinforce", "optimizer_parameters": {"learning_rate": 0.3}})
    bench, expected, counts = Bench(ROWS[name], kind, storage, group_size=2), defaultdict(float), defaultdict(int)
    for chance, after in outcomes(ROWS[name], kind):
        expected[bench.alike(after)] += chance
    assert sum(expected.values()) == pytest.approx(1, abs=1e-12)
    assert len(expected) > 10
    for after in bench.first_steps(SEEDS).parameters:
        counts[bench.alike(after)] += 1
    assert counts.keys() <= expected.keys()
    for outcome, chance in expected.items():
        assert abs(counts[outcome] / SEEDS - chance) <= 5 * math.sqrt(chance / SEEDS) + 2 / SEEDS


@pytest.mark.parametrize(
    "name", [name if name == "linear_softmax" else pytest.param(name, marks=pytest.mark.slow) for name in ROWS]
)
def test_a_first_step_on_any_batch_is_the_naive_one_whatever_the_order_and_none_where_rewards_are_equal(name):
    """One compiled step: groups of any actions, the same in the opposite order, and groups of equal rewards."""
    kind = Kind({"estimator": "grpo", "epochs": 2} | ADAM, prompts=3)
    bench, naive, random = (
        Bench(ROWS[name], kind, "dense", group_size=3),
        naive_of(ROWS[name], kind, 3),
        np.random.default_rng(0),
    )
    prompts = np.array([1, 3, 2][: bench.static.prompts_per_step] or [0])
    shape = (60, len(prompts), 3)
    drawn = random.integers(0, len(naive.words), shape)
    right = np.array([random.choice(sorted(naive.correct[m]), 3) for m in prompts])
    wrong = np.array([random.choice(sorted({*range(len(naive.words))} - naive.correct[m]), 3) for m in prompts])
    actions = np.concatenate([drawn, drawn[:, ::-1, ::-1], [right, wrong]])
    order = np.concatenate([np.tile(prompts, (60, 1)), np.tile(prompts[::-1], (60, 1)), np.tile(prompts, (2, 1))])
    after = bench.taught(order, actions)
    for groups, logits in zip(drawn, after, strict=False):
        named = {m: [naive.words[a] for a in group] for m, group in zip(prompts.tolist(), groups, strict=True)}
        nothing = {m: [[0.0] * naive.depth] * 3 for m in named}
        wanted = naive_steps.step(naive, naive_steps.start(naive), named, nothing).after.logits
        np.testing.assert_allclose(logits, wanted, rtol=0, atol=1e-9)
    np.testing.assert_allclose(after[60:120], after[:60], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(after[120:], np.stack([naive.parameters] * 2))
    assert np.abs(after[:60] - naive.parameters).max() > 0.05


UNTOUCHED = [
    (name, storage, dtype)
    for name, storage in EACH
    if ROWS[name].own_rows is not None
    for dtype in ("float32", "float64")
]


@pytest.mark.parametrize(
    ("name", "storage", "dtype"),
    some_slow(UNTOUCHED, {("prompt_bank", "lumped", "float32"), ("anchored", "dense", "float32")}),
)
def test_an_action_never_drawn_stays_exactly_where_it_was_under_zero_sum_weights(name, storage, dtype):
    """Bit by bit, under an Adam whose eps is so small that rounding would show."""
    kind = Kind({"estimator": "f_grpo", "optimizer": "adam", "optimizer_parameters": {"eps": 1e-20}, "group_size": 2})
    row = ROWS[name]
    bench = Bench(row, kind, storage, dtype)
    history, start = bench.run(3, 12), np.asarray(row.problem.listed().parameters).astype(dtype)
    touched, seen = np.zeros(start.shape, bool), 0
    for groups, after in zip(history.groups, history.parameters, strict=True):
        for prompt, group in groups.items():
            for (action,) in group:
                touched[(prompt, action) if bench.problem.has_own_parameters else action] = True
        np.testing.assert_array_equal(after[~touched], start[~touched])
        seen += (~touched).any()
    assert seen >= 1
    assert np.abs(history.parameters[-1] - start)[touched].max() > 0.01


AVERAGED = (EVERY_STEP, EVERY_ASCENT)
BESIDE = [(name, storage) for name, storage in EACH]


@pytest.mark.parametrize(("name", "storage"), some_slow(BESIDE, {("ring", "dense")}))
def test_a_run_is_the_same_alone_and_among_others_and_in_any_windows(name, storage):
    """Eleven runs of different seeds and temperatures, in two calls of eight; reversed; and one of them alone."""
    row, kind = ROWS[name], KINDS["focal, clipped"]
    settings = [
        dataclasses.replace(settings_of(row, kind, storage), temperature=1.3 + (seed - 3) / 10) for seed in range(11)
    ]
    recorded = np.array([1, 7, 10])
    seeds = [*range(11)]
    together = run(row.problem, settings, seeds, recorded)
    reverse = run(row.problem, settings[::-1], seeds[::-1], recorded)
    alone = run(row.problem, settings[7:8], [7], recorded)
    few = run(row.problem, settings[7:8], [7], np.array([7, 10]))
    assert len(np.unique(together["q_pos"][:, -1])) == 11
    of_steps = {metric.name for metric in row.problem.metrics if metric.of in AVERAGED}
    for metric, rows in together.items():
        np.testing.assert_array_equal(rows, reverse[metric][::-1], err_msg=metric)
        np.testing.assert_array_equal(rows[7:8], alone[metric], err_msg=metric)
        if metric not in of_steps and metric != "direction_alignment":  # between records
            np.testing.assert_array_equal(rows[7:8, -1], few[metric][:, -1], err_msg=metric)


@pytest.mark.parametrize(("name", "storage"), some_slow(EACH, {("anchored", "dense")}))
def test_a_run_records_in_windows_what_its_steps_say_and_goes_on_where_it_was_interrupted(name, storage):
    """Metrics of the policy and the last update equal the single step's, others the mean; NaN before the first step."""
    row, kind = ROWS[name], KINDS["remembers batches, sequence ratios"]
    bench, steps = Bench(row, kind, storage), run_of(name, "remembers batches, sequence ratios", storage).rows

    def learners(arrays, key):
        problem, slots, traced = arrays
        return Learners(lambda key, traced: bench.learner(problem, slots, traced, key), key, traced)

    with jax.enable_x64(True):
        key, recorded, arrays = jax.random.key(3, impl="threefry2x32"), (1, 7, 10), bench.arrays()
        plans = [RecordSchedule(jnp.array(recorded, jnp.int32), jnp.int32(count)) for count in (1, 3)]
        progress = jax.jit(lambda arrays, key: begin(learners(arrays, key), plans[0]))(arrays, key)
        onwards = jax.jit(lambda arrays, key, plan, progress: advance(learners(arrays, key), plan, progress))
        whole = onwards(arrays, key, plans[1], progress).rows
        broken = onwards(arrays, key, plans[1], onwards(arrays, key, plans[0], progress)).rows
    for metric in row.problem.metrics:
        records = np.asarray(whole[metric.name])
        np.testing.assert_array_equal(records, np.asarray(broken[metric.name]), err_msg=metric.name)
        assert metric.of == POLICY or np.isnan(records[0]).all()
        assert metric.of != POLICY or not np.isnan(records[0]).all()
        if metric.name == "direction_alignment":
            continue  # between records, for which test_linear_softmax.py has a test
        for index, (first, last) in enumerate(itertools.pairwise((0, *recorded)), start=1):
            each = steps[metric.name]
            wanted = each[first:last].mean(axis=0) if metric.of in AVERAGED else each[last - 1]
            mine, wanted = (comparable(metric.name, values) for values in (records[index], wanted))
            np.testing.assert_allclose(mine, wanted, rtol=0, atol=1e-10, err_msg=metric.name)


METHODS = ["unlikeliness+clip_cov", "cw_grpo+casp(quantile=0)", *(f"{name}+ppo_clip" for name in REGISTRY)]
METHODS += [f"grpo+{name}" for name in SURROGATES]
OF_A_BANK = {metric.name for metric in ROWS["prompt_bank"].problem.metrics}
OF_A_HEAD = {metric.name for metric in ROWS["linear_softmax"].problem.metrics}
# Records that may be no number: covariances of a sign that no token has, directions of a head that has not moved.
MAY_BE_UNDEFINED = {
    "tree": {"positive_covariance", "negative_covariance", "rank_logp", "group_rank_logp"},
    "linear_softmax": OF_A_HEAD - OF_A_BANK - {"leading_share", "update_leading_share", "own_effect", "cross_effect"},
    "interference": {"crossing_k"},  # infinite where curves do not cross
    "network": {"crossing_k"},
}


# A tree has no teacher.
RUNS = [(name, method) for name in ROWS for method in METHODS if (name, method) != ("tree", "opd+ppo_clip")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), RUNS)
def test_everything_runs_on_every_problem(name, method):
    """Groups are larger than k of the pass@k weights: of k rollouts there is one subset, which teaches nothing."""
    problem = ROWS[name].problem
    steps = {"seeds": 2, "steps": 10, "record_every": 5, "epochs": 2, "optimizer": "adamw", "storage": "dense"}
    steps |= {"pass_at_k": (1, 4), "top_n": 2}
    result = simulate(problem, method, group_size=8, prompts_per_step=problem.prompts // 2, **steps)
    defined = {metric.name for metric in problem.metrics} - MAY_BE_UNDEFINED.get(name, set())
    assert {metric.name for metric in USUAL_METRICS} <= defined <= {*result.data_vars}
    for metric in defined:
        assert np.isfinite(result[metric].isel(step=slice(1, None))).all(), metric
    assert (result.entropy[:, -1] != result.entropy[:, 0]).all()


@pytest.mark.parametrize(
    "name", [name if name == "ring" else pytest.param(name, marks=pytest.mark.slow) for name in ROWS]
)
def test_metrics_are_described_and_labelled_and_have_these_shapes(name):
    problem = ROWS[name].problem
    chosen = {"group_size": 4, "pass_at_k": (1, 2), "top_n": 3, "storage": "dense"}
    metrics = problem.metrics
    result = simulate(problem, "grpo", steps=2, seeds=2, record_every=1, **chosen)
    assert len({metric.name for metric in metrics}) == len(metrics)
    assert {*result.data_vars} == {metric.name for metric in metrics}
    labels = {"k": [1, 2], "rank": [1, 2, 3], "decade": [*DECADES]} | {
        name: [*levels] for name, levels in problem.labels().items()
    }
    for metric in metrics:
        values = result[metric.name]
        assert metric.description
        assert metric.units
        assert values.dims == ("seed", "step", *metric.dimensions)
        assert (values.attrs["long_name"], values.attrs["units"]) == (metric.description, metric.units)
        for dimension in metric.dimensions:
            assert values[dimension].values.tolist() == [*labels[dimension]]
        assert metric.of == POLICY or values.isel(step=0).isnull().all()


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if "lumped" not in row.storages])
def test_a_storage_that_cannot_hold_a_problem_is_refused_in_one_line(name):
    for storage in ("lumped", "sharded"):
        line = refusal(simulate, ROWS[name].problem, "grpo", steps=1, storage=storage)
        why = f"of a {type(ROWS[name].problem).__name__}, whose parameters are not all of one action each"
        assert line == f"storage = '{storage}' {why}; allowed: auto, dense"


@pytest.mark.parametrize("name", ROWS)
def test_more_than_there_is_is_refused_in_one_line(name):
    problem = ROWS[name].problem
    for asked, allowed in (
        ({"prompts_per_step": problem.prompts + 1}, problem.prompts),
        ({"top_n": problem.actions + 1}, problem.actions),
    ):
        ((what, value),) = asked.items()
        assert f"{what} = {value} is outside its range [0, {allowed}]" in refusal(
            simulate, problem, "grpo", steps=1, **asked
        )
    most = f"candidates = {problem.choices + 1} is outside its range [0, {problem.choices}]"
    assert most in refusal(simulate, problem, f"grpo+casp(candidates={problem.choices + 1})", steps=1)


LARGE = {
    "anchored": anchored(20_000, 2000, target=100),
    "prompt_bank": prompt_bank(prompts=6, actions=4000),
    "linear_softmax": linear_softmax(prompts=10, actions=4000, failure_modes=3),
}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["grpo", "psr", "dr_grpo+casp(quantile=0)"])
@pytest.mark.parametrize("name", LARGE)
def test_at_thousands_of_actions_all_records_of_both_storages_agree_in_the_mean(name, method):
    """Means over 24 seeds of each storage differ by at most 4.5 standard errors in every record."""
    problem, seeds, records = LARGE[name], 24, {}
    for storage in ("dense", "lumped"):
        settings = Settings(
            parse(method),
            16, optimizer_parameters={"learning_rate": 0.05}, pass_at_k=(1, 64), top_n=3, storage=storage,
            prompts_per_step=problem.prompts // 2, kl=0.05,
        )  # fmt: skip
        numbers = [seed + 1000 * (storage == "lumped") for seed in range(seeds)]
        records[storage] = run(problem, [settings] * seeds, numbers, np.array([3, 20, 40]))
    for metric, dense in records["dense"].items():
        lumped = records["lumped"][metric]
        assert dense.shape == lumped.shape
        there = np.isfinite(dense).all(axis=0) & np.isfinite(lumped).all(axis=0)
        gap = np.abs(dense.mean(axis=0, dtype=float) - lumped.mean(axis=0, dtype=float))
        error = np.sqrt((dense.var(axis=0, ddof=1, dtype=float) + lumped.var(axis=0, ddof=1, dtype=float)) / seeds)
        rounding = 2e-5 * np.maximum(1, np.abs(dense.mean(axis=0)))
        assert ((gap <= 4.5 * error + rounding) | ~there).all(), (metric, gap, error)
