"""Fit a Beta mixture with masses at 0 and 1 to counts of successes, and bound what it can be by its likelihood.

The components are fixed and only their weights are fitted, so that the likelihood is concave and has no local maxima:
the fixed-grid form of the nonparametric maximum likelihood estimate of Kiefer and Wolfowitz (1956), as in Koenker and
Mizera (2014, JASA 109), with narrow Betas in place of points.

The value of an estimate is that of the centre of the weights whose likelihood is about the largest, where the product
of the weights is; the likeliest weights themselves are 0 but for a few solve rates.

An interval holds the values that a functional takes on all weights whose log-likelihood lies within half the chi-square
quantile of one degree of freedom below the largest (the profile likelihood). It includes every mixture that explains
the data as well, so that the interval is wide where the data do not tell a functional, such as for groups of many times
as many rollouts.
"""

import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import betaln
from scipy.stats import chi2

from simlab.diagnose.interior_point import Objective, Weights, climb, path

# Means at equal steps of arcsin(sqrt(p)), on which a binomial share has the same noise at every p. The standard
# deviation of a component is a fifth of a step, so that prompts of few different solve rates can be told: where it is
# a whole one, the intervals hold the dead groups of four times the size in 54 % of logs of 10,000 prompts of two
# solve rates.
STEPS, WIDTH = 60, 0.2
# Means below the first of those, and above the last by symmetry: only pass@k of large k tells them from 0.
RARE = (3e-4, 1e-4, 3e-5, 1e-5)
CENTRAL = 0.5  # how far below the largest log-likelihood the centre is sought: what a standard error costs
FITTED, BOUNDED = 1e-4, 1e-7  # where the two paths of the barrier end: log-likelihood and a share of the range
MOST_RATIOS = 20  # of Dinkelbach's method, which needs about four


class Components(NamedTuple):
    """The Betas of a mixture, the last two of which are the masses at 0 and at 1.

    Attributes:
        a: (K - 2,) first parameter.
        b: (K - 2,) second parameter.
    """

    a: Float[np.ndarray, " B"]
    b: Float[np.ndarray, " B"]

    def log_moment(
        self, successes: Int[np.ndarray, "..."], failures: Int[np.ndarray, "..."]
    ) -> Float[np.ndarray, "... K"]:
        """log E p^s (1 - p)^f of each component; -infinity where it is 0."""
        s, f = np.broadcast_arrays(np.asarray(successes, float)[..., None], np.asarray(failures, float)[..., None])
        betas = betaln(self.a + s, self.b + f) - betaln(self.a, self.b)
        masses = np.where(np.concatenate([s, f], axis=-1) > 0, -np.inf, 0.0)
        found: Float[np.ndarray, "... K"] = np.concatenate([betas, masses], axis=-1)
        return found

    def moment(self, successes: Int[np.ndarray, "..."], failures: Int[np.ndarray, "..."]) -> Float[np.ndarray, "... K"]:
        """E p^s (1 - p)^f of each component."""
        found: Float[np.ndarray, "... K"] = np.exp(self.log_moment(successes, failures))
        return found


@functools.cache
def components() -> Components:
    """The Betas that every fit uses."""
    angles = np.arange(1, STEPS) / STEPS * np.pi / 2
    means, width = np.sin(angles) ** 2, WIDTH * np.pi / 2 / STEPS
    total = 1 / (2 * width) ** 2  # of a + b: arcsin(sqrt(p)) has the standard deviation 1 / (2 sqrt(a + b))
    rare = np.array(RARE)
    a = np.concatenate([means * total, np.ones(len(rare)), 1 / rare])
    b = np.concatenate([(1 - means) * total, 1 / rare, np.ones(len(rare))])
    return Components(a, b)


class Counts(NamedTuple):
    """How many prompts had so many successes in so many rollouts: one row a pair.

    Attributes:
        successes: (R,).
        trials: (R,).
        prompts: (R,) how many; none is 0.
    """

    successes: Int[np.ndarray, " R"]
    trials: Int[np.ndarray, " R"]
    prompts: Int[np.ndarray, " R"]


def counts(successes: Int[np.ndarray, " P"], trials: Int[np.ndarray, " P"]) -> Counts:
    """The counts of prompts with these successes and rollouts."""
    pairs, times = np.unique(np.stack([trials, successes], axis=1), axis=0, return_counts=True)
    return Counts(pairs[:, 1], pairs[:, 0], times)


class Mixture(NamedTuple):
    """A fitted mixture, and what bounds it.

    Attributes:
        weights: (K,) of the components: the centre of those that are about as likely as the likeliest.
        best: (K,) of the largest likelihood, which are 0 but for a few components.
        likelihood: (R, K) of each row of the counts under each component, each row divided by its largest.
        prompts: (R,) how often each row was seen.
    """

    weights: Weights
    best: Weights
    likelihood: Float[np.ndarray, "R K"]
    prompts: Int[np.ndarray, " R"]

    def log_likelihood(self, weights: Weights) -> float:
        """Of other weights, but for a constant."""
        return float(self.prompts @ np.log(self.likelihood @ weights))

    def bounds(self, functional: Weights, level: float) -> tuple[float, float]:
        """The least and the largest value of ``functional @ weights`` within the profile likelihood's interval."""
        slack = chi2.ppf(level, 1) / 2
        return 0 - _largest(self, -functional, slack)[0], _largest(self, functional, slack)[0]  # -x would be -0.0

    def ends(self, functional: Weights, level: float) -> tuple[Weights, Weights]:
        """The weights at which the functional is about the least and the largest."""
        slack = chi2.ppf(level, 1) / 2
        return _largest(self, -functional, slack)[1], _largest(self, functional, slack)[1]

    def ratio_bounds(self, above: Weights, below: Weights, level: float) -> tuple[float, float]:
        """The least and the largest ratio of two functionals, the second above 0, by Dinkelbach's method (1967)."""
        slack = chi2.ppf(level, 1) / 2
        ends = [self._ratio_end(sign * above, below, slack) for sign in (-1, 1)]
        return 0 - ends[0], ends[1]

    def _ratio_end(self, above: Weights, below: Weights, slack: float) -> float:
        """The largest ratio; as in ``_largest``, what the barrier's path leaves is added, so that 0 can be reached."""
        ratio = float(above @ self.weights / (below @ self.weights))
        for _ in range(MOST_RATIOS):
            most, weights = _largest(self, above - ratio * below, slack)
            last, ratio = ratio, max(ratio, float(above @ weights / (below @ weights)))
            if ratio - last < BOUNDED:
                break
        told = below > 0
        return min(last + most / float(below @ weights), float((above[told] / below[told]).max()))


def fit(observed: Counts) -> Mixture:
    """The mixture of the largest likelihood, and the centre of those that are about as likely."""
    log = components().log_moment(observed.successes, observed.trials - observed.successes)
    likelihood = np.exp(log - log.max(axis=1, keepdims=True))
    start = np.full(likelihood.shape[1], 1 / likelihood.shape[1])

    def at(scale: float) -> Objective:
        def objective(weights: Weights) -> tuple[float, Weights, np.ndarray]:
            value, slope, curvature = _log_likelihood(likelihood, observed.prompts, weights)
            return value / scale, slope / scale, curvature / scale

        return objective

    best = climb(at, start, path(float(observed.prompts.sum()), FITTED))
    best /= best.sum()
    found = Mixture(best, best, likelihood, observed.prompts)
    return found._replace(weights=_largest(found, np.zeros(len(best)), CENTRAL)[1])


def _log_likelihood(
    likelihood: Float[np.ndarray, "R K"], prompts: Int[np.ndarray, " R"], weights: Weights
) -> tuple[float, Weights, Float[np.ndarray, "K K"]]:
    """Its value, gradient and negative curvature."""
    shares = likelihood @ weights
    ratio = likelihood / shares[:, None]
    return float(prompts @ np.log(shares)), prompts @ ratio, (ratio.T * prompts) @ ratio


def _largest(mixture: Mixture, functional: Weights, slack: float) -> tuple[float, Weights]:
    """The largest ``functional @ weights`` of a log-likelihood less than ``slack`` below the mixture's, and where.

    A functional that is the same for all weights gives the centre of these.
    """
    span = float(np.ptp(functional))
    wanted = (functional - functional.min()) / (span or 1.0)
    floor = mixture.log_likelihood(mixture.best) - slack

    def at(scale: float) -> Objective:
        def objective(weights: Weights) -> tuple[float, Weights, np.ndarray]:
            value, slope, curvature = _log_likelihood(mixture.likelihood, mixture.prompts, weights)
            room = value - floor
            if room <= 0:
                return -np.inf, slope, curvature
            steep = slope / room
            gain = float(wanted @ weights) / scale
            return gain + np.log(room), wanted / scale + steep, curvature / room + np.outer(steep, steep)

        return objective

    weights = climb(at, _inside(mixture, slack), path(1.0, BOUNDED) if span else np.ones(1))
    weights = weights / weights.sum()
    gap = (len(weights) + 1) * BOUNDED * span  # the most that the barrier's path may still lie below the largest
    return min(float(functional @ weights) + gap, float(functional.max())), weights


def _inside(mixture: Mixture, slack: float) -> Weights:
    """Weights above 0 that lose no more than half the slack."""
    share, even = 0.5, np.full(len(mixture.weights), 1 / len(mixture.weights))
    best = mixture.log_likelihood(mixture.best)
    while best - mixture.log_likelihood((1 - share) * mixture.best + share * even) > slack / 2:
        share /= 2
    return (1 - share) * mixture.best + share * even
