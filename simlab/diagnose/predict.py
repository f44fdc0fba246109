"""Predict the next steps by a line through the later half of the steps, with independent, about normal deviations."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtrit

from simlab.diagnose.estimate import IntervalEstimate, missing
from simlab.diagnose.log import Log
from simlab.diagnose.solve_rates import prompt_pass_at_k
from simlab.errors import InputError, check_range, check_whole

LINE = "line through the last steps"
FEWEST = 6  # steps that a line is fitted to; fewer give their mean, or nothing
STEPS = 20


class ScoredPrediction(NamedTuple):
    """A prediction beside the mean over the later steps; ``held`` is true if it lies in the interval."""

    predicted: IntervalEstimate
    truth: float
    held: bool


class Prediction(NamedTuple):
    """Means over the next ``steps`` steps, and predictions of the share of the log's own steps that were held out."""

    steps: int
    next_steps: tuple[IntervalEstimate, ...]
    scored: tuple[ScoredPrediction, ...]
    share: float


def predict(log: Log, level: float, steps: int = STEPS, share: float = 0.0) -> Prediction:
    """Predict so many steps that follow a log, and score the method on a share of the log's own steps, if not 0."""
    check_whole("steps", steps, 1)
    ahead = min(steps, len(np.unique(log.step)))
    return Prediction(ahead, _predict_ahead(log, ahead, level), score(log, share, level) if share else (), share)


def split_holdout(log: Log, share: float) -> tuple[Log, Log]:
    """Return the earlier and the later steps of a log."""
    check_range("holdout", share, 0, 1, open_low=True)
    steps = np.unique(log.step)
    if (count := len(steps)) < 2 or share == 1:
        raise InputError(f"holdout = {share} of {count} steps leaves nothing; allowed: below 1, of two steps or more")
    first = steps[min(max(round((1 - share) * len(steps)), 1), len(steps) - 1)]
    return log.select(log.step < first), log.select(log.step >= first)


def score(log: Log, share: float, level: float) -> tuple[ScoredPrediction, ...]:
    """Compare predictions from the earlier steps with the later ones."""
    early, late = split_holdout(log, share)
    truths = {name: float(means.mean()) for name, means in step_means(late).items()}
    return tuple(
        ScoredPrediction(estimate, truth := truths[estimate.name], estimate.low <= truth <= estimate.high)
        for estimate in _predict_ahead(early, len(np.unique(late.step)), level)
        if estimate.name in truths
    )


def step_means(log: Log) -> dict[str, Float[np.ndarray, " steps"]]:
    """Return the predicted quantities by name: a mean over groups for each step."""
    right, size = log.correct, log.group_size
    half = max(int(size.min()) // 2, 1)
    values = {
        "mean solve rate": right / size,
        "all right": right == size,
        "all wrong": right == 0,
        "groups below a quarter right": 4 * right < size,
        f"pass@{half}": prompt_pass_at_k(right, size, half),
    }
    if log.answers is not None:
        values["distinct solutions of a group"] = np.bincount(log.answers.group, minlength=len(right))
    _, step, times = np.unique(log.step, return_inverse=True, return_counts=True)
    return {name: np.bincount(step, own) / times for name, own in values.items()}


def _predict_ahead(log: Log, ahead: int, level: float) -> tuple[IntervalEstimate, ...]:
    steps = np.unique(log.step)
    gap = float(np.median(np.diff(steps))) if len(steps) > 1 else 1.0
    later, groups = steps[-1] + gap * np.arange(1, ahead + 1), len(log.step) / len(steps)
    return tuple(
        extrapolate_line(name, steps, means, later, groups=groups, level=level)
        for name, means in step_means(log).items()
    )


def extrapolate_line(
    name: str,
    steps: Int[np.ndarray, " steps"],
    values: Float[np.ndarray, " steps"],
    later: Float[np.ndarray, " ahead"],
    *,
    groups: float,
    level: float,
) -> IntervalEstimate:
    """Predict the mean of the next values of a line, with the interval of that mean, noise included.

    The squared residuals are those of the line and of one group more, of ``groups`` a step, that differs. The
    variance is s^2 (1 / m + 1 / n + d^2 / sum (t - mean)^2) for m next values, n past ones, and the distance d between
    their mean steps. Intervals are cut at 0, and those of shares at 1.
    """
    start = len(steps) // 2 if len(steps) >= 2 * FEWEST else 0
    past, recent = steps[start:].astype(float), values[start:]
    if len(past) < FEWEST:
        return missing(name, level, "mean of too few steps for an interval", float(recent.mean()))
    away = past - past.mean()
    slope = float(away @ recent / (away @ away))
    residuals = recent - recent.mean() - slope * away
    freedom = len(past) - 2
    distance = float(later.mean() - past.mean())
    value = float(recent.mean()) + slope * distance
    spread = 1 / len(later) + 1 / len(past) + distance**2 / float(away @ away)
    noise = (float(residuals @ residuals) + 1 / groups**2) / freedom
    half = float(stdtrit(freedom, (1 + level) / 2)) * math.sqrt(noise * spread)
    highest = math.inf if name.startswith("distinct") else 1.0
    inside, low, high = (min(max(end, 0.0), highest) for end in (value, value - half, value + half))
    return IntervalEstimate(name, inside, low, high, level, LINE)
