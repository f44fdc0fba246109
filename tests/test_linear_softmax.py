"""Prompts that share a head: their start, their effects on one another, records and refusals.

test_problem_contract.py has the tests of every problem.
"""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import naive_simulator
import numpy as np
import pytest
from problem_contract import ROWS, key_of
from refusals import refusal

from simlab.errors import InputError
from simlab.problems import LinearSoftmax, linear_softmax
from simlab.simulator.head_metrics import svd_each
from simlab.simulator.learner import Learner
from simlab.simulator.runner import run
from simlab.simulator.settings import Settings
from simlab.simulator.storage import DENSE, StoredProblem
from simlab.simulator.trajectory import record
from simlab.theory.rank import alignment, effective_rank, leading_share, singular_gap


@pytest.mark.parametrize("answers", ["shared", "own"])
@pytest.mark.parametrize("shared", [0.0, 1.0, 100.0])
def test_prompts_start_at_their_solve_rates_with_their_modes_answers(answers, shared):
    problem = linear_softmax(
        prompts=10, actions=20, success_modes=2, failure_modes=3, shared=shared, easy_share=0.4, easy_rate=0.9,
        hard_rate=1e-3, answers=answers, wrong_answers=2, stray=0.05,
    ).listed()  # fmt: skip
    modes = [0, 1, 0, 1, 2, 3, 4, 2, 3, 4]
    p = np.array([naive_simulator.probabilities(logits, 1.0) for logits in problem.features @ problem.weights.T])
    np.testing.assert_allclose(problem.solve_rates, [0.9] * 4 + [1e-3] * 6, rtol=1e-9)
    for policy, correct, mode in zip(p, problem.correct, modes, strict=True):
        first = 5 + (2 * mode if answers == "own" else 0)
        failing = 1 - policy[mode]
        expected = np.full(20, 0.05 * failing / 17)
        expected[first : first + 2] = 0.95 * failing / 2
        expected[mode] = policy[mode]
        np.testing.assert_allclose(policy, expected, rtol=1e-9)
        assert np.flatnonzero(correct).tolist() == [mode]
    cosines = problem.features @ problem.features.T
    same = np.equal.outer(modes, modes)
    np.testing.assert_allclose(cosines, np.where(same, 1, shared**2 / (1 + shared**2)), rtol=1e-12)


OWN = ROWS["linear_softmax"]
OF_OFF_POLICY = {metric.name for metric in OWN.problem.metrics if metric.off_policy}


@functools.cache
def stepper():
    """A compiled step on given groups of all prompts: the head after it, and its record."""
    settings = Settings("dr_grpo", 4, optimizer="sgd", dtype="float64", storage="dense").static

    def step(laid, slots, traced):
        learner = Learner(settings, StoredProblem(laid, DENSE, None), key_of(0), traced)
        state, keys, prompts, drawn = learner.draw(jnp.int32(0), learner.begin_window(learner.start()))
        batch, memory = learner.weigh(keys, prompts, drawn._replace(groups=drawn.groups._replace(slots=slots)), state)
        after = learner.ascend(batch, state._replace(memory=memory))
        return after.parameters, record(learner, state.parameters, after, jnp.int32(1))

    return jax.jit(step)


def one_step(problem, groups, learning_rate=1.0):
    """A step on given groups of all prompts: the head after it, and its record."""
    with jax.enable_x64(True):
        traced = Settings("dr_grpo", optimizer="sgd", optimizer_parameters={"learning_rate": learning_rate}).traced
        traced = jax.tree.map(jnp.asarray, traced)
        arguments = DENSE.load(problem, "float64"), jnp.asarray(groups, jnp.int32), traced
        return jax.tree.map(np.asarray, stepper()(*arguments))


TWO_MODES = {"prompts": 2, "actions": 8, "failure_modes": 1, "wrong_answers": 2}


def test_the_gradient_is_that_of_the_objective():
    """A step of rate 1 against central differences of the mean of A log pi over the batch, entry by entry of W."""
    problem, groups = linear_softmax(**TWO_MODES).listed(), [[0, 2, 2, 5], [1, 2, 3, 3]]
    after, _ = one_step(problem, groups)
    rewards = np.array([[1, 0, 0, 0], [1, 0, 0, 0]])

    def objective(weights):
        total = 0.0
        for feature, actions, advantages in zip(problem.features, groups, rewards - 0.25, strict=True):
            logp = np.log(naive_simulator.probabilities(weights @ feature, 1.0))
            total += sum(a * logp[action] for a, action in zip(advantages, actions, strict=True))
        return total / 8

    step = 1e-6
    for entry in itertools.product(*map(range, problem.weights.shape)):
        moved = np.zeros_like(problem.weights)
        moved[entry] = step
        slope = (objective(problem.weights + moved) - objective(problem.weights - moved)) / (2 * step)
        assert (after - problem.weights)[entry] == pytest.approx(slope, abs=1e-8)


def test_measures_of_rank_and_alignment_on_cases_known_by_hand():
    assert float(leading_share(np.array([3.0, 4.0])[::-1])) == pytest.approx(16 / 25)
    assert float(leading_share(jnp.array([2e-30, 0.0], jnp.float32))) == 1  # its square is 0 in float32
    assert float(singular_gap(np.array([6.0, 3.0, 1.0]))) == 2
    assert math.isinf(float(singular_gap(np.array([6.0, 5e-324]))))
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


@pytest.mark.parametrize("groups", [[[2, 3, 2, 4]] * 2, [[0] * 4, [1] * 4]], ids=["all wrong", "all right"])
def test_groups_that_teach_nothing_leave_the_head_as_it_is(groups):
    """Undefined metrics are NaN, and no others."""
    problem = linear_softmax(**TWO_MODES).listed()
    after, row = one_step(problem, groups)
    np.testing.assert_array_equal(after, problem.weights)
    rank = {"leading_share", "singular_gap", "effective_rank"}
    undefined = rank | {f"update_{name}" for name in rank} | {name for name in row if name.endswith("alignment")}
    undefined |= {f"residual_{what}_{of}" for what in ("correlation", "norm") for of in ("correct", "failed")}
    undefined |= OF_OFF_POLICY
    undefined |= {"d_q_pos_outside"} | ({"residual_norm_ratio_predicted"} if groups[0][0] == 0 else set())
    np.testing.assert_array_equal(row.pop("singular_values"), [0, 0, 0] + [math.nan] * 5)
    assert {name for name, value in row.items() if np.isnan(value).any()} == undefined


# Rank decompositions of many runs at once: each is NumPy's, and no batch of them reaches the CPU's thread pool

RUNS = np.random.default_rng(0).normal(size=(3, 2, 7, 4))


def split_runs(runs):
    return jax.vmap(lambda pair: svd_each(list(pair)))(runs)


def test_each_matrix_of_each_run_has_the_decomposition_that_numpy_gives_it():
    split = split_runs(jnp.asarray(RUNS, jnp.float32))
    for index in np.ndindex(3, 2):
        left, values, right = np.linalg.svd(RUNS[index], full_matrices=False)
        np.testing.assert_allclose(split.values[*index], values, rtol=1e-5)
        sign = np.sign(left[0, 0] * float(split.left[*index, 0]))
        np.testing.assert_allclose(split.left[*index], sign * left[:, 0], atol=1e-5)
        np.testing.assert_allclose(split.right[*index], sign * right[0], atol=1e-5)


def test_runs_side_by_side_decompose_one_matrix_at_a_time():
    """Two programs that each wait for a batch of decompositions could wait for one another for ever."""
    shapes = [each.invars[0].aval.shape for each in equations(jax.make_jaxpr(split_runs)(RUNS).jaxpr, "svd")]
    assert shapes
    assert {int(np.prod(shape[:-2])) for shape in shapes} == {1}


def equations(jaxpr, name: str):
    """The equations of this name, those inside loops and calls among them."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == name:
            yield equation
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda value: hasattr(value, "eqns")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from equations(inner, name)


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["dense", "lumped"])
def test_a_head_of_fewer_actions_than_features_has_a_singular_value_for_each_feature(storage):
    """In any storage, values beyond its few rows are 0, and values after them, up to 8, are absent."""
    random, right = np.random.default_rng(0), np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0]], bool)
    few = LinearSoftmax(random.normal(size=(3, 5)), random.normal(size=(3, 5)), right, right)
    settings = Settings("psr", 4, optimizer="sgd", dtype="float64", storage=storage)
    values = run(few, [settings], [0], np.array([4]))["singular_values"][0, 1]
    assert (values[:2] > 1e-6).all()  # the rows of a gradient add up to 0, so that its rank is 2
    np.testing.assert_allclose(values[2:5], 0, atol=1e-12)
    assert np.isnan(values[5:]).all()


REFUSED = [
    ({"success_modes": 0}, "success_modes = 0"),
    ({"answers": "any"}, "answers = 'any' is unknown; allowed: shared, own"),
    ({"actions": 12}, "actions = 12 is outside its range [13, "),
    ({"actions": 44, "answers": "own"}, "actions = 44 is outside its range [45, "),
    ({"shared": -1.0}, "shared = -1.0 is outside its range [0, 100.0]"),
    ({"easy_share": 0.0}, "easy prompts = 0 are fewer than their modes; allowed: 1 or more"),
    ({"prompts": 8}, "hard prompts = 4 are fewer than their modes; allowed: 8 or more"),
    ({"easy_rate": 1.0}, "easy_rate = 1.0 is outside its range"),
    ({"stray": 0.0}, "stray = 0.0 is outside its range"),
    ({"reward_correct": 0.0}, "reward_correct = 0.0"),
]


def test_a_problem_that_cannot_be_is_refused_with_what_is_allowed():
    for parameters, message in REFUSED:
        assert message in refusal(linear_softmax, **parameters)


YES, HEAD, STATES = np.ones((2, 3), bool), np.ones((3, 4)), np.ones((2, 4))


def test_arrays_that_are_no_such_problem_are_refused():
    for arrays, message in (
        ((HEAD, np.ones((2, 5)), YES, YES), "allowed: (actions, d) and (prompts, d), with one d"),
        ((HEAD, np.full((2, 4), np.nan), YES, YES), "features hold a number that is not finite"),
        ((HEAD * np.inf, STATES, YES, YES), "weights hold a number that is not finite"),
        ((HEAD, STATES, YES[:1], YES), "allowed: one shape (prompts, actions)"),
        ((HEAD, STATES, ~YES, YES), "prompt 0: the correct set is empty"),
    ):
        with pytest.raises((InputError, TypeError)) as error:
            LinearSoftmax(*arrays)
        assert isinstance(error.value, TypeError) or message in str(error.value)
