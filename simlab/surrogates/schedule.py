"""A surrogate that changes from batch to batch, and the clip whose upper bound follows the entropy."""

from typing import NamedTuple

from array_api_compat import array_namespace

from simlab.errors import InputError, check_range, is_concrete_number
from simlab.rollouts import Array, Rollouts, Scalar, needed, token_weights
from simlab.surrogates.base import Schedule, Surrogate, scheduled
from simlab.surrogates.clip import check_bounds, ppo_clip


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
    check_range("narrowest", narrowest)
    check_range("widest", widest)
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
        by = xp.where(by > narrowest, by, unit * narrowest)
        return Widened(xp.where(by < widest, by, unit * widest), initial, unit)

    def at(state: Widened) -> Surrogate:
        return ppo_clip(eps_low, eps_high + Widened(*state).by)

    return scheduled(Schedule(Widened, follow, at, frozenset({"entropy"})))


def _direction(entropy: Array, target: Array) -> Array:
    """Return the sign of target - entropy, and 0 where rounding alone tells them apart, as a compiler may."""
    xp = array_namespace(entropy)
    gap, rounding = target - entropy, 16 * xp.finfo(entropy.dtype).eps * (xp.abs(target) + xp.abs(entropy))
    return xp.where(xp.abs(gap) > rounding, xp.sign(gap), xp.zeros_like(gap))


def mean_entropy(rollouts: Rollouts) -> Array:
    """The mean entropy of the tokens of a batch, without axes; 0 where there is none."""
    entropy = needed(rollouts, "entropy")
    xp = array_namespace(entropy)
    present = token_weights(entropy, rollouts)
    tokens = xp.sum(present)
    total = xp.sum(xp.where(present > 0, entropy, xp.zeros_like(entropy)))
    return total / xp.where(tokens > 0, tokens, xp.ones_like(tokens))
