"""Estimate the correct mass that was never drawn, and how it changes.

Assumed: within a window the policy stays as it is; two answers are one solution where their canonical forms are equal.

A solution of probability pi is drawn x ~ Binomial(N, pi) times in the N rollouts of its prompt. Wanted is the sum over
all solutions of h(pi) = pi (1 - pi)^N, those never drawn included. The estimator is a sum over the drawn ones of c_x,
with

    sum_x c_x Binomial(x; N, pi)  close to  h(pi) on [0, 1], and no term at x = 0.

Good's estimate of the mass never drawn (1953, Biometrika 40) is c_1 = 1 / N alone, which is what N - 1 rollouts
leave; all terms of its series, c_x = -(-1)^x / C(N, x), remove that (Lee and Boehme, arXiv 2402.05835), but count a
solution that every rollout finds as plus or minus 1. Here the c_x are fitted to h over all pi: the rest of the bias is
at most the largest misfit / pi, times the solve rate.
"""

import functools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import chndtrix

from simlab.diagnose.estimate import IntervalEstimate, missing
from simlab.diagnose.log import Log
from simlab.theory.interference import binomial_chances

MOST_TERMS = 24  # a solution that is drawn more often adds less than e^-12 to the sums estimated here
POINTS = 600  # of pi, at which the misfit is made small
UNSEEN = "Good-Turing with fitted terms"
MOST_BIAS = 30.0  # in standard errors; beyond it, the bias alone is the interval


class SolutionCounts(NamedTuple):
    """Correct rollouts and rollouts of each prompt; index of each drawn solution's prompt, and draws of it."""

    successes: Int[np.ndarray, " P"]
    trials: Int[np.ndarray, " P"]
    prompt: Int[np.ndarray, " S"]
    times: Int[np.ndarray, " S"]

    def sum_by_prompt(self, values: Float[np.ndarray, " S"]) -> Float[np.ndarray, " P"]:
        """Sum a number of each drawn solution over the solutions of a prompt."""
        return np.bincount(self.prompt, values, len(self.trials)).astype(float)  # whole numbers of no solutions

    def answered(self) -> Float[np.ndarray, " P"]:
        """Count the correct rollouts of each prompt that have an answer."""
        return self.sum_by_prompt(self.times.astype(float))

    def drawn(self) -> Int[np.ndarray, " P"]:
        """Count the solutions of each prompt that were drawn."""
        return np.bincount(self.prompt, minlength=len(self.trials))

    def drop_short(self, share: float) -> "SolutionCounts":
        """Leave out the prompts of the fewest rollouts, up to a share of them."""
        mask = self.trials >= np.quantile(self.trials, share, method="lower")
        inside, index = mask[self.prompt], np.cumsum(mask) - 1
        return SolutionCounts(self.successes[mask], self.trials[mask], index[self.prompt[inside]], self.times[inside])


def count_solutions(log: Log) -> SolutionCounts | None:
    """Count the solutions of a log, all groups of a prompt together; None where the log has no answers."""
    if log.answers is None:
        return None
    _, index = np.unique(log.prompt, return_inverse=True)
    count = int(index.max()) + 1
    successes, trials = (np.bincount(index, values, count).astype(int) for values in (log.correct, log.group_size))
    answers, first, number = np.unique(log.answers.answer, return_index=True, return_inverse=True)
    times = np.bincount(number, log.answers.count, len(answers)).astype(int)
    return SolutionCounts(successes, trials, index[log.answers.group[first]], times)


@functools.cache
def fit_coefficients(trials: int, prompts: int) -> tuple[Float[np.ndarray, " x"], float]:
    """Fit the c_x, x = 0 to N, with about the least mean squared error over so many prompts, where bias adds up.

    Also return the largest misfit / pi.
    """
    pi = np.sin(np.arange(1, POINTS + 1) / POINTS * np.pi / 2) ** 2
    x = np.arange(1, min(trials, MOST_TERMS) + 1)
    basis = binomial_chances(trials, pi)[:, x] / pi[:, None]
    scaled = (1 - pi) ** trials
    # Of solutions spread evenly over log pi, about 1 / x are drawn x times.
    penalty = np.diag(1 / np.sqrt(x * prompts)) * np.sqrt(POINTS)
    system = np.concatenate([basis, penalty])
    values = np.zeros(trials + 1)
    values[x] = np.linalg.lstsq(system, np.concatenate([scaled, np.zeros(len(x))]), rcond=None)[0]
    return values, float(np.abs(basis @ values[x] - scaled).max())


class SumEstimate(NamedTuple):
    """An estimated sum over the solutions of each prompt, its variance, and the most that its expectation is off."""

    per_prompt: Float[np.ndarray, " P"]
    variance: Float[np.ndarray, " P"]
    bias: Float[np.ndarray, " P"]


def estimate_sum(counts: SolutionCounts) -> SumEstimate:
    """Estimate the sum of h(pi) over each prompt's solutions, drawn or not; Esty (1983) has the variance."""
    values = np.zeros(len(counts.times))
    bias = np.zeros(len(counts.trials))
    trials = counts.trials[counts.prompt]
    for size in np.unique(counts.trials).tolist():
        mask, (coefficients, misfit) = trials == size, fit_coefficients(size, len(counts.trials))
        values[mask] = coefficients[counts.times[mask]]
        bias[counts.trials == size] = misfit
    total, squares = counts.sum_by_prompt(values), counts.sum_by_prompt(values**2)
    variance = squares - (total**2 - squares) / counts.trials
    return SumEstimate(total, np.maximum(variance, 0), bias * counts.successes / counts.trials)


class UnseenMass(NamedTuple):
    """The undrawn correct mass of a window, as the mean over its prompts.

    Attributes:
        distinct: solutions drawn.
        mass, share: probability of correct answers that were never drawn, and its share of that of all correct ones.
        good_turing: the share by Good's estimate, for comparison: answers drawn once over correct rollouts.
    """

    first: int
    last: int
    distinct: int
    mass: IntervalEstimate
    share: IntervalEstimate
    good_turing: float


def estimate_unseen_mass(counts: SolutionCounts, level: float, steps: tuple[int, int] = (0, 0)) -> UnseenMass:
    """Estimate the correct mass that these prompts left undrawn; normal intervals allow for the bias."""
    total = estimate_sum(counts)
    # The variance of the undrawn mass itself is sum pi^2 (1 - pi)^N.
    pairs = np.maximum(counts.trials * (counts.trials - 1) / 2, 1)
    variance = (total.variance + counts.sum_by_prompt((counts.times == 2).astype(float)) / pairs).sum()
    value = total.per_prompt.mean()
    half = float(_half_width(variance / len(counts.trials) ** 2, total.bias.mean(), level))
    inside, low, high = float(np.clip(value, 0, 1)), max(value - half, 0.0), min(value + half, 1.0)
    mass = IntervalEstimate("undrawn correct mass", inside, float(low), float(high), level, UNSEEN)
    correct, once = int(counts.successes.sum()), int((counts.times == 1).sum())
    share = _unseen_share(counts, total, variance, level)
    return UnseenMass(*steps, len(counts.times), mass, share, once / correct if correct else math.nan)


def _unseen_share(counts: SolutionCounts, total: SumEstimate, variance: float, level: float) -> IntervalEstimate:
    """Estimate the undrawn mass over the solve rate; Fieller's interval holds every ratio that both errors allow.

    Where a prompt has by chance more correct rollouts, it also has more solutions drawn once, so that both errors
    cancel in part. The slope says how many more: without one of its X correct rollouts, it had (f_1 - 2 f_2) / X fewer.
    """
    name, rates = "undrawn share of the correct mass", counts.successes / counts.trials
    above, below = float(total.per_prompt.sum()), float(rates.sum())
    if below == 0:
        return missing(name, level, UNSEEN)
    once_less_twice = np.select([counts.times == 1, counts.times == 2], [1.0, -2.0])
    slope = counts.sum_by_prompt(once_less_twice) / np.maximum(counts.successes, 1)
    rate_variance = rates * (1 - rates) / np.maximum(counts.trials - 1, 1)
    ratio = np.linspace(0, 1, 2001)
    both = variance + ratio**2 * rate_variance.sum() - 2 * ratio * (slope * rate_variance).sum()
    room = _half_width(both, float(total.bias.sum()), level)
    value = float(np.clip(above / below, 0, 1))
    allowed = np.append(ratio[np.abs(above - ratio * below) <= room], value)
    return IntervalEstimate(name, value, float(allowed.min()), float(allowed.max()), level, UNSEEN)


def _half_width(variance: float | Float[np.ndarray, "..."], bias: float, level: float) -> Float[np.ndarray, "..."]:
    """Return half a normal interval with a bias: the quantile of abs(z + bias) (Armstrong, Kolesar 2018)."""
    error = np.sqrt(np.maximum(variance, 1e-300))
    half = error * np.sqrt(chndtrix(level, 1, np.minimum(bias / error, MOST_BIAS) ** 2))
    return np.asarray(np.maximum(half, bias))
