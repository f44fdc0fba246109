"""How often solutions were drawn, and linear estimators of what solutions not drawn, or drawn once, weigh together.

A solution of probability pi is drawn x times in the N rollouts of its prompt, x ~ Binomial(N, pi). What is wanted is
a sum over all solutions of some h(pi), those never drawn included. The estimator is a sum over the drawn ones of c_x,
with

    sum_x c_x Binomial(x; N, pi)  close to  h(pi) on [0, 1], and no term at x = 0.

Good's estimate of the mass never drawn (1953, Biometrika 40) is c_1 = 1 / N alone, which is what N - 1 rollouts
leave; all terms of its alternating series, c_x = -(-1)^x / C(N, x), remove that (Lee and Boehme, arXiv 2402.05835),
but count a solution that every rollout finds as plus or minus 1. Here the c_x are fitted to h over all pi, so that
what is left of the bias is small and known: at most the largest misfit / pi, times the solve rate, since the pi of a
prompt sum to that.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import binom

from simlab.diagnose.log import Log

MOST_TERMS = 24  # a solution that is drawn more often weighs no more than e^-12 of what is wanted here
POINTS = 600  # of pi, at which the misfit is made small
Wanted = Callable[[Float[np.ndarray, " points"], int], Float[np.ndarray, " points"]]


class Solutions(NamedTuple):
    """How often each solution of each prompt was drawn.

    Attributes:
        successes, trials: (P,) correct rollouts and rollouts of each prompt.
        prompt: (S,) the place of each drawn solution's prompt.
        times: (S,) how often it was drawn.
    """

    successes: Int[np.ndarray, " P"]
    trials: Int[np.ndarray, " P"]
    prompt: Int[np.ndarray, " S"]
    times: Int[np.ndarray, " S"]

    def summed(self, of_solutions: Float[np.ndarray, " S"]) -> Float[np.ndarray, " P"]:
        """The sum over each prompt's drawn solutions."""
        total: Float[np.ndarray, " P"] = np.bincount(self.prompt, of_solutions, len(self.trials)).astype(float)
        return total  # of no solutions, bincount's sums are whole numbers

    def answered(self) -> Float[np.ndarray, " P"]:
        """The correct rollouts of each prompt whose solution is known."""
        return self.summed(self.times.astype(float))

    def drawn(self) -> Int[np.ndarray, " P"]:
        """The solutions of each prompt that were drawn."""
        return np.bincount(self.prompt, minlength=len(self.trials))

    def with_trials(self, fewest: int) -> "Solutions":
        """Without prompts of fewer rollouts."""
        kept = self.trials >= fewest
        inside = kept[self.prompt]
        place = np.cumsum(kept) - 1
        return Solutions(self.successes[kept], self.trials[kept], place[self.prompt[inside]], self.times[inside])


class Linear(NamedTuple):
    """The coefficients c_x for x = 0 to N, and the largest misfit / pi."""

    coefficients: Float[np.ndarray, " x"]
    bias: float


def solutions(log: Log) -> Solutions | None:
    """The solutions of a log, all groups of a prompt together; None where the log has no answers."""
    if log.answers is None:
        return None
    _, place = np.unique(log.prompt, return_inverse=True)
    count = int(place.max()) + 1
    successes, trials = (np.bincount(place, own, count).astype(int) for own in (log.correct, log.group_size))
    answers, first, which = np.unique(log.answers.answer, return_index=True, return_inverse=True)
    times = np.bincount(which, log.answers.count, len(answers)).astype(int)
    return Solutions(successes, trials, place[log.answers.group[first]], times)


def never_drawn(pi: Float[np.ndarray, " points"], trials: int) -> Float[np.ndarray, " points"]:
    """pi (1 - pi)^N: the mass that N rollouts are expected to leave."""
    wanted: Float[np.ndarray, " points"] = pi * (1 - pi) ** trials
    return wanted


def drawn_once(pi: Float[np.ndarray, " points"], trials: int) -> Float[np.ndarray, " points"]:
    """N pi^2 (1 - pi)^(N - 1): the mass of the solutions that are drawn once."""
    wanted: Float[np.ndarray, " points"] = trials * pi**2 * (1 - pi) ** (trials - 1)
    return wanted


@functools.cache
def linear(wanted: Wanted, trials: int, prompts: int) -> Linear:
    """The coefficients whose mean squared error over so many prompts is about the least.

    Bias adds up over prompts and noise does not, so that the misfit counts ``prompts`` times what the squares of the
    coefficients do.
    """
    pi = np.sin(np.arange(1, POINTS + 1) / POINTS * np.pi / 2) ** 2
    x = np.arange(1, min(trials, MOST_TERMS) + 1)
    basis = binom.pmf(x, trials, pi[:, None]) / pi[:, None]
    target = wanted(pi, trials) / pi
    # Of solutions spread evenly over log pi, about 1 / x are drawn x times.
    penalty = np.diag(1 / np.sqrt(x * prompts)) * np.sqrt(POINTS)
    system = np.concatenate([basis, penalty])
    found = np.linalg.lstsq(system, np.concatenate([target, np.zeros(len(x))]), rcond=None)[0]
    coefficients = np.zeros(trials + 1)
    coefficients[x] = found
    return Linear(coefficients, float(np.abs(basis @ found - target).max()))


class Sum(NamedTuple):
    """A linear estimate over the prompts of a log.

    Attributes:
        per_prompt: (P,) the sum over solutions.
        variance: (P,) of it, about its expectation.
        bias: (P,) the most that its expectation may be off.
    """

    per_prompt: Float[np.ndarray, " P"]
    variance: Float[np.ndarray, " P"]
    bias: Float[np.ndarray, " P"]


def estimated(seen: Solutions, wanted: Wanted) -> Sum:
    """The sum of h(pi) over the solutions of each prompt, drawn or not.

    The variance is sum c_s^2 over drawn solutions s, less sum c_s c_t / N over pairs of them: a rollout that finds one
    solution finds no other (Esty 1983, Annals of Statistics 11, has both terms for Good's estimate).
    """
    values = np.zeros(len(seen.times))
    bias = np.zeros(len(seen.trials))
    trials = seen.trials[seen.prompt]
    for size in np.unique(seen.trials).tolist():
        own = linear(wanted, size, len(seen.trials))
        here = trials == size
        values[here] = own.coefficients[seen.times[here]]
        bias[seen.trials == size] = own.bias
    total, squares = seen.summed(values), seen.summed(values**2)
    variance = squares - (total**2 - squares) / seen.trials
    return Sum(total, np.maximum(variance, 0), bias * seen.successes / seen.trials)
