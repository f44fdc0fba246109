"""Weights from the exponential of the reward: the larger beta, the more the best rollouts of a group count."""

from array_api_compat import array_namespace

from simlab.errors import check_range
from simlab.estimators.base import Estimator, Link, chain, stateless
from simlab.estimators.registry import register
from simlab.rollouts import Array, Rollouts, Scalar, group_count, group_mean, group_sum, is_uniform


def _highest(values: Array, rollouts: Rollouts) -> Array:
    """The largest value of each group, (P, 1)."""
    xp = array_namespace(values)
    if rollouts.mask is not None:
        values = xp.where(rollouts.mask, values, xp.full_like(values, -float("inf")))
    highest = xp.max(values, axis=-1, keepdims=True)
    return xp.where(highest > -float("inf"), highest, xp.zeros_like(highest))


def _rises(rollouts: Rollouts, beta: Scalar) -> Array:
    """exp(beta (r - max r)) - 1 where a rollout exists and 0 elsewhere, (P, G), to full precision for small beta."""
    xp = array_namespace(rollouts.rewards)
    gap = rollouts.rewards - _highest(rollouts.rewards, rollouts)
    if rollouts.mask is not None:
        gap = xp.where(rollouts.mask, gap, xp.zeros_like(gap))
    return xp.expm1(beta * gap)


def _centered(rises: Array, rollouts: Rollouts) -> Array:
    """exp(beta (r - max r)) less its mean; subtracted twice for the rounding of the mean, as in ``center``."""
    centered = rises - group_mean(rises, rollouts)
    return centered - group_mean(centered, rollouts)


def _unless_uniform(values: Array, rollouts: Rollouts) -> Array:
    xp = array_namespace(values)
    return xp.where(is_uniform(rollouts), xp.zeros_like(values), values)


def _or_one(values: Array) -> Array:
    """Replace zeros by 1: sums over groups without a rollout, which must not be divided by."""
    xp = array_namespace(values)
    return xp.where(values > 0, values, xp.ones_like(values))


def tilt(beta: Scalar) -> Link:
    """exp(beta r_i) / mean(exp(beta r)) - 1, and exactly 0 in groups of equal rewards."""
    check_range("beta", beta, 0, open_low=True)

    def tilted(advantages: Array, rollouts: Rollouts) -> Array:
        rises = _rises(rollouts, beta)
        return _unless_uniform(_centered(rises, rollouts) / (1 + group_mean(rises, rollouts)), rollouts)

    return stateless(tilted, exchangeable=True)


@register("fade:softmax", "softmax(beta r)_i - 1/G")
def softmax(beta: Scalar = 1.0) -> Estimator:
    """Softmax: A = exp(beta r_i) / sum exp(beta r) - 1/G; 0 in groups of equal rewards, a single rollout included.

    FADE gives no ``beta``. As beta -> 0 it vanishes as (beta / G) times Dr. GRPO, so that FADE's "recovers Dr. GRPO"
    holds after division by beta / G, as ``rs_grpo`` divides.

    >>> simlab.advantages("softmax", np.array([1.0, 0.0]), beta=np.log(3.0))
    array([ 0.25, -0.25])
    """

    def share(advantages: Array, rollouts: Rollouts) -> Array:
        return advantages / group_count(rollouts)

    return chain(tilt(beta), stateless(share, exchangeable=True))


@register("fade:rs-grpo", "(exp(beta r_i) / mean(exp(beta r)) - 1) / beta")
def rs_grpo(beta: Scalar = 2.0) -> Estimator:
    """RS-GRPO, the risk-sensitive advantage; 0 in groups of equal rewards, a single rollout included.

    As beta -> 0 it is Dr. GRPO; it is softmax times G / beta.

    >>> simlab.advantages("rs_grpo", np.array([1.0, 0.0]), beta=np.log(3.0)).round(4)
    array([ 0.4551, -0.4551])
    """
    return chain(tilt(beta), stateless(lambda advantages, rollouts: advantages / beta, exchangeable=True))


def center_soft(beta: Scalar) -> Link:
    """r - V, V = beta log(mean(exp(r / beta))) of the group, and exactly 0 where rewards are equal."""
    check_range("beta", beta, 0, open_low=True)

    def subtract(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        below = rollouts.rewards - _highest(rollouts.rewards, rollouts)
        value = beta * xp.log1p(group_mean(_rises(rollouts, 1 / beta), rollouts))
        return _unless_uniform(below - value, rollouts)

    return stateless(subtract, exchangeable=True)


@register("arxiv:2505.20686", "r_i - V, V = beta log(mean(exp(r / beta)))")
def a_star_po(beta: Scalar = 0.5) -> Estimator:
    """A*-PO: A = r - V, the soft value of the group; 0 in groups of equal rewards.

    V lies between the mean, as beta -> infinity (mean GRPO), and the best reward, as beta -> 0 (``nsr`` in solvable
    groups): failures weigh more than successes, the more the smaller beta.

    As ``trl/experimental/a2po`` of TRL 1.16, with its ``beta1``; the paper was not read. There V comes once from
    rollouts of the reference policy, and is not 0 where they were all right; here it is that of the group that learns.
    Its loss, (beta2 log(pi / pi_ref) - A)^2 of whole rollouts, has over 2 beta2 the gradient of
    ``a_star_po+reinforce+kl_penalty(coefficient=0.001,form=sequence_k2)@constant``; it draws one rollout a prompt.

    >>> simlab.advantages("a_star_po", np.array([1.0, 0.0]), beta=1 / np.log(3.0)).round(4)
    array([ 0.3691, -0.6309])
    """
    return chain(center_soft(beta))


def lose_one_log_mean_exp(beta: Scalar) -> Link:
    """lme(r) - lme(r without i), lme(r) = log(mean(exp(beta r))) / beta; equal rewards: 0 ``[fade:log-mean-exp]``."""
    check_range("beta", beta, 0, open_low=True)

    def lose(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        rises, count = _rises(rollouts, beta), group_count(rollouts)
        total = count + group_sum(rises, rollouts)
        others = total - (1 + rises)
        # Beside a best rollout that outweighs them all, the others would be lost to rounding.
        outweighs = (rises == 0) & (others < 0.5)
        divisor = xp.where(outweighs, xp.ones_like(others), _or_one(others))
        difference = xp.log1p(_centered(rises, rollouts) / divisor)
        remaining = xp.where(count > 1, count - 1, xp.ones_like(count))
        apart = xp.log(_or_one(total) / count * remaining) - _log_others(rollouts, rises == 0, beta)
        return _unless_uniform(xp.where(outweighs, apart, difference) / beta, rollouts)

    return stateless(lose, exchangeable=True)


def _log_others(rollouts: Rollouts, best: Array, beta: Scalar) -> Array:
    """log(sum of exp(beta (r - max r)) over others than ``best``), (P, 1), relative to the second-best reward."""
    others = rollouts._replace(mask=~best if rollouts.mask is None else rollouts.mask & ~best)
    drop = _highest(rollouts.rewards, rollouts) - _highest(rollouts.rewards, others)
    total = _or_one(group_sum(1 + _rises(others, beta), others))
    return array_namespace(total).log(total) - beta * drop


@register("fade:log-mean-exp", "lme(r) - lme(r without i), lme(r) = log(mean(exp(beta r))) / beta")
def log_mean_exp(beta: Scalar = 1.0) -> Estimator:
    """LogMeanExp, leave-one-out; 0 in groups of equal rewards, a single rollout included.

    FADE gives no ``beta``. As beta -> 0 it is RLOO / G; as beta -> infinity, Tang et al.'s pass@k of
    two rollouts and more.

    >>> simlab.advantages("log_mean_exp", np.array([1.0, 0.0]), beta=np.log(3.0)).round(4)
    array([ 0.6309, -0.3691])
    """
    return chain(lose_one_log_mean_exp(beta))
