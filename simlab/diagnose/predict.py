"""Predict the next steps by a random walk that is seen through noise, and half of the drift that the log is sure of.

Its constants were chosen on 58 public logs and 12 of the own trainer (``benchmarks.forecasts``). A line through the
later half of the steps, which stood here before, errs more than no change does.

Every group is all wrong, or else below a quarter right, or all right, or between these. Predictions of these four
shares, and of any other, may leave the range: they are moved to the nearest that are none below 0 and sum to 1. The
mean solve rate and pass@k then lie between the share that is all right and that which is not all wrong.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from simlab.diagnose.estimate import IntervalEstimate, in_order, missing
from simlab.diagnose.log import Log
from simlab.diagnose.solve_rates import all_within
from simlab.errors import InputError, check_range, check_whole

WALK = "random walk seen through noise"
FEWEST = 6  # steps of a walk; fewer give their mean, or nothing
STEPS = 20
RATIOS = np.exp(np.linspace(math.log(1e-4), math.log(3), 31))  # variance of a step of the walk over the noise's
PRIOR, PRIOR_WIDTH = -4.0, 2.0  # of the logarithm of that ratio
DRIFT = 0.5
TINY = 1e-12  # variance of what does not vary at all
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
    return {name: np.bincount(step, column) / times for name, column in values.items()}


def _predict_ahead(log: Log, ahead: int, level: float) -> tuple[IntervalEstimate, ...]:
    groups = len(log.step) / len(np.unique(log.step))
    walks = {
        name: extend_walk(name, means, ahead, groups=groups, level=level) for name, means in step_means(log).items()
    }
    return tuple(_within_range(walks))[: 1 if log.group_size.max() == 1 else None]  # of rollouts, without groups


def _within_range(walks: dict[str, IntervalEstimate]) -> Iterator[IntervalEstimate]:
    """Move values to where all of them can be, in intervals that are widened to hold them."""
    wrong, hard, right = (walks[name].value for name in (WRONG, HARD, RIGHT))
    wrong, few, _, right = _nearest_shares(np.array([wrong, hard - wrong, 1 - right - hard, right]))
    passes = next(name for name in walks if name.startswith("pass@"))
    values = {name: max(walk.value, 0.0) for name, walk in walks.items()}
    values |= {RIGHT: right, WRONG: wrong, HARD: wrong + few, RATE: min(max(values[RATE], right), 1 - wrong)}
    values[passes] = min(max(values[passes], values[RATE]), 1 - wrong)
    moved = {}
    for name, walk in walks.items():
        low, high = np.clip((walk.low, walk.high), 0, math.inf if name == SOLUTIONS else 1).tolist()
        moved[name] = walk._replace(low=low, high=high).include(values[name])
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


def extend_walk(
    name: str, values: Float[np.ndarray, " steps"], ahead: int, *, groups: float, level: float
) -> IntervalEstimate:
    """Predict the mean of the next ``ahead`` values of a walk, with the interval of that mean, noise included.

    The squared errors are those of the walk and of one group more, of ``groups`` a step, that differs. Half of the sure
    drift is added, and its square to the variance.
    """
    if len(values) < FEWEST:
        return missing(name, level, "mean of too few steps for an interval", float(values.mean()))
    last, variance = walk_level(values, ahead, 1 / groups**2)
    drift = DRIFT * sure_drift(values) * (ahead + 1) / 2
    half = float(ndtri((1 + level) / 2)) * math.sqrt(variance + drift**2)
    return IntervalEstimate(name, last + drift, last + drift - half, last + drift + half, level, WALK)


def walk_level(values: Float[np.ndarray, " steps"], ahead: int, least: float) -> tuple[float, float]:
    """Return the last level of a walk that is seen through noise, and the variance of the next values' mean about it.

    x_t = x_(t-1) + a normal number of variance s r, and y_t = x_t + one of variance r. Kalman's filter gives the level
    and, with ``least`` added to the squared errors, the r of the largest likelihood, for each s of a grid. Over s it is
    averaged by that likelihood and a normal prior of log s.
    """
    level, unsure = np.full_like(RATIOS, values[0]), np.ones_like(RATIOS)  # the variance in units of r
    squares, logs = np.zeros_like(RATIOS), np.zeros_like(RATIOS)
    for value in values[1:]:
        before = unsure + RATIOS
        total, error = before + 1, value - level
        squares, logs = squares + error**2 / total, logs + np.log(total)
        level, unsure = level + error * before / total, before / total
    count = len(values) - 1
    noise = np.maximum((squares + least) / count, TINY)
    scores = -(count * np.log(noise) + logs + ((np.log(RATIOS) - PRIOR) / PRIOR_WIDTH) ** 2) / 2
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    moved = np.arange(1, ahead + 1) / ahead  # how far each step of the walk moves the mean
    variances = noise * (unsure + RATIOS * float(moved @ moved) + 1 / ahead)
    mean = float(weights @ level)
    return mean, float(weights @ (variances + (level - mean) ** 2))


def sure_drift(values: Float[np.ndarray, " steps"]) -> float:
    """Return by how much the halves' means differ, for a step, times 1 less its squared relative error, at least 0.

    >>> round(sure_drift(np.array([0.1, 0.3, 0.7, 0.9])), 3)  # .6 for two steps, of variance .01 + .01
    0.283
    """
    early, late = values[: len(values) // 2], values[len(values) // 2 :]
    change = float(late.mean() - early.mean())
    error = float(early.var(ddof=1) / len(early) + late.var(ddof=1) / len(late))
    return max(1 - error / change**2, 0.0) * change / (len(values) / 2) if change else 0.0
