"""Surrogates that read the ratios of a whole sequence, beside GSPO's ``clip.sequence_clip``, or of the whole batch.

Every token of a rollout gets a coefficient that reads the ratios of all of them. Of a rollout of one token, the ratio
of the sequence is that of the token. Clip-Cov and KL-Cov treat tokens apart where the covariance of log pi and A is
large ``[cw-grpo:clip-cov]``: they choose among all tokens of the batch they are given, as the published code does of
its micro-batch.
"""

import math

from array_api_compat import array_namespace

from simlab.errors import check_range, check_ranges
from simlab.estimators.tokens import covariance_terms
from simlab.order_statistics import infinite_where_absent, ordinal_rank
from simlab.rollouts import Array, Rollouts, Scalar, masked, needed, sequence_mean, sequence_sum, token_weights
from simlab.surrogates.base import Surrogate, current_logp, log_ratio
from simlab.surrogates.clip import check_bounds, check_order, is_clipped, ppo_clip, product


def sequence_log_ratio(ratio: Array, rollouts: Rollouts) -> Array:
    """Sum log(pi / sampler) over the tokens of each rollout, and give the sum to each of its tokens, (P, G, T)."""
    return array_namespace(ratio).ones_like(ratio) * sequence_sum(log_ratio(ratio), rollouts)[..., None]


def gmpo(eps_low: Scalar = 0.4, eps_high: Scalar = 0.4) -> Surrogate:
    """GMPO: J = exp(mean_t l_t) A, the geometric mean of clipped ratios (arXiv 2507.20673).

    l_t is log(ratio), at most eps_high for A > 0 and at least -eps_low for A < 0: each token is clipped, by its
    logarithm. A clipped token gets 0, any other the geometric mean times A. With the loss averaged over the tokens of
    each rollout (``"sequence_mean"``) that is the gradient of J. Of one token it is ``ppo_clip`` with the bounds
    1 - exp(-eps_low) and exp(eps_high) - 1.

    As ``train_zero_math_gmpo.py`` of callsys/GMPO, with the clip range of its scripts, and ``loss_mode=geo_mean`` of
    verl. Where tokens have advantages of their own, each keeps its own; verl takes their mean.
    """
    check_ranges(0, eps_low=eps_low, eps_high=eps_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(ratio)
        log, ones = log_ratio(ratio), xp.ones_like(ratio)
        above = (advantages > 0) & (log > eps_high)
        below = (advantages < 0) & (log < -eps_low)
        bounded = xp.where(above, eps_high * ones, xp.where(below, -eps_low * ones, log))
        mean = xp.exp(sequence_mean(bounded, rollouts))[..., None]
        return masked(product(mean * ones, advantages), ~(above | below))

    return Surrogate(coefficient, exchangeable=True)


def vespo(k_pos: Scalar = 2.0, lambda_pos: Scalar = 3.0, k_neg: Scalar = 3.0, lambda_neg: Scalar = 2.0) -> Surrogate:
    """VESPO: J = sg(w^k exp(lambda (1 - w))) A log pi, w the ratio of the whole sequence (arXiv 2602.10693).

    k and lambda are one pair for A >= 0 and another for A < 0. The weight is 1 at w = 1, largest at w = k / lambda, and
    goes to 0 on both sides. At k = 1 and lambda near 0 it is w itself, the importance weight of the sequence.

    As ``recipe/vespo/code/core_algos.py`` of FloyedShen/VESPO and ``loss_type="vespo"`` of TRL 1.16, with their
    defaults; they bound log w by -18.4 and 20, where the weight is 0 to rounding.
    """
    check_ranges(0, k_pos=k_pos, k_neg=k_neg)
    check_ranges(0, open_low=True, lambda_pos=lambda_pos, lambda_neg=lambda_neg)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(ratio)
        ones, log = xp.ones_like(ratio), sequence_log_ratio(ratio, rollouts)
        power = xp.where(advantages < 0, k_neg * ones, k_pos * ones)
        rate = xp.where(advantages < 0, lambda_neg * ones, lambda_pos * ones)
        return product(xp.exp(power * log - rate * xp.expm1(log)), advantages)

    return Surrogate(coefficient, exchangeable=True)


def topr() -> Surrogate:
    """TOPR: J = sg(weight) A log pi, the weight being 1 for A >= 0 and min(w, 1) for A < 0 (arXiv 2503.14286).

    w is the ratio of the whole sequence. Successes are learned as by supervised steps, whatever their ratio; a failure
    weighs less the less likely it has become. The bounds are the paper's canonical ones.

    The paper tells the signs by the reward, here as in the code of Trinity-RFT by the advantage, so that a baseline
    counts. Trinity-RFT (``trinity/algorithm/policy_loss_fn/topr_policy_loss.py``) takes the ratio of each token for w.
    """

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        log = sequence_log_ratio(ratio, rollouts)
        tapered = masked(log, (advantages < 0) & (log < 0))
        return product(array_namespace(log).exp(tapered), advantages)

    return Surrogate(coefficient, exchangeable=True)


def mirror_descent(tau: Scalar = 0.01) -> Surrogate:
    """Mirror descent of Kimi k1.5: J = A log w - tau / 2 (log w)^2, w the sequence's ratio (arXiv 2501.12599, Eq. 3).

    Every token gets A - tau log w: nothing is clipped, and a quadratic pull leads to log w = A / tau. With a sum over
    the tokens of each rollout (``"constant"``, with a normaliser of 1) that is the paper's gradient. The paper's A is
    the reward less the group's mean, ``dr_grpo`` here; it also resets the optimiser at each batch, which is left out.

    The paper does not publish tau; .01 is that of ``compute_policy_loss_opmd`` in ``openkimi/pmd/core_algos.py`` of
    horizon-rl/OpenKimi (arXiv 2602.05933), which averages over the tokens of each rollout. ``loss_mode=dro`` of verl
    has the same penalty of each token by itself.
    """
    check_range("tau", tau, 0)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        return advantages - tau * sequence_log_ratio(ratio, rollouts)

    return Surrogate(coefficient, exchangeable=True)


# Covariance over the batch


def _first(scores: Array, eligible: Array, count: Array) -> Array:
    """True where an eligible token is among the ``count`` of lowest score, over all axes."""
    xp = array_namespace(scores)
    order = ordinal_rank(xp.reshape(infinite_where_absent(scores, eligible), (-1,)))
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
    check_ranges(-math.inf, low=low, high=high)
    check_bounds(eps_low, eps_high)
    check_order(low, high)
    inner = ppo_clip(eps_low, eps_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        present = token_weights(ratio, rollouts)
        c = covariance_terms(advantages, current_logp(ratio, rollouts), present, "batch")
        eligible = (present > 0) & ~is_clipped(ratio, advantages, eps_low, eps_high) & (c > low) & (c < high)
        dropped = _first(needed(rollouts, "noise"), eligible, _share_of(present, share))
        return masked(inner.coefficient(ratio, advantages, rollouts), ~dropped)

    return Surrogate(coefficient, frozenset({"old_logp", "noise"}), exchangeable=True)


def kl_cov(share: Scalar = 2e-3, penalty: Scalar = 1.0) -> Surrogate:
    """KL-Cov: J = ratio A, less penalty abs(log pi - log pi_old) at the tokens of highest covariance.

    max(1, int(share * tokens)) tokens are penalised; the paper takes 0.2 % for 7B models and 0.02 % for 32B. As
    published it does not clip. At a ratio of 1 the penalty has no gradient: the method does nothing on policy.
    """
    check_range("share", share, 0, 1)
    check_range("penalty", penalty, 0)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        present = token_weights(ratio, rollouts)
        c = covariance_terms(advantages, current_logp(ratio, rollouts), present, "batch")
        chosen = _first(-c, present > 0, _share_of(present, share))
        pull = penalty * array_namespace(ratio).sign(ratio - 1)
        return product(ratio, advantages) - masked(pull, chosen)

    return Surrogate(coefficient, frozenset({"old_logp"}), exchangeable=True)
