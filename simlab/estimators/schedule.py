"""FADE: weights that follow running averages of the training state, and two ablations of its schedule."""

from collections.abc import Callable
from typing import NamedTuple

from array_api_compat import array_namespace

from simlab.errors import check_choice, check_range
from simlab.estimators.base import Estimator, Link, chain, clamp, weigh
from simlab.estimators.links import baseline_mean, center, divide_negative
from simlab.estimators.registry import register
from simlab.rollouts import Array, Rollouts, Scalar, batch_mean, group_mean, or_one, remainder, sequence_mean_logp


class FadeState(NamedTuple):
    """FADE's two running averages, the entropy of the first batch, and 1 once there has been a batch, else 0."""

    solve_rate: Scalar = 0.5
    entropy: Scalar = 0.0
    initial_entropy: Scalar = 0.0
    started: Scalar = 0.0


def follow_averages(rollouts: Rollouts, state: FadeState, beta: Scalar) -> FadeState:
    """Update the running averages, x <- beta x + (1 - beta) x_batch; the entropy starts at that of the first batch."""
    xp = array_namespace(rollouts.rewards)
    reward = batch_mean(rollouts.rewards, rollouts)[0, 0]
    entropy = batch_mean(-sequence_mean_logp(rollouts), rollouts)[0, 0]
    zero = xp.zeros_like(entropy)
    fresh = zero + state.started < 1
    return FadeState(
        solve_rate=beta * state.solve_rate + (1 - beta) * reward,
        entropy=beta * xp.where(fresh, entropy, zero + state.entropy) + (1 - beta) * entropy,
        initial_entropy=xp.where(fresh, entropy, zero + state.initial_entropy),
        started=xp.ones_like(entropy),
    )


def power_divided(centered: Array, mean: Array, alpha: Scalar, delta: Scalar) -> Array:
    """(1 - mean)^(alpha - 1) times centred rewards, divided by delta where negative ``[fade:eq-11]``."""
    return divide_negative(weigh(centered, remainder(mean) ** (alpha - 1)), delta)


def _scheduled(
    exponent: Callable[[FadeState, Array], Array],
    constants: tuple[Scalar, Scalar, Scalar],
    target_entropy: Scalar | None = None,
    baseline: str = "mean",
) -> Link:
    """``power_divided`` with alpha = exponent(averages, H*) from 1 to alpha_max, and delta as of ``fade_schedule``."""
    alpha_max, delta_min, beta = constants
    check_range("alpha_max", alpha_max, 1)
    check_range("delta_min", delta_min, 0, 1, open_low=True)
    check_range("beta", beta, 0, 1)

    def update(centered: Array, rollouts: Rollouts, state: FadeState) -> tuple[Array, FadeState]:
        state = follow_averages(rollouts, FadeState(*state), beta)
        target = state.initial_entropy / 2 if target_entropy is None else target_entropy
        alpha = clamp(exponent(state, target), 1.0, alpha_max)
        delta = clamp(1 + state.entropy - target, delta_min, 1.0)
        return power_divided(centered, baseline_mean(rollouts.rewards, rollouts, baseline), alpha, delta), state

    return Link(update, FadeState, frozenset({"old_logp"}), domain="unit", exchangeable=True)


def fade_schedule(
    alpha_max: Scalar = 3.0,
    delta_min: Scalar = 0.3,
    beta: Scalar = 0.02,
    target_entropy: Scalar | None = None,
    baseline: str = "mean",
) -> Link:
    """Turn centred rewards into FADE's advantages ``[fade:eq-11]``, scheduled as in its ``[fade:alg-2]``.

    A_i = (1 - mean)^(alpha - 1) (r_i - mean), divided by delta where r_i < mean, with
    alpha = clip(3 (1 - p) / (2 p), 1, alpha_max) and delta = clip(1 + H - H*, delta_min, 1).
    p and H are running averages, x <- beta x + (1 - beta) x_batch, of the batch's mean reward and of its mean
    sampled entropy -log pi; H* is ``target_entropy``, by default half the first batch's entropy.
    ``baseline`` says over what the mean was taken that the preceding link subtracted: see ``center``.
    """
    check_choice("baseline", baseline, ("mean", "batch_mean"))
    if target_entropy is not None:
        check_range("target_entropy", target_entropy, 0)

    def exponent(state: FadeState, target: Array) -> Array:
        p = state.solve_rate
        xp = array_namespace(p)
        return xp.where(p > 0, 3 * (1 - p) / (2 * or_one(p)), xp.ones_like(p) * alpha_max)

    return _scheduled(exponent, (alpha_max, delta_min, beta), target_entropy, baseline)


@register("fade:eq-11", "(1 - m)^(alpha - 1) (r_i - m), divided by delta where negative, m = mean(r)")
def fade(
    alpha_max: Scalar = 3.0,
    delta_min: Scalar = 0.3,
    beta: Scalar = 0.02,
    target_entropy: Scalar | None = None,
    baseline: str = "mean",
) -> Estimator:
    """FADE: Power-alpha with divided failures, both scheduled by running averages; for rewards in [0, 1].

    ``beta`` 0.02 is Algorithm 2's printed constant, x <- beta x + (1 - beta) x_batch, and hardly averages; 0.98 is
    the other reading. The printed mean runs over the batch (``baseline="batch_mean"``); the masses that the paper
    derives from it need the mean of the prompt's group, the default. Groups of equal rewards get 0 (unless they are
    compared with the batch); in a batch without a correct rollout every group is one, and alpha goes to its maximum.

    >>> simlab.advantages("fade", np.array([1.0, 0.0]), old_logp=np.array([[-1.0], [-1.0]]), target_entropy=1.5)
    array([ 0.35355339, -0.70710678])
    """
    return chain(center(baseline), fade_schedule(alpha_max, delta_min, beta, target_entropy, baseline))


ALPHA_ENDS, DELTA_ENDS = (2.0, 1.917), (1.0, 0.802)  # at the first step and at the last
ALPHA_PACE, DELTA_PACE = 8500 / 20_000, 12_264 / 20_000  # tau over T, for the paper's runs of about 20k steps


@register("fade:eq-17", "(1 - m)^(alpha_t - 1) (r_i - m), divided by delta_t where negative, m = mean(r)")
def fade_logarithmic(last: Scalar = 20_000.0) -> Estimator:
    """FADE's logarithmic schedule: alpha and delta fall with the step, whatever is learned; for rewards in [0, 1].

    alpha_t = 2 - .083 log(1 + t / tau) / log(1 + T / tau) ``[fade:eq-18]``, and delta_t likewise from 1 to .802
    ``[fade:eq-17]``; t counts batches from 0, and the schedule rests at its end after step T = ``last``. The paper
    prints tau = 8500 and 12264 but no T: read here as 20,000, the length that it reports of its runs, with tau / T kept
    at any other ``last``. Groups of equal rewards get 0.

    >>> simlab.advantages("fade_logarithmic", np.array([1.0, 0.0, 0.0, 0.0]))
    array([ 0.5625, -0.1875, -0.1875, -0.1875])
    """
    check_range("last", last, 0, open_low=True)

    def update(centered: Array, rollouts: Rollouts, state: tuple[Scalar]) -> tuple[Array, tuple[Scalar]]:
        xp, (before,) = array_namespace(centered), state
        count = xp.zeros_like(centered[0, 0]) + before
        share = clamp(count / last, 0.0, 1.0)

        def at(ends: tuple[float, float], pace: float) -> Array:
            first, end = ends
            return first - (first - end) * xp.log1p(share / pace) / xp.log1p(xp.ones_like(share) / pace)

        alpha, delta = at(ALPHA_ENDS, ALPHA_PACE), at(DELTA_ENDS, DELTA_PACE)
        return power_divided(centered, group_mean(rollouts.rewards, rollouts), alpha, delta), (count + 1,)

    return chain(center("mean"), Link(update, lambda: (0.0,), domain="unit", exchangeable=True))


@register("fade:fig-9", "(1 - m)^(alpha_H - 1) (r_i - m), divided by delta_H where negative, m = mean(r)")
def fade_entropy(alpha_max: Scalar = 3.0, delta_min: Scalar = 0.3, beta: Scalar = 0.02) -> Estimator:
    """FADE driven by entropy alone: delta is unchanged, and alpha follows the same average; for rewards in [0, 1].

    The paper has no formula for alpha here. Read as alpha = clip(1 + (alpha_max - 1) (H - H*) / (H_0 - H*), 1,
    alpha_max), with H_0 the first batch's entropy, H* = H_0 / 2 and H its running average as in ``fade``: alpha_max at
    the first batch as in ``fade`` where few rollouts are right, and 1 from where delta starts to fall. Groups of equal
    rewards get 0.

    >>> simlab.advantages("fade_entropy", np.array([1.0, 0.0]), old_logp=np.array([[-1.0], [-1.0]]))
    array([ 0.125, -0.125])
    """

    def exponent(state: FadeState, target: Array) -> Array:
        return 1 + (alpha_max - 1) * ((state.entropy - target) / or_one(target))

    return chain(center("mean"), _scheduled(exponent, (alpha_max, delta_min, beta)))
