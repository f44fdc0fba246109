"""Bad input to an estimator is refused in one line that names the value and what is allowed."""

import inspect
import math
from typing import Any

import numpy as np
import pytest

import simlab
from simlab.errors import InputError
from simlab.estimators import REGISTRY, Estimator, Link, center, chain, divide_failures, register

GROUP = [1.0, 0.0, 0.0]

OUTSIDE = [
    ("grpo", "ddof", 2, "0 (population), 1 (sample)"),
    ("grpo", "eps", -1e-9, "[0, inf]"),
    ("f_grpo", "gamma", -0.5, "[0, inf]"),
    ("f_grpo", "base", "ppo", "dr_grpo"),
    ("w_reinforce", "success", None, "not a number"),
    ("asym_grpo", "delta", 0, "(0, inf]"),
    ("power_alpha", "alpha", 0.5, "[1, inf]"),
    ("a_grae", "alpha", 0.0, "(0, inf]"),
    ("a_grae", "easy_term", "hard", "paper, code"),
    ("a_grae", "ddof", -1, "0 (population), 1 (sample)"),
    ("a_grae", "eps", -1.0, "[0, inf]"),
    ("fade", "alpha_max", 0.5, "[1, inf]"),
    ("fade", "delta_min", 0.0, "(0, 1]"),
    ("fade", "delta_min", 1.5, "(0, 1]"),
    ("fade", "beta", -0.1, "[0, 1]"),
    ("fade", "beta", 1.1, "[0, 1]"),
    ("fade", "target_entropy", -1.0, "[0, inf]"),
    ("fade", "baseline", "median", "mean, leave_one_out, batch_mean"),
    ("f_grpo", "gamma", np.float32(-0.5), "[0, inf]"),
    ("f_grpo", "gamma", True, "not a number"),
]


def refusal(call: Any, *arguments: Any, **parameters: Any) -> str:
    """The one line with which a call is refused."""
    with pytest.raises(InputError) as error:
        call(*arguments, **parameters)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(("name", "parameter", "value", "allowed"), OUTSIDE)
def test_a_parameter_outside_its_range(name: str, parameter: str, value: Any, allowed: str) -> None:
    message = refusal(simlab.estimator, name, **{parameter: value})
    assert ("estimator" if parameter == "base" else parameter) in message
    assert str(value) in message
    assert allowed in message


def test_the_table_of_ranges_misses_no_parameter() -> None:
    assert {(name, parameter) for name, parameter, *_ in OUTSIDE} == {
        (name, parameter) for name, entry in REGISTRY.items() for parameter in entry.parameters
    }


@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_rewards_that_are_not_finite(name: str, value: float) -> None:
    assert "NaN or infinity" in refusal(simlab.advantages, name, [*GROUP, value], old_logp=np.zeros((4, 1)))


@pytest.mark.parametrize("name", [name for name, entry in REGISTRY.items() if entry.build().unit_rewards])
@pytest.mark.parametrize("value", [-0.5, 1.5])
def test_rewards_outside_the_domain_of_the_formula(name: str, value: float) -> None:
    message = refusal(simlab.advantages, name, [*GROUP, value], old_logp=np.zeros((4, 1)))
    assert f"{value:g}" in message
    assert "[0, 1]" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rewards": [[1.0, 0.0], [1.0]]}, "rewards given as ragged lists"),
        ({"rewards": ["right", "wrong"]}, "rewards given as ragged lists, or not numbers"),
        ({"rewards": []}, "rewards have shape (1, 0); a group needs at least one rollout"),
        ({"rewards": np.ones((2, 3, 4))}, "rewards have shape (2, 3, 4); allowed: (G,) or (P, G)"),
        ({"rewards": np.float64(1)}, "rewards have shape (); allowed: (G,) or (P, G)"),
        ({"mask": np.ones(2, dtype=bool)}, "mask has shape (1, 2); allowed: (1, 3)"),
        ({"mask": [[True, False], [True]]}, "mask given as ragged lists"),
        ({"mask": np.ones(3)}, "mask has dtype float64; allowed: bool"),
        ({"old_logp": np.zeros((2, 5))}, "old_logp has shape (1, 2, 5); allowed: 3 axes, the first two (1, 3)"),
        ({"old_logp": np.zeros(3)}, "old_logp has shape (1, 3); allowed: 3 axes, the first two (1, 3)"),
        ({"name": "fade"}, "rollouts carry no old_logp"),
        ({"name": "ppo"}, "estimator = 'ppo' is unknown; allowed: a_grae, asym_grpo, dr_grpo"),
        ({"gamma": 1.0}, "dr_grpo has no parameter 'gamma'; it takes: none"),
        ({"name": chain(center()), "gamma": 1.0}, "parameters ['gamma'] belong to a named estimator"),
    ],
)
def test_arguments_that_fit_no_batch(arguments: dict[str, Any], message: str) -> None:
    assert message in refusal(simlab.advantages, **{"name": "dr_grpo", "rewards": GROUP, **arguments})


def test_absent_rollouts_are_not_checked() -> None:
    """Padding may hold anything, also for a formula whose rewards must lie in [0, 1]."""
    padded = simlab.advantages("maxrl", [1.0, 0.0, -7.0, math.nan], mask=[True, True, False, False])
    np.testing.assert_array_equal(padded, [1.0, -1.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (Link(lambda advantages, rollouts, state: (advantages, state), needs=frozenset({"value"})), "needs ['value']"),
        ("center", "stage 'center' is not a link"),
    ],
)
def test_stages_that_cannot_be_chained(stage: Any, message: str) -> None:
    assert message in refusal(inspect.unwrap(chain), stage)  # without the type checker, which would refuse it first


def grpo() -> Estimator:
    """A name that is taken."""
    return chain()


def divided(delta: float) -> Estimator:
    """A parameter without a default."""
    return chain(divide_failures(delta))


@pytest.mark.parametrize(("build", "message"), [(grpo, "registered already"), (divided, "['delta'] need a default")])
def test_constructors_that_cannot_be_registered(build: Any, message: str) -> None:
    assert message in refusal(register("own:method"), build)
    assert build not in [entry.build for entry in REGISTRY.values()]
