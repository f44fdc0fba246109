"""Links with memory: weights that follow running averages of the training state."""

from typing import NamedTuple

from array_api_compat import array_namespace

from simlab.errors import check_range
from simlab.estimators.base import Link
from simlab.estimators.baseline import baseline_mean
from simlab.estimators.sign import divide_negative
from simlab.rollouts import Array, Rollouts, Scalar, batch_mean, sequence_mean_logp


class FadeState(NamedTuple):
    """FADE's two running averages, the first batch's entropy, and whether there has been one (0 or 1)."""

    solve_rate: Scalar = 0.5
    entropy: Scalar = 0.0
    initial_entropy: Scalar = 0.0
    started: Scalar = 0.0


def _clamp(value: Array, low: Scalar, high: Scalar) -> Array:
    xp = array_namespace(value)
    value = xp.where(value > low, value, xp.ones_like(value) * low)
    return xp.where(value < high, value, xp.ones_like(value) * high)


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

    Raises:
        InputError: for a parameter outside its range.
    """
    check_range("alpha_max", alpha_max, 1)
    check_range("delta_min", delta_min, 0, 1, open_low=True)
    check_range("beta", beta, 0, 1)
    if target_entropy is not None:
        check_range("target_entropy", target_entropy, 0)

    def follow(rollouts: Rollouts, state: FadeState) -> FadeState:
        xp = array_namespace(rollouts.rewards)
        reward = batch_mean(rollouts.rewards, rollouts)[0, 0]
        entropy = batch_mean(-sequence_mean_logp(rollouts), rollouts)[0, 0]
        zero, one = xp.zeros_like(entropy), xp.ones_like(entropy)
        fresh = zero + state.started < 1
        return FadeState(
            solve_rate=beta * state.solve_rate + (1 - beta) * reward,
            entropy=beta * xp.where(fresh, entropy, zero + state.entropy) + (1 - beta) * entropy,
            initial_entropy=xp.where(fresh, entropy, zero + state.initial_entropy),
            started=one,
        )

    def update(centered: Array, rollouts: Rollouts, state: FadeState) -> tuple[Array, FadeState]:
        xp = array_namespace(centered)
        state = follow(rollouts, FadeState(*state))
        p = state.solve_rate
        unsolved = p <= 0
        alpha = 3 * (1 - p) / (2 * xp.where(unsolved, xp.ones_like(p), p))
        alpha = _clamp(xp.where(unsolved, xp.ones_like(p) * alpha_max, alpha), 1.0, alpha_max)
        target = state.initial_entropy / 2 if target_entropy is None else target_entropy
        delta = _clamp(1 + state.entropy - target, delta_min, 1.0)
        weight = (1 - baseline_mean(rollouts.rewards, rollouts, baseline)) ** (alpha - 1)
        return divide_negative(centered * weight, delta), state

    return Link(update, FadeState, frozenset({"rewards", "old_logp"}), unit_rewards=True)
