"""CaSP, its warm-up, and the clip that follows the entropy.

CaSP: part of a success goes to the likeliest candidates, failures at the top cost more, where entropy is high.
"""

import itertools
import math
from fractions import Fraction
from typing import Any, NamedTuple

import array_api_strict
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refusal
from token_batches import (
    at_tokens,
    check_equals,
    check_padding_is_irrelevant,
    clip_objective,
    converted,
    ragged,
    responses_of,
    tokens_of,
)

from figures.shared.off_policy_moments import check_method
from simlab import Rollouts
from simlab.methods import Method, method
from simlab.surrogates import (
    adaptive_entropy_bonus,
    add,
    casp,
    clip_higher,
    entropy_bonus,
    entropy_target_clip,
    kl_penalty,
    ppo_clip,
)

pytestmark = pytest.mark.usefixtures("double_precision")

LIBRARIES = pytest.mark.parametrize("xp", [np, array_api_strict], ids=["numpy", "strict"])


def of_entropies(*entropies, xp=np):
    """A batch of one prompt for each list, whose rollouts have one token each."""
    return [
        Rollouts(xp.zeros((1, len(row))), entropy=xp.asarray(row, dtype=xp.float64)[None, :, None]) for row in entropies
    ]


def widths(chosen, batches):
    """The largest ratio, to 1/1024, that a success is still learned from, less 1: in each of some batches."""
    ratios = 1 + np.arange(1024)[None, :, None] / 1024
    nobody = Rollouts(np.zeros((1, 1024)))
    state, bounds = chosen.init(), []
    for batch in batches:
        state = chosen.follow(batch, state)
        indices = np.flatnonzero(chosen.at(state).coefficient(ratios, np.ones_like(ratios), nobody)[0, :, 0])
        bounds.append(float(indices.max() / 1024))
    return bounds


def naive_widenings(means, target, step, narrowest, widest):
    """The k of each batch; ``means`` are those of the entropies."""
    goal, k, widenings = means[0] if target is None else target, 0.0, []
    for mean in means:
        if mean < goal:
            k = min(k + step, widest)
        elif mean > goal:
            k = max(k - step, narrowest)
        widenings.append(k)
    return widenings


@LIBRARIES
@pytest.mark.parametrize("target", [None, 1.25])
@pytest.mark.parametrize(("narrowest", "widest"), [(0.0, 0.1), (-0.2, 0.3)])
def test_the_bound_follows_the_entropy_as_the_loop_does(target, narrowest, widest, xp):
    random = np.random.default_rng(3)
    entropies = [(random.integers(0, 160, 4) / 64).tolist() for _ in range(12)]
    chosen = entropy_target_clip(target, 0.0625, narrowest=narrowest, widest=widest, eps_high=0.25)
    state, widenings = chosen.init(), []
    for batch in of_entropies(*entropies, xp=xp):
        state = chosen.follow(batch, state)
        widenings.append(float(state.by))
    means = [math.fsum(row) / len(row) for row in entropies]
    expected = naive_widenings(means, target, 0.0625, narrowest, widest)
    np.testing.assert_allclose(widenings, expected, atol=1e-12)
    assert len({*expected}) > 1
    if xp is np:
        bounds = [math.floor(1024 * (0.25 + k)) / 1024 for k in expected]
        np.testing.assert_allclose(widths(chosen, of_entropies(*entropies)), bounds, atol=1 / 1024)


def test_it_is_clip_higher_at_its_start_without_a_step_and_while_entropy_stays():
    batches = of_entropies([1.0, 2.0], [1.0, 0.5], [3.0, 3.0])
    assert widths(entropy_target_clip(step=0.0), batches) == widths(clip_higher(), batches)
    assert widths(entropy_target_clip(), batches[:1] * 3) == widths(clip_higher(), batches)
    floor = widths(entropy_target_clip(target=0.25), batches)
    assert floor == widths(clip_higher(), batches), "a floor under the entropy is none above it"
    ratio, advantages, rollouts = ragged()
    start = entropy_target_clip(0.7, eps_low=0.1, eps_high=0.3).coefficient(ratio, advantages, rollouts)
    np.testing.assert_array_equal(start, clip_higher(0.1, 0.3).coefficient(ratio, advantages, rollouts))


@LIBRARIES
@pytest.mark.parametrize(("lowest", "highest", "initial"), [(0.0, 1.0, 0.0), (-0.125, 0.25, 0.0625)])
def test_the_bonus_follows_the_entropy_a_batch_late_as_trls_loop_does(lowest, highest, initial, xp):
    """TRL's controller: k is applied where the last batch was at or below the target, and then moves by this one."""
    random = np.random.default_rng(4)
    entropies = [(random.integers(0, 100 if number < 8 else 240, 4) / 64).tolist() for number in range(14)]
    entropies.append([1.25] * 4)
    means = [math.fsum(row) / len(row) for row in entropies]
    k, last, expected = initial, math.inf, []
    for mean in means:
        expected.append(k if last <= 1.25 else 0.0)
        k = min(k + 0.0625, highest) if mean <= 1.25 else max(k - 0.0625, lowest)
        last = mean
    chosen = adaptive_entropy_bonus(1.25, 0.0625, lowest=lowest, highest=highest, initial=initial)
    state, bonuses = chosen.init(), []
    for batch in of_entropies(*entropies, xp=xp):
        state = chosen.follow(batch, state)
        bonuses.append(float(state.applied))
    assert bonuses == expected
    assert len({*expected}) > 3
    record = converted(ragged(), xp)
    np.testing.assert_array_equal(
        at_tokens(chosen.at(state).coefficient(*record)), at_tokens(entropy_bonus(bonuses[-1]).coefficient(*record))
    )


@LIBRARIES
def test_casp_is_grpo_during_its_warm_up_and_itself_after_it(xp):
    ratio, advantages, rollouts = converted(ragged(), xp)
    warmed = casp(0.3, 2, 0.5, 1.5, warm_up=2)
    state = warmed.init()
    clip = at_tokens(ppo_clip().coefficient(ratio, advantages, rollouts))
    itself = at_tokens(casp(0.3, 2, 0.5, 1.5).coefficient(ratio, advantages, rollouts))
    assert not np.array_equal(itself[:, 0], clip)
    for number in range(5):
        state = warmed.follow(rollouts, state)
        coefficients = at_tokens(warmed.at(state)(ratio, advantages, rollouts))
        np.testing.assert_array_equal(coefficients[:, 0], clip if number < 2 else itself[:, 0])
        np.testing.assert_array_equal(coefficients[:, 1:], 0 * itself[:, 1:] if number < 2 else itself[:, 1:])


def test_a_surrogate_without_a_schedule_stays_as_it_is():
    for chosen in (ppo_clip(), casp(), add(clip_higher(), kl_penalty())):
        assert chosen.schedule is None
        assert chosen.init() == ()
        assert chosen.at(chosen.follow(ragged().rollouts, ())) is chosen
    grpo = method("grpo")
    assert grpo.at(()) is grpo


def test_a_batch_of_no_token_counts_as_entropy_0():
    empty = Rollouts(np.zeros((1, 2)), entropy=np.full((1, 2, 1), np.nan), token_mask=np.zeros((1, 2, 1), bool))
    chosen = entropy_target_clip(1.0)
    assert float(chosen.follow(empty, chosen.init()).by) == 0.01


def test_exact_moments_of_one_batch_know_no_memory():
    bound = Method(method("grpo").estimator, entropy_target_clip())
    assert "candidates or a memory" in refusal(check_method, bound, 2)


def test_what_a_surrogate_remembers_may_be_traced():
    """One compiled program then serves all steps."""
    chosen = entropy_target_clip(1.0, 0.125, widest=0.5)
    batches = of_entropies([0.5], [0.5], [2.0], [0.5], xp=jnp)
    state = traced = jax.tree.map(jnp.float64, chosen.init())
    for batch in batches:
        state, traced = chosen.follow(batch, state), jax.jit(chosen.follow)(batch, traced)
    assert list(map(float, itertools.chain(state))) == list(map(float, itertools.chain(traced)))
    assert float(state.by) == 0.25


class Settings(NamedTuple):
    alpha: float = 0.01
    candidates: int = 3
    quantile: float = 0.8
    top_penalty: float = 1.1
    weights: str = "uniform"
    eps_low: float = 0.2
    eps_high: float = 0.2


def threshold(entropies, q):
    """The smallest number that a share of at least q of the entropies does not exceed: minus infinity for q = 0."""
    wanted = Fraction(str(q)) * len(entropies)
    candidates = [-math.inf, *sorted(entropies)]
    return next(v for v in candidates if sum(entropy <= v for entropy in entropies) >= wanted)


def token_objective(row, token, gated, settings):
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


def naive_rows(settings):
    """The derivatives of the objective by log pi of each token and of its candidates, at their moved values."""
    tokens, gated = tokens_of(ragged()), {}
    for response in responses_of(tokens):
        level = threshold([token.entropy for token in response], settings.quantile)
        gated |= {token: token.entropy > level for token in response}

    def objective(rows):
        pairs = zip(rows, tokens, strict=True)
        return sum(token_objective(row, token, gated[token], settings) for row, token in pairs)

    now = [[token.logp, *(logp - 0.3 for logp in token.topn_logp[: settings.candidates])] for token in tokens]
    return np.asarray(jax.grad(objective)(now)).tolist()


# No ratio, times its penalty, lies on a bound, where min and clip have no derivative.
SETTINGS = [
    Settings(),
    Settings(quantile=1.0, alpha=1.0, top_penalty=5.0),
    Settings(alpha=0.3, candidates=2, quantile=0.5, top_penalty=1.5),
    Settings(alpha=0.3, candidates=4, quantile=0.0, top_penalty=1.3, weights="proportional"),
    Settings(alpha=1.0, candidates=1, quantile=0.25, top_penalty=0.6, eps_low=0.3, eps_high=0.28),
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_rows_equal_the_derivative_of_the_objective(settings):
    check_equals(casp(**settings._asdict()), naive_rows(settings))
    check_padding_is_irrelevant(casp(**settings._asdict()))


def test_too_few_candidates_and_none_are_refused():
    assert refusal(casp(candidates=5).coefficient, *ragged()) == "topn_logp holds 4 candidates; allowed: at least 5"
    ratio, advantages, rollouts = ragged()
    message = refusal(casp().coefficient, ratio, advantages, rollouts._replace(topn_logp=None))
    assert message == "rollouts carry no topn_logp, which this method needs"
