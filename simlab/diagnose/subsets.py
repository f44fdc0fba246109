"""Estimate how often groups teach, and miss a solution, from all groups that the rollouts of a prompt contain.

Of a prompt with N rollouts, one rollout and G of the N - 1 others are a draw of a solution and of a group. The mean
over all such choices is an unbiased estimate of what a group of G does, prompt by prompt, for every G below N
(Hoeffding 1948, Annals of Mathematical Statistics 19): with X correct rollouts and x_s of solution s,

    sum_s x_s [C(N - x_s, G) - C(X - x_s, G) - C(N - X, G)] / (N C(N - 1, G))

has the mean sum_s pi_s [(1 - pi_s)^G - (p - pi_s)^G - (1 - p)^G]. Estimates at mean solve rates or masses are biased.

Example: N = 4 rollouts answered a, a, b and wrong, so that X = 3, x_a = 2, x_b = 1; groups of G = 2. Draw the b
(x_b = 1 of 4): of the C(3, 2) = 3 groups of the others, aa, aw and aw, none has b, and the two with a wrong one teach.
The formula counts the same: 1 [C(3, 2) - C(2, 2) - C(1, 2)] = 3 - 1 - 0 = 2. Draw an a (2 of 4): only groups of b and
wrong miss a, and there is one: 2 [C(2, 2) - C(1, 2) - C(1, 2)] = 2. Together 4 / (4 x 3) = 1/3.

Beyond N nothing is unbiased. Then there are bounds: ``missed`` and the like, divided by G (G - 1), are moments of a
measure on [0, 1], which fall with G and whose logarithm is convex (Hausdorff 1921, Mathematische Zeitschrift 9).
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln

from simlab.diagnose.unseen import SolutionCounts

Column = tuple[str, int]  # the name of a sum over prompts, and the group size
Draws = Float[np.ndarray, " draws"]


class Range(NamedTuple):
    """A number within bounds, (draws,) each; low and high are the value where the data determine it without bias."""

    low: Draws
    value: Draws
    high: Draws

    def scale(self, factor: float) -> "Range":
        """Multiply by a number above 0."""
        return Range(*(factor * end for end in self))

    def multiply(self, other: "Range") -> "Range":
        """Multiply two ranges that are not below 0."""
        return Range(*(first * second for first, second in zip(self, other, strict=True)))

    def subtract(self, other: "Range") -> "Range":
        """Subtract a range; the result is as wide as both."""
        return Range(self.low - other.high, self.value - other.value, self.high - other.low)


class Sums(NamedTuple):
    """Sums over prompts, those of the log first and then those of its resamples.

    Attributes:
        columns: names of the sums.
        values: (draws, C).
    """

    columns: tuple[Column, ...]
    values: Float[np.ndarray, "draws C"]

    def column(self, name: str, size: int = 0) -> Draws:
        """Return one column."""
        values: Draws = self.values[:, self.columns.index((name, size))]
        return values

    def largest(self, name: str) -> int:
        """Return the largest group size of a column; 0 for none."""
        return max((size for column, size in self.columns if column == name), default=0)


def exact(value: Draws) -> Range:
    """Return a range without width."""
    return Range(value, value, value)


def ratio(above: Draws, below: Draws) -> Draws:
    """Divide; NaN where the denominator is 0."""
    defined = below > 0
    result: Draws = np.where(defined, above / np.where(defined, below, 1.0), np.nan)
    return result


def all_within(count: Int[np.ndarray, "..."], total: Int[np.ndarray, "..."], size: int) -> Float[np.ndarray, "..."]:
    """Return C(count, G) / C(total, G), the chance that G of ``total`` rollouts are all among ``count`` of them."""
    enough = np.maximum(count, size)
    share = gammaln(enough + 1) - gammaln(enough - size + 1) - gammaln(total + 1) + gammaln(total - size + 1)
    chance: Float[np.ndarray, ...] = np.where(count >= size, np.exp(share), 0.0)
    return chance


def exact_sizes(sizes: tuple[int, ...], largest: int) -> tuple[int, ...]:
    """Return the sizes from 2 to the largest exact one, and the last two, from which bounds continue."""
    return tuple(sorted({size for size in (*sizes, largest, largest - 1) if 2 <= size <= largest}))


def active(counts: SolutionCounts, size: int) -> Float[np.ndarray, " P"]:
    """Estimate 1 - p^G - (1 - p)^G, for G up to N."""
    right, wrong = counts.successes, counts.trials - counts.successes
    share: Float[np.ndarray, " P"] = 1 - all_within(right, counts.trials, size) - all_within(wrong, counts.trials, size)
    return share


def reached(counts: SolutionCounts, size: int) -> Float[np.ndarray, " P"]:
    """Estimate p (1 - p^G - (1 - p)^G): a rollout is correct, and a group of G others teaches; for G below N."""
    share: Float[np.ndarray, " P"] = counts.answered() / counts.trials * _mixed_beside_correct(counts, size)
    return share


def missed(counts: SolutionCounts, size: int) -> Float[np.ndarray, " P"]:
    """Estimate sum_s pi_s [(1 - pi_s)^G - (p - pi_s)^G - (1 - p)^G]: and the group lacks its solution; G below N."""
    right, trials = counts.successes[counts.prompt], counts.trials[counts.prompt]
    groups = (
        all_within(trials - counts.times, trials - 1, size)
        - all_within(right - counts.times, trials - 1, size)
        - all_within(trials - right, trials - 1, size)
    )
    share: Float[np.ndarray, " P"] = counts.sum_by_prompt(counts.times * groups) / counts.trials
    return share


def mixed_without(counts: SolutionCounts, size: int) -> Float[np.ndarray, " P"]:
    """Sum over the solutions drawn once the chance that a group of G without them teaches; for G below N."""
    return _drawn_once_times(counts, _mixed_beside_correct(counts, size))


def not_all_right(counts: SolutionCounts, size: int) -> Float[np.ndarray, " P"]:
    """Sum over the same the chance that G rollouts without them are not all right; for G below N."""
    right = np.maximum(counts.successes - 1, 0)
    return _drawn_once_times(counts, 1 - all_within(right, counts.trials - 1, size))


def _drawn_once_times(counts: SolutionCounts, chance: Float[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
    total: Float[np.ndarray, " P"] = counts.sum_by_prompt((counts.times == 1).astype(float)) * chance
    return total


def _mixed_beside_correct(counts: SolutionCounts, size: int) -> Float[np.ndarray, " P"]:
    """Return the chance that G of the rollouts beside a correct one are right and wrong; 0 without a correct one."""
    right, others = np.maximum(counts.successes - 1, 0), counts.trials - 1
    mixed = 1 - all_within(right, others, size) - all_within(counts.trials - counts.successes, others, size)
    chance: Float[np.ndarray, " P"] = np.where(counts.successes > 0, mixed, 0.0)
    return chance


def extrapolate(sums: Sums, name: str, size: int, order: int = 2) -> Range:
    """Return a column at a size: exact as far as the data go, and what moments can be beyond.

    With n the largest exact size and m_G the column over G (G - 1) (over G, for ``order`` 1): m_n (m_n / m_(n-1))^(G-n)
    is the least that log-convexity allows, and m_n the most, for moments fall. The value continues as the power of G
    through the last two sizes; it is NaN where they are fewer.
    """
    last = sums.largest(name)
    if size <= last:
        return exact(sums.column(name, size))
    unknown = np.full(len(sums.values), np.nan)
    if not last:
        return Range(np.zeros_like(unknown), unknown, np.full_like(unknown, np.inf))
    column = sums.column(name, last)
    most = column * (math.perm(size, order) / math.perm(last, order))
    if (name, last - 1) not in sums.columns:
        return Range(np.zeros_like(unknown), unknown, most)
    before = sums.column(name, last - 1) * (math.perm(last, order) / math.perm(last - 1, order))
    falling = np.clip(np.where(before > 0, column / np.where(before > 0, before, 1), 1.0), 0, 1)
    power = math.log(size / last) / math.log(last / (last - 1))
    return Range(most * falling ** (size - last), most * falling**power, most)


def extrapolate_rising(sums: Sums, name: str, size: int, most: Draws, order: int = 2) -> Range:
    """Apply ``extrapolate`` to a column that never falls with G and stays below ``most``."""
    column, last = extrapolate(sums, name, size, order), sums.largest(name)
    least = sums.column(name, min(size, last)) if last else np.zeros_like(most)
    if size <= last:
        return column
    low, high = np.clip(column.low, least, most), np.minimum(column.high, most)
    return Range(low, np.clip(column.value, low, high), high)
