"""Find when a series of numbers begins to change, by least squares, with an interval.

The series is y_t = a + c (1 - exp(-(t - s) / w)) + noise from step s on: a sudden step where w is near 0, a decay to a
new level, and a bend that goes on where w is large. The noise is an autoregression of order 1. Start and width have the
least sum of squares. Noise that is drawn anew from the fitted autoregression says how much of it a series without a
change explains (the p-value), and by how much the sum of squares at the true start exceeds the least (the interval).
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from simlab.diagnose.estimate import LEVEL

POINTS = 100  # means of neighbouring steps; a longer series gives no narrower question
FEWEST = 12  # logged steps below which no change is told from noise
DRAWS = 499
WIDTHS = (1e-4, 0.03, 0.1, 0.3, 10.0)  # as shares of the series: from a step to a bend
SURE = 0.01  # a p-value below it is a change: a log has a dozen metrics
CORRELATIONS = np.arange(0, 1, 0.1)  # of neighbouring points of noise


class Shift(NamedTuple):
    """A change of a series.

    Attributes:
        is_sudden: true for a step, false for what takes longer.
        began, low, high: the step at which it began, and the interval.
        before, after: the fitted values at the first and the last step.
        p_value: chance of as much in a series without a change, by simulation.
    """

    is_sudden: bool
    began: float
    low: float
    high: float
    before: float
    after: float
    p_value: float


def find_change(step: np.ndarray, values: np.ndarray) -> Shift | None:
    """Find the change of a series, (S,) each; None where noise alone may have made it."""
    logged = np.isfinite(values)
    if logged.sum() < FEWEST or np.ptp(values[logged]) == 0:
        return None
    parts = np.array_split(np.stack([step[logged], values[logged]]), min(POINTS, logged.sum()), axis=1)
    time, series = np.array([chunk.mean(axis=1) for chunk in parts]).T
    shapes, starts, widths = _shapes(len(series))
    centred = series - series.mean()
    gains = (shapes @ centred) ** 2  # of the sum of squares
    best = int(np.argmax(gains))
    size = shapes[best] @ centred
    residual = centred - size * shapes[best]
    noise = _draw(residual, np.random.default_rng(0))
    p_value = (1 + int((((noise @ shapes.T) ** 2).max(axis=1) >= gains[best]).sum())) / (1 + DRAWS)
    if p_value > SURE:
        return None
    again = ((noise + size * shapes[best]) @ shapes.T) ** 2
    inside = gains >= gains[best] - np.quantile(again.max(axis=1) - again[:, best], LEVEL)
    fit = series.mean() + size * shapes[best]
    low, high = parts[max(starts[inside].min() - 1, 0)][0, 0], parts[starts[inside].max()][0, -1]
    is_sudden, began = bool(widths[best] == WIDTHS[0]), float(time[starts[best]])
    return Shift(is_sudden, began, float(low), float(high), float(fit[0]), float(fit[-1]), p_value)


@functools.cache
def _shapes(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return shapes of mean 0 and norm 1, (K, count), their starts (the first point that differs) and widths, (K,)."""
    at, edge = np.arange(count), max(3, count // 20)
    starts = np.tile(np.arange(1, count - edge + 1), len(WIDTHS))
    widths = np.repeat(WIDTHS, len(starts) // len(WIDTHS))
    possible = (starts >= edge) | (widths == WIDTHS[-1])  # a bend may begin at once
    starts, widths = starts[possible], widths[possible]
    shapes = 1 - np.exp(-np.maximum(at - starts[:, None] + 1, 0) / (widths[:, None] * count))
    shapes -= shapes.mean(axis=1, keepdims=True)
    return shapes / np.linalg.norm(shapes, axis=1, keepdims=True), starts, widths


def _draw(residual: np.ndarray, source: np.random.Generator) -> np.ndarray:
    """Draw series of the autoregression of order 1 whose residuals are like this one, (DRAWS, T)."""
    measurable, spread = _seen(len(residual))
    measured = _correlation(residual[None])[0]
    cautious = measured + math.sqrt((1 - measured**2) / len(residual))  # a standard error more
    correlation = float(np.interp(cautious, measurable, CORRELATIONS))
    variance = residual.var() / np.interp(correlation, CORRELATIONS, spread)
    return math.sqrt(variance) * _autoregression(correlation, len(residual), source)


def _autoregression(correlation: float, count: int, source: np.random.Generator) -> np.ndarray:
    noise = source.standard_normal((DRAWS, count))
    for t in range(1, count):
        noise[:, t] = correlation * noise[:, t - 1] + math.sqrt(1 - correlation**2) * noise[:, t]
    return noise


def _correlation(residuals: np.ndarray) -> np.ndarray:
    squares = np.maximum((residuals**2).sum(axis=1), np.finfo(float).tiny)
    return np.asarray((residuals[:, 1:] * residuals[:, :-1]).sum(axis=1) / squares)


@functools.cache
def _seen(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what the best shape leaves of noise of each of ``CORRELATIONS``: its mean correlation, and variance."""
    shapes, *_ = _shapes(count)
    correlations, spread = [], []
    for correlation in CORRELATIONS:
        noise = _autoregression(correlation, count, np.random.default_rng(0))
        noise -= noise.mean(axis=1, keepdims=True)
        sizes = noise @ shapes.T
        best = np.argmax(sizes**2, axis=1)
        residuals = noise - np.take_along_axis(sizes, best[:, None], axis=1) * shapes[best]
        correlations.append(_correlation(residuals).mean())
        spread.append(residuals.var(axis=1).mean())
    return np.maximum.accumulate(correlations), np.array(spread)
