"""Terms to add to a surrogate: pulls towards a reference or the sampler, an entropy bonus; of sampled tokens alone."""

import math
from typing import NamedTuple

from array_api_compat import array_namespace

from simlab.errors import InputError, check_choice, check_range, check_ranges, is_concrete_number
from simlab.rollouts import Array, Rollouts, Scalar, masked, needed, sequence_sum
from simlab.surrogates.base import Schedule, Surrogate, current_logp, log_ratio, scheduled
from simlab.surrogates.clip import mean_entropy

KL_FORMS = ("k1", "k2", "k3", "sequence_k2")


def kl_penalty(coefficient: Scalar = 1e-3, form: str = "k3") -> Surrogate:
    """J = -coefficient k(d), d = log pi - log pi_ref at the sampled token; add it to a surrogate with ``add``.

    k1 = d, k2 = d^2 / 2, k3 = exp(-d) - 1 + d ``[cw-grpo:kl]``: the coefficients of grad log pi are -1, -d and
    -(1 - exp(-d)), times ``coefficient``. On policy only k2's gradient is that of KL(pi || pi_ref) in expectation: k1's
    is 0, k3's that of KL(pi_ref || pi). sequence_k2 is k2 of the sum of d over the rollout, -sum(d) for each of its
    tokens: beside ``reinforce`` it makes the loss of A*-PO (arXiv 2505.20686, as TRL 1.16 has it).
    """
    check_range("coefficient", coefficient, 0)
    check_choice("form", form, KL_FORMS)

    def slope(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(ratio)
        if form == "k1":
            return -coefficient * xp.ones_like(ratio)
        gap = current_logp(ratio, rollouts) - needed(rollouts, "ref_logp")
        if form == "sequence_k2":
            gap = xp.ones_like(gap) * sequence_sum(gap, rollouts)[..., None]
        return -coefficient * (-xp.expm1(-gap) if form == "k3" else gap)

    return Surrogate(slope, frozenset() if form == "k1" else frozenset({"old_logp", "ref_logp"}), exchangeable=True)


def entropy_bonus(coefficient: Scalar = 0.01) -> Surrogate:
    """J = coefficient H, by its score function: -coefficient ratio (log pi + H) at a token ``[casp:entropy-loss]``."""
    check_range("coefficient", coefficient)

    def slope(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        return -coefficient * ratio * (current_logp(ratio, rollouts) + needed(rollouts, "entropy"))

    return Surrogate(slope, frozenset({"old_logp", "entropy"}), exchangeable=True)


class Controlled(NamedTuple):
    """A coefficient, what of it the batch applies, the last batch's entropy, and 1 once there has been a batch."""

    coefficient: Scalar = 0.0
    applied: Scalar = 0.0
    entropy: Scalar = 0.0
    started: Scalar = 0.0


def adaptive_entropy_bonus(
    target: Scalar = 0.2,
    delta: Scalar = 0.005,
    *,
    lowest: Scalar = 0.0,
    highest: Scalar = 1.0,
    initial: Scalar = 0.0,
) -> Surrogate:
    """``entropy_bonus`` whose coefficient grows by ``delta`` while the entropy is at most the target, and falls above.

    After each batch k <- min(k + delta, highest) where its mean entropy H is at most ``target``, else
    max(k - delta, lowest). The next batch has the bonus k H where that H was at most ``target``, else none; the first
    batch has none. As ``use_adaptive_entropy`` of TRL (``trl/trainer/grpo_trainer.py``, huggingface/trl at f2cd577, 24
    July 2026), with its defaults, which names Skywork-OR1 (arXiv 2505.22312). There the bonus is the mean entropy over
    all tokens with its exact gradient, and k moves at every optimiser step; here it is the score function's, weighed as
    the loss is, and k moves batch by batch. At ``delta`` 0 it is the bonus below a threshold.
    """
    check_ranges(0, target=target, delta=delta)
    check_ranges(-math.inf, lowest=lowest, highest=highest, initial=initial)
    if all(map(is_concrete_number, (lowest, highest))) and not lowest <= highest:
        raise InputError(f"lowest = {lowest}; allowed: up to highest = {highest}")

    def follow(rollouts: Rollouts, state: Controlled) -> Controlled:
        before, entropy = Controlled(*state), mean_entropy(rollouts)
        xp = array_namespace(entropy)
        unit = xp.ones_like(entropy)
        low, least, most = entropy <= target * unit, lowest * unit, highest * unit
        raised, lowered = before.coefficient + delta * unit, before.coefficient - delta * unit
        raised, lowered = xp.where(raised < most, raised, most), xp.where(lowered > least, lowered, least)
        applies = (before.started * unit > 0) & (before.entropy * unit <= target)
        applied = masked(before.coefficient * unit, applies)
        return Controlled(xp.where(low, raised, lowered), applied, entropy, unit)

    def at(state: Controlled) -> Surrogate:
        return entropy_bonus(Controlled(*state).applied)

    return scheduled(Schedule(lambda: Controlled(initial), follow, at, frozenset({"entropy"})))


def log_ratio_penalty(coefficient: Scalar = 1e-3) -> Surrogate:
    """J = -coefficient (log ratio)^2: a pull of each token towards the sampler, -2 coefficient log ratio of slope.

    Kimi K2.5 has it (arXiv 2602.02276), says prime-rl, which adds it with this coefficient to ``dppo_tv`` and
    ``ipo_mask`` (``src/prime_rl/trainer/rl/loss.py``, 559b447, August 2026); the report itself was not read. On policy
    it is 0. ``mirror_descent`` has the same term of whole sequences.
    """
    check_range("coefficient", coefficient, 0)
    return Surrogate(lambda ratio, advantages, rollouts: -2 * coefficient * log_ratio(ratio), exchangeable=True)
