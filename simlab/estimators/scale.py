"""Links that scale the advantages of a group by one number. No scale is no link."""

from array_api_compat import array_namespace

from simlab.errors import InputError, check_range
from simlab.estimators.base import Link, beside, stateless, weigh
from simlab.order_statistics import lower_quantile
from simlab.rollouts import Array, Rollouts, Scalar, group_mean, group_std


def divide_or_nothing(advantages: Array, scale: Array) -> Array:
    """``advantages / scale``, and exactly 0 where the scale is 0."""
    xp = array_namespace(advantages)
    scale = beside(scale, advantages)
    safe = xp.where(scale > 0, scale, xp.ones_like(scale))
    return xp.where(scale > 0, advantages / safe, xp.zeros_like(advantages))


def check_ddof(ddof: int) -> None:
    """Raise ``InputError`` unless ``ddof`` is 0 or 1."""
    if not isinstance(ddof, int) or isinstance(ddof, bool) or ddof not in (0, 1):
        raise InputError(f"ddof = {ddof!r} is unknown; allowed: 0 (population), 1 (sample)")


def divide_by_std(ddof: int = 0, eps: Scalar = 1e-6) -> Link:
    """A / (std(r) + eps) ``[f-grpo:eq-3]``; ``ddof`` 0 is the population's std, 1 the sample's.

    The papers state neither; implementations differ (verl: ddof 1 and eps 1e-6).

    Raises:
        InputError: for ``ddof`` other than 0 or 1, or a negative ``eps``.
    """
    check_ddof(ddof)
    check_range("eps", eps, 0)

    def divide(advantages: Array, rollouts: Rollouts) -> Array:
        return divide_or_nothing(advantages, group_std(rollouts.rewards, rollouts, ddof) + eps)

    return stateless(divide, exchangeable=True)


def multiply_by_std(ddof: int = 0) -> Link:
    """A std(r), which for rewards 0 and 1 is A sqrt(p (1 - p)) ``[fade:skew-r]``.

    Raises:
        InputError: for ``ddof`` other than 0 or 1.
    """
    check_ddof(ddof)
    return stateless(
        lambda advantages, rollouts: weigh(advantages, group_std(rollouts.rewards, rollouts, ddof)), exchangeable=True
    )


def divide_by_mean() -> Link:
    """A / mean(r), and 0 where the mean is 0 ``[fade:maxrl]``. Defined for rewards in [0, 1]."""

    def divide(advantages: Array, rollouts: Rollouts) -> Array:
        return divide_or_nothing(advantages, group_mean(rollouts.rewards, rollouts))

    return stateless(divide, domain="unit", exchangeable=True)


def divide_by_mad(eps: Scalar = 1e-3) -> Link:
    """A / (MAD(r) + eps), MAD the median of abs(r - median(r)) ``[fade:mc-grpo]``; both medians are the lower ones.

    For rewards 0 and 1 the MAD is 0 in every group, since more than half of it, or half, lies at the median: the
    advantage is then A / eps. With ``eps`` 0 such a group gets 0.

    Raises:
        InputError: for a negative ``eps``.
    """
    check_range("eps", eps, 0)

    def divide(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        deviation = xp.abs(rollouts.rewards - lower_quantile(rollouts.rewards, 0.5, rollouts.mask))
        return divide_or_nothing(advantages, lower_quantile(deviation, 0.5, rollouts.mask) + eps)

    return stateless(divide, exchangeable=True)


def divide_by_variance_power(gamma: Scalar = 0.5) -> Link:
    """A / [m (1 - m)]^gamma, m the mean reward, and 0 where m is 0 or 1 ``[fade:power-norm]``. For rewards in [0, 1].

    Raises:
        InputError: for a negative ``gamma``.
    """
    check_range("gamma", gamma, 0)

    def divide(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        mean = group_mean(rollouts.rewards, rollouts)
        variance = mean * (1 - mean)
        positive = variance > 0
        power = xp.where(positive, variance, xp.ones_like(variance)) ** gamma
        return divide_or_nothing(advantages, xp.where(positive, power, xp.zeros_like(power)))

    return stateless(divide, domain="unit", exchangeable=True)
