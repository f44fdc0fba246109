"""Links that turn the advantage of a rollout, (P, G), into one for each of its tokens, (P, G, T)."""

from typing import NamedTuple

from array_api_compat import array_namespace

from simlab.errors import check_choice, check_range
from simlab.estimators.base import Estimator, Link, chain, stateless
from simlab.estimators.registry import base_estimator, register
from simlab.rollouts import Array, Rollouts, Scalar, needed, token_weights

SCOPES = ("group", "batch")


def of_tokens(advantages: Array) -> Array:
    """Advantages as (P, G, 1), or (P, G, T) if they are so already."""
    return advantages if advantages.ndim == 3 else advantages[..., None]


class Deviations(NamedTuple):
    """How far each token is from the mean over the tokens of its group or of the batch; 0 where no token is.

    Attributes:
        logp: (P, G, T) log pi - its mean.
        advantage: (P, G, 1) or (P, G, T) A - its mean.
        mean_logp: (P, 1, 1) or (1, 1, 1) the mean of log pi.
        count: (P, 1, 1) or (1, 1, 1) the number of tokens, at least 1.
    """

    logp: Array
    advantage: Array
    mean_logp: Array
    count: Array


def deviations(advantages: Array, logp: Array, present: Array, scope: str) -> Deviations:
    """Deviations over the tokens of each group or of the batch; ``present`` is 1 where a token is and 0 elsewhere."""
    xp = array_namespace(logp)
    axes = _axes(scope)
    length, weight = xp.sum(present, axis=-1, keepdims=True), of_tokens(advantages)
    count = xp.sum(length, axis=axes, keepdims=True)
    count = xp.where(count < 1, xp.ones_like(count), count)
    kept = xp.where(present > 0, logp, xp.zeros_like(logp))
    # An advantage of a rollout counts as often as it has tokens, without being written out for each.
    often = length if weight.shape[-1] == 1 else present
    weight = xp.where(often > 0, weight, xp.zeros_like(often))
    mean_logp = xp.sum(kept, axis=axes, keepdims=True) / count
    mean_weight = xp.sum(weight * often, axis=axes, keepdims=True) / count
    return Deviations((kept - mean_logp) * present, weight - mean_weight, mean_logp, count)


def covariance_terms(advantages: Array, logp: Array, present: Array, scope: str) -> Array:
    """(log pi - its mean)(A - its mean) at each token, both means over the tokens of the group or the batch, (P, G, T).

    ``[cw-grpo:covariance]``. ``present`` is 1 where a token exists and 0 elsewhere, where the result is 0.
    """
    found = deviations(advantages, logp, present, scope)
    return found.logp * found.advantage


def _axes(scope: str) -> tuple[int, ...] | None:
    return (-2, -1) if scope == "group" else None


def tame_covariance(scope: str = "group") -> Link:
    """Multiply by w N / sum(w), w = exp(-c^2 / (2 sigma^2)) ``[cw-grpo:kernel]``.

    c is the token's covariance term, sigma the std of c, and N the number of tokens, each over the group as the paper
    sums, or over the batch. Where every c is equal, w is 1.

    Raises:
        InputError: for an unknown ``scope``.
    """
    check_choice("scope", scope, SCOPES)
    axes = _axes(scope)

    def reweigh(advantages: Array, rollouts: Rollouts) -> Array:
        logp = needed(rollouts, "old_logp")
        xp = array_namespace(logp)
        present = token_weights(logp, rollouts)
        found = deviations(advantages, logp, present, scope)
        c, count = found.logp * found.advantage, found.count
        mean = xp.sum(c, axis=axes, keepdims=True) / count
        variance = xp.sum(present * (c - mean) ** 2, axis=axes, keepdims=True) / count
        size = xp.max(found.advantage**2, axis=axes, keepdims=True) * found.mean_logp**2
        variance = _unless_rounding(variance, variance + mean**2 + size)
        sizes = xp.abs(c)
        least = _least(sizes, present, axes)
        kernel = present * xp.exp((least - sizes) * (least + sizes) / (2 * variance))
        total = xp.sum(kernel, axis=axes, keepdims=True)
        return of_tokens(advantages) * kernel * (count / xp.where(total > 0, total, xp.ones_like(total)))

    return stateless(reweigh, needs=frozenset({"old_logp"}), exchangeable=True)


def _least(sizes: Array, present: Array, axes: tuple[int, ...] | None) -> Array:
    """The smallest |c| of a group, or 0 where there is no token at all.

    Its square is taken off every c^2, which normalised weights do not see: it keeps them from all vanishing. The
    difference is taken as a product, (least - |c|)(least + |c|), which is never above 0: where c hardly varies, c^2 and
    its least value rounded apart could come to a weight of exp(65,000).
    """
    xp = array_namespace(sizes)
    least = xp.min(xp.where(present > 0, sizes, xp.full_like(sizes, float("inf"))), axis=axes, keepdims=True)
    return xp.where(xp.isfinite(least), least, xp.zeros_like(least))


def _unless_rounding(variance: Array, square: Array) -> Array:
    """The variance, or infinity where it is no more than the rounding of equal values made of numbers that large."""
    xp = array_namespace(variance)
    rounding = (8 * xp.finfo(variance.dtype).eps) ** 2 * square
    return xp.where(variance > rounding, variance, xp.full_like(variance, float("inf")))


@register("cw-grpo:kernel", "w_it N / sum(w) A_i, w = exp(-c^2 / (2 std(c)^2)), c = (log pi - mean)(A - mean)")
def cw_grpo(scope: str = "group", base: str | Estimator = "grpo") -> Estimator:
    """CW-GRPO: any base; a Gaussian kernel tames tokens of extreme covariance; advantages are per token.

    The means, sigma and N run over the tokens of a group, as the paper's sums do, or of the batch (``scope="batch"``).
    Groups of equal rewards get 0 from a base that gives 0 there, such as GRPO. Equal log-probabilities leave the base
    as it is.

    >>> import simlab, numpy as np
    >>> logp = np.array([[-1.0, -1.0], [-1.0, -5.0]])
    >>> simlab.advantages("cw_grpo", np.array([1.0, 0.0]), old_logp=logp, base="dr_grpo").round(3)
    array([[ 0.638,  0.638],
           [-0.638, -0.086]])
    """
    return chain(base_estimator(base), tame_covariance(scope))


def add_entropy(alpha: Scalar = 0.4, kappa: Scalar = 2.0) -> Link:
    """Add min(alpha H, abs(A) / kappa), H the entropy at the token ``[casp:entropy-adv]``.

    Raises:
        InputError: for a negative ``alpha``, or ``kappa`` not above 0.
    """
    check_range("alpha", alpha, 0)
    check_range("kappa", kappa, 0, open_low=True)

    def add(advantages: Array, rollouts: Rollouts) -> Array:
        entropy = needed(rollouts, "entropy")
        xp = array_namespace(entropy)
        present = token_weights(entropy, rollouts)
        bonus = alpha * xp.where(present > 0, entropy, xp.zeros_like(entropy))
        most = xp.abs(of_tokens(advantages)) / kappa + xp.zeros_like(bonus)
        return (of_tokens(advantages) + xp.where(bonus < most, bonus, most)) * present

    return stateless(add, needs=frozenset({"entropy"}), exchangeable=True)


@register("casp:entropy-adv", "A_i + min(alpha H_it, |A_i| / kappa)")
def entropy_advantage(alpha: Scalar = 0.4, kappa: Scalar = 2.0, base: str | Estimator = "grpo") -> Estimator:
    """Entropy-based advantage: any base; uncertain tokens gain up to a share of its size; advantages are per token.

    Groups of equal rewards get 0 from a base that gives 0 there, such as GRPO. With ``alpha`` 0 it is its base.

    >>> import simlab, numpy as np
    >>> entropy = np.array([[0.5, 5.0], [0.0, 5.0]])
    >>> simlab.advantages("entropy_advantage", np.array([1.0, 0.0]), entropy=entropy, base="dr_grpo")
    array([[ 0.7 ,  0.75],
           [-0.5 , -0.25]])
    """
    return chain(base_estimator(base), add_entropy(alpha, kappa))
