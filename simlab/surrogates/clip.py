"""Surrogates of the importance ratio, most of which clip it to limit what one token can do."""

from array_api_compat import array_namespace

from simlab.errors import check_range
from simlab.rollouts import Array, Rollouts, Scalar, sequence_mean
from simlab.surrogates.base import Surrogate, log_ratio


def check_bounds(eps_low: Scalar, eps_high: Scalar) -> None:
    """Raise ``InputError`` for a negative bound, or ``eps_low`` above 1."""
    check_range("eps_low", eps_low, 0, 1)
    check_range("eps_high", eps_high, 0)


def is_clipped(ratio: Array, advantages: Array, eps_low: Scalar, eps_high: Scalar) -> Array:
    """Where PPO's clip has taken over: A > 0 above 1 + eps_high, A < 0 below 1 - eps_low."""
    return ((advantages > 0) & (ratio > 1 + eps_high)) | ((advantages < 0) & (ratio < 1 - eps_low))


def product(ratio: Array, advantages: Array) -> Array:
    """ratio A, and 0 where A is 0, also beside a ratio that has overflowed."""
    xp = array_namespace(ratio)
    return xp.where(advantages == 0, xp.zeros_like(ratio), ratio * advantages)


def reinforce() -> Surrogate:
    """J = A log pi: the coefficient is A, whatever the ratio ``[fade:eq-1]``."""
    return Surrogate(
        lambda ratio, advantages, rollouts: array_namespace(ratio).ones_like(ratio) * advantages, exchangeable=True
    )


def unclipped() -> Surrogate:
    """J = ratio A, as CW-GRPO writes it ``[cw-grpo:loss]``: the coefficient is ratio A."""
    return Surrogate(lambda ratio, advantages, rollouts: product(ratio, advantages), exchangeable=True)


def ppo_clip(eps_low: Scalar = 0.2, eps_high: Scalar = 0.2) -> Surrogate:
    """J = min(ratio A, clip(ratio, 1 - eps_low, 1 + eps_high) A) ``[f-grpo:eq-14]``.

    The coefficient is ratio A, and 0 where clipping has taken over: A > 0 above 1 + eps_high, A < 0 below
    1 - eps_low.

    Raises:
        InputError: for a negative bound, or ``eps_low`` above 1.
    """
    check_bounds(eps_low, eps_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(ratio)
        clipped = is_clipped(ratio, advantages, eps_low, eps_high)
        return xp.where(clipped, xp.zeros_like(ratio), product(ratio, advantages))

    return Surrogate(coefficient, exchangeable=True)


def clip_higher(eps_low: Scalar = 0.2, eps_high: Scalar = 0.28) -> Surrogate:
    """DAPO's clip-higher: ``ppo_clip`` with a wider upper bound ``[f-grpo:app-b-clip-higher]``.

    Raises:
        InputError: for a negative bound, or ``eps_low`` above 1.
    """
    return ppo_clip(eps_low, eps_high)


def dual_clip(eps_low: Scalar = 0.2, eps_high: Scalar = 0.2, cap: Scalar = 3.0) -> Surrogate:
    """``ppo_clip`` whose J is at least cap A where A < 0: the coefficient is 0 there above a ratio of ``cap``.

    Raises:
        InputError: for a negative bound, ``eps_low`` above 1, or ``cap`` not above 1.
    """
    check_range("cap", cap, 1, open_low=True)
    clipped_once = ppo_clip(eps_low, eps_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(ratio)
        capped = (advantages < 0) & (ratio > cap)
        return xp.where(capped, xp.zeros_like(ratio), clipped_once.coefficient(ratio, advantages, rollouts))

    return Surrogate(coefficient, exchangeable=True)


def cispo(eps_low: Scalar = 1.0, eps_high: Scalar = 5.0) -> Surrogate:
    """J = sg(clip(ratio, 1 - eps_low, 1 + eps_high)) A log pi ``[f-grpo:eq-16]``.

    The coefficient is the clipped ratio times A; the defaults clip to [0, 6].

    Raises:
        InputError: for a negative bound, or ``eps_low`` above 1.
    """
    check_bounds(eps_low, eps_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(ratio)
        one = xp.ones_like(ratio)
        ratio = xp.where(ratio < 1 - eps_low, one * (1 - eps_low), ratio)
        return xp.where(ratio > 1 + eps_high, one * (1 + eps_high), ratio) * advantages

    return Surrogate(coefficient, exchangeable=True)


def sequence_clip(eps_low: Scalar = 3e-4, eps_high: Scalar = 4e-4) -> Surrogate:
    """GSPO: ``ppo_clip`` on the ratio of the whole sequence, s = exp(mean_t log ratio_t) ``[casp:gspo]``.

    Every token of a rollout gets the coefficient s A, or 0 if the rollout is clipped. With the loss averaged over the
    tokens of each rollout (``"sequence_mean"``) that is the gradient of min(s A, clip(s) A), since
    grad s = s mean_t(grad log pi_t).

    Raises:
        InputError: for a negative bound, or ``eps_low`` above 1.
    """
    inner = ppo_clip(eps_low, eps_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(ratio)
        whole = xp.exp(sequence_mean(log_ratio(ratio), rollouts))[..., None]
        return xp.ones_like(ratio) * inner.coefficient(whole * xp.ones_like(ratio), advantages, rollouts)

    return Surrogate(coefficient, exchangeable=True)
