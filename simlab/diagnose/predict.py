"""Predict the next steps by a line through the later half of the steps, with independent, about normal deviations.

A line leaves the range of what it predicts. Every group is all wrong, or else below a quarter right, or all right, or
between these. The values of these four shares, which lines let sum to 1, are moved to the nearest that are none below
0; the mean solve rate and pass@k then lie between the share that is all right and that which is not all wrong.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtrit

from simlab.diagnose.estimate import IntervalEstimate, in_order, missing
from simlab.diagnose.log import Log
from simlab.diagnose.solve_rates import all_within
from simlab.errors import InputError, check_range, check_whole

LINE = "line through the last steps"
FEWEST = 6  # steps that a line is fitted to; fewer give their mean, or nothing
STEPS = 20
RATE, RIGHT, WRONG, HARD = "mean solve rate", "all right", "all wrong", "groups below a quarter right"
SOLUTIONS = "distinct solutions of a group"


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
    """Predict so many steps that follow a log, and score the method on a share of the log's own steps, if not 0.

    It is of groups of at least half the usual size: one rollout that came alone is all right or all wrong.
    """
    check_whole("steps", steps, 1)
    log = log.select(2 * log.group_size >= np.quantile(log.group_size, 0.5, method="inverted_cdf"))
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
        RATE: right / size,
        RIGHT: right == size,
        WRONG: right == 0,
        HARD: 4 * right < size,
        f"pass@{half}": 1 - all_within(size - right, size, half),
    }
    if log.answers is not None:
        values[SOLUTIONS] = np.bincount(log.answers.group, minlength=len(right))
    _, step, times = np.unique(log.step, return_inverse=True, return_counts=True)
    return {name: np.bincount(step, own) / times for name, own in values.items()}


def _predict_ahead(log: Log, ahead: int, level: float) -> tuple[IntervalEstimate, ...]:
    steps = np.unique(log.step)
    gap = float(np.median(np.diff(steps))) if len(steps) > 1 else 1.0
    later, groups = steps[-1] + gap * np.arange(1, ahead + 1), len(log.step) / len(steps)
    lines = {
        name: extrapolate_line(name, steps, means, later, groups=groups, level=level)
        for name, means in step_means(log).items()
    }
    return tuple(_within_range(lines))[: 1 if log.group_size.max() == 1 else None]  # of rollouts, without groups


def _within_range(lines: dict[str, IntervalEstimate]) -> Iterator[IntervalEstimate]:
    """Move values to where all of them can be, in intervals that are widened to hold them."""
    wrong, hard, right = (lines[name].value for name in (WRONG, HARD, RIGHT))
    wrong, few, _, right = _nearest_shares(np.array([wrong, hard - wrong, 1 - right - hard, right]))
    passes = next(name for name in lines if name.startswith("pass@"))
    values = {name: max(line.value, 0.0) for name, line in lines.items()}
    values |= {RIGHT: right, WRONG: wrong, HARD: wrong + few, RATE: min(max(values[RATE], right), 1 - wrong)}
    values[passes] = min(max(values[passes], values[RATE]), 1 - wrong)
    moved = {}
    for name, line in lines.items():
        low, high = np.clip((line.low, line.high), 0, math.inf if name == SOLUTIONS else 1).tolist()
        moved[name] = line._replace(low=low, high=high).include(values[name])
    for pair in ((RIGHT, RATE), (RATE, passes), (WRONG, HARD)):
        moved |= dict(zip(pair, in_order([moved[name] for name in pair]), strict=True))
    yield from moved.values()


def _nearest_shares(values: Float[np.ndarray, " n"]) -> list[float]:
    """Return the nearest numbers that are at least 0 and sum to 1 (Duchi and others 2008, ICML).

    >>> _nearest_shares(np.array([0.75, -0.25, 0.5]))
    [0.625, 0.0, 0.375]
    """
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - 1) / np.arange(1, len(values) + 1)
    shares: list[float] = np.maximum(values - excess[descending > excess][-1], 0).tolist()
    return shares


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
    their mean steps.
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
    return IntervalEstimate(name, value, value - half, value + half, level, LINE)
