"""Compare the last values of arms at equal compute, which asks for no sigmoid.

An arm that ends above another is no mere clock of it once the lower one has settled: no more compute takes that there.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from simlab.intervals import Interval, half_width
from simlab.scaling.sigmoid import Curves

ROUNDING = 1e-9  # a smaller change is none
MARGIN = 0.02  # two asymptotes that differ by less are the same: the margin of ScaleRL's Appendix A.5


class Ends(NamedTuple):
    """The last value of an arm less the baseline's, paired by seed, and whether each still moves."""

    difference: Interval
    arm_moves: bool
    baseline_moves: bool


def compare_ends(baseline: Curves, arm: Curves) -> Ends | None:
    """Compare the last values of two arms over the seeds of both; None of other compute, or without such seeds.

    An arm moves that has changed in the last half of its compute, by more than noise and half of ``MARGIN``.
    """
    common = np.intersect1d(baseline.seeds, arm.seeds)
    if not common.size or baseline.compute[-1:].tolist() != arm.compute[-1:].tolist() or not len(arm.compute):
        return None
    baseline, arm = baseline.of_seeds(common), arm.of_seeds(common)
    if not (np.isfinite(arm.values).all() and np.isfinite(baseline.values).all()):
        return None
    (mean,), (half,) = with_half(arm.values[:, -1:] - baseline.values[:, -1:], 0.05)
    moves = []
    for curves in (arm, baseline):
        middle = int(np.searchsorted(curves.compute, curves.compute[-1] / 2))
        (change,), (noise,) = with_half((curves.values[:, -1] - curves.values[:, middle])[:, None], 0.05)
        moves.append(bool(abs(change) > noise and abs(change) > MARGIN / 2))
    one_seed = len(arm.seeds) < 2
    return Ends(Interval(float(mean), *([np.nan] * 2 if one_seed else [mean - half, mean + half])), *moves)


def describe(ends: Ends, baseline: str) -> str:
    """Say in words what the ends of two arms tell: no clock where the lower of the two has settled."""
    difference = ends.difference
    moved = f"{abs(difference.mean):.3f} {'above' if difference.mean > 0 else 'below'} {baseline}"
    if np.isnan(difference.low) or difference.low <= 0 <= difference.high:
        return f"ends {moved}: not told apart" + (", one seed" if np.isnan(difference.low) else "")
    if difference.low >= -MARGIN and difference.high <= MARGIN:
        return f"ends {moved}, within {MARGIN:g}"
    above = difference.mean > 0
    lower_moves, word = (ends.baseline_moves, f"{baseline} still moves") if above else (ends.arm_moves, "still moving")
    exactly = shown(difference, sign="+")
    if lower_moves:
        return f"ends {moved}, {exactly}, {word}: a longer run would tell a clock from a ceiling"
    return f"ends {moved}, {exactly}: not a clock in this run"


def with_half(
    changes: Float[np.ndarray, "S N"], level: float
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """Return means over seeds and half of their t-intervals; of one seed the half is rounding."""
    half = half_width(standard_error(changes), max(len(changes), 2), 1 - level)
    return changes.mean(axis=0), np.maximum(half, ROUNDING)


def standard_error(values: Float[np.ndarray, "S N"]) -> Float[np.ndarray, " N"]:
    """Return the standard error of each mean over seeds, 0 of one seed."""
    seeds = len(values)
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.zeros(values.shape[1]))


def shown(interval: Interval, digits: int = 3, sign: str = "") -> str:
    """Write ``0.684 [0.676, 0.692]``, or the estimate alone where there is no interval.

    >>> shown(Interval(0.5, 0.4, 0.6), 2)
    '0.50 [0.40, 0.60]'
    """
    mean, low, high = (f"{number:{sign}.{digits}f}" for number in interval)
    return mean if np.isnan(interval.low) else f"{mean} [{low}, {high}]"
