"""Links that weigh a whole group by how many of its rollouts are correct, or by its mean reward."""

from array_api_compat import array_namespace

from simlab.errors import check_choice, check_range
from simlab.estimators.base import Link, stateless, weigh
from simlab.order_statistics import slack_of
from simlab.rollouts import (
    Array,
    Rollouts,
    Scalar,
    batch_mean,
    group_count,
    group_mean,
    is_correct,
    remainder,
    solve_rate,
)


def focal(gamma: Scalar = 1.0) -> Link:
    """Multiply by (1 - X/G)^gamma, X the number of correct rollouts ``[f-grpo:eq-12]``.

    Raises:
        InputError: for a negative ``gamma``.
    """
    check_range("gamma", gamma, 0)
    return stateless(
        lambda advantages, rollouts: weigh(advantages, remainder(solve_rate(rollouts)) ** gamma), exchangeable=True
    )


def power(alpha: Scalar = 2.0) -> Link:
    """Multiply by (1 - mean(r))^(alpha - 1), 0^0 being 1 ``[fade:power-alpha]``. Defined for rewards in [0, 1].

    Raises:
        InputError: for ``alpha`` below 1, where the weight of a solved group is infinite.
    """
    check_range("alpha", alpha, 1)

    def hard(advantages: Array, rollouts: Rollouts) -> Array:
        return weigh(advantages, remainder(group_mean(rollouts.rewards, rollouts)) ** (alpha - 1))

    return stateless(hard, domain="unit", exchangeable=True)


def easy_power_weight(alpha: Scalar = 2.0) -> Link:
    """Multiply by mean(r)^(alpha - 1), 0^0 being 1: the twin of ``power`` for easy groups ``[fade:easy-power]``.

    Defined for rewards in [0, 1].

    Raises:
        InputError: for ``alpha`` below 1, where the weight of an unsolved group is infinite.
    """
    check_range("alpha", alpha, 1)

    def easy(advantages: Array, rollouts: Rollouts) -> Array:
        return weigh(advantages, group_mean(rollouts.rewards, rollouts) ** (alpha - 1))

    return stateless(easy, domain="unit", exchangeable=True)


def asymmetric_power(alpha_success: Scalar = 2.0, alpha_failure: Scalar = 2.0) -> Link:
    """Multiply correct rollouts by (1 - m)^(alpha_success - 1) and others by m^(alpha_failure - 1), m = mean(r).

    ``[fade:asym-power]``; 0^0 is 1. Defined for rewards in [0, 1].

    Raises:
        InputError: for an exponent below 1, where a weight is infinite.
    """
    check_range("alpha_success", alpha_success, 1)
    check_range("alpha_failure", alpha_failure, 1)

    def split(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        mean = group_mean(rollouts.rewards, rollouts)
        success, failure = remainder(mean) ** (alpha_success - 1), mean ** (alpha_failure - 1)
        return weigh(advantages, xp.where(is_correct(rollouts), success, failure))

    return stateless(split, domain="unit", exchangeable=True)


def reject(threshold: Scalar = 0.5) -> Link:
    """Multiply by 0 where the solve rate is above ``threshold``, and by 1 elsewhere; at 1 nothing is rejected.

    Raises:
        InputError: for a ``threshold`` outside [0, 1].
    """
    check_range("threshold", threshold, 0, 1)

    def rejected(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        rate, count = solve_rate(rollouts), group_count(rollouts)
        easy = (rate - threshold) * count > slack_of(count)
        return weigh(advantages, xp.where(easy, xp.zeros_like(rate), xp.ones_like(rate)))

    return stateless(rejected, exchangeable=True)


FOCUSES = ("hard", "easy")


def focus(on: str = "hard", gamma: Scalar = 0.5) -> Link:
    """Multiply by gamma / sqrt(p) (``on="hard"``) or gamma / sqrt(1 - p) (``"easy"``), p the solve rate.

    A-GRAE's second control ``[a-grae:control-2]``. Groups with p in {0, 1} are left as they are, ``gamma`` included.

    Raises:
        InputError: for an unknown ``on`` or a negative ``gamma``.
    """
    check_choice("on", on, FOCUSES)
    check_range("gamma", gamma, 0)

    def rescale(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        p = solve_rate(rollouts)
        mixed = (p > 0) & (p < 1)
        p = xp.where(mixed, p, xp.full_like(p, 0.5))
        weight = gamma / xp.sqrt(p if on == "hard" else 1 - p)
        return weigh(advantages, xp.where(mixed, weight, xp.ones_like(weight)))

    return stateless(rescale, exchangeable=True)


EASY_TERMS = ("paper", "code")


def shift_difficulty(easy_term: str = "paper") -> Link:
    """Move attention from easy to hard groups as the batch improves ``[a-grae:eq-12]``.

    With omega the mean reward of the batch ``[a-grae:eq-11]`` and p the solve rate of the group, multiply by
    omega / (2 sqrt(p)) + (1 - omega) / (2 sqrt(1 - p)); groups with p in {0, 1} are left as they are.
    ``easy_term="code"`` divides the second term by 1 - sqrt(p) + 1e-6 instead, as the published code does.
    Defined for rewards in [0, 1].

    Raises:
        InputError: for an unknown ``easy_term``.
    """
    check_choice("easy_term", easy_term, EASY_TERMS)

    def rescale(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        omega, p = batch_mean(rollouts.rewards, rollouts), solve_rate(rollouts)
        mixed = (p > 0) & (p < 1)
        p = xp.where(mixed, p, xp.full_like(p, 0.5))
        easy = xp.sqrt(1 - p) if easy_term == "paper" else 1 - xp.sqrt(p) + 1e-6
        weight = omega / (2 * xp.sqrt(p)) + (1 - omega) / (2 * easy)
        return weigh(advantages, xp.where(mixed, weight, xp.ones_like(weight)))

    return stateless(rescale, domain="unit", exchangeable=True)
