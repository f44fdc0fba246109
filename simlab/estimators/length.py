"""Weights that read how long a rollout was."""

from array_api_compat import array_namespace

from simlab.errors import check_range
from simlab.estimators.balanced import grpo
from simlab.estimators.base import Estimator, Link, chain, shape_rewards, stateless
from simlab.estimators.registry import register
from simlab.rollouts import Array, Rollouts, Scalar, group_sum, is_correct, is_uniform, solve_rate


def token_count(rollouts: Rollouts) -> Array:
    """Tokens of each rollout, (P, G); 1 without a ``token_mask``, and 0 where there is no rollout."""
    xp = array_namespace(rollouts.rewards)
    ones = xp.ones_like(rollouts.rewards)
    mask = rollouts.token_mask
    length = ones if mask is None else xp.sum(xp.astype(mask, ones.dtype), axis=-1)
    return length if rollouts.mask is None else xp.where(rollouts.mask, length, xp.zeros_like(length))


def relative_length(rollouts: Rollouts) -> Array:
    """Tokens of each rollout over those of the longest in its group, (P, G); 1 without a ``token_mask``."""
    xp = array_namespace(rollouts.rewards)
    length = token_count(rollouts)
    longest = xp.max(length, axis=-1, keepdims=True)
    return length / xp.where(longest > 0, longest, xp.ones_like(longest))


def center_by_length() -> Link:
    """Subtract the mean of the group in which each rollout counts with its length ``[arxiv:2505.23585]``.

    b = sum l_i r_i / sum l_i, l_i the tokens of rollout i. Groups of equal rewards get exactly 0.
    """

    def subtract(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        length = token_count(rollouts)
        total = group_sum(length, rollouts)
        safe = xp.where(total > 0, total, xp.ones_like(total))
        centered = advantages - group_sum(length * advantages, rollouts) / safe
        return xp.where(is_uniform(rollouts), xp.zeros_like(centered), centered)

    return stateless(subtract, exchangeable=True)


@register("arxiv:2505.23585", "r_i - sum(l r) / sum(l), l the lengths")
def opo() -> Estimator:
    """OPO: the baseline of least variance if the gradient of a rollout grows with its length.

    arXiv 2505.23585; nothing differs. Reads the ``token_mask``, without which all are equally long and it is mean GRPO.
    Advantages sum to 0 over the tokens of a group, not over its rollouts.

    >>> import simlab, numpy as np
    >>> short, long = [True, False, False], [True, True, True]
    >>> simlab.advantages("opo", np.array([0.0, 1.0]), token_mask=np.array([short, long]))
    array([-0.75,  0.25])
    """
    return chain(center_by_length())


def thicken_then_thin(alpha: Scalar, inner: Estimator) -> Link:
    """The advantages of ``inner`` for rewards 1 - alpha p L on success and alpha (1 - p) L on failure ``[fade:t2t]``.

    p is the solve rate and L the length relative to the longest rollout of the group. Defined for rewards 0 and 1.

    Raises:
        InputError: for ``alpha`` outside [0, 1].
    """
    check_range("alpha", alpha, 0, 1)

    def shape(rollouts: Rollouts) -> Array:
        xp = array_namespace(rollouts.rewards)
        p, length = solve_rate(rollouts), relative_length(rollouts)
        return xp.where(is_correct(rollouts), 1 - alpha * p * length, alpha * (1 - p) * length)

    return shape_rewards(shape, inner, domain="binary", exchangeable=True)


@register("fade:t2t", "GRPO of 1 - alpha p L_i on success, alpha (1 - p) L_i on failure")
def t2t(alpha: Scalar = 0.2, ddof: int = 0, eps: Scalar = 1e-6) -> Estimator:
    """T2T, thickening to thinning: long failures gain where few rollouts succeed, long successes lose where many do.

    FADE states neither ``alpha`` nor by what the length is normalised; 0.2 and the longest rollout of the group are
    this library's choice. For rewards 0 and 1. Groups that are all right favour short rollouts, all wrong ones long
    rollouts; where all are equally long they get 0, as does a single rollout. Reads the ``token_mask``, without which
    all are equally long. With ``alpha`` 0 it is GRPO.

    >>> import simlab, numpy as np
    >>> short, long = [True, False], [True, True]
    >>> simlab.advantages("t2t", np.array([0.0, 0.0]), token_mask=np.array([short, long]), eps=0.0)
    array([-1.,  1.])
    """
    return chain(thicken_then_thin(alpha, grpo(ddof, eps)))
