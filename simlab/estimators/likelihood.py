"""Weights that read how likely a rollout was."""

from array_api_compat import array_namespace

from simlab.errors import check_choice, check_range
from simlab.estimators.balanced import grpo
from simlab.estimators.base import Estimator, Link, beside, chain, shape_rewards, stateless
from simlab.estimators.registry import register
from simlab.order_statistics import average_rank
from simlab.rollouts import (
    Array,
    Rollouts,
    Scalar,
    group_count,
    is_correct,
    needed,
    sequence_mean_logp,
    token_weights,
)

LOGP = frozenset({"old_logp"})


def smooth_by_outcome(success: Scalar = 0.05, failure: Scalar = 0.05) -> Link:
    """Subtract ``success`` times the length-mean log-probability on success, add ``failure`` times it on failure.

    Differential smoothing ``[f-grpo:ds-grpo]``: the unlikelier a correct rollout, the more it gains; the unlikelier
    a wrong one, the more it loses.
    """
    check_range("success", success, 0)
    check_range("failure", failure, 0)

    def smooth(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        logp = sequence_mean_logp(rollouts)
        change = xp.where(is_correct(rollouts), -success * logp, failure * logp)
        return advantages + beside(change, advantages)

    return stateless(smooth, needs=LOGP, exchangeable=True)


@register("f-grpo:ds-grpo", "A_GRPO -/+ coefficient mean_t(log pi_t) on success / failure")
def ds_grpo(success: Scalar = 0.05, failure: Scalar = 0.05, ddof: int = 0, eps: Scalar = 1e-6) -> Estimator:
    """DS-GRPO: GRPO with differential smoothing, from the length-mean log-probability of each rollout.

    Groups of equal rewards get the smoothing term alone; with both coefficients 0 it is GRPO.

    >>> import simlab, numpy as np
    >>> simlab.advantages("ds_grpo", np.array([1.0, 0.0]), old_logp=np.array([[-2.0], [-4.0]]), eps=0.0)
    array([ 1.1, -1.2])
    """
    return chain(grpo(ddof, eps), smooth_by_outcome(success, failure))


RANKINGS = ("paper", "code")


def discount_likely(beta: Scalar, ranking: str, inner: Estimator) -> Link:
    """The advantages of ``inner`` for rewards r (1 - beta likeliness), likeliness a rank in the group over G.

    ``ranking="paper"`` ranks by the log-probability of the whole sequence, the likeliest rollout getting 1 and the
    least likely 1 / G; ``"code"`` ranks by its mean over tokens, from (G - 1) / G down to 0. Rollouts that are equally
    likely share the mean of their ranks. Defined for rewards in [0, 1]: a discount would make a negative one better.
    """
    check_range("beta", beta, 0, 1)
    check_choice("ranking", ranking, RANKINGS)

    def discount(rollouts: Rollouts) -> Array:
        xp = array_namespace(rollouts.rewards)
        if ranking == "paper":
            logp = needed(rollouts, "old_logp")
            present = token_weights(logp, rollouts) > 0
            likeliness = average_rank(xp.sum(xp.where(present, logp, xp.zeros_like(logp)), axis=-1), rollouts.mask) + 1
        else:
            likeliness = average_rank(sequence_mean_logp(rollouts), rollouts.mask)
        return rollouts.rewards * (1 - beta * likeliness / group_count(rollouts))

    return shape_rewards(discount, inner, needs=LOGP, domain="unit", exchangeable=True)


@register("f-grpo:unlikeliness", "GRPO of r_i (1 - beta rank_i / G), the likeliest rollout ranking highest")
def unlikeliness(beta: Scalar = 0.25, ranking: str = "paper", ddof: int = 0, eps: Scalar = 1e-6) -> Estimator:
    """Unlikeliness reward: GRPO on rewards that are discounted the likelier a rollout is in its group.

    The published code (``ranking="code"``, ``ddof=1``) ranks by the mean log-probability of the tokens, from 0. For
    rewards in [0, 1]. Groups of rewards 0, and single rollouts, get 0; of rewards 1, the likely lose to the unlikely.

    >>> import simlab, numpy as np
    >>> logp = np.log([[0.5], [0.25], [0.25]])
    >>> simlab.advantages("unlikeliness", np.array([1.0, 1.0, 0.0]), old_logp=logp, eps=0.0).round(3)
    array([ 0.539,  0.863, -1.402])
    """
    return chain(discount_likely(beta, ranking, grpo(ddof, eps)))
