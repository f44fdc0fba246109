"""Sparse steps are the ordinary ones of lumped storage, and are taken only where coefficients sum to zero."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simlab.arms import parse
from simlab.estimators import chain, estimator
from simlab.methods import Method
from simlab.problems import anchored, custom, linear_softmax, prompt_bank, tree
from simlab.simulator.call import Call
from simlab.simulator.draw import moving_arrays, replace_moving
from simlab.simulator.learner import Learner
from simlab.simulator.lumped import Lumped
from simlab.simulator.policy import Listed
from simlab.simulator.runner import records, run
from simlab.simulator.settings import Settings
from simlab.simulator.sparse import Sparse, SparseLearner, may_be_sparse
from simlab.simulator.state import Samples
from simlab.simulator.storage import EMPTY, StoredProblem

SLOTS = 1024
PROBLEM = custom([0.5, -0.2, 0.5, -0.2, 0.5], [1, 3], [1, 3]).by_classes()
SETTINGS = Settings(parse("dr_grpo"), group_size=4, optimizer="sgd", storage="lumped", dtype="float64", temperature=1.3)
KEY = jax.random.key(0, impl="threefry2x32")
# Two classes, of three and two actions, then slots of their own from 2 on, in the order in which they are drawn.
GROUPS = [  # the slots drawn, and which member of a class each draw is
    ([0, 0, 1, 1], [0, 1, 0, 0]),  # two new ones, and one twice
    ([2, 2, 0, 4], [0, 0, 0, 0]),  # a touched one twice, the last of its class, and another touched one
    ([3, 1, 5, 3], [0, 0, 0, 0]),  # the last of the other class
    ([6, 2, 4, 3], [0, 0, 0, 0]),
    ([4, 4, 5, 2], [0, 0, 0, 0]),
]


def learner_of(kind, numbers):
    storage = (Sparse if kind is SparseLearner else Lumped)(SLOTS)
    laid, present = storage.load(PROBLEM, "float64"), jnp.ones(4, bool)
    return kind(SETTINGS.static, StoredProblem(laid, storage, storage.initial_slots(PROBLEM)), KEY, numbers, present)


@partial(jax.jit, static_argnums=0)
def learn(kind, numbers, state, drawn, ordinals):
    """A step on a given group."""
    learner, prompts = learner_of(kind, numbers), jnp.zeros(1, jnp.int32)
    policies = learner.policies(state, prompts)
    slots, move, assigned = learner.storage.allocate(state.slots, drawn, ordinals, drawn < state.slots.classes)
    state = replace_moving(state, slots, jax.tree.map(move, moving_arrays(state)))
    scores, weights = (move(values[0])[None] for values in (policies.scores, policies.weights))
    policies = policies._replace(scores=scores, weights=weights, counts=slots.remaining("float64")[None])
    top = learner.map_prompts(lambda _, policy: policy.top(0))(None, policies)
    group = Listed(assigned[None], learner.present[None])
    batch, memory = learner.weigh(KEY[None], prompts, Samples(policies, group, *top), state)
    return learner.ascend(batch, state._replace(memory=memory))


@jax.jit
def refreshed(numbers, state):
    return learner_of(SparseLearner, numbers).refresh(state)


def policy_of(learner, state):
    """The policy of the only prompt."""
    return jax.tree.map(lambda leaf: leaf[0], learner.policies(state, jnp.zeros(1, jnp.int32)))


@pytest.mark.slow
@pytest.mark.parametrize("learning_rate", [0.7, pytest.param(300.0, marks=pytest.mark.slow)])
def test_a_sparse_step_is_the_ordinary_one(learning_rate):
    """Repeats in a group, classes that lose all members, and weights that are computed again, or not."""
    stale = []
    with jax.enable_x64(True):
        numbers = dataclasses.replace(SETTINGS, optimizer_parameters={"learning_rate": learning_rate}).traced
        numbers = jax.tree.map(lambda value: jnp.asarray(value, "float64"), numbers)
        ordinary, sparse = (learner_of(kind, numbers) for kind in (Learner, SparseLearner))
        expected, actual = ordinary.start(), sparse.start()
        for drawn in GROUPS:
            group = [jnp.asarray(column, jnp.int32) for column in drawn]
            expected, actual = learn(Learner, numbers, expected, *group), learn(SparseLearner, numbers, actual, *group)
            np.testing.assert_allclose(actual.parameters, expected.parameters, rtol=1e-12)
            jax.tree.map(np.testing.assert_array_equal, actual.slots._replace(cache=None), expected.slots)
            stale.append(bool(actual.slots.cache.is_stale))
            actual = refreshed(numbers, actual)
            policy, memo = policy_of(ordinary, expected), actual.slots.cache
            np.testing.assert_allclose(memo.rows / memo.rows.sum(), policy.rows / policy.total, rtol=1e-10, atol=1e-25)
            np.testing.assert_allclose(memo.chunks, memo.rows.reshape(-1, 32).sum(axis=1), rtol=1e-12)
            assert not actual.slots.cache.is_stale
        assert not actual.slots.occupied[:2].any()  # nobody is left in the classes
        for learner, state in ((ordinary, expected), (sparse, actual)):
            policy = policy_of(learner, state)
            assert (policy.scores[:2] < EMPTY / 2).all()
            np.testing.assert_array_equal(policy.shares[:2], 0)
        assert int(actual.slots.touched) == 5
    assert any(stale) == (learning_rate > 1)


# The settings, and the numbers in them, that take sparse steps.


def decided(*methods, rewards=(1.0, 0.0), group_size=6):
    problem = anchored(200, 20, reward_correct=rewards[0], reward_incorrect=rewards[1])
    built = [parse(chosen) if isinstance(chosen, str) else chosen for chosen in methods]
    settings = [Settings(chosen, group_size=group_size, optimizer="sgd", storage="lumped") for chosen in built]
    return Call(problem, settings, [0] * len(settings), np.array([1]), None).are_sparse().tolist()


def test_zero_sum_coefficients_with_sgd_take_sparse_steps():
    assert decided("dr_grpo") == [True]
    assert decided("grpo", rewards=(0.7, -0.1), group_size=7) == [True]
    assert decided("psr") == [False]
    plain = parse("grpo").build()
    assert decided(plain) == [True]
    lopsided = chain(estimator("grpo"), lambda advantages, _: advantages * (jnp.arange(32) > 0))
    assert decided(Method(lopsided, plain.surrogate)) == [False]
    assert decided(*(f"asym_grpo(delta={delta})" for delta in (1.0, 2.0, 1.0))) == [True, False, True]
    dense = Settings("grpo", optimizer="sgd", storage="dense")
    assert not Call(anchored(200, 20), [dense], [0], np.array([1]), None).are_sparse().any()


def test_what_sgd_or_the_number_of_correct_rollouts_does_not_settle_takes_ordinary_steps():
    problem = anchored(200, 20)

    def may_be(method="grpo", problem=problem, **others):
        settings = Settings(parse(method), **{"group_size": 6, "optimizer": "sgd", "storage": "lumped"} | others)
        return may_be_sparse(problem, settings.static)

    assert may_be()
    for name in ("running_mean", "unlikeliness", "fade"):  # with memory; of log-probabilities; of the entropy
        assert not may_be(name)
    for other in (
        {"optimizer": "adam"},
        {"update_rule": "theorem"},
        {"epochs": 2},
        {"kl": 0.1},
        {"entropy_bonus": 0.1},
        {"supervised": 0.1},
        {"update_norm": 0.1},
        {"method": "grpo+casp"},
        {"group_size": 5000},
    ):
        assert not may_be(**other), other
    for other in (prompt_bank(2, 16), linear_softmax(prompts=8, actions=24, success_modes=2, failure_modes=3), tree()):
        assert not may_be(problem=other), type(other)


# Whole runs.


def moving(learning_rate, method="dr_grpo", **others):
    rate = {"learning_rate": learning_rate}
    return Settings(
        parse(method), optimizer="sgd", optimizer_parameters=rate, **{"pass_at_k": (1, 64), "top_n": 3} | others
    )


@pytest.mark.slow
def test_sparse_and_ordinary_runs_of_one_call_are_those_that_they_are_alone():
    problem, steps = anchored(200, 20), np.array([2, 20])
    settings = [moving(5.0, f"asym_grpo(delta={delta})", storage="lumped") for delta in (1.0, 2.0, 1.0, 3.0)]
    together = run(problem, settings, [4, 5, 6, 7], steps)
    for index, (setting, seed) in enumerate(zip(settings, [4, 5, 6, 7], strict=True)):
        alone = run(problem, [setting], [seed], steps)
        for metric, values in together.items():
            np.testing.assert_array_equal(values[index], alone[metric][0], err_msg=metric)
    assert np.ptp(together["q_pos"][:, -1]) > 0


@pytest.fixture
def references(monkeypatch):
    """The references of the weights of each run, at the start and after each call."""
    seen, advance = [], Call._advance

    def watched(call, storage, progress):
        result = advance(call, storage, progress)
        if isinstance(storage, Lumped):
            assert isinstance(storage, Sparse)
            reference = np.asarray(result.state.slots.cache.reference).copy()
            # One call takes many windows, and may compute the weights anew in its first one.
            seen.extend(
                [reference] if progress else [np.full_like(reference, call.problem.parameters.max()), reference]
            )
        return result

    monkeypatch.setattr(Call, "_advance", watched)
    return seen


@pytest.mark.slow
def test_a_run_is_the_same_alone_and_among_others_however_often_it_is_recorded(references):
    """Also where runs compute their weights again at different steps, and slots grow in between."""
    runs = [
        (seed, moving(learning_rate, group_size=20, storage="lumped", top_n=2, pass_at_k=()))
        for seed, learning_rate in [(0, 1.0), (1, 5000.0), (2, 1000.0)]
    ]
    problem = anchored(100_000, 200)
    seeds, settings = ([chosen[column] for chosen in runs] for column in (0, 1))
    together = records(Call(problem, settings, seeds, np.array([2, 50, 120]), None))
    assert len(references) == 3  # the start, and a call before the slots grew and after it
    assert (np.ptp(references, axis=0) > 0).tolist() == [False, True, True]
    last = references[-1]
    for index, (seed, setting) in enumerate(runs):
        alone = records(Call(problem, [setting], [seed], np.array([2, 120]), None))
        assert references[-1] == last[index]  # computed anew at the same step
        for metric, values in together.items():
            if metric not in ("accepted_rate", "active_rate", "tail_miss_rate"):
                # An entropy of 11.4 has steps of 1e-6, and its sums may round another way: four of these.
                rounding = 2**-21 if metric == "entropy" else 0
                np.testing.assert_allclose(
                    values[index, [0, 1, 3]], alone[metric][0], rtol=rounding, atol=1e-6, err_msg=metric
                )
            if metric in ("distinct_correct", "top_logp"):
                np.testing.assert_array_equal(values[index, [0, 1, 3]], alone[metric][0], err_msg=metric)
