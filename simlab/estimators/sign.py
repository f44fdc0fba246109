"""Links that treat correct and incorrect rollouts differently."""

from array_api_compat import array_namespace

from simlab.errors import check_range
from simlab.estimators.base import Link, stateless
from simlab.rollouts import Array, Rollouts, Scalar, batch_mean, is_correct, solve_rate


def divide_negative(advantages: Array, delta: Scalar) -> Array:
    """Advantages with those below 0 divided by ``delta``."""
    xp = array_namespace(advantages)
    return xp.where(advantages < 0, advantages / delta, advantages)


def divide_failures(delta: Scalar = 1.0) -> Link:
    """Divide negative advantages by ``delta`` ``[fade:asym-grpo]``; below 1 failures dominate.

    Raises:
        InputError: unless ``delta`` is above 0.
    """
    check_range("delta", delta, 0, open_low=True)
    return stateless(lambda advantages, rollouts: divide_negative(advantages, delta), exchangeable=True)


def multiply_positive(factor: Scalar = 10.0) -> Link:
    """Multiply positive advantages by ``factor``: A-GRAE's first control ``[a-grae:control-1]``.

    Raises:
        InputError: for a negative ``factor``.
    """
    check_range("factor", factor, 0)

    def multiply(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        return xp.where(advantages > 0, advantages * factor, advantages)

    return stateless(multiply, exchangeable=True)


def keep_positive() -> Link:
    """max(0, A) ``[fade:relu]``."""

    def clamp(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        return xp.where(advantages > 0, advantages, xp.zeros_like(advantages))

    return stateless(clamp, exchangeable=True)


def contrast() -> Link:
    """Replace the advantage by 1 on success and -p / (1 - p) on failure ``[fade:binary-contrastive]``.

    p is the solve rate, so that a solved group gets 1 and an unsolved one 0. Defined for rewards 0 and 1.
    """

    def replace(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        p = solve_rate(rollouts)
        failures = xp.where(p < 1, 1 - p, xp.ones_like(p))
        return xp.where(is_correct(rollouts), xp.ones_like(rollouts.rewards), 0 - p / failures)

    return stateless(replace, domain="binary", exchangeable=True)


def attenuate_successes(alpha: Scalar = 1.0) -> Link:
    """Multiply positive advantages by min(1, omega / alpha) ``[a-grae:eq-13]``.

    omega is the mean reward of the batch ``[a-grae:eq-11]``; the paper takes alpha 1 for MATH and 0.5 for
    multimodal tasks. Defined for rewards in [0, 1].

    Raises:
        InputError: unless ``alpha`` is above 0.
    """
    check_range("alpha", alpha, 0, open_low=True)

    def attenuate(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        share = batch_mean(rollouts.rewards, rollouts) / alpha
        share = xp.where(share < 1, share, xp.ones_like(share))
        return xp.where(advantages > 0, advantages * share, advantages)

    return stateless(attenuate, domain="unit", exchangeable=True)


def outcome(success: Scalar, failure: Scalar) -> Link:
    """Replace the advantage by ``success`` on correct rollouts and ``failure`` on incorrect ones.

    Raises:
        InputError: for a value that is not a number.
    """
    check_range("success", success)
    check_range("failure", failure)

    def replace(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        correct = is_correct(rollouts)
        return xp.where(correct, xp.full_like(advantages, success), xp.full_like(advantages, failure))

    return stateless(replace, exchangeable=True)
