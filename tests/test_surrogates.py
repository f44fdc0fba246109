"""A surrogate's coefficient is the derivative of its written objective by log pi; aggregation weighs the tokens."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import array_api_strict
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from refusals import refusal
from token_batches import Batch

from simlab import Rollouts, surrogates
from simlab.surrogates import (
    AGGREGATIONS,
    SURROGATES,
    Surrogate,
    aggregation_weights,
    casp,
    clip_cov,
    entropy_bonus,
    kl_penalty,
    sequence_mask,
    surrogate,
)

pytestmark = pytest.mark.usefixtures("double_precision")

# On each side of every bound below, and far beyond; none lies on a bound, where min and clip have no derivative.
RATIOS = [1e-3, 0.3, 0.75, 0.85, 1.0, 1.1, 1.25, 1.5, 2.9, 5.5, 7.0, 1e3]
ADVANTAGES = [-2.0, -0.5, 0.0, 0.25, 3.0]
ROLLOUTS = Rollouts(np.zeros((1, 1)))

Objective = Callable[..., Any]


def reinforce_objective(logp, old_logp, advantage):
    return advantage * logp


def unclipped_objective(logp, old_logp, advantage):
    return jnp.exp(logp - old_logp) * advantage


def clip_objective(logp, old_logp, advantage, eps_low, eps_high):
    ratio = jnp.exp(logp - old_logp)
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - eps_low, 1 + eps_high) * advantage)


def dual_clip_objective(logp, old_logp, advantage, *constants):
    *bounds, cap = constants
    clipped = clip_objective(logp, old_logp, advantage, *bounds)
    return jnp.where(advantage < 0, jnp.maximum(clipped, cap * advantage), clipped)


def cispo_objective(logp, old_logp, advantage, eps_low, eps_high):
    weight = jnp.clip(jnp.exp(logp - old_logp), 1 - eps_low, 1 + eps_high)
    return jax.lax.stop_gradient(weight) * advantage * logp


def sapo_objective(logp, old_logp, advantage, tau_pos, tau_neg):
    tau = jnp.where(advantage > 0, tau_pos, tau_neg)
    x = tau * (jnp.exp(logp - old_logp) - 1)
    sigmoid = jnp.where(x > 0, 1 - jax.nn.sigmoid(-x), jax.nn.sigmoid(x))  # its slope does not cancel for large x
    return 4 / tau * sigmoid * advantage


def ce_gppo_objective(logp, old_logp, advantage, *constants):
    beta_low, beta_high, eps_low, eps_high = constants
    ratio = jnp.exp(logp - old_logp)
    whole = ratio / jax.lax.stop_gradient(ratio)  # value 1, with the gradient of log pi
    low, high = (advantage < 0) & (ratio < 1 - eps_low), (advantage > 0) & (ratio > 1 + eps_high)
    above = jnp.where(high, beta_high * (1 + eps_high) * whole, ratio)
    return jnp.where(low, beta_low * (1 - eps_low) * whole, above) * advantage


def aspo_objective(logp, old_logp, advantage, *constants):
    eps_low, eps_high, cap = constants
    ratio = jnp.exp(logp - old_logp)
    success = jnp.where(ratio > 1 + eps_high, 0, jnp.minimum(1 / ratio, cap))
    failure = jnp.where(ratio < 1 - eps_low, 0, jnp.minimum(ratio, cap))
    return jax.lax.stop_gradient(jnp.where(advantage > 0, success, failure)) * advantage * logp


# The defaults are checked against the published constants: PPO's .2, DAPO's .2 and .28, dual clip's 3, CISPO's [0, 6].
OBJECTIVES: list[tuple[str, dict[str, float], Objective, tuple[float, ...]]] = [
    ("reinforce", {}, reinforce_objective, ()),
    ("unclipped", {}, unclipped_objective, ()),
    ("ppo_clip", {}, clip_objective, (0.2, 0.2)),
    ("ppo_clip", {"eps_high": 0.28}, clip_objective, (0.2, 0.28)),
    ("ppo_clip", {"eps_low": 1.0, "eps_high": 2.0}, clip_objective, (1.0, 2.0)),
    ("clip_higher", {}, clip_objective, (0.2, 0.28)),
    ("clip_higher", {"eps_low": 0.1, "eps_high": 0.6}, clip_objective, (0.1, 0.6)),
    ("dual_clip", {}, dual_clip_objective, (0.2, 0.2, 3.0)),
    ("dual_clip", {"eps_high": 0.28, "cap": 6.0}, dual_clip_objective, (0.2, 0.28, 6.0)),
    ("dual_clip", {"eps_low": 1.0, "eps_high": 2.0, "cap": 1.05}, dual_clip_objective, (1.0, 2.0, 1.05)),
    ("cispo", {}, cispo_objective, (1.0, 5.0)),
    ("cispo", {"eps_low": 0.2, "eps_high": 0.28}, cispo_objective, (0.2, 0.28)),
    ("sapo", {}, sapo_objective, (1.0, 1.05)),
    ("sapo", {"tau_pos": 0.1, "tau_neg": 20.0}, sapo_objective, (0.1, 20.0)),
    ("ce_gppo", {}, ce_gppo_objective, (0.75, 1.0, 0.2, 0.2)),
    ("ce_gppo", {"beta_low": 2.0, "beta_high": 0.5, "eps_high": 0.28}, ce_gppo_objective, (2.0, 0.5, 0.2, 0.28)),
    ("aspo", {}, aspo_objective, (0.2, 0.2, 3.0)),
    ("aspo", {"eps_low": 1.0, "eps_high": 2.0, "cap": 1.05}, aspo_objective, (1.0, 2.0, 1.05)),
    ("entropy_target_clip", {}, clip_objective, (0.2, 0.28)),  # at its start; see test_surrogates_casp.py
    ("entropy_target_clip", {"eps_low": 0.1, "eps_high": 0.6, "narrowest": -0.2}, clip_objective, (0.1, 0.6)),
]
# These read more than a token's ratio and advantage: see test_surrogates_tokens.py and test_surrogates_casp.py.
BEYOND_THE_TOKEN = {
    "sequence_clip", "clip_cov", "kl_cov", "casp", "gmpo", "vespo", "topr", "mirror_descent", "forking_tokens",
    "dppo_tv", "dppo_kl", "ipo_mask", "opsm", "sequence_mask",
}  # fmt: skip


def test_no_surrogate_is_without_an_objective():
    assert {name for name, *_ in OBJECTIVES} == set(SURROGATES) - BEYOND_THE_TOKEN


@pytest.mark.parametrize(("name", "parameters", "objective", "constants"), OBJECTIVES)
def test_coefficient_is_the_derivative_of_the_objective(name, parameters, objective, constants):
    """It holds for tokens and for candidates on an axis more; advantages broadcast, and the dtype is kept."""
    chosen = surrogate(name, **parameters)
    ratio, advantages = np.reshape(RATIOS, (-1, 1, 1)), np.reshape(ADVANTAGES, (1, -1, 1))
    shape = np.broadcast_shapes(ratio.shape, advantages.shape)
    old_logp = np.full(shape, -3.0)
    expected = jax.grad(lambda logp: objective(logp, old_logp, advantages, *constants).sum())(np.log(ratio) + old_logp)
    wide, level = np.broadcast_to(ratio, shape), np.broadcast_to(advantages, shape)
    np.testing.assert_allclose(chosen.coefficient(wide, level, ROLLOUTS), expected, rtol=1e-12, atol=0)
    pair = np.stack([wide, wide], axis=-1)
    of_candidates = chosen.coefficient(pair, np.stack([level, level], axis=-1), ROLLOUTS)
    np.testing.assert_allclose(of_candidates, np.stack([expected, expected], axis=-1), rtol=1e-12, atol=0)
    for dtype in (array_api_strict.float32, array_api_strict.float64):
        strict = (array_api_strict.asarray(array, dtype=dtype) for array in (wide, advantages))
        assert chosen.coefficient(*strict, ROLLOUTS).dtype == dtype


@pytest.mark.parametrize(
    ("chosen", "success", "failure"),
    [
        ("reinforce", 2.0, -2.0), ("ppo_clip", 0.0, None), ("clip_higher", 0.0, None), ("cispo", 12.0, -12.0),
        ("dual_clip", 0.0, 0.0), ("sapo", 0.0, 0.0), ("ce_gppo", 2.4, None), ("aspo", 0.0, -6.0), ("gmpo", 0.0, None),
        ("topr", 2.0, -2.0),
    ],
)  # fmt: skip
def test_a_ratio_that_overflowed_stays_bounded(chosen, success, failure):
    """None stands for a failure whose coefficient nothing bounds."""
    for advantage, expected in ((2.0, success), (-2.0, failure)):
        if expected is not None:
            ratio, level = np.full((1, 1, 1), np.inf), np.full((1, 1, 1), advantage)
            np.testing.assert_array_equal(surrogate(chosen).coefficient(ratio, level, ROLLOUTS), [[[expected]]])


CLIPS = "ppo_clip clip_higher dual_clip cispo sequence_clip clip_cov casp ce_gppo aspo forking_tokens opsm"
OUTSIDE = [
    (CLIPS, "eps_low", (-0.1, 1.1), "[0, 1]"),
    (CLIPS, "eps_high", (-0.1, math.nan), "[0, inf)"),
    ("gmpo", "eps_low eps_high", (-0.1,), "[0, inf)"),
    ("dual_clip aspo", "cap", (1.0, 0.5, math.nan), "(1, inf)"),
    ("sapo", "tau_pos tau_neg", (0.0, math.nan), "(0, inf)"),
    ("vespo", "lambda_pos lambda_neg", (0.0,), "(0, inf)"),
    ("vespo", "k_pos k_neg", (-1.0,), "[0, inf)"),
    ("ce_gppo", "beta_low beta_high", (-0.1,), "[0, inf)"),
    ("mirror_descent", "tau", (-0.1,), "[0, inf)"),
    ("forking_tokens clip_cov kl_cov", "share", (-1e-9, 1.5, math.nan), "[0, 1]"),
    ("clip_cov", "low high", (math.nan,), "[-inf, inf)"),
    ("kl_cov", "penalty", (-1.0,), "[0, inf)"),
    ("dppo_tv dppo_kl", "delta_low delta_high", (-0.1, math.nan), "[0, inf)"),
    ("ipo_mask opsm", "delta", (-0.1, math.nan), "[0, inf)"),
    ("sequence_mask", "low high", (-0.1,), "[0, inf)"),
    ("log_ratio_penalty", "coefficient", (-1e-3,), "[0, inf)"),
    ("casp", "alpha quantile", (-0.1, 1.1, math.nan), "[0, 1]"),
    ("casp", "candidates", (0,), "[1, inf)"),
    ("casp", "top_penalty", (-1.1,), "[0, inf)"),
    ("kl_penalty", "coefficient", (-1e-3,), "[0, inf)"),
    ("entropy_bonus", "coefficient", (math.nan,), "[-inf, inf)"),
    ("adaptive_entropy_bonus", "target delta", (-0.1, math.nan), "[0, inf)"),
    ("entropy_target_clip", "target step", (-0.1, math.nan), "[0, inf)"),
    ("adaptive_entropy_bonus", "lowest highest initial", (math.nan,), "[-inf, inf)"),
]


def test_parameters_outside_their_range_are_refused():
    for names, parameters, values, allowed in OUTSIDE:
        for name, parameter, value in itertools.product(names.split(), parameters.split(), values):
            message = refusal(getattr(surrogates, name), **{parameter: value})
            assert message == f"{parameter} = {value} is outside its range {allowed}"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: clip_cov(low=3.0, high=2.0), "low = 3.0 is above high = 2.0; allowed"),
        (lambda: sequence_mask(low=3.0, high=2.0), "low = 3.0 is above high = 2.0; allowed"),
        (lambda: surrogates.adaptive_entropy_bonus(lowest=2.0), "lowest = 2.0; allowed: up to highest = 1.0"),
        (
            lambda: surrogates.entropy_target_clip(narrowest=0.1),
            "narrowest = 0.1; allowed: from -eps_high = -0.28 to widest = 0.08",
        ),
        (lambda: casp(weights="softmax"), "weights = 'softmax' is unknown; allowed: uniform, proportional"),
        (lambda: kl_penalty(form="k4"), "form = 'k4' is unknown; allowed: k1, k2, k3, sequence_k2"),
        (lambda: entropy_bonus(coefficient="0.1"), "coefficient = '0.1' is not a number"),
        (lambda: surrogate("gspo"), "surrogate = 'gspo' is unknown (did you mean 'sapo'?); allowed: aspo, "),
        (lambda: surrogate("ppo_clip", cap=2.0), "ppo_clip has no parameter 'cap'; it takes: eps_low, eps_high"),
        (lambda: Surrogate(lambda ratio, *_: ratio, needs=frozenset({"value"})), "a surrogate needs ['value']"),
        (lambda: aggregation_weights(MASKS["full"], "median"), "aggregation = 'median' is unknown; allowed"),
        (lambda: aggregation_weights(MASKS["full"], normaliser=0.0), "normaliser = 0.0 is outside its range (0, inf)"),
    ],
)
def test_what_is_no_surrogate_or_aggregation_is_refused(build, message):
    assert message in refusal(build)


def naive_weights(token_mask, aggregation, normaliser):
    """The three losses as loops: a token's weight is what its own term is divided by."""
    rollouts = [[int(t) for t in tokens] for group in token_mask for tokens in group]
    written = [tokens for tokens in rollouts if sum(tokens) > 0]
    weights = []
    for tokens in rollouts:
        divisor = {
            "token_mean": sum(sum(other) for other in written),
            "sequence_mean": len(written) * sum(tokens),
            "constant": len(written) * normaliser,
        }[aggregation]
        weights.append([1 / divisor if exists else 0.0 for exists in tokens])
    return np.reshape(weights, token_mask.shape)


MASKS = {
    "full": np.ones((2, 3, 4), dtype=bool),
    "ragged": np.arange(4) < np.array([[4, 1, 2], [3, 3, 1]])[..., None],
    "with empty rollouts": np.arange(4) < np.array([[0, 1, 2], [4, 0, 0]])[..., None],
    "empty": np.zeros((2, 3, 4), dtype=bool),
}


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("mask", MASKS)
def test_aggregation_equals_the_loops(aggregation, mask):
    for xp in (np, array_api_strict):
        actual = aggregation_weights(xp.asarray(MASKS[mask]), aggregation, normaliser=8.0)
        np.testing.assert_allclose(np.asarray(actual), naive_weights(MASKS[mask], aggregation, 8.0), rtol=1e-15, atol=0)


def one_token(ratio, advantage):
    """A batch of one rollout of one token."""
    return Batch(np.full((1, 1, 1), ratio), np.full((1, 1, 1), advantage), Rollouts(np.zeros((1, 1))))


@pytest.mark.parametrize("name", ["sapo", "ce_gppo", "aspo", "gmpo", "vespo", "topr"])
@given(ratio=some.floats(1e-6, 1e6), advantage=some.floats(-10, 10))
def test_a_weight_is_finite_and_never_turns_an_advantage_round(name, ratio, advantage):
    weight = surrogate(name).coefficient(*one_token(ratio, advantage)).item()
    assert math.isfinite(weight)
    assert weight * advantage >= 0


@pytest.mark.parametrize("name", ["cispo", "ipo_mask"])
def test_a_ratio_that_is_nan_is_no_coefficient_of_0(name):
    half = np.full((1, 2, 2), np.log(0.5))
    rollouts = Rollouts(np.array([[1.0, 0.0]]), token_mask=np.ones((1, 2, 2), bool), old_logp=half)
    ratio = np.array([[[1.0, np.nan], [1.0, 1.0]]])
    coefficient = surrogate(name).coefficient(ratio, np.array([[[1.0], [-1.0]]]), rollouts)
    assert np.isnan(coefficient[0, 0, 1])
