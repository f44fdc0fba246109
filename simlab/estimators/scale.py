"""Links that divide the advantages of a group by one number."""

from array_api_compat import array_namespace

from simlab.errors import InputError, check_range
from simlab.estimators.base import Link, stateless
from simlab.rollouts import Array, Rollouts, Scalar, group_mean, group_std


def _divide(advantages: Array, scale: Array) -> Array:
    """``advantages / scale``, and exactly 0 where the scale is 0."""
    xp = array_namespace(advantages)
    safe = xp.where(scale > 0, scale, xp.ones_like(scale))
    return xp.where(scale > 0, advantages / safe, xp.zeros_like(advantages))


def divide_by_std(ddof: int = 0, eps: Scalar = 1e-6) -> Link:
    """A / (std(r) + eps) ``[f-grpo:eq-3]``; ``ddof`` 0 is the population's std, 1 the sample's.

    The papers state neither; implementations differ (verl: ddof 1 and eps 1e-6).

    Raises:
        InputError: for ``ddof`` other than 0 or 1, or a negative ``eps``.
    """
    if ddof not in (0, 1):
        raise InputError(f"ddof = {ddof!r} is unknown; allowed: 0 (population), 1 (sample)")
    check_range("eps", eps, 0)

    def divide(advantages: Array, rollouts: Rollouts) -> Array:
        return _divide(advantages, group_std(rollouts.rewards, rollouts, ddof) + eps)

    return stateless(divide)


def divide_by_mean() -> Link:
    """A / mean(r), and 0 where the mean is 0 ``[fade:maxrl]``. Defined for rewards in [0, 1]."""

    def divide(advantages: Array, rollouts: Rollouts) -> Array:
        return _divide(advantages, group_mean(rollouts.rewards, rollouts))

    return stateless(divide, unit_rewards=True)
