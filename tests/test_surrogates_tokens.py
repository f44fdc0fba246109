"""Surrogates that look beyond one token: GSPO's whole sequences, Clip-Cov's and KL-Cov's covariance over the batch."""

import inspect
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_surrogates import BEYOND_THE_TOKEN, OBJECTIVES
from test_surrogates_casp import Settings
from token_batches import (
    at_tokens,
    check_equals,
    check_padding_is_irrelevant,
    clip_objective,
    converted,
    ragged,
    responses_of,
    slopes,
    tokens_of,
)

from simlab import Rollouts
from simlab.surrogates import SURROGATES, add, casp, entropy_bonus, kl_penalty, log_ratio_penalty, reinforce, surrogate
from simlab.surrogates.penalties import KL_FORMS

pytestmark = pytest.mark.usefixtures("double_precision")


def covariances(tokens):
    """(log pi - its mean)(A - its mean), over all tokens of the batch."""
    mean_logp = math.fsum(token.logp for token in tokens) / len(tokens)
    mean_advantage = math.fsum(token.advantage for token in tokens) / len(tokens)
    return [(token.logp - mean_logp) * (token.advantage - mean_advantage) for token in tokens]


def share_of(tokens, share):
    return max(1, int(Fraction(str(share)) * len(tokens)))


def naive_eligible(tokens, low, high):
    """The tokens that Clip-Cov may drop: covariance between its bounds, and not clipped by PPO at .2 already."""
    eligible = []
    for index, (token, c) in enumerate(zip(tokens, covariances(tokens), strict=True)):
        clipped = token.ratio > 1.2 if token.advantage > 0 else token.advantage < 0 and token.ratio < 0.8
        if low < c < high and not clipped:
            eligible.append(index)
    return eligible


def naive_dropped(tokens, share, low, high):
    by_noise = sorted(naive_eligible(tokens, low, high), key=lambda index: tokens[index].noise)
    return by_noise[: share_of(tokens, share)]


def by_response(tokens, objective):
    """The slopes of an objective of the log pi of a response, of that response."""
    return [slope for response in responses_of(tokens) for slope in slopes(partial(objective, response), response)]


def by_token(tokens, term):
    """The slopes of the sum of a term of each token's log pi and of the token."""
    return slopes(lambda logps: sum(term(logp, token) for logp, token in zip(logps, tokens, strict=True)), tokens)


def log_ratios(response, logps):
    return [logp - token.old_logp for logp, token in zip(logps, response, strict=True)]


def naive_sequence_clip(tokens, eps_low=3e-4, eps_high=4e-4):
    """The derivatives of mean_t(...) by log pi of each token are 1 / length of these: the length is multiplied back."""

    def objective(response, logps):
        mean = sum(log_ratios(response, logps)) / len(response)
        return len(response) * clip_objective(jnp.exp(mean), response[0].advantage, eps_low, eps_high)

    return by_response(tokens, objective)


def naive_clip_cov(tokens, share=2e-4, low=1.0, high=5.0):
    dropped = [tokens[index] for index in naive_dropped(tokens, share, low, high)]

    def term(logp, token):
        return 0.0 if token in dropped else clip_objective(jnp.exp(logp - token.old_logp), token.advantage)

    return by_token(tokens, term)


def naive_kl_cov(tokens, share=2e-3, penalty=1.0):
    c = covariances(tokens)
    chosen = sorted(range(len(tokens)), key=lambda index: -c[index])[: share_of(tokens, share)]

    def objective(logps):
        gain = sum(jnp.exp(logp - token.old_logp) * token.advantage for logp, token in zip(logps, tokens, strict=True))
        gaps = [logps[index] - tokens[index].old_logp for index in chosen]
        return gain - penalty * sum(jnp.maximum(gap, -gap) for gap in gaps)  # its slope at 0 is 0; that of jnp.abs is 1

    return slopes(objective, tokens)


def naive_gmpo(tokens, eps_low=0.4, eps_high=0.4):
    """The derivatives of exp(mean_t of clipped log ratios) A are 1 / length of these: the length is multiplied back."""

    def objective(response, logps):
        advantage, logs = response[0].advantage, log_ratios(response, logps)
        bounded = [jnp.minimum(log, eps_high) if advantage > 0 else jnp.maximum(log, -eps_low) for log in logs]
        return len(response) * jnp.exp(sum(bounded) / len(bounded)) * advantage

    return by_response(tokens, objective)


def of_sequences(tokens, weight):
    """The same for all tokens of a response: a function of the product of their ratios, and of their advantage."""
    coefficients: list[float] = []
    for response in responses_of(tokens):
        product = math.prod(token.ratio for token in response)
        coefficients += [weight(product, response[0].advantage)] * len(response)
    return coefficients


def naive_vespo(tokens, k_pos=2.0, lambda_pos=3.0, k_neg=3.0, lambda_neg=2.0):
    def weight(w, advantage):
        k, rate = (k_pos, lambda_pos) if advantage >= 0 else (k_neg, lambda_neg)
        return math.exp(rate) * w**k * math.exp(-rate * w) * advantage

    return of_sequences(tokens, weight)


def naive_topr(tokens):
    return of_sequences(tokens, lambda w, advantage: advantage if advantage >= 0 else min(max(w, 0), 1) * advantage)


def naive_mirror_descent(tokens, tau=0.01):
    """The derivatives of -(A - tau log w)^2 / (2 tau), the regression that Eq. 3 descends."""

    def objective(response, logps):
        return -((response[0].advantage - tau * sum(log_ratios(response, logps))) ** 2) / (2 * tau)

    return by_response(tokens, objective)


def naive_forking_tokens(tokens, share=0.2, eps_low=0.2, eps_high=0.28):
    def term(logp, token):
        is_kept = sum(other.entropy > token.entropy for other in tokens) < Fraction(str(share)) * len(tokens)
        return is_kept * clip_objective(jnp.exp(logp - token.old_logp), token.advantage, eps_low, eps_high)

    return by_token(tokens, term)


def masked(tokens, drops):
    """ratio A of each token, or 0."""
    return [0.0 if drops(token) else token.ratio * token.advantage for token in tokens]


def probabilities(token):
    return math.exp(token.old_logp), math.exp(token.logp)


def naive_dppo_tv(tokens, delta_low=0.2, delta_high=0.2):
    def drops(token):
        before, now = probabilities(token)
        return now - before > delta_high if token.advantage > 0 else before - now > delta_low

    return masked(tokens, drops)


def naive_dppo_kl(tokens, delta_low=0.05, delta_high=0.05):
    """The drawn tokens may have a probability above 1: all others then have 1e-8."""

    def drops(token):
        before, now = probabilities(token)
        others = (1 - before) * math.log((1 - before) / max(1 - now, 1e-8))
        kl = before * math.log(before / now) + others
        return kl > (delta_high if now > before else delta_low) and (now - before) * token.advantage > 0

    return masked(tokens, drops)


def naive_ipo_mask(tokens, delta=0.1):
    return masked(tokens, lambda token: max(probabilities(token)) - min(probabilities(token)) > delta)


def mean_log_ratio(response):
    return sum(token.logp - token.old_logp for token in response) / len(response)


def naive_opsm(tokens, delta=1e-4, eps_low=0.2, eps_high=0.2):
    def objective(response, logps):
        advantage = response[0].advantage
        keeps = advantage >= 0 or -mean_log_ratio(response) <= delta
        ratios = map(jnp.exp, log_ratios(response, logps))
        return keeps * sum(clip_objective(ratio, advantage, eps_low, eps_high) for ratio in ratios)

    return by_response(tokens, objective)


def naive_sequence_mask(tokens, low=0.999, high=1.002):
    coefficients: list[float] = []
    for response in responses_of(tokens):
        keeps = low <= math.exp(mean_log_ratio(response)) <= high
        coefficients += [keeps * token.ratio * token.advantage for token in response]
    return coefficients


REFERENCES: dict[str, tuple[Callable[..., list[float]], list[dict[str, float]]]] = {
    "sequence_clip": (naive_sequence_clip, [{}, {"eps_low": 0.25, "eps_high": 0.3}]),
    "clip_cov": (
        naive_clip_cov,
        [{}, {"share": 0.1}, {"share": 0.25, "low": -0.5, "high": 1.5}, {"share": 0.0, "low": 0.25}, {"share": 1.0}],
    ),
    "kl_cov": (naive_kl_cov, [{}, {"share": 0.25, "penalty": 0.5}, {"share": 1.0, "penalty": 3.0}]),
    "gmpo": (naive_gmpo, [{}, {"eps_low": 0.1, "eps_high": 1.0}]),
    "vespo": (naive_vespo, [{}, {"k_pos": 0.5, "lambda_pos": 0.25, "k_neg": 1.0, "lambda_neg": 4.0}]),
    "topr": (naive_topr, [{}]),
    "mirror_descent": (naive_mirror_descent, [{}, {"tau": 0.5}]),
    "forking_tokens": (naive_forking_tokens, [{}, {"share": 0.5, "eps_low": 0.1, "eps_high": 0.3}]),
    "dppo_tv": (naive_dppo_tv, [{}, {"delta_low": 0.02, "delta_high": 0.07}]),
    "dppo_kl": (naive_dppo_kl, [{}, {"delta_low": 0.003, "delta_high": 0.3}]),
    "ipo_mask": (naive_ipo_mask, [{}, {"delta": 0.03}]),
    "opsm": (naive_opsm, [{}, {"delta": 0.2, "eps_high": 0.3}]),
    "sequence_mask": (naive_sequence_mask, [{}, {"low": 0.9, "high": 1.5}]),
}


def test_every_surrogate_is_either_token_wise_or_has_a_reference_beyond_the_token():
    assert {*REFERENCES, "casp"} == BEYOND_THE_TOKEN  # CaSP's loop is in test_surrogates_casp.py
    assert {*BEYOND_THE_TOKEN, *(name for name, *_ in OBJECTIVES)} == set(SURROGATES)


def test_defaults_are_the_published_ones_which_loops_and_objectives_have():
    def defaults(function):
        parameters = inspect.signature(function).parameters.values()
        return {each.name: each.default for each in parameters if each.default is not each.empty}

    for name, (loop, _) in REFERENCES.items():
        assert defaults(loop).items() <= defaults(SURROGATES[name]).items(), name
    assert defaults(Settings).items() <= defaults(casp).items()
    for name, parameters, _, constants in OBJECTIVES:
        if not parameters and name != "entropy_target_clip":  # which has more, of later batches
            assert tuple(defaults(SURROGATES[name]).values()) == constants, name


@pytest.mark.parametrize(
    ("name", "parameters"), [(name, values) for name, (_, each) in REFERENCES.items() for values in each]
)
def test_coefficients_equal_the_loops(name, parameters):
    check_equals(surrogate(name, **parameters), REFERENCES[name][0](tokens_of(ragged()), **parameters))


@pytest.mark.parametrize("name", SURROGATES)
def test_what_stands_where_no_token_exists_is_never_read(name):
    check_padding_is_irrelevant(surrogate(name))


@pytest.mark.parametrize("name", SURROGATES)
def test_float_parameters_may_be_traced(name):
    """One compiled engine then serves a whole grid of values."""
    batch, taken = converted(ragged(), jnp), inspect.signature(SURROGATES[name]).parameters.values()
    defaults = {parameter.name: parameter.default for parameter in taken if isinstance(parameter.default, float)}

    def with_values(values):
        return surrogate(name, **values).coefficient(*batch)

    traced, expected = jax.eval_shape(with_values, defaults), with_values(defaults)
    assert (traced.shape, traced.dtype) == (expected.shape, expected.dtype)


# Penalties and bonuses: slopes of their terms, exact expectations, and sums. [cw-grpo:kl] [casp:entropy-loss]

TERMS: dict[str, Callable[[Any], Any]] = {
    "k1": lambda gap: gap,
    "k2": lambda gap: gap**2 / 2,
    "k3": lambda gap: jnp.exp(-gap) - 1 + gap,
}


def naive_kl_penalty(tokens, coefficient, form):
    return by_token(tokens, lambda logp, token: -coefficient * TERMS[form](logp - token.ref_logp))


def naive_entropy_bonus(tokens, coefficient):
    return [-coefficient * token.ratio * (token.logp + token.entropy) for token in tokens]


@pytest.mark.parametrize("form", TERMS)
def test_kl_penalty_is_the_slope_of_its_term(form):
    check_equals(kl_penalty(0.5, form), naive_kl_penalty(tokens_of(ragged()), 0.5, form))
    check_padding_is_irrelevant(kl_penalty(0.5, form))


def test_the_penalty_of_sequences_makes_the_regression_of_a_star_po():
    """The derivatives of -(beta log(pi / pi_ref) - A)^2 / (2 beta), the log-ratio being that of the whole rollout."""
    beta = 0.25

    def objective(response, logps):
        gap = sum(logp - token.ref_logp for logp, token in zip(logps, response, strict=True))
        return -((beta * gap - response[0].advantage) ** 2) / (2 * beta)

    penalty = kl_penalty(beta, "sequence_k2")
    check_equals(add(reinforce(), penalty), by_response(tokens_of(ragged()), objective))
    check_padding_is_irrelevant(penalty)
    assert {*TERMS, "sequence_k2"} == set(KL_FORMS)


def test_log_ratio_penalty_is_the_slope_of_its_term():
    slopes_of_term = by_token(tokens_of(ragged()), lambda logp, token: -0.5 * (logp - token.old_logp) ** 2)
    check_equals(log_ratio_penalty(0.5), slopes_of_term)
    check_padding_is_irrelevant(log_ratio_penalty(0.5))


def test_entropy_bonus_is_its_score_function_slope():
    check_equals(entropy_bonus(-2.0), naive_entropy_bonus(tokens_of(ragged()), -2.0))
    check_padding_is_irrelevant(entropy_bonus(-2.0))


# Enumeration: one rollout of which each action of a softmax policy is a token, weighed by what sampled it.

ACTIONS = 7
LOGITS, OLD_LOGITS = 1.5 * np.random.default_rng(11).normal(size=(2, ACTIONS))


def log_softmax(logits):
    return jax.nn.log_softmax(jnp.asarray(logits))


def expected_step(chosen, logits, old_logits):
    """The expectation of coefficient * grad log pi under the policy that samples, every action enumerated."""
    logp, old_logp = (np.asarray(log_softmax(each)) for each in (logits, old_logits))
    entropy = np.full(ACTIONS, -np.sum(np.exp(old_logp) * old_logp))
    as_tokens = {"old_logp": old_logp, "entropy": entropy}
    rollouts = Rollouts(np.zeros((1, 1)), **{name: values[None, None] for name, values in as_tokens.items()})
    ratio = np.exp(logp - old_logp)[None, None]
    coefficients = chosen.coefficient(ratio, np.zeros((1, 1, 1)), rollouts)[0, 0]
    return (np.exp(old_logp) * coefficients) @ (np.eye(ACTIONS) - np.exp(logp))


def entropy_of(logits):
    logp = log_softmax(logits)
    return -jnp.sum(jnp.exp(logp) * logp)


@pytest.mark.parametrize("sampled_by", [LOGITS, OLD_LOGITS], ids=["on policy", "off policy"])
def test_entropy_bonus_ascends_the_entropy(sampled_by):
    """In expectation exactly, off policy too: the ratio corrects for who sampled, and a baseline adds nothing."""
    expected = 0.3 * jax.grad(entropy_of)(jnp.asarray(LOGITS))
    np.testing.assert_allclose(expected_step(entropy_bonus(0.3), LOGITS, sampled_by), expected, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_a_sum_leaves_0_for_candidates_that_a_summand_does_not_move(order):
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
