"""Surrogates that soften PPO's clip: a token's gradient fades, is kept in part, or weighs by the inverse ratio."""

from array_api_compat import array_namespace

from simlab.errors import check_range
from simlab.rollouts import Array, Rollouts, Scalar
from simlab.surrogates.base import Surrogate
from simlab.surrogates.clip import check_bounds, is_clipped, product


def sapo(tau_pos: Scalar = 1.0, tau_neg: Scalar = 1.05) -> Surrogate:
    """SAPO: J = (4 / tau) sigmoid(tau (ratio - 1)) A, tau being another for A > 0 than otherwise (arXiv 2511.20347).

    The coefficient is ratio A / cosh(tau (ratio - 1) / 2)^2: a gate of 1 at a ratio of 1, and smaller on both sides,
    also where a step would lead back towards the sampler. A tau near 0 leaves ``unclipped``, a large one only ratios
    near 1, which is no PPO clip.

    As ``loss_type="sapo"`` of TRL 1.16 and ``loss_mode=sapo`` of verl, which average it over each sequence, with their
    defaults.

    Raises:
        InputError: for a temperature that is not above 0.
    """
    check_range("tau_pos", tau_pos, 0, open_low=True)
    check_range("tau_neg", tau_neg, 0, open_low=True)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(ratio)
        largest = float(xp.finfo(ratio.dtype).max) ** 0.5  # its gate is 0, and nothing overflows on the way there
        finite, one = xp.where(ratio < largest, ratio, xp.full_like(ratio, largest)), xp.ones_like(ratio)
        tau = xp.where(advantages > 0, tau_pos * one, tau_neg * one)
        fading = xp.exp(-tau * xp.abs(finite - 1))
        return product(finite * fading * (2 / (1 + fading)) ** 2, advantages)

    return Surrogate(coefficient, exchangeable=True)


def ce_gppo(
    beta_low: Scalar = 0.75, beta_high: Scalar = 1.0, eps_low: Scalar = 0.2, eps_high: Scalar = 0.2
) -> Surrogate:
    """CE-GPPO: ``ppo_clip`` whose clipped tokens keep a gradient of constant size (arXiv 2509.20712).

    J = ratio A, but beta bound ratio / sg(ratio) A where PPO's clip has taken over: the coefficient there is
    beta_low (1 - eps_low) A for failures and beta_high (1 + eps_high) A for successes. At beta = 0 it is ``ppo_clip``,
    at beta = 1 GPPO (arXiv 2508.07629).

    As ``compute_gppo_loss_general_beta`` in the README of Kwai-Klear/CE-GPPO, with its betas, but without the dual clip
    at 3 that this function has besides. The bounds are PPO's.

    Raises:
        InputError: for a negative beta or bound, or ``eps_low`` above 1.
    """
    check_range("beta_low", beta_low, 0)
    check_range("beta_high", beta_high, 0)
    check_bounds(eps_low, eps_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(ratio)
        one = xp.ones_like(ratio)
        kept = xp.where(advantages > 0, beta_high * (1 + eps_high) * one, beta_low * (1 - eps_low) * one)
        clipped = is_clipped(ratio, advantages, eps_low, eps_high)
        return product(xp.where(clipped, kept, ratio), advantages)

    return Surrogate(coefficient, exchangeable=True)


def aspo(eps_low: Scalar = 0.2, eps_high: Scalar = 0.2, cap: Scalar = 3.0) -> Surrogate:
    """ASPO: ``ppo_clip`` that weighs a success by 1 / ratio, not by ratio (arXiv 2510.06062).

    The coefficient is 0 where PPO's clip has taken over, and otherwise min(1 / ratio, cap) A for A > 0 and
    min(ratio, cap) A for A < 0: a success that has become less likely weighs more. The cap is soft: it bounds the
    weight and keeps the gradient, as CISPO's does. J is the weight under a stop-gradient, times A log pi.

    As ``compute_policy_loss_archer`` in ``verl/trainer/ppo/core_algos.py`` of wizard-III/Archer2.0, with its cap. That
    function widens the bounds to .4 at a fifth of each response's tokens, those of highest entropy, which is left out.

    Raises:
        InputError: for a negative bound, ``eps_low`` above 1, or ``cap`` not above 1.
    """
    check_bounds(eps_low, eps_high)
    check_range("cap", cap, 1, open_low=True)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(ratio)
        one = xp.ones_like(ratio)
        turned_round = 1 / xp.where(ratio < 1 / cap, one / cap, ratio)
        weight = xp.where(advantages > 0, turned_round, xp.where(ratio > cap, cap * one, ratio))
        clipped = is_clipped(ratio, advantages, eps_low, eps_high)
        return product(xp.where(clipped, xp.zeros_like(ratio), weight), advantages)

    return Surrogate(coefficient, exchangeable=True)
