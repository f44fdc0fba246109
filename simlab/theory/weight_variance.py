"""The variance of a weight of an estimated solve rate, and a focal weight's fair learning rate; imports SciPy."""

import numpy as np
from jaxtyping import Float
from scipy.special import beta

from simlab.errors import InputError, check_range, check_shares, check_whole
from simlab.theory.interference import binomial_chances

Rates = Float[np.ndarray, " P"]


def peak_constant(alpha: float) -> float:
    """C = (1 + alpha)^(1 + alpha) / (4 alpha^alpha), alpha > 0: C p (1 - p)^alpha peaks at 1/4 ``[fade:eq-27]``.

    >>> peak_constant(1.0)
    1.0
    """
    check_range("alpha", alpha, 0, open_low=True)
    return float((1 + alpha) ** (1 + alpha) / (4 * alpha**alpha))


def weight_variance(weights: Float[np.ndarray, " counts"], p: Rates) -> Rates:
    """Var(w(s / G)) over groups of G rollouts at solve rates p, exactly; ``[fade:eq-28]`` is its limit as G grows.

    ``weights`` are those at 0 to G successes, such as ``masses(...).success``.

    >>> weight_variance(np.array([0.0, 1.0]), np.array([0.25]))
    array([0.1875])
    """
    if weights.ndim != 1 or len(weights) < 2:
        raise InputError(f"weights have shape {weights.shape}; allowed: one axis of two or more")
    check_shares("p", p)
    size = len(weights) - 1
    chance = binomial_chances(size, p)
    mean = chance @ weights
    variance: Rates = (chance * (weights - mean[:, None]) ** 2).sum(axis=1)
    return variance


def power_alpha_variance(p: Rates, alpha: float, group_size: int) -> Rates:
    """C^2 p (1 - p)^(2 alpha - 1) (1 - (1 + alpha) p)^2 / G, C the ``peak_constant`` ``[fade:eq-30]``."""
    check_range("alpha", alpha, 0.5)
    check_whole("group_size", group_size, 1)
    check_shares("p", p)
    slope_squared_times_q = (1 - p) ** (2 * alpha - 1) * (1 - (1 + alpha) * p) ** 2
    variance: Rates = peak_constant(alpha) ** 2 * p * slope_squared_times_q / group_size
    return variance


def focal_scale(gamma: float) -> float:
    """lambda(gamma) = B(3/2, 3/2 + gamma) / B(3/2, 3/2) ``[f-grpo:app-n]``.

    It is the mean of F-GRPO's |A| over GRPO's, over solve rates uniform on [0, 1].

    >>> focal_scale(1.0)
    0.5
    """
    check_range("gamma", gamma, 0)
    return float(beta(1.5, 1.5 + gamma) / beta(1.5, 1.5))
