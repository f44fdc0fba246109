"""The variance of a weight of an estimated solve rate, and the learning rate of a fair control of a focal weight.

It is imported by its full name, ``simlab.theory.weight_variance``, since it loads SciPy.
"""

import numpy as np
from jaxtyping import Float
from scipy.special import beta
from scipy.stats import binom

from simlab.errors import InputError, check_range, check_whole

Rates = Float[np.ndarray, " P"]


def peak_constant(alpha: float) -> float:
    """C = (1 + alpha)^(1 + alpha) / (4 alpha^alpha): the peak of C p (1 - p)^alpha is 1/4 ``[fade:eq-27]``.

    The peak lies at p = 1 / (1 + alpha).

    Raises:
        InputError: unless alpha is above 0.

    >>> peak_constant(1.0)
    1.0
    """
    check_range("alpha", alpha, 0, open_low=True)
    return float((1 + alpha) ** (1 + alpha) / (4 * alpha**alpha))


def weight_variance(weights: Float[np.ndarray, " counts"], p: Rates) -> Rates:
    """(P,) Var(w(s / G)) over groups of G rollouts, exactly: the sum over the number s of successes.

    What ``[fade:eq-28]`` approaches as G grows.

    Args:
        weights: (G + 1,) the weight at each number of successes, 0 to G, such as ``masses(...).success``.
        p: (P,) solve rates.

    Raises:
        InputError: for weights of other than one axis of two or more, or a solve rate outside [0, 1].

    >>> weight_variance(np.array([0.0, 1.0]), np.array([0.25]))
    array([0.1875])
    """
    if weights.ndim != 1 or len(weights) < 2:
        raise InputError(f"weights have shape {weights.shape}; allowed: one axis of two or more")
    _check_rates(p)
    size = len(weights) - 1
    chance = binom.pmf(np.arange(size + 1), size, p[:, None])
    mean = chance @ weights
    variance: Rates = (chance * (weights - mean[:, None]) ** 2).sum(axis=1)
    return variance


def power_alpha_variance(p: Rates, alpha: float, group_size: int) -> Rates:
    """(P,) C^2 p (1 - p)^(2 alpha - 1) (1 - (1 + alpha) p)^2 / G, Power-alpha to first order in 1/G ``[fade:eq-30]``.

    C is ``peak_constant(alpha)``.

    Raises:
        InputError: unless alpha is at least 1/2, for a group size below 1, or a solve rate outside [0, 1].
    """
    check_range("alpha", alpha, 0.5)
    check_whole("group_size", group_size, 1)
    _check_rates(p)
    slope_squared_times_q = (1 - p) ** (2 * alpha - 1) * (1 - (1 + alpha) * p) ** 2
    variance: Rates = peak_constant(alpha) ** 2 * p * slope_squared_times_q / group_size
    return variance


def _check_rates(p: Rates) -> None:
    outside = ~((p >= 0) & (p <= 1))
    if outside.any():
        raise InputError(f"p = {p[outside][0]} is outside its range [0, 1]")


def focal_scale(gamma: float) -> float:
    """lambda(gamma) = B(3/2, 3/2 + gamma) / B(3/2, 3/2) ``[f-grpo:app-n]``.

    The mean of |A| over a group with solve rate p is proportional to sqrt(p (1 - p)) under GRPO, and (1 - p)^gamma
    times that under F-GRPO; lambda is the ratio of the two after averaging over p uniform on [0, 1].

    Raises:
        InputError: for a negative ``gamma``.

    >>> focal_scale(1.0)
    0.5
    """
    check_range("gamma", gamma, 0)
    return float(beta(1.5, 1.5 + gamma) / beta(1.5, 1.5))
