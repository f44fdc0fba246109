"""Weights that compare the groups of a batch with one another."""

from array_api_compat import array_namespace

from simlab.errors import check_range
from simlab.estimators.balanced import dr_grpo
from simlab.estimators.base import Estimator, Link, chain, stateless
from simlab.estimators.baseline import center
from simlab.estimators.registry import register
from simlab.estimators.scale import check_ddof
from simlab.rollouts import Array, Rollouts, Scalar, batch_std, is_uniform


def divide_by_batch_std(ddof: int = 0, eps: Scalar = 1e-8) -> Link:
    """A / (std of the advantages of the whole batch + eps), and 0 where that is 0 ``[arxiv:2501.03262]``.

    Raises:
        InputError: for ``ddof`` other than 0 or 1, or a negative ``eps``.
    """
    check_ddof(ddof)
    check_range("eps", eps, 0)

    def divide(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        scale = batch_std(advantages, rollouts, ddof) + eps
        return xp.where(scale > 0, advantages / xp.where(scale > 0, scale, xp.ones_like(scale)), 0 * advantages)

    return stateless(divide, exchangeable=True)


@register("arxiv:2501.03262", "(r_i - mean of the batch) / (std of the batch + eps)")
def reinforce_pp(ddof: int = 0, eps: Scalar = 1e-8) -> Estimator:
    """REINFORCE++: A = (r - mean) / std, both of the whole batch.

    arXiv 2501.03262, without its penalty, which a surrogate adds. OpenRLHF and verl take mean and std over the tokens
    of the batch, so that long rollouts count more; here each rollout counts once, which is the same where all are
    equally long. verl has ``ddof`` 1, and 1e-8 under the root. A batch of equal rewards gets 0; a group of equal
    rewards in another batch does not.

    >>> import simlab, numpy as np
    >>> simlab.advantages("reinforce_pp", np.array([[1.0, 1.0], [1.0, 0.0]]), eps=0.0).round(4)
    array([[ 0.5774,  0.5774],
           [ 0.5774, -1.7321]])
    """
    return chain(center("batch_mean"), divide_by_batch_std(ddof, eps))


@register("arxiv:2501.03262", "(r_i - mean(r)) / (std of these over the batch + eps)")
def reinforce_pp_baseline(ddof: int = 0, eps: Scalar = 1e-8) -> Estimator:
    """REINFORCE++-baseline: A = r - mean(r) of the group, divided by the std of these over the whole batch.

    arXiv 2501.03262, with the differences of ``reinforce_pp``. Beside mean GRPO it has one factor for all groups of a
    batch, and so favours no difficulty. Groups of equal rewards get 0.

    >>> import simlab, numpy as np
    >>> simlab.advantages("reinforce_pp_baseline", np.array([[1.0, 1.0], [1.0, 0.0]]), eps=0.0).round(4)
    array([[ 0.    ,  0.    ],
           [ 1.4142, -1.4142]])
    """
    return chain(dr_grpo(), divide_by_batch_std(ddof, eps))


def over_mixed_groups() -> Link:
    """A P / P_mixed: the mean over the P groups of the batch becomes one over those of unequal rewards.

    ``[arxiv:2504.02546]``
    """

    def rescale(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        mixed = ~is_uniform(rollouts)
        groups = xp.ones_like(mixed) if rollouts.mask is None else xp.any(rollouts.mask, axis=-1, keepdims=True)
        total, count = (xp.sum(xp.astype(of, advantages.dtype), axis=0, keepdims=True) for of in (groups, mixed))
        return advantages * (total / xp.where(count > 0, count, xp.ones_like(count)))

    return stateless(rescale, exchangeable=True)


@register("arxiv:2504.02546", "(r_i - mean(r)) P / P_mixed")
def gpg() -> Estimator:
    """GPG: mean GRPO, averaged over the groups of unequal rewards alone.

    arXiv 2504.02546, whose F_norm is 1 here, its default; its factor B / (B - M), for M of B groups without a gradient,
    is P / P_mixed. It trains without a clip: ``gpg+reinforce``. In a batch it is mean GRPO up to a factor, which falls
    as more groups teach: a learning rate that depends on the share of dead groups. Groups of equal rewards get 0.

    >>> import simlab, numpy as np
    >>> simlab.advantages("gpg", np.array([[1.0, 1.0], [1.0, 0.0]]))
    array([[ 0.,  0.],
           [ 1., -1.]])
    """
    return chain(dr_grpo(), over_mixed_groups())
