"""The masses of every estimator equal their closed forms at every number of successes."""

import inspect
import math
from typing import Any

import numpy as np
import pytest
from reference_cases import CASES as REFERENCE_CASES
from refusals import refusal

from simlab.estimators import REGISTRY, Link, center, chain, estimator, stateless
from simlab.theory import CLOSED_FORMS, closed_form, masses

# Estimators whose masses no formula of the number of successes gives, and why. `masses` computes them all the same.
WITHOUT_FORM = {
    "ds_grpo": "adds a multiple of each rollout's log-probability",
    "fade_entropy": "chooses its exponent by the entropy of the batch alone",
    "fade_logarithmic": "chooses its exponent by the number of steps taken alone",
    "gdpo": "normalises the parts of a reward apart, which right and wrong have only one of",
    "least_variance": "reads its base at two numbers of successes, where other forms read theirs at one",
    "linked": "is any chain of links: each has the form of the named one that it equals, if any",
    "opd": "follows a teacher, and reads no rewards",
    "optimal_token_baseline": "weighs rewards by how uncertain tokens were",
    "rae": "subtracts what earlier batches of a role were paid",
    "remax": "compares with the greedy answer, which the number of successes does not tell",
    "unlikeliness": "ranks rollouts by their log-probability",
}

# Parameters beside those of the reference cases, so that every parameter is varied.
MORE: list[tuple[str, dict[str, Any]]] = [
    ("aem", {"strength": 3.0, "least_spread": 0.01, "base": "nsr"}),
    ("f_grpo", {"base": "f_grpo", "gamma": 0.5}),
    ("f_grpo", {"base": "pkpo"}),
    ("reject_easy", {"base": "psr", "threshold": 0.75}),
    ("t2t", {"alpha": 1.0, "eps": 0.0}),
    ("mc_grpo", {"scale": "mad", "eps": 0.0}),
    ("fade", {"target_entropy": 0.9, "delta_min": 0.4, "alpha_max": 9.0}),
    ("fade", {"beta": 1.0, "alpha_max": 1.2}),
    ("ha_dw", {"base": "asym_rl"}),
    ("log_mean_exp", {"beta": 700.0}),
    ("softmax", {"beta": 2000.0}),
    ("rs_grpo", {"beta": 1e-3}),
]
CASES = [
    (name, parameters)
    for name, parameters in [*REFERENCE_CASES, *MORE]
    if name in CLOSED_FORMS and parameters.get("base", "grpo") in CLOSED_FORMS
]


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_masses_equal_the_closed_forms(name: str, parameters: dict[str, Any]) -> None:
    for size in (1, 2, 9):
        computed = masses(name, size, **parameters)
        np.testing.assert_array_equal(computed.successes, range(size + 1))
        expected = closed_form(name, computed.successes / size, size, **parameters)
        for mass, form in zip(computed[1:], expected, strict=True):
            np.testing.assert_allclose(mass, form, rtol=1e-12, atol=0)


def test_every_estimator_has_a_closed_form_or_a_reason_to_have_none() -> None:
    assert set(CLOSED_FORMS) | set(WITHOUT_FORM) == set(REGISTRY)
    assert not set(CLOSED_FORMS) & set(WITHOUT_FORM)


def test_a_form_takes_what_its_estimator_takes_and_every_parameter_is_varied() -> None:
    for name, form in CLOSED_FORMS.items():
        _, *parameters = inspect.signature(form.masses).parameters.values()
        assert [parameter.name for parameter in parameters] == list(REGISTRY[name].parameters)
        varied = {key for case, values in CASES if case == name for key in values}
        assert varied == set(REGISTRY[name].parameters)


# The population limit

LIMITS = [(name, values) for name, values in CASES if name != "pass_at_k_tang" and values.get("k", 1) <= 8]


def test_large_groups_come_to_the_limit_as_one_over_g() -> None:
    size, p = 2**14, np.arange(17) / 16
    for name, parameters in LIMITS:
        limit = closed_form(name, p, **parameters)
        for mass, end in zip(closed_form(name, p, size, **parameters), limit, strict=True):
            np.testing.assert_allclose(mass, end, rtol=0, atol=12 / size, err_msg=name)


def test_any_share_in_any_shape_is_a_population() -> None:
    p = np.array([[0.0, 1 / math.pi], [0.9, 1.0]], dtype=np.float32)
    success, failure = closed_form("maxrl", p)
    assert success.dtype == failure.dtype == np.float64
    np.testing.assert_array_equal(success, [[0, 1 - float(p[0, 1])], [1 - float(p[1, 0]), 0]])


# The input of the estimator


def test_old_logp_reaches_the_estimator() -> None:
    """Entropy 0.5 below the target 1 gives delta = 1 + 0.5 - 1."""
    computed = masses("fade", 8, old_logp=np.full((8, 1), -0.5), target_entropy=1.0)
    np.testing.assert_allclose(computed.success, computed.failure * 0.5, rtol=1e-12, atol=0)
    assert computed.success.max() > 0


@pytest.mark.parametrize(("greedy", "same"), [(1.0, "nsr"), (0.0, "psr")])
def test_remax_learns_from_one_outcome_alone(greedy: float, same: str) -> None:
    """It learns from failures if the greedy answer is right, and from successes if it is wrong."""
    np.testing.assert_array_equal(masses("remax", 5, greedy_reward=greedy), masses(same, 5))


def test_entropy_reaches_the_estimator() -> None:
    """The advantages 0.5 and -0.5 gain 0.4 times the entropy 0.5."""
    computed = masses("entropy_advantage", 2, entropy=np.full((2, 1), 0.5), base="dr_grpo")
    np.testing.assert_allclose([computed.success[1], computed.failure[1]], [0.35, 0.15], rtol=1e-12)


def test_an_own_estimator_needs_no_registration() -> None:
    doubling = chain(center(), lambda advantages, rollouts: 2 * advantages)
    np.testing.assert_array_equal(masses(doubling, 2).success, [0, 0.5, 0])


def test_every_count_of_successes_is_a_batch_of_its_own_and_starts_afresh() -> None:
    def number_of_the_batch(advantages: Any, rollouts: Any, state: Any) -> tuple[Any, Any]:
        assert rollouts.rewards.shape == (1, 3)
        return advantages * 0 + 1 + state, state + 1

    computed = masses(chain(Link(number_of_the_batch, init=lambda: 0)), 3)
    np.testing.assert_array_equal(computed.success + -computed.failure, np.ones(4))


# Bad input


def test_an_estimator_of_candidates_has_no_masses() -> None:
    of_candidates = chain(stateless(lambda advantages, rollouts: advantages, needs=frozenset({"topn_logp"})))
    assert refusal(masses, of_candidates, 4) == "rollouts carry no topn_logp, which this method needs"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"group_size": 0}, "group_size = 0 is outside its range [1, inf)"),
        ({"old_logp": np.zeros((3, 1))}, "old_logp has shape (3, 1); allowed: (4, 1)"),
        ({"name": "ppo"}, "estimator = 'ppo' is unknown (did you mean 'pkpo'?); allowed: "),
    ],
)
def test_bad_input_to_masses(arguments: dict[str, Any], message: str) -> None:
    assert message in refusal(masses, **{"name": "dr_grpo", "group_size": 4, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "ppo"}, "estimator = 'ppo' is unknown (did you mean 'pkpo'?); allowed: "),
        ({"name": "ds_grpo"}, "'ds_grpo' has no closed form; allowed: a_grae, "),
        ({"name": "f_grpo", "base": "ds_grpo"}, "'ds_grpo' has no closed form; allowed: a_grae, "),
        ({"name": "f_grpo", "base": estimator("grpo")}, "an estimator without a name has no closed form; allowed: "),
        ({"name": "grpo", "epsilon": 0.1}, "grpo has no parameter 'epsilon'"),
        ({"name": "log_mean_exp", "beta": 701}, "beta = 701 is outside its range (0, 700]"),
        ({"name": "pass_at_k_tang"}, "group_size = inf is not allowed for pass_at_k_tang"),
        ({"p": 1.5}, "p = 1.5 is outside its range [0, 1]"),
        ({"p": 0.3, "group_size": 4}, "p = 0.3 is no share of 4 rollouts; allowed: s / 4"),
        ({"group_size": 2.5}, "group_size = 2.5 is not allowed; allowed: whole numbers from 1 up, infinity"),
    ],
)
def test_bad_input_to_closed_forms(arguments: dict[str, Any], message: str) -> None:
    assert message in refusal(closed_form, **{"name": "dr_grpo", "p": 0.5, **arguments})
