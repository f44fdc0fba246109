"""Every estimator, registered or the user's own, inside the simulator; and what the simulator refuses to run."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import runs
from naive_simulator import Setting
from references import REFERENCES, each_group, mean
from refusals import refusal

from simlab import chain, estimator
from simlab.errors import InputError
from simlab.estimators import REGISTRY, Link, center
from simlab.methods import Method
from simlab.problems import anchored, custom, tree
from simlab.rollouts import Rollouts
from simlab.simulator import call
from simlab.simulator.metrics import USUAL_METRICS
from simlab.simulator.runner import check, simulate
from simlab.simulator.settings import SUPPLIED, Settings
from simlab.surrogates import add, kl_penalty, ppo_clip, reinforce

STEPS, RECORD_EVERY, RECORDED = 20, 8, (8, 16, 20)
PLACE = anchored(40, 8, anchor_logit=2.0, correct_logit=1.0, target=3)
PLACES = tuple(PLACE.listed().logits.tolist()), frozenset(range(8)), frozenset({5, 6, 7})
ADAM = {"optimizer": "adam", "optimizer_parameters": {"learning_rate": 0.05}}
SETTING = Setting(*PLACES, group_size=6, **ADAM, pass_at_k=(), top_n=0)


def simulated(problem, arguments, seeds=1):
    """The records of ``simulate`` as (seed, step, ...) arrays by name."""
    result = simulate(problem, **arguments, seeds=seeds, steps=STEPS, record_every=RECORD_EVERY)
    assert result.step.values.tolist() == [0, *RECORDED]
    return {name: variable.values for name, variable in result.data_vars.items()}


def assert_naive(rows, setting, seed=0):
    for index, expected in enumerate(runs.expected_records(setting, seed, RECORDED), start=1):
        runs.assert_records(rows, seed, index, expected)


SHARED = ("lumped", "sharded")


# One has memory and reads log-probabilities, one reads ranks.
KINDS = ["fade", "unlikeliness"]
OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in REGISTRY if name not in KINDS]


def test_the_simulator_supplies_what_every_registered_estimator_needs():
    assert [name for name in REGISTRY if not estimator(name).needs <= SUPPLIED] == []


@pytest.mark.parametrize("name", [*KINDS, *OTHERS])
def test_registered_estimators_run(name):
    """On the anchored problem with rewards 1 and 0: records are finite, the policy learns, as the naive loops do."""
    setting = dataclasses.replace(SETTING, estimator=name)
    rows = simulated(PLACE, runs.arguments(setting))
    of_off_policy = {metric.name for metric in USUAL_METRICS if metric.off_policy}
    assert all(np.isfinite(values[:, 1:]).all() for metric, values in rows.items() if metric not in of_off_policy)
    assert abs(rows["q_pos"][0, -1] - rows["q_pos"][0, 0]) > 0.005
    assert_naive(rows, setting)


FIVE = [0.7, -0.4, 0.2, 1.1, -0.4]  # 0 and 2 are correct; 1 and 4 are one class in lumped storage


def after_a_step(method, group):
    """Q_pos after a plain step of rate 0.5 on a group of two; a teacher holds correct actions e^1.5 times likelier."""
    p = np.exp(FIVE) / np.exp(FIVE).sum()
    teacher = np.where([True, False, True, False, False], p * math.exp(1.5), p)
    teacher /= teacher.sum()
    reward = [float(action in (0, 2)) for action in group]
    energy = [1 - 2 * p[action] + (p**2).sum() for action in group]
    mean = np.dot(energy, reward) / (sum(energy) + 1e-8)
    logits = np.array(FIVE)
    for action, r in zip(group, reward, strict=True):
        told = math.log(teacher[action]) - math.log(p[action])
        advantage = told if method == "opd" else (0.0 if len({*reward}) == 1 else r - mean)
        logits += 0.5 * advantage * (np.eye(5)[action] - p) / 2
    return (np.exp(logits) / np.exp(logits).sum())[[0, 2]].sum()


@pytest.mark.parametrize("storage", ["dense", *(pytest.param(name, marks=pytest.mark.slow) for name in SHARED)])
@pytest.mark.parametrize("method", ["opd", "optimal_token_baseline"])
def test_every_storage_tells_the_teacher_and_the_squares_of_what_was_drawn(method, storage):
    """Each of 60 seeds ends where some group of two by hand does, and more than three groups are met."""
    settings = {"group_size": 2, "steps": 1, "dtype": "float64", "storage": storage, "teacher": 1.5, "optimizer": "sgd"}
    settings["optimizer_parameters"] = {"learning_rate": 0.5}
    q_pos = simulate(custom(FIVE, [0, 2], [2]), f"{method}+reinforce", seeds=60, **settings).q_pos.values[:, -1]
    expected = np.array([after_a_step(method, group) for group in itertools.product(range(5), repeat=2)])
    assert np.abs(q_pos[:, None] - expected).min(axis=1).max() < 1e-7
    assert len(np.unique(q_pos.round(9))) > 3


def test_a_teacher_of_answers_of_several_tokens_is_refused_in_one_line():
    message = (
        "opd, which follows a teacher, of a Tree, whose policy is not one softmax over all answers; allowed: methods"
    )
    assert message in refusal(lambda: check(tree(2, 2, rewarded="AB"), Settings("opd")))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": Method(estimator("grpo"), add(ppo_clip(), kl_penalty()))}, "this surrogate needs ['ref_logp']"),
        ({"method": "grpo+casp", "update_rule": "theorem"}, "update_rule = 'theorem' with a surrogate of candidates"),
        ({"method": "grpo+casp(candidates=0)"}, "candidates = 0 is outside its range [1, inf)"),
        *(({"isolation": isolation}, "isolation = ") for isolation in (-0.1, 1.5, float("nan"))),
        ({"lag": -1}, "lag = -1"),
        ({"sampler": "int8"}, "sampler = 'int8'"),
        ({"top_p": 0.9}, "top_p = 0.9 with sampler = 'exact'"),
        ({"sampler": "top_p", "top_k": 3}, "top_k = 3 with sampler = 'top_p'"),
        ({"sampler": "top_p", "top_p": 0.0}, "top_p = 0.0"),
        ({"correction": "tis"}, "correction = 'tis'"),
        ({"correction_unit": "word"}, "correction_unit = 'word'"),
        ({"correction_bound": 0.5}, "correction_bound = 0.5"),
        ({"method": "grpo+casp", "lag": 1}, "lag = 1 with a surrogate of candidates"),
        ({"method": "grpo+casp", "sampler": "float16"}, "sampler = 'float16' with a surrogate of candidates"),
        ({"false_positive": -0.1}, "false_positive = -0.1"),
        ({"false_negative": 1.5}, "false_negative = 1.5"),
        ({"errors_of": "token"}, "errors_of = 'token'"),
        ({"verifier_correction": "sideways"}, "verifier_correction = 'sideways'"),
        ({"method": "remax", "false_positive": 0.1}, "false_positive = 0.1"),
        (
            {"false_positive": 0.6, "false_negative": 0.4, "verifier_correction": "backward"},
            "false_positive = 0.6 and false_negative = 0.4",
        ),
    ],
)
def test_settings_that_nothing_can_run_are_refused_in_one_line(settings, message):
    assert message in refusal(Settings, **({"method": "grpo", "group_size": 4} | settings))


def double(advantages, rollouts):
    return 2 * advantages


def follow(advantages, rollouts, state):
    """A running mean of the rewards, 0.5 at first, as the baseline."""
    (baseline,) = state
    return advantages - baseline, (0.9 * baseline + 0.1 * rollouts.rewards.mean(),)


def naive_double(group):
    return [2 * (reward - mean(group)) for reward in group]


def naive_follow(steps):
    baseline, history = 0.5, []
    for step in steps:
        [group] = step.rewards
        history.append([[reward - baseline for reward in group]])
        baseline = 0.9 * baseline + 0.1 * mean(group)
    return history


OWN = {
    "plain function": (chain(center("mean"), double), each_group(naive_double)),
    "link with state": (chain(Link(follow, init=lambda: (0.5,))), naive_follow),
}


@pytest.mark.parametrize("name", [pytest.param("plain function", marks=pytest.mark.slow), "link with state"])
def test_a_users_own_estimator_runs_unregistered(name, monkeypatch):
    """It gets the problem's rewards."""
    weighing, reference = OWN[name]
    monkeypatch.setitem(REFERENCES, name, reference)
    setting = dataclasses.replace(SETTING, estimator=name, optimizer="sgd", rewards=(2.0, -0.5))
    problem = dataclasses.replace(PLACE, reward_correct=2.0, reward_incorrect=-0.5)
    rows = simulated(problem, runs.arguments(setting, method=Method(weighing, ppo_clip())), seeds=2)
    for seed in range(2):
        assert_naive(rows, setting, seed)


def never(advantages, rollouts, state):
    raise AssertionError("refused estimators are not run")


def test_what_the_simulator_cannot_supply_is_refused():
    """Settings refuse it, before there is any problem."""
    needy = chain(center("mean"), Link(never, needs=frozenset({"rewards", "topn_logp"})))
    with pytest.raises(InputError, match=r"needs \['topn_logp'\]"):
        Settings(Method(needy, ppo_clip()))
    with pytest.raises(InputError, match="candidates = 41"):
        simulate(PLACE, "grpo+casp(candidates=41)", steps=10)


NARROW = [name for name in REGISTRY if estimator(name).domain != "any" and estimator(name).needs <= SUPPLIED]


@pytest.fixture
def uncompiled(monkeypatch):
    """A refusal comes before any compilation."""
    monkeypatch.setattr(call, "cached", never)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", NARROW)
def test_rewards_outside_0_to_1_are_refused_where_the_formula_is_for_those(name):
    for correct, incorrect in ((1.0, -1.0), (1.5, 0.0)):
        problem = dataclasses.replace(PLACE, reward_correct=correct, reward_incorrect=incorrect)
        with pytest.raises(InputError, match=r"rewards span .* defined for rewards "):
            simulate(problem, name, steps=10)
        check(problem, Settings("grpo"))


@pytest.mark.parametrize("normaliser", [pytest.param(None, marks=pytest.mark.slow), 4.0])
def test_the_simulator_weighs_rollouts_as_the_method_says(normaliser):
    """Rollouts of one token get the library's coefficients, as in a trainer; normalised by 4, a quarter of them."""
    method = Method(estimator("reinforce"), reinforce(), "constant", normaliser)
    steps = {"group_size": 1, "optimizer": "sgd", "optimizer_parameters": {"learning_rate": 0.5}, "dtype": "float64"}
    correct = custom([0.0, 0.0], [0, 1])
    moved = simulate(correct, method, **steps, steps=1, seeds=1, top_n=1).top_logp.values[0, -1, 0]
    rollouts = Rollouts(np.ones((1, 1)))
    coefficient = method.coefficients(np.ones((1, 1, 1)), rollouts, method.estimator.init())[0].item()
    assert coefficient == 1 / (normaliser or 1.0)
    # One of two equal actions moves up by half the coefficient times the rate, and the other down.
    assert moved == pytest.approx(-np.log1p(np.exp(-0.5 * coefficient)), rel=1e-12)
