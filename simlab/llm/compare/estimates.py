"""Means with their errors: over seeds, or over problems where there is one seed."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from simlab.llm.instruments.pass_at_k import interval

SEED, RESAMPLES = 0, 2000  # of the intervals over problems: the same table every time, a figure in a moment


class Estimate(NamedTuple):
    """A mean, its standard error and its 95 % interval; NaN where that is not known."""

    mean: float
    error: float
    low: float
    high: float


def estimate(values: Float[np.ndarray, "S ..."]) -> Estimate:
    """The mean over S seeds and the problems, if there are any.

    Of several seeds the error is that over seeds, s / sqrt(S) of the means over problems, with its t-interval. One seed
    says nothing of that: it has no error, and the bootstrap interval over problems.
    """
    each = values.reshape(len(values), -1).mean(axis=1)
    mean = float(each.mean())
    if len(values) > 1:
        error = float(each.std(ddof=1) / np.sqrt(len(each)))
        half = float(stdtrit(len(each) - 1, 0.975)) * error
        return Estimate(mean, error, mean - half, mean + half)
    if values.ndim == 1 or np.isnan(mean):
        return Estimate(mean, np.nan, np.nan, np.nan)
    _, low, high = interval(values[0], SEED, RESAMPLES)
    return Estimate(mean, np.nan, low, high)
