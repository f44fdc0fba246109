"""Fit the sigmoid of ScaleRL to one curve: performance against compute.

    R_C = R_0 + (A - R_0) / (1 + (C_mid / C)^B)

Source: Eq. 1 and Appendix A.5 of arXiv 2510.13786. As there, R_0 is no parameter of the fit but the value at compute 0,
A lies in [0, 1], and least squares choose the rest. The paper searches a grid of A and C_mid and fits B at each point.
Here the grid is one of C_mid and B, where A has a closed form, and the best point is improved by ``least_squares``. A
curve that falls is fitted by the same formula: its asymptote lies below R_0, and half of the fall is done at C_mid.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import least_squares
from scipy.special import expit

from simlab.errors import InputError, check_range

LOWEST, HIGHEST = 0.0, 1.0  # A
EXPONENTS = (0.05, 20.0)  # B; the paper's lie between 1 and 3
AROUND = 100.0  # C_mid lies between the first compute over this and the last one times this
EXACT, ROUGH = 1e-14, 1e-6  # tolerances of the least squares; the rough one is far below any noise
GRID = (80, 48)  # values of C_mid and of B, each geometrically spaced


@dataclass(frozen=True)
class Curves:
    """A metric of one arm against compute.

    Attributes:
        seeds: one or more, each once; arms are paired by them.
        compute: above 0 and increasing, the same of all seeds.
        values: the metric, perhaps NaN.
        base: its value at compute 0, the base model's.
    """

    seeds: Int[np.ndarray, " S"]
    compute: Float[np.ndarray, " N"]
    values: Float[np.ndarray, "S N"]
    base: Float[np.ndarray, " S"]

    def __post_init__(self) -> None:
        if not len(self.seeds):
            raise InputError("seeds hold nothing; allowed: one or more")
        if len(set(self.seeds.tolist())) < len(self.seeds):
            raise InputError(f"seeds hold one twice: {self.seeds.tolist()}; allowed: each once")
        rises = np.diff(self.compute, prepend=0.0) > 0
        if not rises.all():
            index = int(np.argmin(rises))
            raise InputError(f"compute holds {self.compute[index]} at place {index}; allowed: increasing, above 0")

    def of_seeds(self, seeds: Int[np.ndarray, " C"]) -> "Curves":
        """Return those of some seeds, in their order."""
        rows = [self.seeds.tolist().index(seed) for seed in seeds.tolist()]
        return Curves(seeds, self.compute, self.values[rows], self.base[rows])

    def between(self, low: float = 0.0, high: float = np.inf) -> "Curves":
        """Return the part from one compute to another; the base stays."""
        check_range("from", low, 0)
        inside = (low <= self.compute) & (self.compute <= high)
        return Curves(self.seeds, self.compute[inside], self.values[:, inside], self.base)


class Sigmoid(NamedTuple):
    """A curve of performance against compute: R_0 at compute 0, A at the end, B, and C_mid, where half is done."""

    base: float
    asymptote: float
    exponent: float
    midpoint: float

    def at(self, compute: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        """Return R_C at each compute, from 0 up.

        >>> Sigmoid(0.2, 0.6, 1.0, 50.0).at(np.array([0.0, 50.0, 150.0]))
        array([0.2, 0.4, 0.5])
        """
        with np.errstate(divide="ignore"):
            share = expit(self.exponent * (np.log(compute) - np.log(self.midpoint)))
        return np.asarray(self.base + (self.asymptote - self.base) * share)

    @property
    def parameters(self) -> Float[np.ndarray, "3"]:
        """A, log B and log C_mid."""
        return np.array([self.asymptote, np.log(self.exponent), np.log(self.midpoint)])


def fit(compute: Float[np.ndarray, " N"], values: Float[np.ndarray, " N"], base: float) -> Sigmoid:
    """Return the sigmoid of least squares through a curve of finite values from R_0 = ``base``, the same every time."""
    return fit_each(compute, values[None], np.array([base]), EXACT)[0]


def fit_each(
    compute: Float[np.ndarray, " N"],
    values: Float[np.ndarray, "R N"],
    bases: Float[np.ndarray, " R"],
    tolerance: float = ROUGH,
) -> list[Sigmoid]:
    """Fit each of R curves over the same compute, to a tolerance."""
    logs = np.log(compute)
    low = np.array([logs[0] - np.log(AROUND), np.log(EXPONENTS[0])])
    high = np.array([logs[-1] + np.log(AROUND), np.log(EXPONENTS[1])])
    axes = [np.linspace(*ends) for ends in zip(low, high, GRID, strict=True)]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    # 1 / (1 + (C_mid / C)^B) is the logistic function of B log(C / C_mid).
    shares = expit(np.exp(points[:, 1:]) * (logs - points[:, :1]))
    squares = (shares**2).sum(axis=1)
    changes = values - bases[:, None]
    products = changes @ shares.T
    gains = np.clip(products / squares, LOWEST - bases[:, None], HIGHEST - bases[:, None])
    best = np.argmin(gains * (gains * squares - 2 * products), axis=1)
    fits = []
    for change, base, gain, index in zip(changes, bases, gains, best, strict=True):
        bounds = np.array([LOWEST - base, *low]), np.array([HIGHEST - base, *high])
        start = np.array([gain[index], *points[index]])
        best_gain, midpoint, exponent = _improve(logs, change, start, bounds, tolerance)
        fits.append(Sigmoid(float(base), float(base + best_gain), float(np.exp(exponent)), float(np.exp(midpoint))))
    return fits


def _improve(
    logs: Float[np.ndarray, " N"],
    change: Float[np.ndarray, " N"],
    start: Float[np.ndarray, "3"],
    bounds: tuple[Float[np.ndarray, "3"], Float[np.ndarray, "3"]],
    tolerance: float,
) -> Float[np.ndarray, "3"]:
    """Return the local least squares from a start: A - R_0, log C_mid, log B."""

    def residuals(parameters: np.ndarray) -> np.ndarray:
        gain, midpoint, exponent = parameters
        return np.asarray(gain * expit(np.exp(exponent) * (logs - midpoint)) - change)

    def derivatives(parameters: np.ndarray) -> np.ndarray:
        gain, midpoint, exponent = parameters
        share = expit(np.exp(exponent) * (logs - midpoint))
        slope = gain * share * (1 - share) * np.exp(exponent)
        return np.stack([share, -slope, slope * (logs - midpoint)], axis=1)

    low, high = bounds
    inside = np.clip(start, low + 1e-9 * (high - low), high - 1e-9 * (high - low))
    tolerances = dict.fromkeys(("xtol", "ftol", "gtol"), tolerance)
    return np.asarray(least_squares(residuals, inside, derivatives, bounds=bounds, x_scale="jac", **tolerances).x)
