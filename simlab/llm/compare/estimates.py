"""Means with their intervals: over seeds and problems, or over those of the two of which there are several."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from simlab.llm.instruments.crossed import crossed_interval
from simlab.llm.instruments.pass_at_k import interval

SEED, RESAMPLES = 0, 2000  # of the intervals over problems: the same table every time, a figure in a moment


class Estimate(NamedTuple):
    """A mean, its standard error over seeds and its 95 % interval; NaN where that is not known."""

    mean: float
    error: float
    low: float
    high: float


def estimate(values: Float[np.ndarray, "S ..."]) -> Estimate:
    """The mean over S seeds and P problems, if there are any.

    Of several seeds and problems the interval is over both (``simlab.llm.instruments.crossed``). Of several seeds
    without problems it is the t-interval over seeds, and there is the standard error s / sqrt(S). One seed says nothing
    of other seeds: its interval is the bootstrap over problems.
    """
    each = values.reshape(len(values), -1).mean(axis=1)
    mean = float(each.mean())
    if np.isnan(mean) or values.shape == (1,):
        return Estimate(mean, np.nan, np.nan, np.nan)
    if len(values) == 1:
        _, low, high = interval(values[0], SEED, RESAMPLES)
        return Estimate(mean, np.nan, low, high)
    if values[0].size > 1:
        _, low, high = crossed_interval(values)
        return Estimate(mean, np.nan, low, high)
    error = float(each.std(ddof=1) / np.sqrt(len(each)))
    half = float(stdtrit(len(each) - 1, 0.975)) * error
    return Estimate(mean, error, mean - half, mean + half)
