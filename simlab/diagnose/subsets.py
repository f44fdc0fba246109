"""How often groups teach, and miss a solution, from all groups that the rollouts of a prompt contain.

Of a prompt with N rollouts, one rollout and G of the N - 1 others are a draw of a solution and of a group. The mean
over all such choices is an unbiased estimate of what a group of G does, prompt by prompt, for every G below N
(Hoeffding 1948, Annals of Mathematical Statistics 19): with X correct rollouts and x_s of solution s,

    sum_s x_s [C(N - x_s, G) - C(X - x_s, G) - C(N - X, G)] / (N C(N - 1, G))

has the mean sum_s pi_s [(1 - pi_s)^G - (p - pi_s)^G - (1 - p)^G]. No mean of solve rates or masses stands in for them.

Beyond N nothing is unbiased. Then there are bounds: ``missed`` and the like, divided by G (G - 1), are moments of a
measure on [0, 1], which fall with G and whose logarithm is convex (Hausdorff 1921, Mathematische Zeitschrift 9).
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln

from simlab.diagnose.solutions import Solutions

Column = tuple[str, int]  # what is summed over prompts, and the group size
Draws = Float[np.ndarray, " draws"]


class Range(NamedTuple):
    """What data tell of a number, (draws,) each: low and high are the value where they tell it without a bias."""

    low: Draws
    value: Draws
    high: Draws

    def scaled(self, by: float) -> "Range":
        """Times a number above 0."""
        return Range(*(by * end for end in self))

    def times(self, other: "Range") -> "Range":
        """The product, of ranges that are not below 0."""
        return Range(*(own * end for own, end in zip(self, other, strict=True)))

    def less(self, other: "Range") -> "Range":
        """The difference, as wide as both are."""
        return Range(self.low - other.high, self.value - other.value, self.high - other.low)


class Sums(NamedTuple):
    """Sums over prompts, those of the log first and then those of its resamples.

    Attributes:
        columns: what is summed.
        values: (draws, C).
    """

    columns: tuple[Column, ...]
    values: Float[np.ndarray, "draws C"]

    def of(self, name: str, size: int = 0) -> Draws:
        """One column."""
        found: Draws = self.values[:, self.columns.index((name, size))]
        return found

    def largest(self, name: str) -> int:
        """The largest group size of a column; 0 for none."""
        return max((size for own, size in self.columns if own == name), default=0)


def exactly(value: Draws) -> Range:
    """What data tell without a bias."""
    return Range(value, value, value)


def ratio(above: Draws, below: Draws) -> Draws:
    """NaN where the second is 0."""
    defined = below > 0
    found: Draws = np.where(defined, above / np.where(defined, below, 1.0), np.nan)
    return found


def contained(of: Int[np.ndarray, "..."], among: Int[np.ndarray, "..."], size: int) -> Float[np.ndarray, "..."]:
    """C(of, G) / C(among, G): how likely G rollouts among so many are all of these."""
    lost = np.maximum(of, size)
    share = gammaln(lost + 1) - gammaln(lost - size + 1) - gammaln(among + 1) + gammaln(among - size + 1)
    found: Float[np.ndarray, ...] = np.where(of >= size, np.exp(share), 0.0)
    return found


def exact_sizes(sizes: tuple[int, ...], largest: int) -> tuple[int, ...]:
    """The sizes from 2 to the largest that is told, and the last two, from which bounds go on."""
    return tuple(sorted({size for size in (*sizes, largest, largest - 1) if 2 <= size <= largest}))


def active(seen: Solutions, size: int) -> Float[np.ndarray, " P"]:
    """1 - p^G - (1 - p)^G, for G up to N."""
    right, wrong = seen.successes, seen.trials - seen.successes
    found: Float[np.ndarray, " P"] = 1 - contained(right, seen.trials, size) - contained(wrong, seen.trials, size)
    return found


def reached(seen: Solutions, size: int) -> Float[np.ndarray, " P"]:
    """p (1 - p^G - (1 - p)^G): a rollout is correct, and a group of G others teaches; for G below N."""
    found: Float[np.ndarray, " P"] = seen.answered() / seen.trials * _mixed(seen, size)
    return found


def missed(seen: Solutions, size: int) -> Float[np.ndarray, " P"]:
    """sum_s pi_s [(1 - pi_s)^G - (p - pi_s)^G - (1 - p)^G]: and none of them gives its solution; for G below N."""
    right, trials = (own[seen.prompt] for own in (seen.successes, seen.trials))
    groups = (
        contained(trials - seen.times, trials - 1, size)
        - contained(right - seen.times, trials - 1, size)
        - contained(trials - right, trials - 1, size)
    )
    found: Float[np.ndarray, " P"] = seen.summed(seen.times * groups) / seen.trials
    return found


def mixed_without(seen: Solutions, size: int) -> Float[np.ndarray, " P"]:
    """Of the solutions that are drawn once: how likely a group of G teaches, if it misses them; for G below N."""
    found: Float[np.ndarray, " P"] = seen.summed((seen.times == 1).astype(float)) * _mixed(seen, size)
    return found


def not_all_right(seen: Solutions, size: int) -> Float[np.ndarray, " P"]:
    """Of the same: how likely G rollouts that miss them are not all right; for G below N."""
    wrong: Float[np.ndarray, " P"] = 1 - contained(np.maximum(seen.successes - 1, 0), seen.trials - 1, size)
    found: Float[np.ndarray, " P"] = seen.summed((seen.times == 1).astype(float)) * wrong
    return found


def _mixed(seen: Solutions, size: int) -> Float[np.ndarray, " P"]:
    """How likely G of the rollouts other than a correct one are right and wrong; 0 without a correct one."""
    right, others = np.maximum(seen.successes - 1, 0), seen.trials - 1
    mixed = 1 - contained(right, others, size) - contained(seen.trials - seen.successes, others, size)
    found: Float[np.ndarray, " P"] = np.where(seen.successes > 0, mixed, 0.0)
    return found


def continued(sums: Sums, name: str, size: int, order: int = 2) -> Range:
    """A column at a size: as it is as far as the data go, and what moments can be beyond.

    With n the largest size told and m_G the column over G (G - 1) (over G, for ``order`` 1): m_n (m_n / m_(n-1))^(G-n)
    is the least that log-convexity allows, and m_n the most, for moments fall. The value goes on as the power of G that
    the last two sizes lie on; it is NaN where they are fewer.
    """
    last = sums.largest(name)
    if size <= last:
        return exactly(sums.of(name, size))
    unknown = np.full(len(sums.values), np.nan)
    if not last:
        return Range(np.zeros_like(unknown), unknown, np.full_like(unknown, np.inf))
    own = sums.of(name, last)
    most = own * (math.perm(size, order) / math.perm(last, order))
    if (name, last - 1) not in sums.columns:
        return Range(np.zeros_like(unknown), unknown, most)
    before = sums.of(name, last - 1) * (math.perm(last, order) / math.perm(last - 1, order))
    falling = np.clip(np.where(before > 0, own / np.where(before > 0, before, 1), 1.0), 0, 1)
    power = math.log(size / last) / math.log(last / (last - 1))
    return Range(most * falling ** (size - last), most * falling**power, most)


def rising(sums: Sums, name: str, size: int, most: Draws, order: int = 2) -> Range:
    """``continued`` for what never falls with G, and stays below ``most``."""
    found, last = continued(sums, name, size, order), sums.largest(name)
    least = sums.of(name, min(size, last)) if last else np.zeros_like(most)
    if size <= last:
        return found
    low, high = np.clip(found.low, least, most), np.minimum(found.high, most)
    return Range(low, np.clip(found.value, low, high), high)
