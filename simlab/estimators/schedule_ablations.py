"""FADE's two simplifications of its schedule: one that follows steps alone, and one that follows entropy alone."""

from typing import NamedTuple

from array_api_compat import array_namespace

from simlab.errors import check_range
from simlab.estimators.base import Estimator, Link, chain
from simlab.estimators.baseline import center
from simlab.estimators.registry import register
from simlab.estimators.schedule import FadeState, clamp, followed, power_divided
from simlab.rollouts import Array, Rollouts, Scalar, group_mean

ALPHA_ENDS, DELTA_ENDS = (2.0, 1.917), (1.0, 0.802)  # at the first step and at the last
ALPHA_PACE, DELTA_PACE = 8500 / 20_000, 12_264 / 20_000  # tau over T, for the paper's runs of about 20k steps


class Steps(NamedTuple):
    """How many batches there have been."""

    taken: Scalar = 0.0


@register("fade:eq-17", "(1 - m)^(alpha_t - 1) (r_i - m), divided by delta_t where negative, m = mean(r)")
def fade_logarithmic(last: Scalar = 20_000.0) -> Estimator:
    """FADE's logarithmic schedule: alpha and delta fall with the step, whatever is learned; for rewards in [0, 1].

    alpha_t = 2 - .083 log(1 + t / tau) / log(1 + T / tau) ``[fade:eq-18]``, and delta_t likewise from 1 to .802
    ``[fade:eq-17]``; t counts batches from 0, and the schedule rests at its end after step T = ``last``. The paper
    prints tau = 8500 and 12264 but no T: read here as 20,000, the length that it reports of its runs, with tau / T kept
    at any other ``last``. Groups of equal rewards get 0.

    Raises:
        InputError: unless ``last`` is above 0.

    >>> import simlab, numpy as np
    >>> simlab.advantages("fade_logarithmic", np.array([1.0, 0.0, 0.0, 0.0]))
    array([ 0.5625, -0.1875, -0.1875, -0.1875])
    """
    check_range("last", last, 0, open_low=True)

    def update(centered: Array, rollouts: Rollouts, state: Steps) -> tuple[Array, Steps]:
        xp = array_namespace(centered)
        taken = xp.zeros_like(centered[0, 0]) + Steps(*state).taken
        share = clamp(taken / last, 0.0, 1.0)

        def at(ends: tuple[float, float], pace: float) -> Array:
            first, end = ends
            return first - (first - end) * xp.log1p(share / pace) / xp.log1p(xp.ones_like(share) / pace)

        alpha, delta = at(ALPHA_ENDS, ALPHA_PACE), at(DELTA_ENDS, DELTA_PACE)
        return power_divided(centered, group_mean(rollouts.rewards, rollouts), alpha, delta), Steps(taken + 1)

    return chain(center("mean"), Link(update, Steps, domain="unit", exchangeable=True))


@register("fade:fig-9", "(1 - m)^(alpha_H - 1) (r_i - m), divided by delta_H where negative, m = mean(r)")
def fade_entropy(alpha_max: Scalar = 3.0, delta_min: Scalar = 0.3, beta: Scalar = 0.02) -> Estimator:
    """FADE driven by entropy alone: delta is unchanged, and alpha follows the same average; for rewards in [0, 1].

    The paper has no formula for alpha here. Read as alpha = clip(1 + (alpha_max - 1) (H - H*) / (H_0 - H*), 1,
    alpha_max), with H_0 the first batch's entropy, H* = H_0 / 2 and H its running average as in ``fade``: alpha_max at
    the first batch as in ``fade`` where few rollouts are right, and 1 from where delta starts to fall. Groups of equal
    rewards get 0.

    Raises:
        InputError: for a parameter outside its range.

    >>> import simlab, numpy as np
    >>> simlab.advantages("fade_entropy", np.array([1.0, 0.0]), old_logp=np.array([[-1.0], [-1.0]]))
    array([ 0.125, -0.125])
    """
    check_range("alpha_max", alpha_max, 1)
    check_range("delta_min", delta_min, 0, 1, open_low=True)
    check_range("beta", beta, 0, 1)

    def update(centered: Array, rollouts: Rollouts, state: FadeState) -> tuple[Array, FadeState]:
        xp = array_namespace(centered)
        state = followed(rollouts, FadeState(*state), beta)
        target = state.initial_entropy / 2
        excess = (state.entropy - target) / xp.where(target > 0, target, xp.ones_like(target))
        alpha = clamp(1 + (alpha_max - 1) * excess, 1.0, alpha_max)
        delta = clamp(1 + state.entropy - target, delta_min, 1.0)
        return power_divided(centered, group_mean(rollouts.rewards, rollouts), alpha, delta), state

    needs = frozenset({"rewards", "old_logp"})
    return chain(center("mean"), Link(update, FadeState, needs, domain="unit", exchangeable=True))
