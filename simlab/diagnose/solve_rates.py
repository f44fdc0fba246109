"""Estimate the distribution of solve rates by empirical Bayes, how it drifts over steps, and pass@k.

The prompts of a log are taken for a sample of those that the run draws from, and the rollouts of a prompt for
independent draws at one solve rate within a window of steps. Raw frequencies are wider than the truth: 0 of 8 is not 0.

Pass@k is for a prompt of N >= k rollouts the share of their k-subsets that hold a correct one, which has no bias, and
for a prompt of fewer the mean under the mixture given its rollouts; E p is pass@1. Intervals are the mixture's.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import betainc, gammaln

from simlab.diagnose.estimate import (
    IntervalEstimate,
    bootstrap,
    in_order,
    missing,
    percentile_interval,
    ratio,
    resample_sums,
)
from simlab.diagnose.log import Log
from simlab.diagnose.mixture import Mixture, Weights, components, count_pairs, fit
from simlab.errors import InputError, check_whole
from simlab.llm.instruments.pass_at_k import powers

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
    """The fitted distribution of solve rates.

    Attributes:
        mixture: of ``components()``.
        level: of its intervals.
        pairs: rollouts and correct ones of each row of the mixture's likelihood.
    """

    mixture: Mixture
    level: float
    pairs: Int[np.ndarray, "R 2"]

    @property
    def is_single(self) -> bool:
        """True where every prompt has one rollout, which tells pass@1 and nothing of how prompts differ."""
        return int(self.pairs[:, 0].max()) == 1

    def estimate(self, name: str, functional: Weights, value: float | None = None) -> IntervalEstimate:
        """Estimate a mean over prompts from the means under the components; ``value`` replaces its value."""
        value = float(functional @ self.mixture.weights) if value is None else value
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
        learnability: mean of p (1 - p), the variance of a reward, which is what a rollout can teach; None where every
            prompt has one rollout, which tells nothing of how prompts differ.
        below, raw_below: the share of prompts with a solve rate of at most each of ``SHARES_BELOW``, fitted and raw;
            empty where every prompt has one rollout.
        change: mean of the last window less that of the first; None where there is one window.
    """

    prompts: int
    mean: IntervalEstimate
    learnability: IntervalEstimate | None
    below: tuple[IntervalEstimate, ...]
    raw_below: tuple[float, ...]
    windows: tuple[Window, ...]
    change: IntervalEstimate | None


def count_by_prompt(log: Log) -> PromptCounts:
    """Add up the groups of each prompt."""
    prompt, index = np.unique(log.prompt, return_inverse=True)
    sums = [np.bincount(index, values, len(prompt)).astype(int) for values in (log.correct, log.group_size)]
    return PromptCounts(prompt, *sums)


def fit_population(log: Log, level: float) -> Population:
    """Fit the distribution of solve rates to a log's groups."""
    counts = count_by_prompt(log)
    return fit_counts(counts.successes, counts.trials, level)


def fit_counts(successes: Int[np.ndarray, " P"], trials: Int[np.ndarray, " P"], level: float) -> Population:
    """Fit the distribution of solve rates to the correct rollouts and the rollouts of each prompt."""
    return Population(fit(successes, trials), level, count_pairs(successes, trials)[0])


def share_over_prompts(
    name: str, hits: Float[np.ndarray, " P"], trials: Int[np.ndarray, " P"], level: float
) -> IntervalEstimate:
    """Return the share of trials that are hits, where each prompt has its own chance, by a mixture of these chances.

    Trials of one prompt are alike, and a share of 0 or 1 in a few trials is not sure: the profile likelihood allows for
    both, and stays between 0 and 1.
    """
    some = trials > 0
    population = fit_counts(hits[some].astype(int), trials[some], level)
    return population.estimate(name, components().moment(1, 0), float(hits.sum() / trials.sum()))


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


def all_within(count: Int[np.ndarray, "..."], total: Int[np.ndarray, "..."], size: int) -> Float[np.ndarray, "..."]:
    """Return C(count, G) / C(total, G), the chance that G of ``total`` rollouts are all among ``count`` of them."""
    count, total, enough = np.asarray(count), np.maximum(total, size), np.maximum(count, size)
    share = gammaln(enough + 1) - gammaln(total + 1) + (gammaln(total - size + 1) - gammaln(enough - size + 1))
    return np.where(count >= size, np.exp(share), 0.0)


def pass_at_k(now: Population, ks: Sequence[int]) -> tuple[IntervalEstimate, ...]:
    """Estimate 1 - E (1 - p)^k for each k, in rising order."""
    trials, wrong = now.pairs[:, 0], now.pairs[:, 0] - now.pairs[:, 1]
    estimates = []
    for k in ks:
        solved = 1 - components().moment(0, k)
        carried = 1 - all_within(wrong, trials, k)
        value = now.mixture.mean(np.where(trials >= k, carried, now.mixture.posterior_mean(solved)))
        estimates.append(now.estimate(f"pass@{k}", solved, value))
    return in_order(estimates)


def mean_solve_rate(now: Population) -> IntervalEstimate:
    """Estimate E p."""
    return pass_at_k(now, (1,))[0]._replace(name="mean solve rate")


def learnability(now: Population) -> IntervalEstimate:
    """Estimate E p (1 - p), which is at most E p (1 - E p)."""
    spread, rate = components().moment(1, 1), mean_solve_rate(now).value
    value = min(float(spread @ now.mixture.weights), rate * (1 - rate))
    return now.estimate("mean of p (1 - p)", spread, value)


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
    below = () if now.is_single else SHARES_BELOW
    shares = [now.estimate(f"share of prompts with p <= {rate:g}", share_below(rate)) for rate in below]
    return SolveRates(
        len(raw[-1]),
        mean_solve_rate(now),
        None if now.is_single else learnability(now),
        in_order(shares),
        tuple(float((raw[-1] <= rate).mean()) for rate in below),
        tuple(Window(int(log.step[0]), int(log.step[-1]), mean) for log, mean in zip(windows, means, strict=True)),
        mean_change(windows[0], windows[-1], now.level, seed) if len(windows) > 1 else None,
    )


class PassAtK(NamedTuple):
    """Pass@k of the prompts of a window; neither values nor ends of intervals fall with k.

    Attributes:
        carried: at each ``k`` for which at least half of the prompts have enough rollouts.
        beyond: at larger ones, as far as ``BEYOND`` times; empty where every prompt has one rollout.
    """

    k: tuple[int, ...]
    carried: tuple[IntervalEstimate, ...]
    beyond_k: tuple[int, ...]
    beyond: tuple[IntervalEstimate, ...]


def carried_ks(now: Population) -> tuple[int, ...]:
    """Return the powers of 2 up to the rollouts that at least half of the prompts have."""
    trials = np.repeat(now.pairs[:, 0], now.mixture.prompts)
    return tuple(powers(int(np.quantile(trials, 0.5, method="inverted_cdf"))))


def estimate_pass_at_k(now: Population) -> PassAtK:
    """Estimate pass@k of a window's prompts, whose population is ``now``."""
    ks = carried_ks(now)
    beyond_ks = () if now.is_single else tuple(k for k in powers(BEYOND * ks[-1]) if k > ks[-1])
    curve = pass_at_k(now, (*ks, *beyond_ks))
    return PassAtK(ks, curve[: len(ks)], beyond_ks, curve[len(ks) :])
