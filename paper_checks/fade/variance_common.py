"""Weights of an estimated solve rate: their variance over all groups, and the noise of the update they scale."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from mpmath import mpf

from paper_checks.evidence import Evidence, number


def numerically(evidence: Iterable[Evidence]) -> Iterator[Evidence]:
    """The same evidence, where the second way to a quantity is a quadrature, a search or a difference quotient."""
    for piece in evidence:
        yield replace(piece, method="numerical") if piece.method == "enumerated" else piece


# Shares of three kinds of rollouts: one draw serves checks at solve rates 1/10 and 3/4.
THREE_KINDS = (Fraction(1, 10), Fraction(13, 20), Fraction(1, 4))


def peak_constant(alpha: Any) -> Any:
    """C of Power-alpha as printed: it is to put the peak of C p q^alpha at 1/4."""
    return (1 + alpha) ** (1 + alpha) / (4 * alpha**alpha)


def power_weight(p: Any, alpha: Any) -> Any:
    """p (1 - p)^alpha, without its constant, which cancels from every ratio."""
    return p * (1 - p) ** alpha


def chances(p: Any, group_size: Any) -> list[mpf]:
    """(G + 1,) probability of s successes, s from 0 up, in 50 digits, by recurrence: large groups are quick."""
    size, rate = int(group_size), number(p)
    current, probabilities = (1 - rate) ** size, []
    for successes in range(size + 1):
        probabilities.append(current)
        current *= (size - successes) * rate / ((successes + 1) * (1 - rate))
    return probabilities


def variance(weight: Any, p: Any, group_size: Any) -> mpf:
    """Var(w(p-hat)), by summing over the number of successes."""
    size = int(group_size)
    values = [weight(mpf(successes) / size) for successes in range(size + 1)]
    weighed = chances(p, size)
    mean = sum(chance * value for chance, value in zip(weighed, values, strict=True))
    return sum(chance * (value - mean) ** 2 for chance, value in zip(weighed, values, strict=True))


def relative_variance(alpha: Any, p: Any, group_size: Any) -> mpf:
    """Var(w(p-hat)) / w(p)^2 of Power-alpha, by summing over the number of successes."""
    return variance(lambda rate: power_weight(rate, alpha), p, group_size) / power_weight(number(p), alpha) ** 2


def printed_relative_variance(alpha: Any, p: Any, group_size: Any) -> Any:
    """Eq. 31."""
    return (1 - (1 + alpha) * p) ** 2 / (group_size * p * (1 - p))


def raw_variance(p: Any, group_size: int, success_spread: Any = 1, failure_spread: Any = 1) -> mpf:
    """Variance of mean success score - mean failure score, over the groups that have both.

    The spreads are the variances of a score among successes and among failures.
    """
    size, weighed = int(group_size), chances(p, group_size)
    mixed = range(1, size)
    spread = sum(
        weighed[s] * (number(success_spread) / s + number(failure_spread) / (size - s)) for s in mixed
    )  # fmt: skip
    return spread / sum(weighed[s] for s in mixed)


def update_variance(alpha: Any, p: Any, group_size: Any, signal: Any) -> mpf:
    """Var(w(p-hat) g-hat), g-hat = mean success score - mean failure score of the same group, scores of variance 1.

    Given the number of successes s, g-hat has mean ``signal`` and variance 1/s + 1/(G - s); the weight of a group
    without both kinds is zero.
    """
    size = int(group_size)
    weighed = chances(p, size)
    weights = [power_weight(mpf(successes) / size, alpha) for successes in range(size + 1)]
    within = sum(weighed[s] * weights[s] ** 2 * (mpf(1) / s + mpf(1) / (size - s)) for s in range(1, size))
    return within + number(signal) ** 2 * variance(lambda rate: power_weight(rate, alpha), p, size)
