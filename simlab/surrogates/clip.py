"""PPO's clip of a token's importance ratio: its bounds moved, softened, limited to some tokens, or with candidates."""

import math
from functools import partial
from typing import NamedTuple

from array_api_compat import array_namespace

from simlab.errors import InputError, check_choice, check_range, check_ranges, check_whole, is_concrete_number
from simlab.estimators.base import clamp, read_tokens
from simlab.order_statistics import lower_quantile
from simlab.rollouts import Array, Rollouts, Scalar, masked, needed, or_one
from simlab.surrogates.base import Schedule, Surrogate, mean_log_ratio, scheduled


def check_bounds(eps_low: Scalar, eps_high: Scalar) -> None:
    """Raise ``InputError`` for a negative bound, or ``eps_low`` above 1."""
    check_range("eps_low", eps_low, 0, 1)
    check_range("eps_high", eps_high, 0)


def check_order(low: Scalar, high: Scalar) -> None:
    """Raise ``InputError`` for a ``low`` above ``high``."""
    if is_concrete_number(low) and is_concrete_number(high) and low > high:
        raise InputError(f"low = {low} is above high = {high}; allowed: low up to high")


def is_clipped(ratio: Array, advantages: Array, eps_low: Scalar, eps_high: Scalar) -> Array:
    """True where PPO's clip has taken over: A > 0 above 1 + eps_high, A < 0 below 1 - eps_low."""
    return ((advantages > 0) & (ratio > 1 + eps_high)) | ((advantages < 0) & (ratio < 1 - eps_low))


def product(ratio: Array, advantages: Array) -> Array:
    """ratio A, and 0 where A is 0, also beside a ratio that has overflowed."""
    return masked(ratio * advantages, advantages != 0)


def reinforce() -> Surrogate:
    """J = A log pi: the coefficient is A, whatever the ratio ``[fade:eq-1]``."""
    return Surrogate(
        lambda ratio, advantages, rollouts: array_namespace(ratio).ones_like(ratio) * advantages, exchangeable=True
    )


def unclipped() -> Surrogate:
    """J = ratio A, as CW-GRPO writes it ``[cw-grpo:loss]``: the coefficient is ratio A."""
    return Surrogate(lambda ratio, advantages, rollouts: product(ratio, advantages), exchangeable=True)


def ppo_clip(eps_low: Scalar = 0.2, eps_high: Scalar = 0.2) -> Surrogate:
    """J = min(ratio A, clip(ratio, 1 - eps_low, 1 + eps_high) A); coefficient 0 where clipped ``[f-grpo:eq-14]``."""
    check_bounds(eps_low, eps_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        return masked(product(ratio, advantages), ~is_clipped(ratio, advantages, eps_low, eps_high))

    return Surrogate(coefficient, exchangeable=True)


def clip_higher(eps_low: Scalar = 0.2, eps_high: Scalar = 0.28) -> Surrogate:
    """DAPO's clip-higher: ``ppo_clip`` with a wider upper bound ``[f-grpo:app-b-clip-higher]``."""
    return ppo_clip(eps_low, eps_high)


def dual_clip(eps_low: Scalar = 0.2, eps_high: Scalar = 0.2, cap: Scalar = 3.0) -> Surrogate:
    """``ppo_clip`` whose J is at least cap A where A < 0: the coefficient is 0 there above a ratio of ``cap``."""
    check_range("cap", cap, 1, open_low=True)
    clipped_once = ppo_clip(eps_low, eps_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        capped = (advantages < 0) & (ratio > cap)
        return masked(clipped_once.coefficient(ratio, advantages, rollouts), ~capped)

    return Surrogate(coefficient, exchangeable=True)


def cispo(eps_low: Scalar = 1.0, eps_high: Scalar = 5.0) -> Surrogate:
    """J = sg(clip(ratio, 1 - eps_low, 1 + eps_high)) A log pi, by default of ratios in [0, 6] ``[f-grpo:eq-16]``."""
    check_bounds(eps_low, eps_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        return clamp(ratio, 1 - eps_low, 1 + eps_high) * advantages

    return Surrogate(coefficient, exchangeable=True)


def sequence_clip(eps_low: Scalar = 3e-4, eps_high: Scalar = 4e-4) -> Surrogate:
    """GSPO: ``ppo_clip`` on the ratio of the whole sequence, s = exp(mean_t log ratio_t) ``[casp:gspo]``.

    Every token of a rollout gets the coefficient s A, or 0 if the rollout is clipped. With the loss averaged over the
    tokens of each rollout (``"sequence_mean"``) that is the gradient of min(s A, clip(s) A), since
    grad s = s mean_t(grad log pi_t).
    """
    inner = ppo_clip(eps_low, eps_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(ratio)
        geometric_mean = xp.exp(mean_log_ratio(ratio, rollouts))
        return inner.coefficient(geometric_mean * xp.ones_like(ratio), advantages, rollouts)

    return Surrogate(coefficient, exchangeable=True)


# Soft bounds


def sapo(tau_pos: Scalar = 1.0, tau_neg: Scalar = 1.05) -> Surrogate:
    """SAPO: J = (4 / tau) sigmoid(tau (ratio - 1)) A, tau being another for A > 0 than otherwise (arXiv 2511.20347).

    The coefficient is ratio A / cosh(tau (ratio - 1) / 2)^2: a gate of 1 at a ratio of 1, and smaller on both sides,
    also where a step would lead back towards the sampler. A tau near 0 leaves ``unclipped``, a large one only ratios
    near 1, which is no PPO clip.

    As ``loss_type="sapo"`` of TRL 1.16 and ``loss_mode=sapo`` of verl, which average it over each sequence, with their
    defaults.
    """
    check_ranges(0, open_low=True, tau_pos=tau_pos, tau_neg=tau_neg)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(ratio)
        largest = float(xp.finfo(ratio.dtype).max) ** 0.5  # its gate is 0, and nothing overflows on the way there
        finite, ones = xp.where(ratio < largest, ratio, xp.full_like(ratio, largest)), xp.ones_like(ratio)
        tau = xp.where(advantages > 0, tau_pos * ones, tau_neg * ones)
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
    """
    check_ranges(0, beta_low=beta_low, beta_high=beta_high)
    check_bounds(eps_low, eps_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(ratio)
        ones = xp.ones_like(ratio)
        constant = xp.where(advantages > 0, beta_high * (1 + eps_high) * ones, beta_low * (1 - eps_low) * ones)
        clipped = is_clipped(ratio, advantages, eps_low, eps_high)
        return product(xp.where(clipped, constant, ratio), advantages)

    return Surrogate(coefficient, exchangeable=True)


def aspo(eps_low: Scalar = 0.2, eps_high: Scalar = 0.2, cap: Scalar = 3.0) -> Surrogate:
    """ASPO: ``ppo_clip`` that weighs a success by 1 / ratio, not by ratio (arXiv 2510.06062).

    The coefficient is 0 where PPO's clip has taken over, and otherwise min(1 / ratio, cap) A for A > 0 and
    min(ratio, cap) A for A < 0: a success that has become less likely weighs more. The cap is soft: it bounds the
    weight and keeps the gradient, as CISPO's does. J is the weight under a stop-gradient, times A log pi.

    As ``compute_policy_loss_archer`` in ``verl/trainer/ppo/core_algos.py`` of wizard-III/Archer2.0, with its cap. That
    function widens the bounds to .4 at a fifth of each response's tokens, those of highest entropy, which is left out.
    """
    check_bounds(eps_low, eps_high)
    check_range("cap", cap, 1, open_low=True)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(ratio)
        ones = xp.ones_like(ratio)
        inverse = 1 / xp.where(ratio < 1 / cap, ones / cap, ratio)
        weight = xp.where(advantages > 0, inverse, xp.where(ratio > cap, cap * ones, ratio))
        clipped = is_clipped(ratio, advantages, eps_low, eps_high)
        return product(masked(weight, ~clipped), advantages)

    return Surrogate(coefficient, exchangeable=True)


# Tokens of high entropy alone


def is_forking(rollouts: Rollouts, share: Scalar) -> Array:
    """Mark the ceil(share n) of the batch's n tokens of highest entropy, (P, G, T), and those that tie the last."""
    entropy, present = read_tokens(rollouts, "entropy")
    xp, here = array_namespace(entropy), present > 0
    lowest_first = xp.reshape(-entropy, (-1,))
    return here & (-entropy <= lower_quantile(lowest_first, share, xp.reshape(here, (-1,))))


def forking_tokens(share: Scalar = 0.2, eps_low: Scalar = 0.2, eps_high: Scalar = 0.28) -> Surrogate:
    """The forking-token mask: ``clip_higher``, and nothing for tokens outside the top ``share`` by entropy.

    "Beyond the 80/20 rule", arXiv 2506.01939: the tokens are ranked over the whole batch that the surrogate is given.
    At share = 1 it is ``clip_higher``. Where all tokens of a prompt have one entropy, as in a simulation of single
    tokens, whole prompts are dropped. Averaged over all tokens (``"token_mean"``), as DAPO does, those that are dropped
    count in the divisor.

    Differences: the paper and TRL 1.16 (``top_entropy_quantile``) rank by the entropy under the policy that is being
    updated, here it is that of the policy at the start of the step; TRL interpolates the quantile, and may so keep one
    token fewer; the paper ranks each micro-batch by itself.
    """
    check_range("share", share, 0, 1)
    inner = clip_higher(eps_low, eps_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        return masked(inner.coefficient(ratio, advantages, rollouts), is_forking(rollouts, share))

    return Surrogate(coefficient, frozenset({"entropy"}), exchangeable=True)


# An upper bound that follows the entropy


class Widened(NamedTuple):
    """Widening of a bound, the entropy of the first batch, and 1 once there has been a batch, else 0."""

    by: Scalar = 0.0
    initial_entropy: Scalar = 0.0
    started: Scalar = 0.0


def entropy_target_clip(
    target: Scalar | None = None,
    step: Scalar = 0.01,
    *,
    narrowest: Scalar = 0.0,
    widest: Scalar = 0.08,
    eps_low: Scalar = 0.2,
    eps_high: Scalar = 0.28,
) -> Surrogate:
    """``clip_higher`` with the upper bound 1 + eps_high + k, whose k follows the entropy towards a target.

    With each batch, before its first gradient step, k <- clip(k + step sign(target - H), narrowest, widest), from 0. H
    is the mean entropy of the policy that sampled it, at the batch's tokens; entropies that rounding alone tells apart
    are equal. With narrowest = 0 the bound is never tighter than ``eps_high``: a floor under the entropy, and no
    ceiling. At step = 0 it is ``clip_higher``.

    Source: adaptive entropy control, Eqs 7 and 8 of the report "MAI-Thinking-1: Building a Hill-Climbing Machine"
    (Microsoft AI, June 2026), as a public extension of verl states them ("Adaptive entropy control (MAI-Thinking-1, Eqs
    7-8)"), whose step and bounds of k are the defaults. Differences: that code has a target of its own, .155; without
    ``target`` it is here the first batch's entropy, as the controller of ADAPO has it (arXiv 2603.11682). The bounds at
    k = 0 are DAPO's.
    """
    check_bounds(eps_low, eps_high)
    check_range("step", step, 0)
    check_ranges(-math.inf, narrowest=narrowest, widest=widest)
    if target is not None:
        check_range("target", target, 0)
    if all(map(is_concrete_number, (narrowest, widest, eps_high))) and not -eps_high <= narrowest <= widest:
        raise InputError(f"narrowest = {narrowest}; allowed: from -eps_high = {-eps_high} to widest = {widest}")

    def follow(rollouts: Rollouts, state: Widened) -> Widened:
        before = Widened(*state)
        entropy = mean_entropy(rollouts)
        xp = array_namespace(entropy)
        zero, unit = xp.zeros_like(entropy), xp.ones_like(entropy)
        initial = xp.where(zero + before.started < 1, entropy, zero + before.initial_entropy)
        by = before.by + step * _direction(entropy, initial if target is None else unit * target)
        return Widened(clamp(by, narrowest, widest), initial, unit)

    def at(state: Widened) -> Surrogate:
        return ppo_clip(eps_low, eps_high + Widened(*state).by)

    return scheduled(Schedule(Widened, follow, at, frozenset({"entropy"})))


def _direction(entropy: Array, target: Array) -> Array:
    """Return the sign of target - entropy, and 0 where rounding alone tells them apart, as a compiler may."""
    xp = array_namespace(entropy)
    gap, rounding = target - entropy, 16 * xp.finfo(entropy.dtype).eps * (xp.abs(target) + xp.abs(entropy))
    return masked(xp.sign(gap), xp.abs(gap) > rounding)


def mean_entropy(rollouts: Rollouts) -> Array:
    """The mean entropy of the tokens of a batch, without axes; 0 where there is none."""
    entropy, present = read_tokens(rollouts, "entropy")
    xp = array_namespace(entropy)
    return xp.sum(entropy) / or_one(xp.sum(present))


# Candidates beside the sampled token

TIE = 1e-6  # nats, the rounding of a log-probability that was computed twice
CANDIDATE_WEIGHTS = ("uniform", "proportional")


def is_uncertain(rollouts: Rollouts, q: Scalar) -> Array:
    """True where the entropy exceeds the q-quantile of the response, (P, G, T): everywhere at q = 0, nowhere at 1."""
    entropy, present = read_tokens(rollouts, "entropy")
    return (present > 0) & (entropy > lower_quantile(entropy, q, present > 0))


def casp(
    alpha: Scalar = 0.01,
    candidates: int = 3,
    quantile: Scalar = 0.8,
    top_penalty: Scalar = 1.1,
    *,
    weights: str = "uniform",
    warm_up: int = 0,
    eps_low: Scalar = 0.2,
    eps_high: Scalar = 0.2,
) -> Surrogate:
    """CaSP on top of ``ppo_clip``: part of a success goes to the likeliest candidates, failures at the top cost more.

    At tokens whose entropy exceeds the ``quantile`` of their response: where A > 0, the sampled token gets
    (1 - alpha) ratio A and candidate n gets alpha w_n ratio A ``[casp:eq-4]``, the gradient of
    (1 - alpha) ratio + alpha sum_n w_n sg(ratio / ratio_n) ratio_n; where A < 0 and the sampled token is the likeliest
    candidate, its ratio is multiplied by ``top_penalty`` ``[casp:eq-5]``, also in the clip. w_n is 1 / N, or
    p_n / sum(p) over the N candidates (``"proportional"``, ``[casp:app-f.3]``). The defaults are those for mathematics;
    logic takes alpha .005, top_penalty 1.05, ``eps_high`` .28 and ``warm_up`` 50, code .05 and 1.1.

    During the first ``warm_up`` batches it is ``ppo_clip``: the 50-step GRPO warm-up of the logic tasks, in the
    appendix that sets alpha as well ``[casp:app-e-1-alpha]``. A step is read as a batch; the paper says no more of it.
    """
    check_ranges(0, 1, alpha=alpha, quantile=quantile)
    check_whole("candidates", candidates, 1)
    check_range("top_penalty", top_penalty, 0)
    check_choice("weights", weights, CANDIDATE_WEIGHTS)
    check_whole("warm_up", warm_up, 0)
    inner = ppo_clip(eps_low, eps_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts, is_on: Array = True) -> Array:
        xp = array_namespace(ratio)
        gate = is_uncertain(rollouts, quantile) & is_on
        is_top = needed(rollouts, "old_logp") >= needed(rollouts, "topn_logp")[..., 0] - TIE
        penalised = gate & (advantages < 0) & is_top
        clipped = inner.coefficient(xp.where(penalised, ratio * top_penalty, ratio), advantages, rollouts)
        spread = masked(clipped * alpha, gate & (advantages > 0))[..., None]
        return xp.concat([clipped[..., None] - spread, spread * _shares(rollouts, candidates, weights)], axis=-1)

    reads = frozenset({"old_logp", "entropy", "topn_logp"})
    if not warm_up:
        return Surrogate(coefficient, reads, candidates, exchangeable=True)

    def at(state: tuple[Scalar]) -> Surrogate:  # the number of batches so far, with the present one
        is_on = state[0] > warm_up
        return Surrogate(partial(coefficient, is_on=is_on), reads, candidates, exchangeable=True)

    return scheduled(Schedule(lambda: (0.0,), lambda rollouts, state: (state[0] + 1,), at))


def _shares(rollouts: Rollouts, candidates: int, weights: str) -> Array:
    """w_n of each candidate, (P, G, T, N), summing to 1."""
    logp = needed(rollouts, "topn_logp")
    if logp.shape[-1] < candidates:
        raise InputError(f"topn_logp holds {logp.shape[-1]} candidates; allowed: at least {candidates}")
    xp = array_namespace(logp)
    logp = logp[..., :candidates]
    if weights == "uniform":
        return xp.ones_like(logp) / candidates
    p = xp.exp(logp - xp.max(logp, axis=-1, keepdims=True))
    return p / xp.sum(p, axis=-1, keepdims=True)
