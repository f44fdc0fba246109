"""Estimate the distribution of solve rates by empirical Bayes, how it drifts over steps, and pass@k.

The prompts of a log are taken for a sample of those that the run draws from, and the rollouts of a prompt for
independent draws at one solve rate within a window of steps. Raw frequencies are wider than the truth: 0 of 8 is not 0.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import betainc

from simlab.diagnose.estimate import IntervalEstimate, bootstrap, missing, percentile_interval, ratio, resample_sums
from simlab.diagnose.log import Log
from simlab.diagnose.mixture import Mixture, Weights, components, fit
from simlab.errors import InputError, check_whole
from simlab.llm.instruments.pass_at_k import powers, unbiased_pass_at_k
from simlab.theory.power_law import fit_shifted_power_law

PROFILE = "profile likelihood of a Beta mixture with masses at 0 and 1"
SHARES_BELOW = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)  # solve rates whose distribution function is reported
WINDOWS = 4
BEYOND = 16  # pass@k is extrapolated up to this many times the largest k that the rollouts carry


class PromptCounts(NamedTuple):
    """Number, correct rollouts and rollouts of each prompt, all its groups together, by increasing number."""

    prompt: Int[np.ndarray, " P"]
    successes: Int[np.ndarray, " P"]
    trials: Int[np.ndarray, " P"]


class Population(NamedTuple):
    """The fitted distribution of solve rates: a mixture of ``components()``, and the level of its intervals."""

    mixture: Mixture
    level: float

    def estimate(self, name: str, functional: Weights) -> IntervalEstimate:
        """Estimate the mean over prompts of a quantity whose mean under each component is ``functional``."""
        value = float(functional @ self.mixture.weights)
        return self._within(name, value, self.mixture.bounds(functional, self.level))

    def ratio(self, name: str, above: Weights, below: Weights) -> IntervalEstimate:
        """Estimate the ratio of two such means; NaN where the second is 0 for all components."""
        if not below.any():
            return missing(name, self.level, PROFILE)
        value = float(above @ self.mixture.weights / (below @ self.mixture.weights))
        return self._within(name, value, self.mixture.ratio_bounds(above, below, self.level))

    def _within(self, name: str, value: float, bounds: tuple[float, float]) -> IntervalEstimate:
        return IntervalEstimate(name, value, *bounds, self.level, PROFILE).include(value)

    def quantiles(self, count: int) -> Float[np.ndarray, " count"]:
        """Return the solve rates at the probabilities (i + 1/2) / count: prompts that stand for the distribution."""
        grid = np.concatenate([[0.0], np.geomspace(1e-6, 0.01, 400), np.linspace(0.01, 1, 2000)[1:]])
        below = np.array([share_below(rate) @ self.mixture.weights for rate in grid])
        index = np.searchsorted(below, (np.arange(count) + 0.5) / count)
        return np.asarray(grid[np.minimum(index, len(grid) - 1)])


class Window(NamedTuple):
    """The mean solve rate of the prompts between two steps."""

    first: int
    last: int
    mean: IntervalEstimate


class SolveRates(NamedTuple):
    """The distribution of solve rates in the last window, and the means of all windows.

    Attributes:
        learnability: mean of p (1 - p), the variance of a reward, which is what a rollout can teach.
        below, raw_below: the share of prompts with a solve rate of at most each of ``SHARES_BELOW``, fitted and raw.
        change: mean of the last window less that of the first; None where there is one window.
    """

    prompts: int
    mean: IntervalEstimate
    learnability: IntervalEstimate
    below: tuple[IntervalEstimate, ...]
    raw_below: tuple[float, ...]
    windows: tuple[Window, ...]
    change: IntervalEstimate | None


def count_by_prompt(log: Log) -> PromptCounts:
    """Add up the groups of each prompt."""
    if not len(log.prompt):
        raise InputError("the log holds no group; allowed: one or more")
    prompt, index = np.unique(log.prompt, return_inverse=True)
    sums = [np.bincount(index, values, len(prompt)).astype(int) for values in (log.correct, log.group_size)]
    return PromptCounts(prompt, *sums)


def fit_population(log: Log, level: float) -> Population:
    """Fit the distribution of solve rates to a log's groups."""
    counts = count_by_prompt(log)
    return Population(fit(counts.successes, counts.trials), level)


def split_windows(log: Log, windows: int = WINDOWS) -> list[Log]:
    """Cut the log into windows of equally many steps, as far as there are steps."""
    check_whole("windows", windows, 1)
    steps = np.unique(log.step)
    if not steps.size:
        raise InputError("the log holds no group; allowed: one or more")
    pieces = np.array_split(steps, min(windows, len(steps)))
    return [log.select((log.step >= piece[0]) & (log.step <= piece[-1])) for piece in pieces]


def share_below(rate: float) -> Weights:
    """Return the probability of at most this solve rate under each component."""
    betas = components()
    return np.concatenate([betainc(betas.a, betas.b, rate), [1.0, float(rate >= 1)]])


def mean_solve_rate(now: Population) -> IntervalEstimate:
    """Estimate E p."""
    return now.estimate("mean solve rate", components().moment(1, 0))


def learnability(now: Population) -> IntervalEstimate:
    """Estimate E p (1 - p)."""
    return now.estimate("mean of p (1 - p)", components().moment(1, 1))


def mean_change(first: Log, last: Log, level: float, seed: int) -> IntervalEstimate:
    """Estimate the difference of the mean solve rates of two windows; prompts of both are resampled together."""
    both = [count_by_prompt(first), count_by_prompt(last)]
    prompts = np.union1d(both[0].prompt, both[1].prompt)
    table = np.zeros((len(prompts), 4))
    for column, counts in zip((0, 2), both, strict=True):
        rows = np.searchsorted(prompts, counts.prompt)
        table[rows, column], table[rows, column + 1] = counts.successes / counts.trials, 1
    sums = resample_sums(table, seed)
    draws = ratio(sums[:, 2], sums[:, 3]) - ratio(sums[:, 0], sums[:, 1])
    name = "change of the mean solve rate"
    return percentile_interval(name, float(draws[0]), draws[1:], level, "bootstrap over prompts")


def estimate_solve_rates(windows: list[Log], now: Population, seed: int) -> SolveRates:
    """Estimate the solve rates of windows (``split_windows``), ``now`` being the population of the last."""
    raw = [counts.successes / counts.trials for counts in map(count_by_prompt, windows)]
    means = [bootstrap("mean solve rate", rates, now.level, seed) for rates in raw]
    return SolveRates(
        len(raw[-1]),
        mean_solve_rate(now),
        learnability(now),
        tuple(now.estimate(f"share of prompts with p <= {rate:g}", share_below(rate)) for rate in SHARES_BELOW),
        tuple(float((raw[-1] <= rate).mean()) for rate in SHARES_BELOW),
        tuple(Window(int(log.step[0]), int(log.step[-1]), mean) for log, mean in zip(windows, means, strict=True)),
        mean_change(windows[0], windows[-1], now.level, seed) if len(windows) > 1 else None,
    )


class PassAtK(NamedTuple):
    """Pass@k of the prompts of a window.

    Attributes:
        carried: the unbiased estimate, with the interval of the mixtures that explain the data as well: the bootstrap
            over prompts has no width where all are solved.
        beyond: the values under the mixtures that explain the data as well, where k is above a prompt's rollouts.
        power_law: G(k) = exp(-a (k + c)^-b) at ``beyond_k``, fitted to ``carried`` ``[fade:fig-6]``; None where those
            are fewer than four, or do not rise. It has no interval: that its form holds on is not in the data.
        power_law_within: true if it stays within the intervals of ``beyond``.
        scale, exponent, shift: a, b and c.
    """

    k: tuple[int, ...]
    carried: tuple[IntervalEstimate, ...]
    beyond_k: tuple[int, ...]
    beyond: tuple[IntervalEstimate, ...]
    power_law: tuple[float, ...] | None = None
    power_law_within: bool | None = None
    scale: float | None = None
    exponent: float | None = None
    shift: float | None = None


def estimate_pass_at_k(counts: PromptCounts, now: Population) -> PassAtK:
    """Estimate pass@k of a window's prompts, whose population is ``now``."""
    ks = tuple(powers(int(counts.trials.min())))
    beyond_ks = tuple(k for k in powers(BEYOND * ks[-1]) if k > ks[-1])
    carried = tuple(carried_pass_at_k(counts, now, k) for k in ks)
    beyond = tuple(population_pass_at_k(now, k) for k in beyond_ks)
    result = PassAtK(ks, carried, beyond_ks, beyond)
    if len(ks) < 4:
        return result
    try:
        law = fit_shifted_power_law(np.array(ks), np.array([estimate.value for estimate in carried]))
    except InputError:
        return result
    curve = tuple(law(np.array(beyond_ks)).tolist())
    within = all(estimate.low <= value <= estimate.high for estimate, value in zip(beyond, curve, strict=True))
    return PassAtK(ks, carried, beyond_ks, beyond, curve, within, law.scale, law.exponent, law.shift)


def carried_pass_at_k(counts: PromptCounts, now: Population, k: int) -> IntervalEstimate:
    """Return the unbiased estimate, every prompt having k rollouts, in the population's interval widened to hold it."""
    return population_pass_at_k(now, k).include(float(prompt_pass_at_k(counts.successes, counts.trials, k).mean()))


def prompt_pass_at_k(
    successes: Int[np.ndarray, " P"], trials: Int[np.ndarray, " P"], k: int
) -> Float[np.ndarray, " P"]:
    """Return the unbiased pass@k of each prompt; NaN where it has fewer than k rollouts."""
    values = np.full(len(trials), np.nan)
    for size in np.unique(trials[trials >= k]).tolist():
        mask = trials == size
        values[mask] = unbiased_pass_at_k(successes[mask], size, k)
    return values


def population_pass_at_k(now: Population, k: int) -> IntervalEstimate:
    """Estimate 1 - E (1 - p)^k."""
    return now.estimate(f"pass@{k}", 1 - components().moment(0, k))
