"""Say whether an arm raises the asymptote of a baseline or only changes the pace.

An asymptote is higher, lower or the same where the whole interval of the difference lies above the margin, below it or
within it. Before that, the interval is widened on both sides by the drift: how far the two asymptotes have moved,
together, from the fits of the first half of the compute to those of all. For learning curves are no sigmoids: a fit to
less compute has another asymptote, and so has an arm that is only slower, as if it had less. Where a half tells no
asymptote, the verdict is ``undecided``. The pace, C_mid, is compared where the asymptote is the same.
"""

from typing import NamedTuple

import numpy as np

from simlab.errors import InputError, check_range
from simlab.scaling.estimates import Fit, Interval, exponential, interval

MARGIN = 0.02  # two asymptotes that differ by less are the same: the margin of ScaleRL's Appendix A.5
SAME_PACE = 1.01  # two midpoints whose ratio is smaller are the same, as are those of runs that differ by rounding

HIGHER, LOWER, UNDECIDED = "higher asymptote", "lower asymptote", "undecided"
FASTER, SLOWER, ALIKE, OPEN = (f"same asymptote, {pace}" for pace in ("faster", "slower", "same pace", "pace open"))


class Difference(NamedTuple):
    """How an arm differs from a baseline, over the seeds that both have.

    Attributes:
        asymptote: A less the baseline's.
        drift: how far both asymptotes have moved since the first half of the compute; NaN where a half does not
            determine one.
        exponent: B over the baseline's.
        midpoint: C_mid over the baseline's: above 1 for a slower clock.
        verdict: one of the words of this module.
    """

    asymptote: Interval
    drift: float
    exponent: Interval
    midpoint: Interval
    verdict: str


def against(baseline: Fit, arm: Fit, margin: float = MARGIN) -> Difference:
    """Compare an arm with a baseline, paired by seed: each resample has the same seeds of both.

    Raises:
        InputError: for fits of other seeds, and for a margin that is no number from 0 to 1.
    """
    check_range("margin", margin, 0, 1)
    if baseline.seeds.tolist() != arm.seeds.tolist():
        raise InputError(
            f"seeds {arm.seeds.tolist()} are not the baseline's, {baseline.seeds.tolist()}; allowed: the same"
        )
    logs = [
        np.array([own.curve.asymptote, np.log(own.curve.exponent), np.log(own.curve.midpoint)])
        for own in (baseline, arm)
    ]
    pairs = zip(logs[1] - logs[0], (arm.draws - baseline.draws).T, strict=True)
    asymptote, exponent, midpoint = (interval(mean, draws, len(arm.seeds)) for mean, draws in pairs)
    drift = sum(abs(own.curve.asymptote - own.half.asymptote) if own.half else np.nan for own in (baseline, arm))
    verdict = _verdict(asymptote, drift, midpoint, margin)
    return Difference(asymptote, drift, exponential(exponent), exponential(midpoint), verdict)


def _verdict(asymptote: Interval, drift: float, log_midpoint: Interval, margin: float) -> str:
    """The verdict of the head of this file; no comparison with NaN is true."""
    low, high = asymptote.low - drift, asymptote.high + drift
    if low > margin:
        return HIGHER
    if high < -margin:
        return LOWER
    if not (-margin <= low and high <= margin):
        return UNDECIDED
    same = np.log(SAME_PACE)
    if log_midpoint.high < -same:
        return FASTER
    if log_midpoint.low > same:
        return SLOWER
    return ALIKE if -same <= log_midpoint.low and log_midpoint.high <= same else OPEN
