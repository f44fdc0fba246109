"""Weights from the exponential of the reward: the larger beta, the more the best rollouts of a group count."""

from array_api_compat import array_namespace

from simlab.errors import check_range
from simlab.estimators.base import Estimator, Link, chain, stateless
from simlab.estimators.links import subtract_mean
from simlab.estimators.registry import register
from simlab.rollouts import Array, Rollouts, Scalar, group_count, group_mean, group_sum, is_uniform, masked, or_one


def _highest(values: Array, rollouts: Rollouts) -> Array:
    """The largest value of each group, (P, 1)."""
    xp = array_namespace(values)
    if rollouts.mask is not None:
        values = xp.where(rollouts.mask, values, xp.full_like(values, -float("inf")))
    highest = xp.max(values, axis=-1, keepdims=True)
    return masked(highest, highest > -float("inf"))


def _rises(rollouts: Rollouts, beta: Scalar) -> Array:
    """exp(beta (r - max r)) - 1 where a rollout exists and 0 elsewhere, (P, G), to full precision for small beta."""
    gap = masked(rollouts.rewards - _highest(rollouts.rewards, rollouts), rollouts.mask)
    return array_namespace(gap).expm1(beta * gap)


def tilt(beta: Scalar) -> Link:
    """exp(beta r_i) / mean(exp(beta r)) - 1, and exactly 0 in groups of equal rewards."""
    check_range("beta", beta, 0, open_low=True)

    def tilted(advantages: Array, rollouts: Rollouts) -> Array:
        rises = _rises(rollouts, beta)
        return masked(subtract_mean(rises, rollouts) / (1 + group_mean(rises, rollouts)), ~is_uniform(rollouts))

    return stateless(tilted, exchangeable=True)


@register("fade:softmax", "softmax(beta r)_i - 1/G")
def softmax(beta: Scalar = 1.0) -> Estimator:
    """Softmax: A = exp(beta r_i) / sum exp(beta r) - 1/G; 0 in groups of equal rewards, a single rollout included.

    FADE gives no ``beta``. As beta -> 0 it vanishes as (beta / G) times Dr. GRPO, so that FADE's "recovers Dr. GRPO"
    holds after division by beta / G, as ``rs_grpo`` divides.

    >>> simlab.advantages("softmax", np.array([1.0, 0.0]), beta=np.log(3.0))
    array([ 0.25, -0.25])
    """
    share = stateless(lambda advantages, rollouts: advantages / group_count(rollouts), exchangeable=True)
    return chain(tilt(beta), share)


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
        return masked(below - value, ~is_uniform(rollouts))

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
        divisor = xp.where(outweighs, xp.ones_like(others), or_one(others))
        difference = xp.log1p(subtract_mean(rises, rollouts) / divisor)
        apart = xp.log(or_one(total) / count * or_one(count - 1)) - _log_others(rollouts, rises == 0, beta)
        return masked(xp.where(outweighs, apart, difference) / beta, ~is_uniform(rollouts))

    return stateless(lose, exchangeable=True)


def _log_others(rollouts: Rollouts, best: Array, beta: Scalar) -> Array:
    """log(sum of exp(beta (r - max r)) over others than ``best``), (P, 1), relative to the second-best reward."""
    others = rollouts._replace(mask=~best if rollouts.mask is None else rollouts.mask & ~best)
    drop = _highest(rollouts.rewards, rollouts) - _highest(rollouts.rewards, others)
    total = or_one(group_sum(1 + _rises(others, beta), others))
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
