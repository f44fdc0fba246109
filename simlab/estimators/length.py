"""Weights that read how long a rollout was."""

from array_api_compat import array_namespace

from simlab.errors import check_range, check_ranges
from simlab.estimators.base import Estimator, Link, beside, chain, shape_rewards, stateless
from simlab.estimators.links import divide_or_nothing
from simlab.estimators.named import grpo
from simlab.estimators.registry import register
from simlab.rollouts import (
    Array,
    Rollouts,
    Scalar,
    group_mean,
    group_std,
    group_sum,
    is_correct,
    is_uniform,
    masked,
    or_one,
    remainder,
    solve_rate,
)


def token_count(rollouts: Rollouts) -> Array:
    """Tokens of each rollout, (P, G); 1 without a ``token_mask``, and 0 where there is no rollout."""
    xp = array_namespace(rollouts.rewards)
    ones = xp.ones_like(rollouts.rewards)
    mask = rollouts.token_mask
    length = ones if mask is None else xp.sum(xp.astype(mask, ones.dtype), axis=-1)
    return masked(length, rollouts.mask)


def center_by_length() -> Link:
    """Subtract b = sum l_i r_i / sum l_i, l_i tokens of rollout i; equal rewards get 0 ``[arxiv:2505.23585]``."""

    def subtract(advantages: Array, rollouts: Rollouts) -> Array:
        length = token_count(rollouts)
        baseline = group_sum(length * advantages, rollouts) / or_one(group_sum(length, rollouts))
        return masked(advantages - baseline, ~is_uniform(rollouts))

    return stateless(subtract, exchangeable=True)


@register("arxiv:2505.23585", "r_i - sum(l r) / sum(l), l the lengths")
def opo() -> Estimator:
    """OPO: the baseline of least variance if the gradient of a rollout grows with its length.

    arXiv 2505.23585; nothing differs. Reads the ``token_mask``, without which all are equally long and it is mean GRPO.
    Advantages sum to 0 over the tokens of a group, not over its rollouts.

    >>> short, long = [True, False, False], [True, True, True]
    >>> simlab.advantages("opo", np.array([0.0, 1.0]), token_mask=np.array([short, long]))
    array([-0.75,  0.25])
    """
    return chain(center_by_length())


def thicken_then_thin(alpha: Scalar, inner: Estimator) -> Link:
    """The advantages of ``inner`` for rewards 1 - alpha p L on success and alpha (1 - p) L on failure ``[fade:t2t]``.

    p is the solve rate and L the length relative to the longest rollout of the group. Defined for rewards 0 and 1.
    """
    check_range("alpha", alpha, 0, 1)

    def shape(rollouts: Rollouts) -> Array:
        xp = array_namespace(rollouts.rewards)
        p, tokens = solve_rate(rollouts), token_count(rollouts)
        length = tokens / or_one(xp.max(tokens, axis=-1, keepdims=True))
        return xp.where(is_correct(rollouts), 1 - alpha * p * length, alpha * (1 - p) * length)

    return shape_rewards(shape, inner, domain="binary", exchangeable=True)


@register("fade:t2t", "GRPO of 1 - alpha p L_i on success, alpha (1 - p) L_i on failure")
def t2t(alpha: Scalar = 0.2, ddof: int = 0, eps: Scalar = 1e-6) -> Estimator:
    """T2T, thickening to thinning: long failures gain where few rollouts succeed, long successes lose where many do.

    FADE states neither ``alpha`` nor by what the length is normalised; 0.2 and the longest rollout of the group are
    this library's choice. For rewards 0 and 1. Groups that are all right favour short rollouts, all wrong ones long
    rollouts; where all are equally long they get 0, as does a single rollout. Reads the ``token_mask``, without which
    all are equally long. With ``alpha`` 0 it is GRPO.

    >>> short, long = [True, False], [True, True]
    >>> simlab.advantages("t2t", np.array([0.0, 0.0]), token_mask=np.array([short, long]), eps=0.0)
    array([-1.,  1.])
    """
    return chain(thicken_then_thin(alpha, grpo(ddof, eps)))


def shorten_successes(alpha: Scalar, penalty: Scalar, ddof: int, eps: Scalar, inner: Estimator) -> Link:
    """``inner`` on rewards exp(-alpha z) or -penalty, z the lengths' z-score among successes ``[arxiv:2504.09696]``."""
    check_ranges(0, alpha=alpha, penalty=penalty)

    def shape(rollouts: Rollouts) -> Array:
        xp = array_namespace(rollouts.rewards)
        correct = is_correct(rollouts)
        successes = rollouts._replace(mask=correct if rollouts.mask is None else correct & rollouts.mask)
        length = token_count(rollouts)
        gap = length - group_mean(length, successes)
        std = group_std(length, successes, ddof)
        z = divide_or_nothing(gap, xp.where(std > 0, std + eps, std))
        return xp.where(correct, xp.exp(-alpha * masked(z, correct)), -penalty * xp.ones_like(z))

    return shape_rewards(shape, inner, domain="binary", exchangeable=True)


def weigh_by_logistic(low: Scalar = 0.4, high: Scalar = 1.5, midpoint: Scalar = 0.75, steepness: Scalar = 10.0) -> Link:
    """Multiply positive advantages by w(p) and others by w(1 - p), p the solve rate ``[arxiv:2504.09696]``.

    w(p) = low + (high - low) / (1 + exp(steepness (p - midpoint))), which falls from ``high`` to ``low``.
    """
    check_ranges(0, low=low, high=high, steepness=steepness)
    check_range("midpoint", midpoint)

    def logistic(p: Array) -> Array:
        xp = array_namespace(p)
        return low + (high - low) * (1 - xp.tanh(steepness * (p - midpoint) / 2)) / 2

    def reweigh(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        p = solve_rate(rollouts)
        hard, easy = (beside(logistic(share), advantages) for share in (p, remainder(p)))
        return advantages * xp.where(advantages > 0, hard, easy)

    return stateless(reweigh, exchangeable=True)


@register("arxiv:2504.09696", "GRPO of exp(-alpha z_i) on success, -penalty on failure, times w(p) or w(q) by sign")
def grpo_lead(
    alpha: Scalar = 0.05,
    penalty: Scalar = 1.0,
    *,
    low: Scalar = 0.4,
    high: Scalar = 1.5,
    midpoint: Scalar = 0.75,
    steepness: Scalar = 10.0,
    ddof: int = 0,
    eps: Scalar = 1e-6,
) -> Estimator:
    """GRPO-LEAD: short successes earn more, failures cost something, and difficulty weighs each sign in its own way.

    arXiv 2504.09696. z_i is a length less the mean of the group's successes, over their std. w falls from ``high`` to
    ``low`` as the solve rate passes ``midpoint``: hard groups weigh more on success, easy ones on failure. Constants
    are those of ``get_reweight_rewards`` (``verl/verl/trainer/main_ppo.py``) and ``logistic_reweight``
    (``verl/verl/trainer/ppo/core_algos.py``) of aeroplanepaper/GRPO-LEAD, whose stds have ``ddof`` 1. Left out are two
    things of the code: it shapes rewards only where the three shortest rollouts have more than 4000 tokens on average,
    and gives 0 to answers without the format. For rewards 0 and 1. Reads the ``token_mask``, without which all are
    equally long; the penalty then matters beside ``eps`` alone. Groups that are all right favour short rollouts; where
    all are equally long they get 0, as do groups that are all wrong.

    >>> simlab.advantages("grpo_lead", np.array([1.0, 0.0, 0.0, 0.0]), eps=0.0).round(4)
    array([ 2.5853, -0.5485, -0.5485, -0.5485])
    """
    shaped = shorten_successes(alpha, penalty, ddof, eps, grpo(ddof, eps))
    return chain(shaped, weigh_by_logistic(low, high, midpoint, steepness))
