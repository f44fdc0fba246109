"""The distribution of the prompts' solve rates, by empirical Bayes, and how it drifts over steps.

The prompts of a log are taken for a sample of those that the run draws from, and the rollouts of a prompt for
independent draws at one solve rate within a window of steps. Raw frequencies are wider than the truth: 0 of 8 is not 0.
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import betainc

from simlab.diagnose.estimate import Estimate, between, bootstrapped, resampled_sums
from simlab.diagnose.interior_point import Weights
from simlab.diagnose.log import Log
from simlab.diagnose.mixture import Mixture, components, counts, fit
from simlab.errors import InputError, check_whole

PROFILE = "profile likelihood of a Beta mixture with masses at 0 and 1"
SHARES_BELOW = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)  # solve rates whose distribution function is reported
WINDOWS = 4


class Prompts(NamedTuple):
    """The rollouts of each prompt that occurs in a log.

    Attributes:
        prompt: (P,) which one, in increasing order.
        successes: (P,) correct rollouts in all its groups.
        trials: (P,) rollouts in all its groups.
    """

    prompt: Int[np.ndarray, " P"]
    successes: Int[np.ndarray, " P"]
    trials: Int[np.ndarray, " P"]


class Population(NamedTuple):
    """The fitted distribution of solve rates.

    Attributes:
        mixture: over ``simlab.diagnose.mixture.components()``.
        level: the level of the intervals.
    """

    mixture: Mixture
    level: float

    def estimate(self, name: str, functional: Weights) -> Estimate:
        """The mean over prompts of what has this mean under each component."""
        value = float(functional @ self.mixture.weights)
        low, high = self.mixture.bounds(functional, self.level)
        return Estimate(name, value, min(low, value), max(high, value), self.level, PROFILE)

    def ratio(self, name: str, above: Weights, below: Weights) -> Estimate:
        """The ratio of two such means; NaN where the second is 0 for all components."""
        if not below.any():
            return Estimate(name, math.nan, math.nan, math.nan, self.level, PROFILE)
        value = float(above @ self.mixture.weights / (below @ self.mixture.weights))
        low, high = self.mixture.ratio_bounds(above, below, self.level)
        return Estimate(name, value, min(low, value), max(high, value), self.level, PROFILE)

    def quantiles(self, count: int) -> Float[np.ndarray, " count"]:
        """The solve rates at the probabilities (i + 1/2) / count: prompts that stand for the distribution."""
        grid = np.concatenate([[0.0], np.geomspace(1e-6, 0.01, 400), np.linspace(0.01, 1, 2000)[1:]])
        below = np.array([share_below(rate) @ self.mixture.weights for rate in grid])
        places = np.searchsorted(below, (np.arange(count) + 0.5) / count)
        return grid[np.minimum(places, len(grid) - 1)]


@dataclasses.dataclass(frozen=True)
class Window:
    """The solve rates of some steps.

    Attributes:
        first, last: its steps.
        mean: the mean of the solve rates of its prompts.
    """

    first: int
    last: int
    mean: Estimate


@dataclasses.dataclass(frozen=True)
class SolveRates:
    """The distribution of solve rates in the last window, and the means of all windows.

    Attributes:
        prompts: how many the last window holds.
        mean: solve rate.
        learnability: mean of p (1 - p), the variance of a reward, which is what a rollout can teach.
        below: the share of prompts with a solve rate of at most each of ``SHARES_BELOW``.
        raw_below: the same of raw frequencies.
        windows: from the first steps to the last.
        change: mean of the last window less that of the first; None where there is one window.
    """

    prompts: int
    mean: Estimate
    learnability: Estimate
    below: tuple[Estimate, ...]
    raw_below: tuple[float, ...]
    windows: tuple[Window, ...]
    change: Estimate | None


def of_prompts(log: Log) -> Prompts:
    """The rollouts of each prompt, all its groups together."""
    if not len(log.prompt):
        raise InputError("the log holds no group; allowed: one or more")
    prompt, place = np.unique(log.prompt, return_inverse=True)
    sums = [np.bincount(place, values, len(prompt)).astype(int) for values in (log.correct, log.group_size)]
    return Prompts(prompt, *sums)


def population(log: Log, level: float) -> Population:
    """The distribution of solve rates that a log's groups tell."""
    own = of_prompts(log)
    return Population(fit(counts(own.successes, own.trials)), level)


def split(log: Log, windows: int = WINDOWS) -> list[Log]:
    """The log in windows of as many steps each, as far as there are steps.

    Raises:
        InputError: for fewer windows than one, or an empty log.
    """
    check_whole("windows", windows, 1)
    steps = np.unique(log.step)
    if not steps.size:
        raise InputError("the log holds no group; allowed: one or more")
    parts = np.array_split(steps, min(windows, len(steps)))
    return [log.where((log.step >= part[0]) & (log.step <= part[-1])) for part in parts]


def share_below(rate: float) -> Weights:
    """The probability of at most a solve rate under each component."""
    own = components()
    return np.concatenate([betainc(own.a, own.b, rate), [1.0, float(rate >= 1)]])


def mean_solve_rate(now: Population) -> Estimate:
    """E p."""
    return now.estimate("mean solve rate", components().moment(np.array(1), np.array(0)))


def learnability(now: Population) -> Estimate:
    """E p (1 - p)."""
    return now.estimate("mean of p (1 - p)", components().moment(np.array(1), np.array(1)))


def change(first: Log, last: Log, level: float, seed: int) -> Estimate:
    """The difference of the mean solve rates of two windows; prompts of both are resampled together."""
    early, late = of_prompts(first), of_prompts(last)
    everyone = np.union1d(early.prompt, late.prompt)
    table = np.zeros((len(everyone), 4))
    for column, own in zip((0, 2), (early, late), strict=True):
        rows = np.searchsorted(everyone, own.prompt)
        table[rows, column], table[rows, column + 1] = own.successes / own.trials, 1
    sums = resampled_sums(table, seed)
    with np.errstate(invalid="ignore", divide="ignore"):
        draws = sums[:, 2] / sums[:, 3] - sums[:, 0] / sums[:, 1]
    name = "change of the mean solve rate"
    return between(name, float(draws[0]), draws[1:], level, "bootstrap over prompts")


def solve_rates(windows: list[Log], now: Population, seed: int) -> SolveRates:
    """What the windows of a log tell of solve rates.

    Args:
        windows: of ``split``.
        now: the population of the last one.
        seed: the seed of the bootstrap.
    """
    last = of_prompts(windows[-1])
    raw = last.successes / last.trials
    return SolveRates(
        len(last.prompt),
        mean_solve_rate(now),
        learnability(now),
        tuple(now.estimate(f"share of prompts with p <= {rate:g}", share_below(rate)) for rate in SHARES_BELOW),
        tuple(float((raw <= rate).mean()) for rate in SHARES_BELOW),
        tuple(_window(window, now.level, seed) for window in windows),
        change(windows[0], windows[-1], now.level, seed) if len(windows) > 1 else None,
    )


def _window(window: Log, level: float, seed: int) -> Window:
    own = of_prompts(window)
    mean = bootstrapped("mean solve rate", own.successes / own.trials, level, seed)
    return Window(int(window.step[0]), int(window.step[-1]), mean)
