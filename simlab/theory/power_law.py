"""The shifted power law fitted to pass@k, G(k) = exp(-a (k + c)^-b), with errors; imports SciPy and xarray."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from jaxtyping import Float, Shaped
from scipy.optimize import least_squares

from simlab.errors import InputError, check_shares

PARAMETERS = ("scale", "exponent", "shift")
STARTING_SHIFTS = np.geomspace(1e-3, 1e4, 15)  # above the shift at which the smallest k would lie at 0
REFINED = 3  # of the starts, the best ones


@dataclass(frozen=True)
class ShiftedPowerLaw:
    """G(k) = exp(-a (k + c)^-b) ``[fade:app-12-shifted-limit]``, as fitted to a pass@k curve.

    On the scale log(-log G) against log(k + c) it is a line of slope -b and level log a ``[fade:fig-6-slope]``.

    Attributes:
        scale: a.
        exponent: b.
        shift: c, which FADE's Section 12 calls k0.
        errors: standard errors of a, b and c from curvature and residuals; they say how well the form fits, not how
            noisy training is.
        residual: root mean square of fitted less observed pass@k.
    """

    scale: float
    exponent: float
    shift: float
    errors: Float[np.ndarray, "3"]
    residual: float

    def __call__(self, k: Shaped[np.ndarray, "*K"]) -> Float[np.ndarray, "*K"]:
        """G(k)."""
        with np.errstate(divide="ignore"):  # 0 at k = -c
            return np.exp(-self.scale * (np.asarray(k, dtype=float) + self.shift) ** -self.exponent)


def fit_shifted_power_law(k: Shaped[np.ndarray, "..."], pass_at_k: Shaped[np.ndarray, "..."]) -> ShiftedPowerLaw:
    """The shifted power law of least mean squared error on a curve, as FADE fits it ``[fade:fig-6]``.

    Raises: InputError: for fewer than four different k from 1 up, fewer than three of pass@k strictly inside (0, 1), or
    a curve that does not rise.

    >>> k = 2.0 ** np.arange(21)
    >>> law = fit_shifted_power_law(k, np.exp(-2 * (k + 3) ** -0.5))
    >>> [round(float(value), 6) for value in (law.scale, law.exponent, law.shift)]
    [2.0, 0.5, 3.0]
    """
    k, curve = _checked(np.asarray(k, dtype=float), np.asarray(pass_at_k, dtype=float))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # SciPy's of a Jacobian that is 0
        gaps = np.log(k - k.min())  # -infinity at the smallest k
        starts = [_start(k, curve, shift) for shift in STARTING_SHIFTS]
        starts.sort(key=lambda x: float(np.sum(_residuals(x, gaps, curve) ** 2)))
        fits = [least_squares(_residuals, x, _slopes, args=(gaps, curve), x_scale="jac") for x in starts[:REFINED]]
        best = min(fits, key=lambda fit: float(fit.cost))
        scale, exponent, distance = np.exp(best.x[0]), best.x[1], np.exp(best.x[2])
    if not np.isfinite([scale, exponent, distance]).all():
        raise InputError("no shifted power law comes near this pass@k; allowed: a curve to which one does")
    variance = 2 * best.cost / (len(k) - len(best.x))
    chain_rule = np.array([scale, 1.0, distance])  # d(a, b, c) / d(log a, b, log(c + k_1))
    curvature = np.maximum(np.diag(np.linalg.pinv(best.jac.T @ best.jac)), 0)  # which rounding may leave below 0
    errors = np.sqrt(variance * curvature) * chain_rule
    residual = float(np.sqrt(2 * best.cost / len(k)))
    return ShiftedPowerLaw(float(scale), float(exponent), float(distance - k.min()), errors, residual)


def power_laws(pass_at_k: xr.DataArray) -> xr.Dataset:
    """The fit of every curve of a result's ``pass_at_k``, a variable for each of its numbers; NaN for a flat curve."""
    k = pass_at_k["k"].values.astype(float)
    if len(np.unique(k)) < 4:
        raise InputError(f"pass@k is recorded at {len(k)} k; allowed: four or more, for a law of three parameters")
    names = [*PARAMETERS, *(f"{name}_error" for name in PARAMETERS), "residual"]

    def fitted(curve: np.ndarray) -> np.ndarray:
        try:
            law = fit_shifted_power_law(k, curve.astype(float))
        except InputError:
            return np.full(len(names), np.nan)
        return np.array([law.scale, law.exponent, law.shift, *law.errors, law.residual])

    fits = xr.apply_ufunc(fitted, pass_at_k, input_core_dims=[["k"]], output_core_dims=[["quantity"]], vectorize=True)
    return xr.Dataset({name: fits.isel(quantity=index) for index, name in enumerate(names)})


def _checked(k: np.ndarray, curve: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if k.ndim != 1 or k.shape != curve.shape:
        raise InputError(f"k and pass@k have shapes {k.shape} and {curve.shape}; allowed: one axis, of equal length")
    if not np.isfinite(k).all() or np.any(k < 1) or len(np.unique(k)) < 4:
        raise InputError(f"k = {k.tolist()}; allowed: four or more different numbers from 1 up")
    check_shares("pass@k", curve)
    inside = (curve > 0) & (curve < 1)
    if inside.sum() < 3:
        raise InputError(f"pass@k lies inside (0, 1) at {inside.sum()} k; allowed: at three or more")
    if curve[np.argmax(k)] <= curve[np.argmin(k)]:
        raise InputError("pass@k does not rise with k; allowed: curves that do")
    return k, curve


def _start(k: np.ndarray, curve: np.ndarray, distance: float) -> np.ndarray:
    """log a, b and log(c + k_1) for a given c + k_1: the line through log(-log G) against log(k + c)."""
    inside = (curve > 0) & (curve < 1)
    slope, level = np.polyfit(np.log(k[inside] - k.min() + distance), np.log(-np.log(curve[inside])), 1)
    return np.array([level, -slope, np.log(distance)])


def _log_fall(x: np.ndarray, gaps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log(-log G) and log(k + c), whose logarithms hold where their numbers overflow."""
    shifted = np.logaddexp(gaps, x[2])
    return x[0] - x[1] * shifted, shifted


def _residuals(x: np.ndarray, gaps: np.ndarray, curve: np.ndarray) -> np.ndarray:
    law: np.ndarray = np.exp(-np.exp(_log_fall(x, gaps)[0])) - curve
    return law


def _slopes(x: np.ndarray, gaps: np.ndarray, curve: np.ndarray) -> np.ndarray:
    """The derivatives of the residuals, (K, 3)."""
    log_fall, shifted = _log_fall(x, gaps)
    steep = np.exp(log_fall - np.exp(log_fall))
    return np.stack([-steep, steep * shifted, steep * x[1] * np.exp(x[2] - shifted)], axis=1)
