"""Links that subtract a baseline, scale a group, weigh its difficulty, or tell correct from wrong rollouts."""

from collections.abc import Callable

from array_api_compat import array_namespace

from simlab.errors import InputError, check_choice, check_range, check_ranges, check_whole
from simlab.estimators.base import Link, beside, stateless, weighing
from simlab.order_statistics import lower_quantile, rounding_slack
from simlab.rollouts import (
    Array,
    Rollouts,
    Scalar,
    batch_mean,
    group_count,
    group_mean,
    group_std,
    group_sum,
    is_correct,
    is_uniform,
    masked,
    needed,
    or_one,
    remainder,
    solve_rate,
)

# Baselines

BASELINES = ("mean", "leave_one_out", "batch_mean", "median")


def baseline_mean(values: Array, rollouts: Rollouts, baseline: str) -> Array:
    """The mean over each group, (P, 1), or over the whole batch, (1, 1), for ``"batch_mean"``."""
    return (batch_mean if baseline == "batch_mean" else group_mean)(values, rollouts)


def subtract_mean(values: Array, rollouts: Rollouts, baseline: str = "mean") -> Array:
    """Values less their ``baseline_mean``, and once more less the mean of that, which is its rounding."""
    values = values - baseline_mean(values, rollouts, baseline)
    return values - baseline_mean(values, rollouts, baseline)


def center(baseline: str = "mean") -> Link:
    """Subtract the mean of the group, of its other rollouts (``"leave_one_out"``), of the batch, or the median.

    A_i = r_i - mean(r), times G / (G - 1) for leave-one-out. Groups of equal rewards, a single rollout included,
    get exactly 0, except under ``"batch_mean"``, which compares them with the other groups. The mean is subtracted
    twice: its rounding error times G would otherwise make the advantages of a large, nearly uniform group sum to
    something other than 0. The median is the lower one, ``center_quantile(1 / 2)``.
    """
    check_choice("baseline", baseline, BASELINES)
    if baseline == "median":
        return center_quantile(0.5)

    def subtract(advantages: Array, rollouts: Rollouts) -> Array:
        centered = subtract_mean(advantages, rollouts, baseline)
        uniform = is_uniform(rollouts, axis=None if baseline == "batch_mean" else -1)
        if baseline == "leave_one_out":
            count = group_count(rollouts)
            centered = centered * (count / or_one(count - 1))
        return masked(centered, ~uniform)

    return stateless(subtract, exchangeable=True)


def center_quantile(tau: Scalar = 0.5) -> Link:
    """Subtract the smallest reward that a share ``tau`` of the group does not exceed; equal rewards get exactly 0."""
    check_range("tau", tau, 0, 1)

    def subtract(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        least_share = 1 / group_count(rollouts)
        share = xp.where(tau > least_share, tau * xp.ones_like(least_share), least_share)
        return advantages - lower_quantile(advantages, share, rollouts.mask)

    return stateless(subtract, exchangeable=True)


def center_greedy() -> Link:
    """Subtract the greedy answer's reward, ``greedy_reward``, from equal rewards too ``[arxiv:2310.10505]``."""

    def subtract(advantages: Array, rollouts: Rollouts) -> Array:
        return advantages - needed(rollouts, "greedy_reward")

    return stateless(subtract, needs=frozenset({"greedy_reward"}), exchangeable=True)


def shift(delta: Scalar = 0.01) -> Link:
    """Subtract a constant ``delta`` from every advantage, groups of equal rewards included."""
    check_range("delta", delta)
    return stateless(lambda advantages, rollouts: advantages - delta, exchangeable=True)


def center_running(decay: Scalar = 0.9, initial: Scalar = 0.0) -> Link:
    """Subtract a running mean b of the batches before this one: b <- decay b + (1 - decay) (mean of the batch)."""
    check_range("decay", decay, 0, 1)
    check_range("initial", initial)

    def subtract(advantages: Array, rollouts: Rollouts, state: tuple[Scalar]) -> tuple[Array, tuple[Scalar]]:
        (baseline,) = state
        return advantages - baseline, (decay * baseline + (1 - decay) * batch_mean(advantages, rollouts)[0, 0],)

    return Link(subtract, lambda: (initial,), exchangeable=True)


# Scales: one number a group


def divide_or_nothing(advantages: Array, scale: Array) -> Array:
    """``advantages / scale``, and exactly 0 where the scale is 0."""
    scale = beside(scale, advantages)
    return masked(advantages / or_one(scale), scale > 0)


def dividing(scale: Callable[[Rollouts], Array], domain: str = "any") -> Link:
    """Make an exchangeable link that divides by a scale of each group, (P, 1); 0 where that is 0."""

    def divide(advantages: Array, rollouts: Rollouts) -> Array:
        return divide_or_nothing(advantages, scale(rollouts))

    return stateless(divide, domain=domain, exchangeable=True)


def check_ddof(ddof: int) -> None:
    """Raise ``InputError`` unless ``ddof`` is 0 or 1."""
    if type(ddof) is not int or ddof not in (0, 1):
        raise InputError(f"ddof = {ddof!r} is unknown; allowed: 0 (population), 1 (sample)")


def divide_by_std(ddof: int = 0, eps: Scalar = 1e-6) -> Link:
    """A / (std(r) + eps) ``[f-grpo:eq-3]``; ``ddof`` 0 is the population's std, 1 the sample's (verl's)."""
    check_ddof(ddof)
    check_range("eps", eps, 0)
    return dividing(lambda rollouts: group_std(rollouts.rewards, rollouts, ddof) + eps)


def highest_other(values: Array, rollouts: Rollouts) -> Array:
    """The largest value of the group's other rollouts, (P, G); minus infinity where there is no other."""
    xp = array_namespace(values)
    lowest = xp.full_like(values, -xp.inf)
    values = values if rollouts.mask is None else xp.where(rollouts.mask, values, lowest)
    highest = xp.max(values, axis=-1, keepdims=True)
    is_highest = values == highest
    below = xp.max(xp.where(is_highest, lowest, values), axis=-1, keepdims=True)
    is_alone = xp.sum(xp.astype(is_highest, xp.int32), axis=-1, keepdims=True) == 1
    return xp.where(is_highest & is_alone, below, highest)


def divide_by_std_of_others(eps: Scalar = 1e-6) -> Link:
    """A / (sample std of the group's other rewards + eps), and A itself where these are equal.

    NeMo-RL computes that std as sqrt(mean of squares - square of the mean) in float32 (NVIDIA-NeMo/RL at 7ea279a, 22
    August 2026, ``nemo_rl/algorithms/utils.py``) and divides where it is above 0. Where the others are equal the
    difference is rounding: of seven rewards .35 and one of .95 it is 2.6e-8, whose root makes an advantage of 3693 of
    the .6 by which the eighth exceeds the others. Here equal rewards are found by comparison, so that A stays .6.
    """
    check_range("eps", eps, 0)

    def divide(advantages: Array, rollouts: Rollouts) -> Array:
        xp, count = array_namespace(advantages), group_count(rollouts)
        gaps = masked(rollouts.rewards - group_mean(rollouts.rewards, rollouts), rollouts.mask)
        unit = xp.max(xp.abs(gaps), axis=-1, keepdims=True)
        squares = (gaps / or_one(unit)) ** 2
        # About their own mean, the squares of the others sum to those of all less G / (G - 1) of one's own.
        others = group_sum(squares, rollouts) - squares * count / or_one(count - 1)
        std = unit * xp.sqrt(masked(others, others > 0) / or_one(count - 2))
        differ = highest_other(rollouts.rewards, rollouts) > -highest_other(-rollouts.rewards, rollouts)
        divides = differ & (std > 0)
        return xp.where(divides, advantages / xp.where(divides, std + eps, xp.ones_like(std)), advantages)

    return stateless(divide, exchangeable=True)


def multiply_by_std(ddof: int = 0) -> Link:
    """A std(r), which for rewards 0 and 1 is A sqrt(p (1 - p)) ``[fade:skew-r]``."""
    check_ddof(ddof)
    return weighing(lambda rollouts: group_std(rollouts.rewards, rollouts, ddof))


def divide_by_mean() -> Link:
    """A / mean(r), and 0 where the mean is 0 ``[fade:maxrl]``. Defined for rewards in [0, 1]."""
    return dividing(lambda rollouts: group_mean(rollouts.rewards, rollouts), "unit")


def divide_by_mad(eps: Scalar = 1e-3) -> Link:
    """A / (MAD(r) + eps), both medians the lower ones; rewards 0 and 1 have MAD 0, so A / eps ``[fade:mc-grpo]``."""
    check_range("eps", eps, 0)

    def scale(rollouts: Rollouts) -> Array:
        median = lower_quantile(rollouts.rewards, 0.5, rollouts.mask)
        deviation = array_namespace(median).abs(rollouts.rewards - median)
        return lower_quantile(deviation, 0.5, rollouts.mask) + eps

    return dividing(scale)


def divide_by_variance_power(gamma: Scalar = 0.5) -> Link:
    """A / [m (1 - m)]^gamma, m the mean reward, and 0 where m is 0 or 1 ``[fade:power-norm]``. Rewards in [0, 1]."""
    check_range("gamma", gamma, 0)

    def scale(rollouts: Rollouts) -> Array:
        mean = group_mean(rollouts.rewards, rollouts)
        variance = mean * (1 - mean)
        return masked(or_one(variance) ** gamma, variance > 0)

    return dividing(scale, "unit")


# Difficulty: a weight of the group by its solve rate or mean reward


def focal(gamma: Scalar = 1.0) -> Link:
    """Multiply by (1 - X/G)^gamma, X the number of correct rollouts ``[f-grpo:eq-12]``."""
    check_range("gamma", gamma, 0)
    return weighing(lambda rollouts: remainder(solve_rate(rollouts)) ** gamma)


def power(alpha: Scalar = 2.0) -> Link:
    """Multiply by (1 - mean(r))^(alpha - 1), 0^0 being 1 ``[fade:power-alpha]``. Defined for rewards in [0, 1]."""
    check_range("alpha", alpha, 1)
    return weighing(lambda rollouts: remainder(group_mean(rollouts.rewards, rollouts)) ** (alpha - 1), "unit")


def easy_power_weight(alpha: Scalar = 2.0) -> Link:
    """Multiply by mean(r)^(alpha - 1), 0^0 being 1, for rewards in [0, 1]: ``power``'s twin ``[fade:easy-power]``."""
    check_range("alpha", alpha, 1)
    return weighing(lambda rollouts: group_mean(rollouts.rewards, rollouts) ** (alpha - 1), "unit")


def asymmetric_power(alpha_success: Scalar = 2.0, alpha_failure: Scalar = 2.0) -> Link:
    """Multiply correct rollouts by (1 - m)^(alpha_success - 1) and others by m^(alpha_failure - 1), m = mean(r).

    ``[fade:asym-power]``; 0^0 is 1. Defined for rewards in [0, 1].
    """
    check_ranges(1, alpha_success=alpha_success, alpha_failure=alpha_failure)

    def weight(rollouts: Rollouts) -> Array:
        mean = group_mean(rollouts.rewards, rollouts)
        success, failure = remainder(mean) ** (alpha_success - 1), mean ** (alpha_failure - 1)
        return array_namespace(mean).where(is_correct(rollouts), success, failure)

    return weighing(weight, "unit")


def reject(threshold: Scalar = 0.5) -> Link:
    """Multiply by 0 where the solve rate is above ``threshold``, and by 1 elsewhere; at 1 nothing is rejected."""
    check_range("threshold", threshold, 0, 1)

    def weight(rollouts: Rollouts) -> Array:
        rate, count = solve_rate(rollouts), group_count(rollouts)
        easy = (rate - threshold) * count > rounding_slack(count)
        return array_namespace(rate).astype(~easy, rate.dtype)

    return weighing(weight)


def gate_boundary(k: int = 16, tau: Scalar = 0.01) -> Link:
    """Multiply by w = C(F + k - 1, k - 1) / C(G + k - 1, k - 1), F of G being wrong; by 0 where w k / (G + k) < tau.

    w is the product of (F + j) / (G + j) for j from 1 to k - 1: the slope of pass@k, k (1 - p)^(k - 1), that a solve
    rate of law Beta(s + 1, F + 1) leads to expect after s successes, over that after none. w k / (G + k) is the share
    of s in the sum over 0 to G successes ``[arxiv:2606.15455]``.
    """
    check_whole("k", k, 1)
    check_range("tau", tau, 0, 1)

    def weight(rollouts: Rollouts) -> Array:
        xp, count = array_namespace(rollouts.rewards), group_count(rollouts)
        wrong = remainder(solve_rate(rollouts)) * count
        steps = xp.cumulative_sum(xp.ones_like(xp.broadcast_to(count, (count.shape[0], k - 1))), axis=1)
        value = xp.prod((wrong + steps) / (count + steps), axis=1, keepdims=True)
        return masked(value, value * k / (count + k) >= tau)

    return weighing(weight)


FOCUSES = ("hard", "easy")


def focus(on: str = "hard", gamma: Scalar = 0.5) -> Link:
    """Multiply by gamma / sqrt(p) (``on="hard"``) or gamma / sqrt(1 - p) (``"easy"``), p the solve rate.

    A-GRAE's second control ``[a-grae:control-2]``. Where the root is 0, groups are left as they are.
    """
    check_choice("on", on, FOCUSES)
    check_range("gamma", gamma, 0)

    def weight(rollouts: Rollouts) -> Array:
        p = solve_rate(rollouts)
        xp, share = array_namespace(p), p if on == "hard" else 1 - p
        return xp.where(share > 0, gamma / xp.sqrt(or_one(share)), xp.ones_like(p))

    return weighing(weight)


EASY_TERMS = ("paper", "code")


def shift_difficulty(easy_term: str = "paper") -> Link:
    """Move attention from easy to hard groups as the batch improves ``[a-grae:eq-12]``.

    With omega the mean reward of the batch ``[a-grae:eq-11]`` and p the solve rate of the group, multiply by
    omega / (2 sqrt(p)) + (1 - omega) / (2 sqrt(1 - p)); groups with p in {0, 1} are left as they are.
    ``easy_term="code"`` divides the second term by 1 - sqrt(p) + 1e-6 instead, as the published code does.
    Defined for rewards in [0, 1].
    """
    check_choice("easy_term", easy_term, EASY_TERMS)

    def weight(rollouts: Rollouts) -> Array:
        p, omega = solve_rate(rollouts), batch_mean(rollouts.rewards, rollouts)
        xp, mixed = array_namespace(p), (p > 0) & (p < 1)
        p = xp.where(mixed, p, xp.full_like(p, 0.5))
        easy = xp.sqrt(1 - p) if easy_term == "paper" else 1 - xp.sqrt(p) + 1e-6
        return xp.where(mixed, omega / (2 * xp.sqrt(p)) + (1 - omega) / (2 * easy), xp.ones_like(p))

    return weighing(weight, "unit")


# Signs: correct and wrong rollouts apart


def divide_negative(advantages: Array, delta: Scalar) -> Array:
    """Advantages with those below 0 divided by ``delta``."""
    xp = array_namespace(advantages)
    return xp.where(advantages < 0, advantages / delta, advantages)


def divide_failures(delta: Scalar = 1.0) -> Link:
    """Divide negative advantages by ``delta`` ``[fade:asym-grpo]``; below 1 failures dominate."""
    check_range("delta", delta, 0, open_low=True)
    return stateless(lambda advantages, rollouts: divide_negative(advantages, delta), exchangeable=True)


def multiply_positive(factor: Scalar = 10.0) -> Link:
    """Multiply positive advantages by ``factor``: A-GRAE's first control ``[a-grae:control-1]``."""
    check_range("factor", factor, 0)

    def multiply(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        return xp.where(advantages > 0, advantages * factor, advantages)

    return stateless(multiply, exchangeable=True)


def keep_positive() -> Link:
    """max(0, A) ``[fade:relu]``."""

    return stateless(lambda advantages, rollouts: masked(advantages, advantages > 0), exchangeable=True)


def contrast() -> Link:
    """A = 1 on success, -p / (1 - p) on failure, p the solve rate; rewards 0 and 1 ``[fade:binary-contrastive]``."""

    def replace(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        p = solve_rate(rollouts)
        return xp.where(is_correct(rollouts), xp.ones_like(rollouts.rewards), 0 - p / or_one(1 - p))

    return stateless(replace, domain="binary", exchangeable=True)


def attenuate_successes(alpha: Scalar = 1.0) -> Link:
    """Multiply A > 0 by min(1, omega / alpha) ``[a-grae:eq-13]``, omega the batch's mean reward ``[a-grae:eq-11]``."""
    check_range("alpha", alpha, 0, open_low=True)

    def attenuate(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        share = batch_mean(rollouts.rewards, rollouts) / alpha
        share = xp.where(share < 1, share, xp.ones_like(share))
        return xp.where(advantages > 0, advantages * share, advantages)

    return stateless(attenuate, domain="unit", exchangeable=True)


def outcome(success: Scalar, failure: Scalar) -> Link:
    """Replace the advantage by ``success`` on correct rollouts and ``failure`` on incorrect ones."""
    check_range("success", success)
    check_range("failure", failure)

    def replace(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        correct = is_correct(rollouts)
        return xp.where(correct, xp.full_like(advantages, success), xp.full_like(advantages, failure))

    return stateless(replace, exchangeable=True)
