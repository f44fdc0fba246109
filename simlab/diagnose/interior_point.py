"""Maximise a concave function of weights that are at least 0 and sum to 1, by Newton's method along a barrier."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.linalg.lapack import dposv

Weights = Float[np.ndarray, " K"]
# Value, gradient, and the negative of the curvature, (K, K); the value is -infinity where it is not defined.
Objective = Callable[[Weights], tuple[float, Weights, np.ndarray]]

MOST_STEPS, CENTRED, SHORTEST = 50, 1e-2, 1e-10  # of Newton's method: steps, their gain at the end, and their length
ROUNDING = 1e-15


def climb(at: Callable[[float], Objective], start: Weights, scales: Float[np.ndarray, " S"]) -> Weights:
    """The weights of the largest objective + sum log weights, for one scale of the objective after the other.

    Args:
        at: the objective at a scale, by which it is divided where that is to count more and more.
        start: above 0, where the objective is defined.
        scales: each begins where the one before has ended.
    """
    weights = start
    for scale in scales.tolist():
        weights = _centred(at(scale), weights)
    return weights


def path(start: float, end: float) -> Float[np.ndarray, " S"]:
    """Scales from ``start`` to ``end``, each about a tenth of the one before."""
    stages = max(int(np.ceil(np.log10(start / end))), 1)
    scales: Float[np.ndarray, " S"] = start * (end / start) ** (np.arange(stages + 1) / stages)
    return scales


def _centred(objective: Objective, weights: Weights) -> Weights:
    value, slope, curvature = objective(weights)
    for _ in range(MOST_STEPS):
        slope = slope + 1 / weights
        step = _newton(slope, curvature, weights)
        gain = float(slope @ step)
        if gain < CENTRED:
            break
        length = min(1.0, 0.99 / max(float(-(step / weights).min()), 0.1))
        least = value + np.log(weights).sum()
        while True:
            moved = weights + length * step
            value, slope, curvature = objective(moved)
            if value + np.log(moved).sum() >= least + 0.1 * length * gain:
                break
            length /= 2
            if length < SHORTEST:  # rounding hides the gain
                return weights
        weights = moved
    return weights


def _newton(slope: Weights, curvature: np.ndarray, weights: Weights) -> Weights:
    """The Newton step that leaves the sum of the weights as it is.

    It is solved for step / weight, in which the barrier's curvature is the identity whatever the weights are.
    """
    scaled = weights[:, None] * curvature * weights
    # Close to where the objective ends, one curvature is larger than the others by more than a float can tell.
    scaled += max(1.0, ROUNDING * float(scaled.trace())) * np.eye(len(weights))
    _, both, _ = dposv(scaled, np.stack([weights * slope, weights], axis=1))
    price = (weights @ both[:, 0]) / (weights @ both[:, 1])
    step: Weights = weights * (both[:, 0] - price * both[:, 1])
    return step
