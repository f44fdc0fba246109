"""Surrogates that treat tokens apart where the covariance of log pi and A is large ``[cw-grpo:clip-cov]``.

Both choose among all tokens of the batch they are given, as the published code does of its micro-batch.
"""

from array_api_compat import array_namespace

from simlab.errors import InputError, check_range, is_concrete_number
from simlab.estimators.tokens import covariance_terms
from simlab.order_statistics import ordinal_rank
from simlab.rollouts import Array, Rollouts, Scalar, needed, token_weights
from simlab.surrogates.base import Surrogate, current_logp
from simlab.surrogates.clip import check_bounds, is_clipped, ppo_clip, product


def _first(scores: Array, eligible: Array, count: Array) -> Array:
    """True where an eligible token is among the ``count`` of lowest score, over all axes."""
    xp = array_namespace(scores)
    order = ordinal_rank(xp.reshape(xp.where(eligible, scores, xp.full_like(scores, float("inf"))), (-1,)))
    rank = xp.astype(xp.reshape(order, scores.shape), scores.dtype)
    return eligible & (rank < count)


def _share_of(tokens: Array, share: Scalar) -> Array:
    """Compute max(1, int(share * number of tokens)), tokens being marked by 1."""
    xp = array_namespace(tokens)
    count = xp.sum(tokens)
    selected = xp.floor(share * count * (1 + 1e-6))  # a whole number may have been rounded down
    return xp.where(selected < 1, xp.ones_like(selected), selected)


def clip_cov(
    share: Scalar = 2e-4, low: Scalar = 1.0, high: Scalar = 5.0, eps_low: Scalar = 0.2, eps_high: Scalar = 0.2
) -> Surrogate:
    """Clip-Cov: ``ppo_clip``, and no gradient from a random few of the tokens whose covariance lies in (low, high).

    c = (log pi - its mean)(A - its mean), over all tokens of the batch; of the tokens that are not clipped already and
    have low < c < high, max(1, int(share * tokens)) are dropped, those of lowest ``Rollouts.noise``.
    """
    check_range("share", share, 0, 1)
    check_range("low", low)
    check_range("high", high)
    check_bounds(eps_low, eps_high)
    if is_concrete_number(low) and is_concrete_number(high) and low > high:
        raise InputError(f"low = {low} is above high = {high}; allowed: low up to high")
    inner = ppo_clip(eps_low, eps_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(ratio)
        present = token_weights(ratio, rollouts)
        c = covariance_terms(advantages, current_logp(ratio, rollouts), present, "batch")
        eligible = (present > 0) & ~is_clipped(ratio, advantages, eps_low, eps_high) & (c > low) & (c < high)
        dropped = _first(needed(rollouts, "noise"), eligible, _share_of(present, share))
        return xp.where(dropped, xp.zeros_like(ratio), inner.coefficient(ratio, advantages, rollouts))

    return Surrogate(coefficient, frozenset({"old_logp", "noise"}), exchangeable=True)


def kl_cov(share: Scalar = 2e-3, penalty: Scalar = 1.0) -> Surrogate:
    """KL-Cov: J = ratio A, less penalty abs(log pi - log pi_old) at the tokens of highest covariance.

    max(1, int(share * tokens)) tokens are penalised; the paper takes 0.2 % for 7B models and 0.02 % for 32B. As
    published it does not clip. At a ratio of 1 the penalty has no gradient: the method does nothing on policy.
    """
    check_range("share", share, 0, 1)
    check_range("penalty", penalty, 0)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(ratio)
        present = token_weights(ratio, rollouts)
        c = covariance_terms(advantages, current_logp(ratio, rollouts), present, "batch")
        chosen = _first(-c, present > 0, _share_of(present, share))
        pull = xp.where(chosen, penalty * xp.sign(ratio - 1), xp.zeros_like(ratio))
        return product(ratio, advantages) - pull

    return Surrogate(coefficient, frozenset({"old_logp"}), exchangeable=True)
