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
GRID = (40, 24)  # values of omega and of zeta, each geometrically spaced
TINY, MARGIN = 1e-300, 1e-9  # in place of 0, and around the bounds of A, on which a start may lie
APART = 1e-6  # the formula divides by the distance of two rates, which is 0 at zeta = 1


class Oscillator(NamedTuple):
    """A fitted response: R_0, A, omega per step, and zeta."""

    base: float
    asymptote: float
    frequency: float
    damping: float

    def at(self, times: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        """Return the curve at these times."""
        return self.asymptote - (self.asymptote - self.base) * left(times, self.frequency, self.damping)


def left(
    times: Float[np.ndarray, " N"],
    frequency: Float[np.ndarray, "..."] | float,
    damping: Float[np.ndarray, "..."] | float,
) -> Float[np.ndarray, "... N"]:
    """Return g(t), the share of the way that is left, of one oscillator or of each.

    >>> left(np.array([0.0, 1.0]), 2.0, 1.0).round(3).tolist()  # (1 + 2 t) e^(-2 t)
    [1.0, 0.406]
    """
    zeta, omega = np.asarray(damping)[..., None], np.asarray(frequency)[..., None]
    zeta = np.where(np.abs(zeta - 1) > APART, zeta, 1 + APART)
    root = np.sqrt((zeta * zeta - 1).astype(complex))
    fast, slow = omega * (-zeta - root), omega * (-zeta + root)
    share: Float[np.ndarray, "... N"] = np.real(
        (fast * np.exp(slow * times) - slow * np.exp(fast * times)) / (fast - slow)
    )
    return share


def fit_oscillator(times: Float[np.ndarray, " N"], values: Float[np.ndarray, " N"], base: float) -> Oscillator:
    """Return the response of least squares through a curve of finite values from R_0 = ``base``, with A in [0, 1].

    A grid of omega and zeta, where A has a closed form, starts the search.
    """
    span, changes = float(times[-1]), values - base
    low, high = (np.log([CYCLES[end] / span, DAMPING[end]]) for end in (0, 1))
    axes = [np.linspace(low[axis], high[axis], GRID[axis]) for axis in (0, 1)]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    shares = 1 - left(times, np.exp(points[:, 0]), np.exp(points[:, 1]))
    squares, products = np.maximum((shares**2).sum(axis=1), TINY), shares @ changes
    gains = np.clip(products / squares, LOWEST - base, HIGHEST - base)
    best = int(np.argmin(gains * (gains * squares - 2 * products)))

    def residuals(point: Float[np.ndarray, " 3"]) -> Float[np.ndarray, " N"]:
        errors: Float[np.ndarray, " N"] = point[0] * (1 - left(times, np.exp(point[1]), np.exp(point[2]))) - changes
        return errors

    bounds = np.array([LOWEST - base - MARGIN, *low]), np.array([HIGHEST - base + MARGIN, *high])
    gain, frequency, damping = least_squares(residuals, [gains[best], *points[best]], bounds=bounds).x
    return Oscillator(float(base), float(base + gain), float(np.exp(frequency)), float(np.exp(damping)))
