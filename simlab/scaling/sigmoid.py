"""Fit the sigmoid of ScaleRL to one curve: performance against compute.

    R_C = R_0 + (A - R_0) / (1 + (C_mid / C)^B)

Source: Eq. 1 and Appendix A.5 of arXiv 2510.13786. As there, R_0 is no parameter of the fit but the value at compute 0,
A lies in [0, 1], and least squares choose the rest. The paper searches a grid of A and C_mid and fits B at each point.
Here the grid is one of C_mid and B, where A has a closed form, and the best point is improved by ``least_squares``. A
curve that falls is fitted by the same formula: its asymptote lies below R_0, and half of the fall is done at C_mid.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares
from scipy.special import expit

LOWEST, HIGHEST = 0.0, 1.0  # A
EXPONENTS = (0.05, 20.0)  # B; the paper's lie between 1 and 3
AROUND = 100.0  # C_mid lies between the first compute over this and the last one times this
EXACT, ROUGH = 1e-14, 1e-6  # tolerances of the least squares; the rough one is far below any noise
GRID = (80, 48)  # values of C_mid and of B, each geometrically spaced


class Sigmoid(NamedTuple):
    """A curve of performance against compute.

    Attributes:
        base: R_0, the value at compute 0.
        asymptote: A, the value that the curve approaches.
        exponent: B > 0; the larger, the steeper in the logarithm of compute.
        midpoint: C_mid > 0, the compute at which half of the change is done.
    """

    base: float
    asymptote: float
    exponent: float
    midpoint: float

    def at(self, compute: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        """R_C at each compute, from 0 up.

        >>> Sigmoid(0.2, 0.6, 1.0, 50.0).at(np.array([0.0, 50.0, 150.0]))
        array([0.2, 0.4, 0.5])
        """
        return self.base + (self.asymptote - self.base) * share_done(compute, self.exponent, self.midpoint)

    def fitted(self) -> Float[np.ndarray, "3"]:
        """A, log B and log C_mid."""
        return np.array([self.asymptote, np.log(self.exponent), np.log(self.midpoint)])


def share_done(
    compute: Float[np.ndarray, "*N"], exponent: float | np.ndarray, midpoint: float | np.ndarray
) -> Float[np.ndarray, "*M"]:
    """1 / (1 + (C_mid / C)^B), which is the logistic function of B log(C / C_mid); 0 at C = 0."""
    with np.errstate(divide="ignore"):
        found: np.ndarray = expit(exponent * (np.log(compute) - np.log(midpoint)))
    return found


def fit(
    compute: Float[np.ndarray, " N"],
    values: Float[np.ndarray, " N"],
    base: float,
) -> Sigmoid:
    """The sigmoid of least squares through a curve, the same every time.

    Args:
        compute: increasing, above 0.
        values: finite, one for each compute.
        base: R_0.
    """
    (found,) = fit_each(compute, values[None], np.array([base]), EXACT)
    return found


def fit_each(
    compute: Float[np.ndarray, " N"],
    values: Float[np.ndarray, "R N"],
    bases: Float[np.ndarray, " R"],
    tolerance: float = ROUGH,
) -> list[Sigmoid]:
    """``fit`` of each of R curves over the same compute, to a tolerance."""
    logs = np.log(compute)
    midpoints = np.linspace(logs[0] - np.log(AROUND), logs[-1] + np.log(AROUND), GRID[0])
    exponents = np.linspace(np.log(EXPONENTS[0]), np.log(EXPONENTS[1]), GRID[1])
    points = np.stack([each.ravel() for each in np.meshgrid(midpoints, exponents, indexing="ij")], axis=1)
    shares = share_done(compute, np.exp(points[:, 1:]), np.exp(points[:, :1]))
    squares = (shares**2).sum(axis=1)
    changes = values - bases[:, None]
    products = changes @ shares.T
    gains = np.clip(products / squares, LOWEST - bases[:, None], HIGHEST - bases[:, None])
    best = np.argmin(gains * (gains * squares - 2 * products), axis=1)
    starts = [(own[place], *points[place]) for own, place in zip(gains, best, strict=True)]
    return [_improved(logs, *each, tolerance) for each in zip(changes, bases, starts, strict=True)]


def _improved(
    logs: Float[np.ndarray, " N"],
    change: Float[np.ndarray, " N"],
    base: float,
    start: tuple[float, float, float],
    tolerance: float,
) -> Sigmoid:
    """The local least squares from a start: A - R_0, log C_mid, log B."""

    def share(parameters: np.ndarray) -> np.ndarray:
        found: np.ndarray = expit(np.exp(parameters[2]) * (logs - parameters[1]))
        return found

    def residuals(parameters: np.ndarray) -> np.ndarray:
        found: np.ndarray = parameters[0] * share(parameters) - change
        return found

    def derivatives(parameters: np.ndarray) -> np.ndarray:
        done, exponent = share(parameters), np.exp(parameters[2])
        slope = parameters[0] * done * (1 - done) * exponent
        return np.stack([done, -slope, slope * (logs - parameters[1])], axis=1)

    low = np.array([LOWEST - base, logs[0] - np.log(AROUND), np.log(EXPONENTS[0])])
    high = np.array([HIGHEST - base, logs[-1] + np.log(AROUND), np.log(EXPONENTS[1])])
    inside = np.clip(start, low + 1e-9 * (high - low), high - 1e-9 * (high - low))
    tolerances = dict.fromkeys(("xtol", "ftol", "gtol"), tolerance)
    found = least_squares(residuals, inside, derivatives, bounds=(low, high), x_scale="jac", **tolerances)
    gain, midpoint, exponent = found.x
    return Sigmoid(float(base), float(base + gain), float(np.exp(exponent)), float(np.exp(midpoint)))
