"""Predict the next steps of a run by the line through its last steps, and score such predictions on the log itself.

Each quantity is a mean over the groups of a step. A straight line is fitted to the later half of the steps by least
squares and its mean over the next steps is predicted, with the interval of a new observation. Assumed: the line goes
on, and the deviations of steps from it are independent and about normal. Few steps, or steps of few groups, give wide
intervals.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtrit

from simlab.diagnose.estimate import IntervalEstimate, missing
from simlab.diagnose.log import Log
from simlab.diagnose.solve_rates import PromptCounts, prompt_pass_at_k
from simlab.errors import InputError, check_range, check_whole

LINE = "line through the last steps"
FEWEST = 6  # steps that a line is fitted to; fewer give their mean, or nothing
STEPS = 20
Quantity = Callable[[Log], Float[np.ndarray, " steps"]]


@dataclasses.dataclass(frozen=True)
class ScoredPrediction:
    """A prediction beside the mean over the later steps; ``held`` is true if it lies in the interval."""

    predicted: IntervalEstimate
    truth: float
    held: bool


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The next steps of a run.

    Attributes:
        steps: how many are predicted, as many as the log has where it has fewer.
        next_steps: means over them.
        scored: the same from the log's earlier part, against its later part; empty without a hold-out.
        share: the share of the steps that were held out; 0 for none.
    """

    steps: int
    next_steps: tuple[IntervalEstimate, ...]
    scored: tuple[ScoredPrediction, ...]
    share: float


def predict(log: Log, level: float, steps: int = STEPS, share: float = 0.0) -> Prediction:
    """Predict the steps that follow a log, and score the same method on its own later part.

    Args:
        log: all its steps.
        level: the level of the intervals.
        steps: how many to predict.
        share: the share of the log's steps that are held out; 0 for none.

    Raises:
        InputError: for a share outside [0, 1), or fewer than one step.
    """
    check_whole("steps", steps, 1)
    ahead = min(steps, len(np.unique(log.step)))
    return Prediction(ahead, _predict_ahead(log, ahead, level), score(log, share, level) if share else (), share)


def split_holdout(log: Log, share: float) -> tuple[Log, Log]:
    """Return the earlier and the later steps of a log.

    Raises:
        InputError: for a share outside (0, 1), or a log of one step.
    """
    check_range("holdout", share, 0, 1, open_low=True)
    steps = np.unique(log.step)
    if len(steps) < 2 or share == 1:
        raise InputError(
            f"holdout = {share} of {len(steps)} steps leaves nothing; allowed: below 1, of two steps or more"
        )
    first = steps[min(max(round((1 - share) * len(steps)), 1), len(steps) - 1)]
    return log.select(log.step < first), log.select(log.step >= first)


def score(log: Log, share: float, level: float) -> tuple[ScoredPrediction, ...]:
    """Compare predictions from the earlier steps with the later ones."""
    early, late = split_holdout(log, share)
    predictions = _predict_ahead(early, len(np.unique(late.step)), level)
    truths = {name: float(measure(late).mean()) for name, measure in quantities(late).items()}
    pairs = ((estimate, truths[estimate.name]) for estimate in predictions if estimate.name in truths)
    return tuple(ScoredPrediction(estimate, truth, estimate.low <= truth <= estimate.high) for estimate, truth in pairs)


def quantities(log: Log) -> dict[str, Quantity]:
    """Return the predicted quantities by name: functions of a log that give a value a step."""
    half = max(int(log.group_size.min()) // 2, 1)
    functions: dict[str, Quantity] = {
        "mean solve rate": lambda log: _step_means(log, log.correct / log.group_size),
        "all right": lambda log: _step_means(log, (log.correct == log.group_size).astype(float)),
        "all wrong": lambda log: _step_means(log, (log.correct == 0).astype(float)),
        "groups below a quarter right": lambda log: _step_means(log, (4 * log.correct < log.group_size).astype(float)),
        f"pass@{half}": lambda log: _step_means(
            log, prompt_pass_at_k(PromptCounts(log.prompt, log.correct, log.group_size), half)
        ),
    }
    if log.answers is not None:
        functions["distinct solutions of a group"] = lambda log: _step_means(log, _distinct_solutions(log))
    return functions


def _distinct_solutions(log: Log) -> Float[np.ndarray, " groups"]:
    assert log.answers is not None
    return np.bincount(log.answers.group, minlength=len(log.prompt)).astype(float)


def _step_means(log: Log, values: Float[np.ndarray, " groups"]) -> Float[np.ndarray, " steps"]:
    _, step, times = np.unique(log.step, return_inverse=True, return_counts=True)
    return np.bincount(step, values) / times


def _predict_ahead(log: Log, ahead: int, level: float) -> tuple[IntervalEstimate, ...]:
    steps = np.unique(log.step)
    gap = float(np.median(np.diff(steps))) if len(steps) > 1 else 1.0
    later, groups = steps[-1] + gap * np.arange(1, ahead + 1), len(log.step) / len(steps)
    return tuple(
        extrapolate_line(name, steps, measure(log), later, groups=groups, level=level)
        for name, measure in quantities(log).items()
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

    The sum of squared residuals is that of the line and of one more group that comes out otherwise: of steps that are
    all alike, nobody knows that the next ones will be. ``groups`` are those of a step.

    The variance is s^2 (1 / m + 1 / n + d^2 / sum (t - mean)^2) for m next values, n past ones, and the distance d
    between their mean steps. Intervals are cut at 0, and those of shares at 1.
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
