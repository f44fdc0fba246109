"""Fit a Beta mixture with masses at 0 and 1 to counts of successes, and bound it by its likelihood.

The components are fixed and only their weights are fitted, so that the likelihood is concave and has no local maxima:
the fixed-grid form of the nonparametric maximum likelihood estimate of Kiefer and Wolfowitz (1956), as in Koenker and
Mizera (2014, JASA 109), with narrow Betas in place of points.

The value of an estimate is that of the centre of the weights whose likelihood is about the largest, where the product
of the weights is largest; the likeliest weights themselves are 0 but for a few solve rates.

An interval holds the values that a functional takes on all weights whose log-likelihood lies within half the chi-square
quantile of one degree of freedom below the largest (the profile likelihood). It includes every mixture that explains
the data as well, so that it is wide where the data do not determine a functional.

Example: of four prompts, three were right in 0 of 2 rollouts and one in 2 of 2. Take three components only, at solve
rates 0, 1/2 and 1. Then log L(w) = 3 log(w_0 + w_half / 4) + log(w_1 + w_half / 4), which is largest, -2.25, at
w = (3/4, 0, 1/4). The share of dead groups of two is the functional f = (1, 1/2, 1), and f w = 1 there. At a level of
90 % all weights with log L above -2.25 - 1.35 count, such as (.39, .57, .04), where only 71 % of groups are dead; so
the interval is [.71, 1].
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg.lapack import dposv
from scipy.special import betaln, ndtri

Weights = Float[np.ndarray, " K"]
# Value, gradient, and the negative of the curvature, (K, K), at some weights and a scale; the value is -infinity where
# it is not defined.
Objective = Callable[[Weights, float], tuple[float, Weights, np.ndarray]]

# Means at equal steps of arcsin(sqrt(p)), on which a binomial share has the same noise at every p. The standard
# deviation of a component is a fifth of a step, so that prompts of few different solve rates can be told apart: where
# it is a whole step, the intervals hold the dead groups of four times the size in 54 % of logs of 10,000 prompts of two
# solve rates.
STEPS, WIDTH = 60, 0.2
# Means below the first of those, and above the last by symmetry: only pass@k of large k separates them from 0.
RARE = (3e-4, 1e-4, 3e-5, 1e-5)
CENTRAL = 0.5  # how far below the largest log-likelihood the centre is sought: what a standard error costs
FITTED, BOUNDED = 1e-4, 1e-7  # where the two paths of the barrier end: log-likelihood and a share of the range
MOST_RATIOS = 20  # of Dinkelbach's method, which needs about four
MOST_STEPS, CENTRED, SHORTEST = 50, 1e-2, 1e-10  # of Newton's method: steps, their gain at the end, and their length
ROUNDING = 1e-15


def _slack(level: float) -> float:
    """Return how far the log-likelihood may fall: half the quantile of chi-squared with one degree of freedom."""
    return float(ndtri((1 + level) / 2) ** 2 / 2)


class BetaComponents(NamedTuple):
    """The parameters a and b of the Betas of a mixture; after them come the masses at 0 and at 1."""

    a: Float[np.ndarray, " B"]
    b: Float[np.ndarray, " B"]

    def log_moment(
        self, successes: int | Int[np.ndarray, "..."], failures: int | Int[np.ndarray, "..."]
    ) -> Float[np.ndarray, "... K"]:
        """Return log E p^s (1 - p)^f under each component; -infinity where the moment is 0."""
        s, f = np.broadcast_arrays(np.asarray(successes, float)[..., None], np.asarray(failures, float)[..., None])
        betas = betaln(self.a + s, self.b + f) - betaln(self.a, self.b)
        masses = np.where(np.concatenate([s, f], axis=-1) > 0, -np.inf, 0.0)
        return np.concatenate([betas, masses], axis=-1)

    def moment(
        self, successes: int | Int[np.ndarray, "..."], failures: int | Int[np.ndarray, "..."]
    ) -> Float[np.ndarray, "... K"]:
        """Return E p^s (1 - p)^f under each component."""
        return np.asarray(np.exp(self.log_moment(successes, failures)))


@functools.cache
def components() -> BetaComponents:
    """Return the Betas that every fit uses."""
    angles = np.arange(1, STEPS) / STEPS * np.pi / 2
    means, width = np.sin(angles) ** 2, WIDTH * np.pi / 2 / STEPS
    total = 1 / (2 * width) ** 2  # of a + b: arcsin(sqrt(p)) has the standard deviation 1 / (2 sqrt(a + b))
    rare = np.array(RARE)
    a = np.concatenate([means * total, np.ones(len(rare)), 1 / rare])
    b = np.concatenate([(1 - means) * total, 1 / rare, np.ones(len(rare))])
    return BetaComponents(a, b)


class Mixture(NamedTuple):
    """A fitted mixture, with the likelihood that bounds it.

    Attributes:
        weights: of the components: the centre of the weights that are about as likely as the likeliest.
        best: those of the largest likelihood, which are 0 but for a few components.
        likelihood: of each pair of successes and rollouts under each component, each row divided by its largest.
        prompts: of each pair.
    """

    weights: Weights
    best: Weights
    likelihood: Float[np.ndarray, "R K"]
    prompts: Int[np.ndarray, " R"]

    def mean(self, of_pairs: Float[np.ndarray, " R"]) -> float:
        """Return the mean over prompts of a number of each pair."""
        return float(self.prompts @ of_pairs) / int(self.prompts.sum())

    def posterior_mean(self, functional: Weights) -> Float[np.ndarray, " R"]:
        """Return the mean of a functional at a prompt of each pair."""
        return np.asarray(self.likelihood @ (self.weights * functional) / (self.likelihood @ self.weights))

    def log_likelihood(self, weights: Weights) -> float:
        """Return the log-likelihood of other weights, up to a constant."""
        return float(self.prompts @ np.log(self.likelihood @ weights))

    def bounds(self, functional: Weights, level: float) -> tuple[float, float]:
        """Return the least and the largest ``functional @ weights`` within the profile likelihood's interval."""
        (low, _), (high, _) = self._both_ends(functional, level)
        return 0 - low, high  # -x would be -0.0

    def ends(self, functional: Weights, level: float) -> tuple[Weights, Weights]:
        """Return the weights at which the functional is about the least and the largest."""
        (_, least), (_, most) = self._both_ends(functional, level)
        return least, most

    def _both_ends(self, functional: Weights, level: float) -> list[tuple[float, Weights]]:
        return [_maximise(self, sign * functional, _slack(level)) for sign in (-1, 1)]

    def ratio_bounds(self, above: Weights, below: Weights, level: float) -> tuple[float, float]:
        """Return the least and the largest ratio of two functionals, the second above 0 (Dinkelbach 1967)."""
        slack = _slack(level)
        ends = [self._largest_ratio(sign * above, below, slack) for sign in (-1, 1)]
        return 0 - ends[0], ends[1]

    def _largest_ratio(self, above: Weights, below: Weights, slack: float) -> float:
        """Return the largest ratio: solve max (above - ratio * below) @ w, move the ratio there, and repeat.

        As in ``_maximise``, what the barrier's path may still lie below the largest is added, so that 0 can be reached.
        """
        ratio = float(above @ self.weights / (below @ self.weights))
        for _ in range(MOST_RATIOS):
            most, weights = _maximise(self, above - ratio * below, slack)
            last, ratio = ratio, max(ratio, float(above @ weights / (below @ weights)))
            if ratio - last < BOUNDED:
                break
        mask = below > 0
        return min(last + most / float(below @ weights), float((above[mask] / below[mask]).max()))


def count_pairs(
    successes: Int[np.ndarray, " P"], trials: Int[np.ndarray, " P"]
) -> tuple[Int[np.ndarray, "R 2"], Int[np.ndarray, " R"]]:
    """Return the different pairs of rollouts and successes, and the prompts of each."""
    return np.unique(np.stack([trials, successes], axis=1), axis=0, return_counts=True)


def fit(successes: Int[np.ndarray, " P"], trials: Int[np.ndarray, " P"]) -> Mixture:
    """Fit the mixture of the largest likelihood, and the centre of those that are about as likely."""
    pairs, prompts = count_pairs(successes, trials)
    log = components().log_moment(pairs[:, 1], pairs[:, 0] - pairs[:, 1])
    return fit_likelihood(np.exp(log - log.max(axis=1, keepdims=True)), prompts)


def fit_likelihood(likelihood: Float[np.ndarray, "R K"], prompts: Int[np.ndarray, " R"]) -> Mixture:
    """Fit the weights of components by the likelihood of each row under each of them, and the prompts of each row."""
    start = np.full(likelihood.shape[1], 1 / likelihood.shape[1])

    def objective(weights: Weights, scale: float) -> tuple[float, Weights, np.ndarray]:
        value, slope, curvature = _log_likelihood(likelihood, prompts, weights)
        return value / scale, slope / scale, curvature / scale

    best = _climb(objective, start, _barrier_path(float(prompts.sum()), FITTED))
    best /= best.sum()
    mixture = Mixture(best, best, likelihood, prompts)
    return mixture._replace(weights=_maximise(mixture, np.zeros(len(best)), CENTRAL)[1])


def _log_likelihood(
    likelihood: Float[np.ndarray, "R K"], prompts: Int[np.ndarray, " R"], weights: Weights
) -> tuple[float, Weights, Float[np.ndarray, "K K"]]:
    shares = likelihood @ weights
    ratio = likelihood / shares[:, None]
    return float(prompts @ np.log(shares)), prompts @ ratio, (ratio.T * prompts) @ ratio


def _maximise(mixture: Mixture, functional: Weights, slack: float) -> tuple[float, Weights]:
    """Maximise ``functional @ weights`` where the log-likelihood is less than ``slack`` below the mixture's.

    The second barrier, log(log-likelihood - floor), keeps the weights inside that region. A functional that is the same
    for all weights gives the centre of the region.
    """
    span, count = float(np.ptp(functional)), len(functional)
    target = (functional - functional.min()) / (span or 1.0)
    largest = mixture.log_likelihood(mixture.best)

    def objective(weights: Weights, scale: float) -> tuple[float, Weights, np.ndarray]:
        value, slope, curvature = _log_likelihood(mixture.likelihood, mixture.prompts, weights)
        room = value - (largest - slack)
        if room <= 0:
            return -np.inf, slope, curvature
        steep = slope / room
        gain = float(target @ weights) / scale
        return gain + np.log(room), target / scale + steep, curvature / room + np.outer(steep, steep)

    share, inner = 1.0, mixture.best  # weights above 0 that lose no more than half the slack
    while share == 1 or largest - mixture.log_likelihood(inner) > slack / 2:
        share /= 2
        inner = (1 - share) * mixture.best + share * np.full(count, 1 / count)
    weights = _climb(objective, inner, _barrier_path(1.0, BOUNDED) if span else [1.0])
    weights = weights / weights.sum()
    gap = (count + 1) * BOUNDED * span  # the most that the barrier's path may still lie below the largest
    return min(float(functional @ weights) + gap, float(functional.max())), weights


# Interior point: maximise a concave function of weights that are at least 0 and sum to 1, by Newton's method. The
# barrier sum(log w) keeps every weight above 0. The objective is divided by a scale that falls tenfold from stage to
# stage, so that the barrier matters less and less; each stage begins where the one before has ended.


def _barrier_path(start: float, end: float) -> list[float]:
    """Return scales from ``start`` to ``end``, each about a tenth of the one before."""
    stages = max(int(np.ceil(np.log10(start / end))), 1)
    scales: list[float] = (start * (end / start) ** (np.arange(stages + 1) / stages)).tolist()
    return scales


def _climb(objective: Objective, weights: Weights, scales: list[float]) -> Weights:
    for scale in scales:
        weights = _climb_stage(objective, weights, scale)
    return weights


def _climb_stage(objective: Objective, weights: Weights, scale: float) -> Weights:
    value, slope, curvature = objective(weights, scale)
    for _ in range(MOST_STEPS):
        slope = slope + 1 / weights
        # Newton's step that leaves the sum of the weights as it is, solved for step / weight, in which the barrier's
        # curvature is the identity. Close to where the objective ends, one curvature is larger than the others by more
        # than a float can hold.
        scaled = weights[:, None] * curvature * weights
        scaled += max(1.0, ROUNDING * float(scaled.trace())) * np.eye(len(weights))
        _, solved, _ = dposv(scaled, np.stack([weights * slope, weights], axis=1))
        price = (weights @ solved[:, 0]) / (weights @ solved[:, 1])
        step = weights * (solved[:, 0] - price * solved[:, 1])
        gain = float(slope @ step)
        if gain < CENTRED:
            break
        length = min(1.0, 0.99 / max(float(-(step / weights).min()), 0.1))
        least = value + np.log(weights).sum()
        while True:
            moved = weights + length * step
            value, slope, curvature = objective(moved, scale)
            if value + np.log(moved).sum() >= least + 0.1 * length * gain:
                break
            length /= 2
            if length < SHORTEST:  # rounding hides the gain
                return weights
        weights = moved
    return weights
