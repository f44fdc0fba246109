"""Fit the step response of a damped oscillator to one curve: performance against steps.

    R(t) = A - (A - R_0) g(t),   g'' + 2 zeta omega g' + omega^2 g = 0,   g(0) = 1,   g'(0) = 0

It starts flat, and comes to A without a turn where zeta >= 1; below, it swings about A. For a large zeta it is the
single exponential of rate omega / (2 zeta). Predictable GRPO (arXiv 2606.30789, of which the abstract was read) has the
mean reward follow such an oscillator; R_0 is here no parameter of the fit but the value at step 0, as in the sigmoid's.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares

from simlab.scaling.sigmoid import HIGHEST, LOWEST

DAMPING = (0.05, 50.0)  # zeta: from a swing that outlasts three periods to an exponential
CYCLES = (0.02, 20.0)  # omega times the last time
GRID = (60, 40)  # values of omega and of zeta, each geometrically spaced
APART = 1e-4  # the formula divides by the distance of two rates, which is 0 at zeta = 1


class Oscillator(NamedTuple):
    """A fitted response: R_0, A, omega per step, and zeta."""

    base: float
    asymptote: float
    frequency: float
    damping: float

    def at(self, times: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        """Return the curve at these times."""
        return self.asymptote - (self.asymptote - self.base) * left(times, self.frequency, self.damping)


def left(times: Float[np.ndarray, " N"], frequency: float, damping: float) -> Float[np.ndarray, " N"]:
    """Return g(t), the share of the way that is left.

    >>> left(np.array([0.0, 1.0]), 2.0, 1.0).round(3).tolist()  # (1 + 2 t) e^(-2 t)
    [1.0, 0.406]
    """
    zeta = damping if abs(damping - 1) > APART else 1 + APART
    root = np.sqrt(complex(zeta * zeta - 1))
    fast, slow = frequency * (-zeta - root), frequency * (-zeta + root)
    found: Float[np.ndarray, " N"] = np.real(
        (fast * np.exp(slow * times) - slow * np.exp(fast * times)) / (fast - slow)
    )
    return found


def fit_oscillator(times: Float[np.ndarray, " N"], values: Float[np.ndarray, " N"], base: float) -> Oscillator:
    """Return the response of least squares through a curve of finite values from R_0 = ``base``, with A in [0, 1].

    A grid of omega and zeta, where A has a closed form, starts the search.
    """
    span = float(times[-1])
    low, high = (np.log([CYCLES[end] / span, DAMPING[end]]) for end in (0, 1))
    axes = [np.linspace(low[axis], high[axis], GRID[axis]) for axis in (0, 1)]
    changes, best = values - base, (np.inf, 0.0, 0.0, 0.0)
    for frequency in axes[0]:
        for damping in axes[1]:
            share = 1 - left(times, np.exp(frequency), np.exp(damping))
            gain = float(np.clip(share @ changes / max(share @ share, 1e-300), LOWEST - base, HIGHEST - base))
            best = min(best, (float(np.sum((changes - gain * share) ** 2)), gain, frequency, damping))

    def residuals(point: Float[np.ndarray, " 3"]) -> Float[np.ndarray, " N"]:
        found: Float[np.ndarray, " N"] = point[0] * (1 - left(times, np.exp(point[1]), np.exp(point[2]))) - changes
        return found

    bounds = np.array([LOWEST - base - 1e-9, *low]), np.array([HIGHEST - base + 1e-9, *high])
    gain, frequency, damping = least_squares(residuals, best[1:], bounds=bounds).x
    return Oscillator(float(base), float(base + gain), float(np.exp(frequency)), float(np.exp(damping)))
