"""Compare methods where their pass@1 is the same: which share of the fall of pass@64 under GRPO does a method avoid?

The share is r = (pass@64 of the method - pass@64 of GRPO) / (pass@64 of the base model - pass@64 of GRPO), each read
where pass@1 is by the same gain above the base model's: 0 for GRPO itself, 1 for a method that keeps the base model's
pass@64, and negative for one that loses more than GRPO.
"""

from typing import NamedTuple

import numpy as np

from simlab.columns import at_equal_mass
from simlab.intervals import half_width


class Share(NamedTuple):
    """A share with its interval over seeds; no numbers where a seed does not gain so much pass@1."""

    mean: float
    low: float
    high: float


def at_gain(pass_at_1: np.ndarray, values: np.ndarray, gain: float) -> np.ndarray:
    """(seeds,) ``values`` where pass@1, (seeds, records) like them, is first by ``gain`` above its start."""
    reading: np.ndarray = at_equal_mass(pass_at_1 - pass_at_1[:, :1], values, np.array([gain]))[0]
    return reading


def gain_at_fall(pass_at_1: np.ndarray, pass_at_64: np.ndarray, fall: float) -> float:
    """The mean over seeds of the gain in pass@1 where pass@64 is first by ``fall`` below its start; else no number."""
    fallen, gained = (pass_at_64[:, :1] - pass_at_64, pass_at_1 - pass_at_1[:, :1])
    return float(at_equal_mass(fallen, gained, np.array([fall]))[0].mean())


def share(values: np.ndarray, baseline: np.ndarray, base: np.ndarray) -> Share:
    """The share that ``values`` (seeds,) avoid of the fall of ``baseline`` (seeds,) from ``base`` (seeds,).

    The ratio of the means over seeds, r = mean(d) / mean(f). Its interval is Student's, with the standard error of the
    mean of d - r f over the mean of f (the delta method), paired by seed.
    """
    gained, fall = values - baseline, base - baseline
    ratio = gained.mean() / fall.mean()
    error = (gained - ratio * fall).std(ddof=1) / np.sqrt(len(fall)) / abs(fall.mean())
    width = half_width(error, len(fall))
    return Share(float(ratio), float(ratio - width), float(ratio + width))


def verdict(low: float | None, high: float | None) -> str:
    """Put the interval of a share in words."""
    if low is None or high is None:
        return "does not gain so much"
    if low > 0:
        return "keeps more"
    return "keeps less" if high < 0 else "cannot be told from GRPO"
