"""Compare the last values of arms at equal compute, which asks for no sigmoid.

An arm that ends above another is no mere clock of it once the lower one has settled: no more compute takes that there.
"""

import numpy as np
from jaxtyping import Float

from simlab.intervals import Interval, half_width
from simlab.scaling.sigmoid import Curves

ROUNDING = 1e-9  # a smaller change is none
MARGIN = 0.02  # two asymptotes that differ by less are the same: the margin of ScaleRL's Appendix A.5


def compare_ends(baseline: Curves, arm: Curves, name: str) -> str | None:
    """Say in words what the last values of two arms tell, paired by seed: no clock where the lower one has settled.

    None for arms of other compute, without a seed in common, or with values that are not finite.
    """
    common = np.intersect1d(baseline.seeds, arm.seeds)
    if not common.size or baseline.compute[-1:].tolist() != arm.compute[-1:].tolist() or not len(arm.compute):
        return None
    baseline, arm = baseline.of_seeds(common), arm.of_seeds(common)
    if not (np.isfinite(arm.values).all() and np.isfinite(baseline.values).all()):
        return None
    (mean,), (half,) = with_half(arm.values[:, -1:] - baseline.values[:, -1:], 0.05)
    ends = f"ends {abs(mean):.3f} {'above' if mean > 0 else 'below'} {name}"
    if len(common) < 2:
        return f"{ends}: not told apart, one seed"
    low, high = mean - half, mean + half
    if low <= 0 <= high:
        return f"{ends}: not told apart"
    if low >= -MARGIN and high <= MARGIN:
        return f"{ends}, within {MARGIN:g}"
    lower, word = (baseline, f"{name} still moves") if mean > 0 else (arm, "still moving")
    still = f", {word}: a longer run would tell a clock from a ceiling"
    told = still if _moves(lower) else ": not a clock in this run"
    return f"{ends}, {shown(Interval(mean, low, high), sign='+')}{told}"


def _moves(curves: Curves) -> bool:
    """Return True for an arm that has changed in the last half of its compute, by more than noise and half a margin."""
    middle = int(np.searchsorted(curves.compute, curves.compute[-1] / 2))
    (change,), (noise,) = with_half((curves.values[:, -1] - curves.values[:, middle])[:, None], 0.05)
    return bool(abs(change) > max(noise, MARGIN / 2))


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
