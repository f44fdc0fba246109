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

TOKENS = {"old_logp": np.zeros((4, 1)), "entropy": np.zeros((4, 1)), "greedy_reward": np.zeros(4)}

OUTSIDE = [
    ("grpo", "ddof", 2, "0 (population), 1 (sample)"),
    ("grpo", "eps", -1e-9, "[0, inf)"),
    ("f_grpo", "gamma", -0.5, "[0, inf)"),
    ("f_grpo", "base", "ppo", "dr_grpo"),
    ("reject_easy", "threshold", 1.5, "[0, 1]"),
    ("reject_easy", "threshold", -0.5, "[0, 1]"),
    ("reject_easy", "base", "ppo", "dr_grpo"),
    ("w_reinforce", "success", None, "not a number"),
    ("asym_grpo", "delta", 0, "(0, inf)"),
    ("power_alpha", "alpha", 0.5, "[1, inf)"),
    ("a_grae", "alpha", 0.0, "(0, inf)"),
    ("a_grae", "easy_term", "hard", "paper, code"),
    ("a_grae", "ddof", -1, "0 (population), 1 (sample)"),
    ("a_grae", "eps", -1.0, "[0, inf)"),
    ("fade", "alpha_max", 0.5, "[1, inf)"),
    ("fade", "delta_min", 0.0, "(0, 1]"),
    ("fade", "delta_min", 1.5, "(0, 1]"),
    ("fade", "beta", -0.1, "[0, 1]"),
    ("fade", "beta", 1.1, "[0, 1]"),
    ("fade", "target_entropy", -1.0, "[0, inf)"),
    ("fade", "baseline", "leave_one_out", "mean, batch_mean"),
    ("fade_logarithmic", "last", 0.0, "(0, inf)"),
    ("fade_entropy", "alpha_max", 0.5, "[1, inf)"),
    ("fade_entropy", "delta_min", 0.0, "(0, 1]"),
    ("fade_entropy", "beta", 1.1, "[0, 1]"),
    ("skew_r", "ddof", 2, "0 (population), 1 (sample)"),
    ("power_norm", "gamma", -0.5, "[0, inf)"),
    ("easy_power", "alpha", 0.5, "[1, inf)"),
    ("asym_power", "alpha_success", 0.5, "[1, inf)"),
    ("asym_power", "alpha_failure", 0.0, "[1, inf)"),
    ("hard_focused", "gamma", -1.0, "[0, inf)"),
    ("hard_focused", "ddof", 3, "0 (population), 1 (sample)"),
    ("hard_focused", "eps", -1.0, "[0, inf)"),
    ("easy_focused", "gamma", -1.0, "[0, inf)"),
    ("easy_focused", "ddof", 3, "0 (population), 1 (sample)"),
    ("easy_focused", "eps", -1.0, "[0, inf)"),
    ("positive_dominant", "factor", -1.0, "[0, inf)"),
    ("positive_dominant", "ddof", 3, "0 (population), 1 (sample)"),
    ("positive_dominant", "eps", -1.0, "[0, inf)"),
    ("negative_dominant", "factor", 0.0, "(0, inf)"),
    ("negative_dominant", "ddof", 3, "0 (population), 1 (sample)"),
    ("negative_dominant", "eps", -1.0, "[0, inf)"),
    ("running_mean", "decay", 1.5, "[0, 1]"),
    ("running_mean", "initial", "half", "not a number"),
    ("asym_rl", "delta", "small", "not a number"),
    ("quantile", "tau", 1.5, "[0, 1]"),
    ("mc_grpo", "scale", "std", "none, mad"),
    ("mc_grpo", "eps", -1e-3, "[0, inf)"),
    ("pass_at_k_chen", "k", 0, "[1, inf)"),
    ("mix", "k", 0, "[1, inf)"),
    ("pkpo", "k", 0, "[1, inf)"),
    ("pkpo", "baseline", "mean", "none, leave_one_out"),
    ("softmax", "beta", 0.0, "(0, inf)"),
    ("rs_grpo", "beta", 0.0, "(0, inf)"),
    ("log_mean_exp", "beta", -1.0, "(0, inf)"),
    ("ha_dw", "scale", -1.0, "[0, inf)"),
    ("ha_dw", "decay", 2.0, "[0, 1]"),
    ("ha_dw", "initial", -0.5, "[0, 1]"),
    ("ha_dw", "base", "ppo", "dr_grpo"),
    ("ds_grpo", "success", -0.05, "[0, inf)"),
    ("ds_grpo", "failure", -0.05, "[0, inf)"),
    ("ds_grpo", "ddof", 3, "0 (population), 1 (sample)"),
    ("ds_grpo", "eps", -1.0, "[0, inf)"),
    ("unlikeliness", "beta", 1.5, "[0, 1]"),
    ("unlikeliness", "ranking", "best", "paper, code"),
    ("unlikeliness", "ddof", 3, "0 (population), 1 (sample)"),
    ("unlikeliness", "eps", -1.0, "[0, inf)"),
    ("t2t", "alpha", 1.5, "[0, 1]"),
    ("t2t", "ddof", 3, "0 (population), 1 (sample)"),
    ("t2t", "eps", -1.0, "[0, inf)"),
    ("linked", "baseline", "max", "none, mean, leave_one_out, batch_mean, median"),
    ("linked", "scale", "mad", "none, std, times_std, mean, pass_at_k"),
    ("linked", "difficulty", "hard", "none, focal, easy, asymmetric, sqrt_hard, sqrt_easy, shift, history"),
    ("linked", "sign", "both", "none, divide_failures, relu, attenuate"),
    ("linked", "gamma", -0.5, "[0, inf)"),
    ("linked", "delta", 0.0, "(0, inf)"),
    ("linked", "k", 0, "[1, inf)"),
    ("cw_grpo", "scope", "token", "group, batch"),
    ("cw_grpo", "base", "ppo", "dr_grpo"),
    ("entropy_advantage", "alpha", -0.4, "[0, inf)"),
    ("entropy_advantage", "kappa", 0.0, "(0, inf)"),
    ("entropy_advantage", "base", "ppo", "dr_grpo"),
    ("reinforce_pp", "ddof", 3, "0 (population), 1 (sample)"),
    ("reinforce_pp", "eps", -1.0, "[0, inf)"),
    ("reinforce_pp_baseline", "ddof", 3, "0 (population), 1 (sample)"),
    ("reinforce_pp_baseline", "eps", -1.0, "[0, inf)"),
    ("bnpo", "most", 0.0, "(0, inf)"),
    ("grpo_lead", "alpha", -0.05, "[0, inf)"),
    ("grpo_lead", "penalty", -1.0, "[0, inf)"),
    ("grpo_lead", "low", -0.4, "[0, inf)"),
    ("grpo_lead", "high", -1.5, "[0, inf)"),
    ("grpo_lead", "midpoint", True, "not a number"),
    ("grpo_lead", "steepness", -10.0, "[0, inf)"),
    ("grpo_lead", "ddof", 2, "0 (population), 1 (sample)"),
    ("grpo_lead", "eps", -1.0, "[0, inf)"),
    ("advantage_reweighting", "alpha", 1.5, "[0, 1]"),
    ("advantage_reweighting", "base", "ppo", "dr_grpo"),
    ("aem", "strength", -1.0, "[0, inf)"),
    ("aem", "least_spread", 0.0, "(0, inf)"),
    ("aem", "base", "ppo", "dr_grpo"),
    ("f_grpo", "gamma", np.float32(-0.5), "[0, inf)"),
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
    assert parameter in message
    assert str(value) in message
    assert allowed in message


def test_the_table_of_ranges_misses_no_parameter() -> None:
    assert {(name, parameter) for name, parameter, *_ in OUTSIDE} == {
        (name, parameter) for name, entry in REGISTRY.items() for parameter in entry.parameters
    }


@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_rewards_that_are_not_finite(name: str, value: float) -> None:
    assert "NaN or infinity" in refusal(simlab.advantages, name, [*GROUP, value], **TOKENS)


@pytest.mark.parametrize("name", [name for name, entry in REGISTRY.items() if entry.build().domain != "any"])
@pytest.mark.parametrize("value", [-0.5, 1.5])
def test_rewards_outside_the_domain_of_the_formula(name: str, value: float) -> None:
    message = refusal(simlab.advantages, name, [*GROUP, value], **TOKENS)
    assert f"{value:g}" in message
    assert "defined for rewards" in message


@pytest.mark.parametrize("name", REGISTRY)
def test_graded_rewards_are_taken_or_refused(name: str) -> None:
    """A formula for rewards 0 and 1 alone refuses a half in words; all others take it."""
    if REGISTRY[name].build().domain == "binary":
        assert "hold 0.5; this estimator is defined for rewards 0 and 1" in refusal(
            simlab.advantages, name, [*GROUP, 0.5], **TOKENS
        )
        assert "0 and 1" in REGISTRY[name].build.__doc__
    else:
        assert np.isfinite(simlab.advantages(name, [*GROUP, 0.5], **TOKENS)).all()


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
        ({"entropy": np.zeros((2, 5))}, "entropy has shape (1, 2, 5); allowed: 3 axes, the first two (1, 3)"),
        ({"token_mask": np.ones((2, 5), dtype=bool)}, "token_mask has shape (1, 2, 5); allowed: 3 axes"),
        ({"token_mask": np.ones((3, 5))}, "token_mask has dtype float64; allowed: bool"),
        (
            {"old_logp": np.zeros((3, 5)), "token_mask": np.ones((3, 4), dtype=bool)},
            "token_mask has 4 tokens a rollout; allowed: 5",
        ),
        ({"name": "cw_grpo", "old_logp": [[0.0, math.nan], [0.0, 0.0], [0.0, 0.0]]}, "old_logp holds NaN"),
        ({"name": "cw_grpo", "old_logp": [[0.0, 1.0], [0.0]]}, "old_logp given as ragged lists"),
        ({"name": "entropy_advantage"}, "rollouts carry no entropy, which this method needs"),
        ({"name": "fade"}, "rollouts carry no old_logp"),
        ({"name": "remax"}, "rollouts carry no greedy_reward, which this method needs"),
        ({"name": "remax", "greedy_reward": np.ones(2)}, "greedy_reward has shape (1, 2); allowed: (1, 3)"),
        ({"name": "remax", "greedy_reward": [1.0, math.nan, 1.0]}, "greedy_reward holds NaN or infinity"),
        ({"name": "remax", "greedy_reward": [[1.0], [1.0, 1.0]]}, "greedy_reward given as ragged lists"),
        (
            {"name": "ppo"},
            "estimator = 'ppo' is unknown (did you mean 'pkpo'?); allowed: a_grae, advantage_reweighting",
        ),
        ({"gamma": 1.0}, "dr_grpo has no parameter 'gamma'; it takes: none"),
        ({"name": chain(center()), "gamma": 1.0}, "parameters ['gamma'] belong to a named estimator"),
    ],
)
def test_arguments_that_fit_no_batch(arguments: dict[str, Any], message: str) -> None:
    assert message in refusal(simlab.advantages, **{"name": "dr_grpo", "rewards": GROUP, **arguments})


def test_absent_tokens_are_not_checked() -> None:
    logp, mask = [[-1.0, math.nan], [-1.0, -2.0]], [[True, False], [True, True]]
    found = simlab.advantages("cw_grpo", [1.0, 0.0], old_logp=logp, token_mask=mask)
    assert np.isfinite(found).all()
    assert found[0, 1] == 0


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
