"""Methods: estimator, surrogate and aggregation under one name give the coefficients of the published loss."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import array_api_strict
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refusal
from token_batches import (
    LENGTHS,
    LONGEST,
    MASK,
    PRESENT,
    REWARDS,
    TOLERANCE,
    Batch,
    Token,
    at_tokens,
    converted,
    on_policy,
    ragged,
    responses_of,
    tokens_of,
)

from simlab import Rollouts, estimator
from simlab.methods import METHODS, Method, focal, method
from simlab.rollouts import FIELDS
from simlab.surrogates import cispo, reinforce

BARE = [name for name in METHODS if not name.startswith("f_")]
EACH_BARE_METHOD = pytest.mark.parametrize("name", BARE)


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def coefficients(chosen: Method, batch: Batch) -> Any:
    values, _ = chosen.coefficients(batch.ratio, batch.rollouts, chosen.estimator.init())
    return values


def naive_advantages(scaled: bool) -> list[list[float]]:
    """(r - mean) / (std + 1e-6) in each group, or r - mean; exactly 0 where all rewards are equal."""
    advantages = []
    for row, exists in zip(REWARDS.tolist(), MASK, strict=True):
        rewards = [reward for reward, here in zip(row, exists, strict=True) if here]
        mean = math.fsum(rewards) / len(rewards)
        std = math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / len(rewards))
        advantages.append([(reward - mean) / (std + 1e-6 if scaled else 1.0) for reward in rewards])
    return advantages


def clipped(ratio: float, advantage: float, eps_low: float, eps_high: float) -> float:
    """The slope by log pi of min(ratio A, clip(ratio) A)."""
    taken_over = ratio > 1 + eps_high if advantage > 0 else ratio < 1 - eps_low
    return 0.0 if taken_over else ratio * advantage


def naive_value(name: str, token: Token, response: list[Token], advantage: float) -> float:
    """The slope by log pi of one token's own term; GSPO's is that of its sequence."""
    logs = [math.log(other.ratio) for other in response]
    sequence_ratio, product = math.exp(math.fsum(logs) / len(logs)), math.exp(math.fsum(logs))
    bounded = [min(log, 0.4) if advantage > 0 else max(log, -0.4) for log in logs]
    is_cut = math.log(token.ratio) > 0.4 if advantage > 0 else math.log(token.ratio) < -0.4
    tau, k, rate = (1.0, 2, 3) if advantage > 0 else (1.05, 3, 2)
    return {
        "grpo": clipped(token.ratio, advantage, 0.2, 0.2),
        "dr_grpo": clipped(token.ratio, advantage, 0.2, 0.2),
        "dapo": clipped(token.ratio, advantage, 0.2, 0.28),
        "wapo": clipped(token.ratio, max(advantage, 0.0), 0.2, 9.0),
        "cispo": min(token.ratio, 6.0) * advantage,
        "gspo": clipped(sequence_ratio, advantage, 3e-4, 4e-4),
        "luspo": clipped(sequence_ratio, advantage, 2e-3, 2.5e-3),
        "sapo": token.ratio * advantage / math.cosh(tau * (token.ratio - 1) / 2) ** 2,
        "gmpo": 0.0 if is_cut else math.exp(math.fsum(bounded) / len(bounded)) * advantage,
        "vespo": product**k * math.exp(rate * (1 - product)) * advantage,
    }[name]


def naive_weight(name: str, response: list[Token], responses: list[list[Token]]) -> float:
    """The weight of a token's term: 1 over all tokens, over its rollout's tokens and rollouts, or over a constant."""
    if name == "luspo":
        return 1 / len(responses)
    if name in ("dapo", "cispo", "vespo"):
        return 1 / sum(len(other) for other in responses)
    if name in ("dr_grpo", "wapo"):
        return 1 / (len(responses) * LONGEST)
    return 1 / (len(responses) * len(response))


def naive_coefficients(name: str, batch: Batch) -> list[float]:
    advantages = naive_advantages(scaled=name not in ("dr_grpo", "wapo"))
    responses, terms = responses_of(tokens_of(batch)), []
    for response in responses:
        weight = naive_weight(name, response, responses)
        for token in response:
            advantage = advantages[token.prompt][token.rollout]
            terms.append(weight * naive_value(name, token, response, advantage))
    return terms


LOOPS = ["grpo", "dr_grpo", "dapo", "cispo", "gspo", "luspo", "sapo", "gmpo", "vespo", "wapo"]


@pytest.mark.parametrize("name", LOOPS)
def test_a_method_equals_its_loops(name: str) -> None:
    expected = naive_coefficients(name, ragged())
    for xp, dtype in ((np, "float64"), (array_api_strict, "float32"), (jnp, "float32")):
        run = (
            jax.jit(lambda batch: coefficients(method(name), batch))
            if xp is jnp
            else partial(coefficients, method(name))
        )
        actual, tolerance = run(converted(ragged(), xp, dtype)), TOLERANCE[dtype]
        assert (actual.shape, actual.dtype) == (PRESENT.shape, getattr(xp, dtype))
        np.testing.assert_allclose(at_tokens(actual), expected, rtol=tolerance, atol=tolerance / 100)


@EACH_BARE_METHOD
def test_nothing_is_moved_where_no_token_is(name: str) -> None:
    """The result is finite everywhere, exactly 0 in padding, and the same for any padding."""
    values = coefficients(method(name), ragged())
    assert np.isfinite(values).all()
    np.testing.assert_array_equal(values[~PRESENT], 0)
    assert np.any(values[PRESENT] != 0)
    np.testing.assert_array_equal(values, coefficients(method(name), ragged(filler=3.0)))


@pytest.mark.parametrize("name", [name for name in BARE if name not in LOOPS])
def test_under_jit_it_is_the_same_to_rounding(name: str) -> None:
    chosen = method(name)
    actual = jax.jit(lambda batch: coefficients(chosen, batch))(converted(ragged(), jnp))
    np.testing.assert_allclose(actual, coefficients(chosen, ragged()), rtol=1e-14, atol=1e-15)


@EACH_BARE_METHOD
def test_it_reads_no_field_that_it_does_not_declare(name: str) -> None:
    chosen, batch = method(name), ragged()
    undeclared = batch.rollouts._replace(**dict.fromkeys(FIELDS - chosen.needs))
    np.testing.assert_array_equal(
        coefficients(chosen, batch), coefficients(chosen, batch._replace(rollouts=undeclared))
    )
    for field in chosen.needs - {"rewards"}:
        lacking = batch.rollouts._replace(**{field: None})
        message = refusal(coefficients, chosen, batch._replace(rollouts=lacking))
        assert f"rollouts carry no {field}, which this method needs" in message


def test_the_estimators_state_is_carried() -> None:
    """A running mean of rewards is subtracted, here 0 and then half the first batch's mean."""
    chosen = Method(estimator("running_mean", decay=0.5), reinforce(), "constant", 1.0)
    batch = on_policy(ragged())
    first, state = chosen.coefficients(batch.ratio, batch.rollouts, chosen.estimator.init())
    second, _ = chosen.coefficients(batch.ratio, batch.rollouts, state)
    advantages, state = chosen.estimator.update(batch.rollouts, chosen.estimator.init())
    later, _ = chosen.estimator.update(batch.rollouts, state)
    written = (LENGTHS * MASK > 0).sum()
    for actual, expected in ((first, advantages), (second, later)):
        np.testing.assert_allclose(
            actual, np.where(PRESENT, np.broadcast_to(expected[..., None], PRESENT.shape) / written, 0), rtol=1e-14
        )
    assert np.any(first != second)


FAILURE_RATE = np.array([[1 / 2], [0.0], [2 / 3]])  # 1 - X/G of the groups of REWARDS


def scaled_by_failure_rate(values: np.ndarray) -> np.ndarray:
    return values * np.reshape(FAILURE_RATE, (-1, *(1 for _ in values.shape[1:])))


def test_focal_takes_a_method_without_a_name_and_acts_off_policy() -> None:
    base = Method(estimator("rloo"), cispo(), "constant", 7.0)
    twice = scaled_by_failure_rate(scaled_by_failure_rate(coefficients(base, ragged())))
    np.testing.assert_allclose(coefficients(focal(base, gamma=2.0), ragged()), twice, rtol=1e-14, atol=0)


def test_unknown_methods_and_parameters_are_refused() -> None:
    for name, parameters, message in (
        ("f_dapo", {"gamma": -1.0}, "gamma = -1.0 is outside its range [0, inf)"),
        ("f_f_dapo", {}, "method = 'f_f_dapo' is unknown (did you mean 'f_dapo'?); allowed: casp, "),
        ("f_dr_grpo", {"eps": 0.2}, "f_dr_grpo has no parameter 'eps'; it takes: gamma, max_tokens"),
        ("dr_grpo", {"max_tokens": -1.0}, "max_tokens = -1.0 is outside its range (0, inf)"),
    ):
        assert refusal(method, name, **parameters).startswith(message)


def test_a_batch_without_tokens_moves_nothing() -> None:
    nothing = ragged().rollouts._replace(token_mask=np.zeros_like(PRESENT))
    for name in METHODS:
        np.testing.assert_array_equal(coefficients(method(name), ragged()._replace(rollouts=Rollouts(*nothing))), 0)
