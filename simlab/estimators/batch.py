"""Weights that compare the groups of a batch with one another, or with the batches before it."""

import math

from array_api_compat import array_namespace

from simlab.errors import check_range, check_ranges
from simlab.estimators.base import Estimator, Link, chain, present_rollouts, stateless, weigh, weighing
from simlab.estimators.links import center, check_ddof, divide_or_nothing
from simlab.estimators.named import dr_grpo
from simlab.estimators.registry import base_estimator, register
from simlab.order_statistics import SLACK
from simlab.rollouts import (
    Array,
    Rollouts,
    Scalar,
    batch_mean,
    batch_std,
    group_mean,
    is_uniform,
    masked,
    or_one,
    remainder,
    solve_rate,
)


def divide_by_batch_std(ddof: int = 0, eps: Scalar = 1e-8, under_root: float = 0.0) -> Link:
    """A / (std of the advantages of the whole batch + eps), and 0 where that is 0 ``[arxiv:2501.03262]``.

    ``under_root`` is added to the variance.
    """
    check_ddof(ddof)
    check_ranges(0, eps=eps, under_root=under_root)

    def divide(advantages: Array, rollouts: Rollouts) -> Array:
        scale = batch_std(advantages, rollouts, ddof)
        if under_root:
            scale = array_namespace(scale).sqrt(scale**2 + under_root)
        return divide_or_nothing(advantages, scale + eps)

    return stateless(divide, exchangeable=True)


@register("arxiv:2501.03262", "(r_i - mean of the batch) / (std of the batch + eps)")
def reinforce_pp(ddof: int = 0, eps: Scalar = 1e-8) -> Estimator:
    """REINFORCE++: A = (r - mean) / std, both of the whole batch.

    arXiv 2501.03262, without its penalty, which a surrogate adds. OpenRLHF and verl take mean and std over the tokens
    of the batch, so that long rollouts count more; here each rollout counts once, which is the same where all are
    equally long. verl has ``ddof`` 1, and 1e-8 under the root. A batch of equal rewards gets 0; a group of equal
    rewards in another batch does not.

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

    >>> simlab.advantages("reinforce_pp_baseline", np.array([[1.0, 1.0], [1.0, 0.0]]), eps=0.0).round(4)
    array([[ 0.    ,  0.    ],
           [ 1.4142, -1.4142]])
    """
    return chain(dr_grpo(), divide_by_batch_std(ddof, eps))


def over_mixed_groups() -> Link:
    """A P / P_mixed: the mean over P groups becomes one over those of unequal rewards ``[arxiv:2504.02546]``."""

    def rescale(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        groups = xp.any(present_rollouts(rollouts), axis=-1, keepdims=True), ~is_uniform(rollouts)
        total, mixed = (xp.sum(xp.astype(which, advantages.dtype), axis=0, keepdims=True) for which in groups)
        return advantages * (total / or_one(mixed))

    return stateless(rescale, exchangeable=True)


@register("arxiv:2504.02546", "(r_i - mean(r)) P / P_mixed")
def gpg() -> Estimator:
    """GPG: mean GRPO, averaged over the groups of unequal rewards alone.

    arXiv 2504.02546, whose F_norm is 1 here, its default; its factor B / (B - M), for M of B groups without a gradient,
    is P / P_mixed. It trains without a clip: ``gpg+reinforce``. In a batch it is mean GRPO up to a factor, which falls
    as more groups teach: a learning rate that depends on the share of dead groups. Groups of equal rewards get 0.

    >>> simlab.advantages("gpg", np.array([[1.0, 1.0], [1.0, 0.0]]))
    array([[ 0.,  0.],
           [ 1., -1.]])
    """
    return chain(dr_grpo(), over_mixed_groups())


BINS = 127  # of rates in [0, 1]: a prime, so that no rate j / G of a smaller group lies on an edge


def weigh_by_rank() -> Link:
    """A f / F: f counts the mixed groups of this solve rate, F those of no higher one ``[arxiv:2605.24331]``."""

    def weight(rollouts: Rollouts) -> Array:
        rates = solve_rate(rollouts)
        xp = array_namespace(rates)
        mixed, index = (rates > 0) & (remainder(rates) > 0), xp.floor(rates * BINS)
        bins = xp.cumulative_sum(xp.ones_like(xp.broadcast_to(rates[:1, :], (1, BINS))), axis=1) - 1
        here, up_to = (xp.astype(mixed & which, rates.dtype) for which in (index == bins, index <= bins))
        density, rank = (
            xp.sum(here * xp.sum(counted, axis=0, keepdims=True), axis=1, keepdims=True) for counted in (here, up_to)
        )
        return density / or_one(rank)

    return weighing(weight)


@register("arxiv:2605.24331", "(r_i - mean(r)) f(p) / F(p), f and F of the batch's mixed groups")
def curve_rl() -> Estimator:
    """CurveRL: mean GRPO, weighed by how many groups share the solve rate over how many have no higher one.

    arXiv 2605.24331, of which the first pages were read, and ``compute_curverl_outcome_advantage`` in
    ``verl/trainer/ppo/core_algos.py`` of zhyzmath/CurveRL (e98468b, 26 May 2026). The hardest rate of a batch weighs 1,
    a rare easy one little: the weight reads the batch and not the rate itself. The code takes f and F from the ten
    batches before, and from the batch itself in the first step; here they are always the batch's. Groups that are all
    right or all wrong get 0, a batch of one group mean GRPO.

    >>> simlab.advantages("curve_rl", np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])).round(4)
    array([[ 0.6667, -0.3333, -0.3333],
           [ 0.1111,  0.1111, -0.2222],
           [-0.3333,  0.6667, -0.3333]])
    """
    return chain(dr_grpo(), weigh_by_rank())


SHIFT = 6  # arguments above it make Stirling's series below exact to 1e-14
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)


def log_beta(alpha: Array, beta: Array) -> Array:
    """log of the Beta function for arguments of at least 1, which the array API lacks.

    Gamma(x) is Gamma(x + 6) over x (x + 1) ... (x + 5), and Gamma(x + 6) is Stirling's series. Logarithms are taken of
    quotients alone, so that no large ones are subtracted; in float32 it is right to 4e-6.
    """
    xp = array_namespace(alpha)
    z, w, u = alpha + SHIFT, beta + SHIFT, alpha + beta + SHIFT

    def series(x: Array) -> Array:
        inverse, total = 1 / x**2, xp.zeros_like(x)
        for term in reversed(STIRLING):
            total = total * inverse + term
        return total / x

    shifted = xp.ones_like(alpha)
    for step in range(SHIFT):
        shifted = shifted * (u * (alpha + beta + step)) / (math.e * (alpha + step) * (beta + step))
    powers = z * xp.log1p(-beta / u) + w * xp.log1p(-alpha / u) + xp.log(2 * math.pi * u / (z * w)) / 2
    return powers + series(z) + series(w) - series(u) + xp.log(shifted)


def fitted_beta(rates: Array, rollouts: Rollouts) -> tuple[Array, Array]:
    """alpha and beta of the normalising Beta distribution, (1, 1) each, from mean rewards of groups, (P, 1).

    By moments a Beta(a, b) has the mean m and the sample variance v of the rates where a + b = m (1 - m) / v - 1,
    a = m (a + b). Then alpha = 1 + a / 3 and beta = 1 + b / 3, which make the gradient's variance least. Both are 1
    where a and b would be negative, and for a batch whose rates are equal.
    """
    xp = array_namespace(rates)
    present = xp.any(present_rollouts(rollouts), axis=-1, keepdims=True)
    count = xp.sum(xp.astype(present, rates.dtype), axis=0, keepdims=True)
    mean = xp.sum(masked(rates, present), axis=0, keepdims=True) / or_one(count)
    gaps = masked(rates - mean, present)
    spread = xp.max(xp.abs(gaps), axis=0, keepdims=True) > SLACK
    squares = xp.where(spread, xp.sum(gaps**2, axis=0, keepdims=True), xp.ones_like(mean))
    total = mean * remainder(mean) * (count - 1) / squares - 1
    total = masked(total, spread & (total > 0))
    return 1 + mean * total / 3, 1 + remainder(mean) * total / 3


def divide_by_beta_density(most: Scalar = 1e6) -> Link:
    """A min(1 / f(m), most), f the Beta density fitted to the batch, m = mean(r) in [0, 1] ``[arxiv:2506.02864]``."""
    check_range("most", most, 0, open_low=True)

    def weight(rollouts: Rollouts) -> Array:
        rates = group_mean(rollouts.rewards, rollouts)
        xp = array_namespace(rates)
        alpha, beta = fitted_beta(rates, rollouts)
        inside = (rates > 0) & (rates < 1)
        p = xp.where(inside, rates, xp.full_like(rates, 0.5))
        rarity = log_beta(alpha, beta) - (alpha - 1) * xp.log(p) - (beta - 1) * xp.log(1 - p)
        highest = xp.log(most * xp.ones_like(rarity))
        return xp.exp(xp.where(rarity < highest, rarity, highest))

    return weighing(weight, "unit")


@register("arxiv:2506.02864", "(r_i - mean(r)) / f(mean(r)), f the density of Beta(1 + a/3, 1 + b/3)")
def bnpo(most: Scalar = 1e6) -> Estimator:
    """BNPO: mean GRPO divided by the density of the group's mean reward under a Beta distribution fitted to the batch.

    arXiv 2506.02864. Beta(a, b) has the mean and the sample variance of the groups' mean rewards in this batch, as in
    ``compute_bnpo_outcome_advantage`` (``recipe/bnpo/src/bnpo_ray_trainer.py``) of changyi7231/BNPO, which also has the
    bound ``most`` of 1 / f. Left out are the decomposition of advantages by several rewards and the affine map of
    rewards into [0, 1]. Two cases differ from the code. A group of one gets 0; in the code its baseline is 0. A batch
    of equal means is mean GRPO; in the code only a batch of one group is, and others give no number. Groups of equal
    rewards get 0. For a = b = 3/2 it is GRPO up to a factor. For rewards in [0, 1].

    >>> simlab.advantages("bnpo", np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])).round(4)
    array([[ 0.2734,  0.2734, -0.5467],
           [ 0.4727, -0.2364, -0.2364],
           [ 0.4727, -0.2364, -0.2364]])
    """
    return chain(dr_grpo(), divide_by_beta_density(most))


def weigh_by_history(scale: Scalar = 1.0, decay: Scalar = 0.9, initial: Scalar = 0.5) -> Link:
    """Multiply by scale exp(-sgn(A) sgn(m - C) abs(m - C)), m the group's mean reward ``[fade:ha-dw]``.

    C is the running mean of the batches before, C <- decay C + (1 - decay) (mean of the batch): successes weigh more
    and failures less in groups harder than the past, and the other way round in easier ones. For rewards in [0, 1].
    """
    check_range("scale", scale, 0)
    check_ranges(0, 1, decay=decay, initial=initial)

    def update(advantages: Array, rollouts: Rollouts, state: tuple[Scalar]) -> tuple[Array, tuple[Scalar]]:
        xp = array_namespace(advantages)
        (past,) = state
        gap = group_mean(rollouts.rewards, rollouts) - past  # sgn(gap) abs(gap) = gap
        easier = weigh(xp.sign(advantages), gap)
        following = decay * past + (1 - decay) * batch_mean(rollouts.rewards, rollouts)[0, 0]
        return advantages * scale * xp.exp(-easier), (following,)

    return Link(update, lambda: (initial,), domain="unit", exchangeable=True)


@register("fade:ha-dw", "A scale exp(-sgn(A) sgn(m - C) |m - C|), m = mean(r), C a running mean of m")
def ha_dw(scale: Scalar = 1.0, decay: Scalar = 0.9, initial: Scalar = 0.5, base: str | Estimator = "grpo") -> Estimator:
    """HA-DW: any base weighed by how the group's mean reward compares with past batches; for rewards in [0, 1].

    FADE states neither the constants nor the base (its masses read as Dr. GRPO's); the defaults were chosen for this
    library. Groups that are all right or all wrong get what the base gives there, times the weight.

    >>> simlab.advantages("ha_dw", np.array([1.0, 0.0, 0.0, 0.0]), base="dr_grpo").round(4)
    array([ 0.963 , -0.1947, -0.1947, -0.1947])
    """
    return chain(base_estimator(base), weigh_by_history(scale, decay, initial))
