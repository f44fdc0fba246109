"""CaSP: part of a success goes to the likeliest candidates, failures at the top cost more, where entropy is high."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from token_batches import (
    Batch,
    Token,
    at_tokens,
    check_equals,
    check_padding_is_irrelevant,
    clip_objective,
    ragged,
    responses_of,
    tokens_of,
)

from simlab import Rollouts
from simlab.errors import InputError
from simlab.surrogates import casp, ppo_clip


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


class Settings(NamedTuple):
    alpha: float = 0.01
    candidates: int = 3
    quantile: float = 0.8
    top_penalty: float = 1.1
    weights: str = "uniform"
    eps_low: float = 0.2
    eps_high: float = 0.2


def threshold(entropies: list[float], q: float) -> float:
    """The smallest number that a share of at least q of the entropies does not exceed: minus infinity for q = 0."""
    wanted = Fraction(str(q)) * len(entropies)
    candidates = [-math.inf, *sorted(entropies)]
    return next(v for v in candidates if sum(entropy <= v for entropy in entropies) >= wanted)


def token_objective(row: list[Any], token: Token, gated: bool, settings: Settings) -> Any:
    """The written objective of one token, of its log pi and those of its candidates. ``[casp:eq-4]`` ``[casp:eq-5]``"""
    ratio, old = jnp.exp(row[0] - token.old_logp), token.topn_logp[: settings.candidates]
    if gated and token.advantage > 0:
        mass = [1.0 if settings.weights == "uniform" else math.exp(logp) for logp in old]
        smoothed: Any = 0.0
        for share, logp, old_logp in zip(mass, row[1:], old, strict=True):
            other = jnp.exp(logp - old_logp)
            smoothed = smoothed + share / math.fsum(mass) * jax.lax.stop_gradient(ratio / other) * other
        ratio = (1 - settings.alpha) * ratio + settings.alpha * smoothed
    elif gated and token.advantage < 0 and token.old_logp == token.topn_logp[0]:
        ratio = settings.top_penalty * ratio
    return clip_objective(ratio, token.advantage, settings.eps_low, settings.eps_high)


def naive_rows(settings: Settings) -> list[list[float]]:
    """The derivatives of the objective by log pi of each token and of its candidates, wherever those have moved to."""
    tokens, gated = tokens_of(ragged()), {}
    for response in responses_of(tokens):
        level = threshold([token.entropy for token in response], settings.quantile)
        gated |= {token: token.entropy > level for token in response}

    def objective(rows: list[list[Any]]) -> Any:
        pairs = zip(rows, tokens, strict=True)
        return sum(token_objective(row, token, gated[token], settings) for row, token in pairs)

    now = [[token.logp, *(logp - 0.3 for logp in token.topn_logp[: settings.candidates])] for token in tokens]
    return np.asarray(jax.grad(objective)(now)).tolist()


# No ratio, times its penalty, lies on a bound, where min and clip have no derivative.
SETTINGS = [
    Settings(),
    Settings(alpha=0.3, candidates=2, quantile=0.5, top_penalty=1.5),
    Settings(alpha=0.3, candidates=4, quantile=0.0, top_penalty=1.3, weights="proportional"),
    Settings(alpha=1.0, candidates=1, quantile=0.25, top_penalty=0.6, eps_low=0.3, eps_high=0.28),
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_rows_equal_the_derivative_of_the_objective(settings: Settings) -> None:
    check_equals(casp(**settings._asdict()), naive_rows(settings))
    check_padding_is_irrelevant(casp(**settings._asdict()))


# A tabular softmax policy of six actions, every token having logits of its own.


class Tabular(NamedTuple):
    logits: np.ndarray
    actions: np.ndarray
    candidates: np.ndarray
    batch: Batch


def tabular(step: float) -> Tabular:
    """A policy ``step`` away from the one that sampled; half of its actions are the likeliest."""
    generator = np.random.default_rng(5)
    old = generator.normal(size=(4, 3, 5, 6))
    ranked = np.argsort(-old, axis=-1)
    actions = np.where(generator.random((4, 3, 5)) < 0.5, ranked[..., 0], generator.integers(0, 6, (4, 3, 5)))
    new = old + step * generator.normal(size=old.shape)
    old_logp, new_logp = (np.asarray(jax.nn.log_softmax(logits, axis=-1)) for logits in (old, new))
    sampled = taken(old_logp, actions)
    topn_logp = np.take_along_axis(old_logp, ranked[..., :4], axis=-1)
    entropy = -(np.exp(old_logp) * old_logp).sum(axis=-1)
    ratio = np.exp(taken(new_logp, actions) - sampled)
    advantages = generator.choice([-1.5, -0.5, 0.0, 1.0, 2.0], (4, 3, 1))
    rollouts = Rollouts(np.zeros((4, 3)), old_logp=sampled, entropy=entropy, topn_logp=topn_logp)
    return Tabular(new, actions, ranked[..., :4], Batch(ratio, advantages, rollouts))


def taken(values: Any, actions: np.ndarray) -> Any:
    return jnp.take_along_axis(jnp.asarray(values), jnp.asarray(actions)[..., None], axis=-1)[..., 0]


def one_hot(actions: np.ndarray) -> np.ndarray:
    return np.eye(6)[actions]


def by_logits(rows: np.ndarray, policy: Tabular, candidates: int) -> np.ndarray:
    """The coefficients applied to grad log pi = e - pi of the sampled action and of each candidate."""
    away = -np.asarray(jax.nn.softmax(policy.logits, axis=-1))
    moved = rows[..., :1] * (one_hot(policy.actions) + away)
    for n in range(candidates):
        moved = moved + rows[..., 1 + n, None] * (one_hot(policy.candidates[..., n]) + away)
    return moved


def gates(entropy: np.ndarray, q: float) -> np.ndarray:
    flat = [[x > threshold(list(response), q) for x in response] for response in entropy.reshape(-1, entropy.shape[-1])]
    return np.reshape(flat, entropy.shape)


@pytest.mark.parametrize(
    ("step", "alpha", "candidates", "q", "top_penalty"), [(0.0, 0.01, 3, 0.8, 1.1), (0.5, 0.4, 2, 0.4, 1.3)]
)
def test_the_step_on_the_logits_is_the_gradient_of_the_ratio_form(
    step: float, alpha: float, candidates: int, q: float, top_penalty: float
) -> None:
    """``[casp:eq-4]`` in its ratio form, ``[casp:eq-5]``, and the clip of the ratio that they put in its place."""
    policy = tabular(step)
    old, advantages = policy.batch.rollouts, policy.batch.advantages
    gated, top = gates(old.entropy, q), policy.actions == policy.candidates[..., 0]

    def objective(logits: Any) -> Any:
        logp = jax.nn.log_softmax(logits, axis=-1)
        ratio = jnp.exp(taken(logp, policy.actions) - old.old_logp)
        others = [jnp.exp(taken(logp, policy.candidates[..., n]) - old.topn_logp[..., n]) for n in range(candidates)]
        sum_of_others = sum(jax.lax.stop_gradient(ratio / other) * other for other in others)
        smoothed = (1 - alpha) * ratio + alpha / candidates * sum_of_others
        replaced = jnp.where(gated & (advantages > 0), smoothed, ratio)
        replaced = jnp.where(gated & (advantages < 0) & top, top_penalty * ratio, replaced)
        return clip_objective(replaced, advantages).sum()

    rows = casp(alpha, candidates, q, top_penalty).coefficient(*policy.batch)
    expected = np.asarray(jax.grad(objective)(jnp.asarray(policy.logits)))
    np.testing.assert_allclose(by_logits(rows, policy, candidates), expected, rtol=1e-10, atol=1e-13)
    assert {bool(x) for x in (gated & (advantages > 0)).flat} == {bool(x) for x in (gated & top).flat} == {False, True}


@pytest.mark.parametrize(
    "parameters",
    [
        {"alpha": 0.0, "top_penalty": 1.0},
        {"alpha": 0.0, "top_penalty": 1.0, "quantile": 0.0},
        {"quantile": 1.0},
        {"quantile": 1.0, "alpha": 1.0, "top_penalty": 5.0},
    ],
)
def test_with_nothing_to_do_or_nowhere_to_do_it_it_is_ppo_clip(parameters: dict[str, float]) -> None:
    rows = at_tokens(casp(**parameters).coefficient(*ragged()))
    np.testing.assert_array_equal(rows[:, 0], at_tokens(ppo_clip().coefficient(*ragged())))
    np.testing.assert_array_equal(rows[:, 1:], 0)


def lone(advantage: float, logp: float, topn: list[float]) -> Batch:
    """One rollout of one token on policy, given by probabilities."""
    fields = {"old_logp": np.full((1, 1, 1), math.log(logp)), "entropy": np.full((1, 1, 1), 0.7)}
    candidates = np.log(np.reshape(topn, (1, 1, 1, -1)))
    rollouts = Rollouts(np.zeros((1, 1)), topn_logp=candidates, **fields)
    return Batch(np.ones((1, 1, 1)), np.full((1, 1, 1), advantage), rollouts)


@pytest.mark.parametrize(("q", "expected"), [(0.0, [1.8, 0.2]), (0.01, [2.0, 0.0]), (0.8, [2.0, 0.0])])
def test_a_response_of_one_token_exceeds_no_quantile_above_0(q: float, expected: list[float]) -> None:
    rows = casp(alpha=0.1, candidates=1, quantile=q).coefficient(*lone(2.0, 0.3, [0.5]))
    np.testing.assert_allclose(rows, [[[expected]]], rtol=1e-14)


def test_too_few_candidates_and_none_are_refused() -> None:
    with pytest.raises(InputError, match=r"^topn_logp holds 4 candidates; allowed: at least 5$"):
        casp(candidates=5).coefficient(*ragged())
    batch = ragged()
    with pytest.raises(InputError, match=r"^rollouts carry no topn_logp, which this method needs$"):
        casp().coefficient(batch.ratio, batch.advantages, batch.rollouts._replace(topn_logp=None))
