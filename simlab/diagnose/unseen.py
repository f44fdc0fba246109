"""The correct mass that was never drawn, and how it changes.

Assumed: within a window the policy stays as it is, and two answers are one solution exactly where their canonical forms
are equal. A solution with a thousand phrasings counts as a thousand if the canonical form keeps them apart.
"""

import dataclasses
import math

import numpy as np
from jaxtyping import Float
from scipy.stats import ncx2

from simlab.diagnose.estimate import Estimate
from simlab.diagnose.log import Log
from simlab.diagnose.rarest import rarest
from simlab.diagnose.solutions import Solutions, estimated, never_drawn, solutions
from simlab.diagnose.tail_misses import TailMiss, tail_misses
from simlab.diagnose.typical import typical

UNSEEN = "Good-Turing with fitted terms"
MOST_BIAS = 30.0  # in standard errors; beyond it, the bias alone is the interval
SIZES = (2, 4, 8, 16, 32, 64, 128, 256)


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
    kinds = (kind(kept[-1], level, seed, group_sizes) for kind in (typical, rarest))
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
