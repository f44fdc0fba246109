"""The next steps of a run, from the line that its last steps follow, and how such predictions fared on the log itself.

Each quantity is a mean over the groups of a step. A straight line is fitted to the later half of the steps by least
squares and its mean over the next steps is predicted, with the interval of a new observation. Assumed: the line goes
on, and what a step deviates from it is independent of other steps and about normal. Few steps, or steps of few
groups, give wide intervals.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtrit

from simlab.diagnose.estimate import Estimate
from simlab.diagnose.log import Log
from simlab.diagnose.pass_at_k import unbiased
from simlab.diagnose.solve_rates import Prompts
from simlab.errors import InputError, check_range, check_whole

LINE = "line through the last steps"
FEWEST = 6  # steps that a line is fitted to; fewer give their mean, or nothing
STEPS = 20


@dataclasses.dataclass(frozen=True)
class Scored:
    """A prediction and what came.

    Attributes:
        predicted: the prediction of the mean over the later steps.
        truth: that mean.
        held: whether it lies in the interval.
    """

    predicted: Estimate
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
    next_steps: tuple[Estimate, ...]
    scored: tuple[Scored, ...]
    share: float


def predict(log: Log, level: float, steps: int = STEPS, share: float = 0.0) -> Prediction:
    """Predict the steps that follow a log, and score the same method on its own later part.

    Args:
        log: whole.
        level: the level of the intervals.
        steps: how many to predict.
        share: the share of the log's steps that are held out; 0 for none.

    Raises:
        InputError: for a share outside [0, 1), or fewer than one step.
    """
    check_whole("steps", steps, 1)
    known = len(np.unique(log.step))
    ahead = min(steps, known)
    return Prediction(ahead, _predicted(log, ahead, level), score(log, share, level) if share else (), share)


def holdout(log: Log, share: float) -> tuple[Log, Log]:
    """The earlier and the later steps of a log.

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
    return log.where(log.step < first), log.where(log.step >= first)


def score(log: Log, share: float, level: float) -> tuple[Scored, ...]:
    """Predictions from the earlier steps against the later ones."""
    early, late = holdout(log, share)
    found = _predicted(early, len(np.unique(late.step)), level)
    truths = {name: float(of(late).mean()) for name, of in quantities(late).items()}
    pairs = ((own, truths[own.name]) for own in found if own.name in truths)
    return tuple(Scored(own, truth, own.low <= truth <= own.high) for own, truth in pairs)


def quantities(log: Log) -> dict[str, Callable[[Log], Float[np.ndarray, " steps"]]]:
    """What is predicted: functions of a log that give a value a step, by name."""
    size = int(log.group_size.min())
    half = max(size // 2, 1)
    found: dict[str, Callable[[Log], Float[np.ndarray, " steps"]]] = {
        "mean solve rate": lambda own: _by_step(own, own.correct / own.group_size),
        "all right": lambda own: _by_step(own, (own.correct == own.group_size).astype(float)),
        "all wrong": lambda own: _by_step(own, (own.correct == 0).astype(float)),
        "groups below a quarter right": lambda own: _by_step(own, (4 * own.correct < own.group_size).astype(float)),
        f"pass@{half}": lambda own: _by_step(own, unbiased(Prompts(own.prompt, own.correct, own.group_size), half)),
    }
    if log.answers is not None:
        found["distinct solutions of a group"] = lambda own: _by_step(own, _distinct(own))
    return found


def _distinct(log: Log) -> Float[np.ndarray, " groups"]:
    assert log.answers is not None
    return np.bincount(log.answers.group, minlength=len(log.prompt)).astype(float)


def _by_step(log: Log, of_groups: Float[np.ndarray, " groups"]) -> Float[np.ndarray, " steps"]:
    """The mean over the groups of each step."""
    _, place, times = np.unique(log.step, return_inverse=True, return_counts=True)
    return np.bincount(place, of_groups) / times


def _predicted(log: Log, ahead: int, level: float) -> tuple[Estimate, ...]:
    steps = np.unique(log.step)
    gap = float(np.median(np.diff(steps))) if len(steps) > 1 else 1.0
    later, groups = steps[-1] + gap * np.arange(1, ahead + 1), len(log.step) / len(steps)
    return tuple(
        extrapolated(name, steps, of(log), later, groups=groups, level=level) for name, of in quantities(log).items()
    )


def extrapolated(
    name: str,
    steps: Int[np.ndarray, " steps"],
    values: Float[np.ndarray, " steps"],
    later: Float[np.ndarray, " ahead"],
    *,
    groups: float,
    level: float,
) -> Estimate:
    """The mean of the next values of a line, with the interval of that mean, noise included.

    The sum of squared residuals is that of the line and of one more group that comes out otherwise: of steps that are
    all alike, nobody knows that the next ones will be. ``groups`` are those of a step.

    The variance is s^2 (1 / m + 1 / n + d^2 / sum (t - mean)^2) for m next values, n past ones, and the distance d
    between their mean steps. Intervals are cut at 0, and those of shares at 1.
    """
    past, own = (part[len(steps) // 2 if len(steps) >= 2 * FEWEST else 0 :] for part in (steps.astype(float), values))
    if len(past) < FEWEST:
        return Estimate(name, float(own.mean()), math.nan, math.nan, level, "mean of too few steps for an interval")
    away = past - past.mean()
    slope = float(away @ own / (away @ away))
    residuals = own - own.mean() - slope * away
    freedom = len(past) - 2
    distance = float(later.mean() - past.mean())
    value = float(own.mean()) + slope * distance
    spread = 1 / len(later) + 1 / len(past) + distance**2 / float(away @ away)
    noise = (float(residuals @ residuals) + 1 / groups**2) / freedom
    half = float(stdtrit(freedom, (1 + level) / 2)) * math.sqrt(noise * spread)
    highest = math.inf if name.startswith("distinct") else 1.0
    inside = min(max(value, 0.0), highest)
    return Estimate(
        name, inside, max(min(value - half, highest), 0.0), max(min(value + half, highest), 0.0), level, LINE
    )
