"""The correct mass that was never drawn, and how often groups teach against a solution.

Assumed: within a window the policy stays as it is, and two answers are one solution exactly where their canonical forms
are equal. A solution with a thousand phrasings counts as a thousand if the canonical form keeps them apart.
"""

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import ncx2

from simlab.diagnose.estimate import Estimate, accelerated, resampled_sums
from simlab.diagnose.log import Log
from simlab.diagnose.solutions import Solutions, drawn_once, estimated, never_drawn, solutions
from simlab.theory import conditional_tail_miss, tail_miss

UNSEEN = "Good-Turing with fitted terms"
MOST_BIAS = 30.0  # in standard errors; beyond it, the bias alone is the interval
SIZES = (2, 4, 8, 16, 32, 64, 128, 256)
STEP = 1e-6  # of the masses and solve rates between which slopes are taken


@dataclasses.dataclass(frozen=True)
class UnseenMass:
    """What a window leaves undrawn, as the mean over its prompts.

    Attributes:
        first, last: steps of the window.
        distinct: solutions drawn.
        mass: probability of correct answers that were never drawn.
        share: the same, of the probability of all correct answers.
        good_turing: the share by Good's estimate, for comparison: answers drawn once over correct rollouts.
    """

    first: int
    last: int
    distinct: int
    mass: Estimate
    share: Estimate
    good_turing: float


@dataclasses.dataclass(frozen=True)
class TailMiss:
    """How often groups of several sizes miss a solution ``[f-grpo:lemma-3.1]``.

    Attributes:
        solution: which one.
        mass: its probability.
        solve_rate: the solve rate of the prompts that have it.
        group_sizes: G.
        missed: probability that a group teaches without having drawn it: that it teaches against it.
        against: the same, of the groups that teach.
    """

    solution: str
    mass: Estimate
    solve_rate: Estimate
    group_sizes: tuple[int, ...]
    missed: tuple[Estimate, ...]
    against: tuple[Estimate, ...]


class Solution(NamedTuple):
    """A solution's mass and the solve rate of its prompts, as estimated and as resampled.

    Attributes:
        name: which solution.
        mass, solve_rate: (1 + R,) the estimate, then the resamples; NaN where they tell none.
        influence: (P, 2) what each prompt adds to the errors of the estimated mass and solve rate, to first order.
        level: of intervals.
    """

    name: str
    mass: Float[np.ndarray, " draws"]
    solve_rate: Float[np.ndarray, " draws"]
    influence: Float[np.ndarray, "P 2"]
    level: float

    def estimate(self, name: str, of: Callable[..., Any]) -> Estimate:
        """What is a smooth function of the solve rate and the mass, each (draws,)."""
        known = np.isfinite(self.mass)
        values = np.full(len(self.mass), np.nan)
        values[known] = of(self.solve_rate[known], self.mass[known])
        influence = self.influence @ self._slopes(of) if known[0] else np.zeros(len(self.influence))
        value, method = float(values[0]), "bootstrap over prompts"
        return accelerated(name, value, values[1:], influence, level=self.level, method=method)

    def _slopes(self, of: Callable[..., Any]) -> Float[np.ndarray, " 2"]:
        """Of a function at the estimate, by the mass and by the solve rate."""
        mass, rate = self.mass[0], self.solve_rate[0]
        masses = np.clip(mass + np.array([-STEP, STEP]), 0, rate)
        rates = np.clip(rate + np.array([-STEP, STEP]), mass, 1)
        by_mass, by_rate = of(np.full(2, rate), masses), of(rates, np.full(2, mass))
        pairs = ((by_mass, masses), (by_rate, rates))
        return np.array([np.diff(own)[0] / max(np.diff(at)[0], STEP / 2) for own, at in pairs])


@dataclasses.dataclass(frozen=True)
class Unseen:
    """Undrawn mass by window, and what happens to solutions of two kinds.

    Attributes:
        windows: from the first steps to the last.
        change: share of the last window less that of the first; None where there is one window.
        typical: the solution that a random correct rollout gives.
        rarest: a solution that was drawn once.
    """

    windows: tuple[UnseenMass, ...]
    change: Estimate | None
    typical: TailMiss
    rarest: TailMiss


def unseen(windows: list[Log], level: float, seed: int, group_sizes: tuple[int, ...] = SIZES) -> Unseen | None:
    """What the windows of a log tell of undrawn solutions; None where the log has no answers."""
    found = [solutions(window) for window in windows]
    kept = [seen for seen in found if seen is not None]
    if not kept:
        return None
    pairs = zip(windows, kept, strict=True)
    masses = tuple(unseen_mass(seen, level, (int(log.step[0]), int(log.step[-1]))) for log, seen in pairs)
    change = _change(masses[0].share, masses[-1].share, level) if len(masses) > 1 else None
    kinds = (typical(kept[-1], level, seed), rarest(kept[-1], level, seed))
    return Unseen(masses, change, *(tail_misses(solution, group_sizes) for solution in kinds))


def unseen_mass(seen: Solutions, level: float, steps: tuple[int, int] = (0, 0)) -> UnseenMass:
    """The undrawn correct mass of a window, with normal intervals that allow for the bound on the bias.

    The truth that they are to hold is what these prompts have left, not what is expected of such prompts.
    """
    prompts = len(seen.trials)
    own = estimated(seen, never_drawn)
    noise = own.variance + _left(seen)
    mass = _around("undrawn correct mass", own.per_prompt.mean(), noise.sum() / prompts**2, own.bias.mean(), level)
    correct = int(seen.successes.sum())
    once = int((seen.times == 1).sum())
    return UnseenMass(*steps, len(seen.times), mass, _share(seen, level), once / correct if correct else math.nan)


def _left(seen: Solutions) -> Float[np.ndarray, " P"]:
    """An estimate of sum pi^2 (1 - pi)^N: the variance of what is left itself."""
    pairs = np.maximum(seen.trials * (seen.trials - 1) / 2, 1)
    left: Float[np.ndarray, " P"] = seen.summed((seen.times == 2).astype(float)) / pairs
    return left


def _share(seen: Solutions, level: float) -> Estimate:
    """The undrawn mass over the solve rate, with Fieller's interval: every share that the errors of both allow.

    Where a prompt has by chance more correct rollouts, it also has more solutions drawn once, so that both errors
    cancel in part. How many more is the slope: without one of its X correct rollouts, it had (f_1 - 2 f_2) / X fewer.
    """
    name, own = "undrawn share of the correct mass", estimated(seen, never_drawn)
    rates = seen.successes / seen.trials
    above, below = float(own.per_prompt.sum()), float(rates.sum())
    if below == 0:
        return Estimate(name, math.nan, math.nan, math.nan, level, UNSEEN)
    slope = seen.summed(np.select([seen.times == 1, seen.times == 2], [1.0, -2.0])) / np.maximum(seen.successes, 1)
    of_rates = rates * (1 - rates) / np.maximum(seen.trials - 1, 1)
    ratio = np.linspace(0, 1, 2001)
    variance = (own.variance + _left(seen)).sum() + ratio**2 * of_rates.sum() - 2 * ratio * (slope * of_rates).sum()
    room = _half(variance, float(own.bias.sum()), level)
    value = float(np.clip(above / below, 0, 1))
    allowed = np.append(ratio[np.abs(above - ratio * below) <= room], value)
    return Estimate(name, value, float(allowed.min()), float(allowed.max()), level, UNSEEN)


def _around(name: str, value: float, variance: float, bias: float, level: float) -> Estimate:
    """A normal interval, of probabilities."""
    half = float(_half(np.array(variance), bias, level))
    inside = float(np.clip(value, 0, 1))
    return Estimate(name, inside, max(value - half, 0.0), min(value + half, 1.0), level, UNSEEN)


def _half(variance: Float[np.ndarray, "..."], bias: float, level: float) -> Float[np.ndarray, "..."]:
    """Half the width of a normal interval around an estimate that is off by up to ``bias``.

    It is the quantile of abs(z + bias) (Armstrong and Kolesar 2018, Econometrica 86), which is less than that of abs(z)
    and the bias together.
    """
    error = np.sqrt(np.maximum(variance, 1e-300))
    half: np.ndarray = error * np.sqrt(ncx2.ppf(level, 1, np.minimum(bias / error, MOST_BIAS) ** 2))
    widest: np.ndarray = np.asarray(np.maximum(half, bias))
    return widest


def _change(first: Estimate, last: Estimate, level: float) -> Estimate:
    """The difference of two windows, whose rollouts are independent."""
    below = math.hypot(last.value - last.low, first.high - first.value)
    above = math.hypot(last.high - last.value, first.value - first.low)
    value = last.value - first.value
    return Estimate("change of the undrawn share", value, value - below, value + above, level, UNSEEN)


def typical(seen: Solutions, level: float, seed: int) -> Solution:
    """The solution of a random correct rollout: how probable it is on average, from pairs of rollouts.

    Two rollouts of a prompt give one solution with probability sum pi^2, and are both correct with p^2. Of a log in
    which no two rollouts agree, the interval is that of an event that could have come and did not.
    """
    trials = seen.trials.astype(float)
    pairs = np.where(trials > 1, trials * (trials - 1), np.nan)
    same = seen.summed(seen.times * (seen.times - 1.0)) / pairs
    both = seen.successes * (seen.successes - 1.0) / pairs
    found = _solution("of a random correct rollout", (same, both, seen.successes / trials), level, seed)
    return found if same[np.isfinite(same)].any() else _without_pairs(found, seen, seed)


def _without_pairs(found: Solution, seen: Solutions, seed: int) -> Solution:
    """A number of events that is 0 has the confidence distribution Exp(1): the mass that so many pairs would give."""
    several = seen.trials > 1
    if not several.any() or not seen.successes[several].any():
        return found
    trials = float(np.median(seen.trials[several]))
    one = 2 / (trials * (trials - 1)) / float((seen.successes / seen.trials)[several].sum())
    events = np.random.default_rng(seed).standard_exponential(len(found.mass) - 1)
    mass = np.append(0.0, np.minimum(one * events, found.solve_rate[1:]))
    return found._replace(mass=mass)


def rarest(seen: Solutions, level: float, seed: int) -> Solution:
    """A solution that was drawn once: its mean probability, which is below 1 / N, for what is drawn once is lucky.

    The solve rate is that of the other rollouts of its prompts.
    """
    once = seen.summed((seen.times == 1).astype(float))
    others = np.where(seen.trials > 1, (seen.successes - 1) / np.maximum(seen.trials - 1, 1), np.nan)
    total = np.where(seen.trials > 1, estimated(seen, drawn_once).per_prompt, np.nan)
    return _solution("drawn once", (total, once * others, once), level, seed)


Parts = tuple[Float[np.ndarray, " P"], Float[np.ndarray, " P"], Float[np.ndarray, " P"]]


def _solution(name: str, parts: Parts, level: float, seed: int) -> Solution:
    """Mass and solve rate as sums over prompts of the first two parts, over that of the third, their weights."""
    table = np.stack(parts, axis=1)
    table = table[np.isfinite(table).all(axis=1)]
    mass, rate, weight = resampled_sums(table, seed).T
    defined = weight > 0
    mass, rate = (np.where(defined, own / np.where(defined, weight, 1), np.nan) for own in (mass, rate))
    rate = np.clip(rate, 0, 1)
    mass = np.clip(mass, 0, rate)
    influence = (table[:, :2] - np.array([mass[0], rate[0]]) * table[:, 2:]) / max(float(weight[0]), 1.0)
    return Solution(name, mass, rate, influence, level)


def tail_misses(own: Solution, group_sizes: tuple[int, ...]) -> TailMiss:
    """How often groups of several sizes miss a solution, at its mean mass and the mean solve rate of its prompts."""

    def over_sizes(name: str, of: Callable[..., Any]) -> tuple[Estimate, ...]:
        return tuple(own.estimate(f"{name} at G = {size}", partial(of, size)) for size in group_sizes)

    return TailMiss(
        own.name,
        own.estimate(f"mass of the solution {own.name}", lambda rate, mass: mass),
        own.estimate(f"solve rate of prompts with the solution {own.name}", lambda rate, mass: rate),
        group_sizes,
        over_sizes("tail miss", tail_miss),
        over_sizes("teaching groups against it", conditional_tail_miss),
    )
