"""Penalties and bonuses: slopes of their written terms, exact expectations over a small policy, and sums of surrogates.

``[cw-grpo:kl]`` ``[casp:entropy-loss]``
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from token_batches import (
    Token,
    at_tokens,
    check_equals,
    check_padding_is_irrelevant,
    ragged,
    slopes,
    tokens_of,
)

from simlab import Rollouts
from simlab.surrogates import Surrogate, add, casp, entropy_bonus, kl_penalty
from simlab.surrogates.penalties import KL_FORMS


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


TERMS: dict[str, Callable[[Any], Any]] = {
    "k1": lambda gap: gap,
    "k2": lambda gap: gap**2 / 2,
    "k3": lambda gap: jnp.exp(-gap) - 1 + gap,
}


def naive_kl_penalty(tokens: list[Token], coefficient: float, form: str) -> list[float]:
    def objective(logps: list[Any]) -> Any:
        gaps = (logp - token.ref_logp for logp, token in zip(logps, tokens, strict=True))
        return -coefficient * sum(TERMS[form](gap) for gap in gaps)

    return slopes(objective, tokens)


def naive_entropy_bonus(tokens: list[Token], coefficient: float) -> list[float]:
    return [-coefficient * token.ratio * (token.logp + token.entropy) for token in tokens]


@pytest.mark.parametrize("form", KL_FORMS)
def test_kl_penalty_is_the_slope_of_its_term(form: str) -> None:
    check_equals(kl_penalty(0.5, form), naive_kl_penalty(tokens_of(ragged()), 0.5, form))
    check_padding_is_irrelevant(kl_penalty(0.5, form))


def test_entropy_bonus_is_its_score_function_slope() -> None:
    check_equals(entropy_bonus(-2.0), naive_entropy_bonus(tokens_of(ragged()), -2.0))
    check_padding_is_irrelevant(entropy_bonus(-2.0))


# Enumeration: one rollout of which each action of a softmax policy is a token, weighed by what sampled it.

ACTIONS = 7
LOGITS, OLD_LOGITS, REF_LOGITS = 1.5 * np.random.default_rng(11).normal(size=(3, ACTIONS))


def log_softmax(logits: Any) -> Any:
    return jax.nn.log_softmax(jnp.asarray(logits))


def expected_step(chosen: Surrogate, logits: np.ndarray, old_logits: np.ndarray) -> np.ndarray:
    """The expectation of coefficient * grad log pi under the policy that samples, every action enumerated."""
    logp, old_logp, ref_logp = (np.asarray(log_softmax(each)) for each in (logits, old_logits, REF_LOGITS))
    entropy = np.full(ACTIONS, -np.sum(np.exp(old_logp) * old_logp))
    as_tokens = {"old_logp": old_logp, "ref_logp": ref_logp, "entropy": entropy}
    rollouts = Rollouts(np.zeros((1, 1)), **{name: values[None, None] for name, values in as_tokens.items()})
    ratio = np.exp(logp - old_logp)[None, None]
    coefficients = chosen.coefficient(ratio, np.zeros((1, 1, 1)), rollouts)[0, 0]
    return (np.exp(old_logp) * coefficients) @ (np.eye(ACTIONS) - np.exp(logp))


def kl_from_reference(logits: Any) -> Any:
    logp, ref_logp = log_softmax(logits), log_softmax(REF_LOGITS)
    return jnp.sum(jnp.exp(logp) * (logp - ref_logp))


def kl_of_reference(logits: Any) -> Any:
    logp, ref_logp = log_softmax(logits), log_softmax(REF_LOGITS)
    return jnp.sum(jnp.exp(ref_logp) * (ref_logp - logp))


def entropy_of(logits: Any) -> Any:
    logp = log_softmax(logits)
    return -jnp.sum(jnp.exp(logp) * logp)


@pytest.mark.parametrize(
    ("form", "divergence"), [("k1", lambda logits: 0.0 * logits[0]), ("k2", kl_from_reference), ("k3", kl_of_reference)]
)
def test_on_policy_each_kl_form_descends_its_divergence(form: str, divergence: Callable[[Any], Any]) -> None:
    """k1 has no gradient in expectation, k2 that of KL(pi || ref), k3 that of KL(ref || pi)."""
    expected = -0.5 * jax.grad(divergence)(jnp.asarray(LOGITS))
    np.testing.assert_allclose(expected_step(kl_penalty(0.5, form), LOGITS, LOGITS), expected, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("sampled_by", [LOGITS, OLD_LOGITS], ids=["on policy", "off policy"])
def test_entropy_bonus_ascends_the_entropy(sampled_by: np.ndarray) -> None:
    """In expectation exactly, off policy too: the ratio corrects for who sampled, and a baseline adds nothing."""
    expected = 0.3 * jax.grad(entropy_of)(jnp.asarray(LOGITS))
    np.testing.assert_allclose(expected_step(entropy_bonus(0.3), LOGITS, sampled_by), expected, rtol=1e-10, atol=1e-15)


# Sums


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_a_sum_leaves_0_for_candidates_that_a_summand_does_not_move(order: tuple[int, ...]) -> None:
    summands = (
        casp(alpha=0.3, candidates=3, quantile=0.0),
        kl_penalty(0.5),
        casp(alpha=0.2, candidates=1, quantile=0.0),
    )
    wide, plain, narrow = (at_tokens(summand.coefficient(*ragged())) for summand in summands)
    expected = wide.copy()
    expected[:, 0] += plain
    expected[:, :2] += narrow
    total = add(*(summands[index] for index in order))
    assert (total.candidates, total.needs) == (3, {"old_logp", "ref_logp", "entropy", "topn_logp"})
    check_equals(total, expected.tolist())
