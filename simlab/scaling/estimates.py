"""Fit the sigmoid to the mean over seeds, with intervals by the bootstrap over seeds, or say why there is no fit.

ScaleRL (arXiv 2510.13786, Appendix A.5) tells the error of A from three runs. Here it is the bootstrap's: seeds are
drawn with replacement, each draw's mean curve is fitted again, and an interval is

    estimate +- t(S - 1) s sqrt(S / (S - 1))

with the standard deviation s over the draws. The root takes back that the bootstrap's variance of a mean is too small
by (S - 1) / S; Student's quantile is that of 95 %, as s itself comes from few seeds. B and C_mid have intervals of
their logarithms. An interval covers what other seeds would have given. It does not cover that the curve may be no
sigmoid: for that, every fit is made again of the first half of the compute.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtrit

from simlab.scaling.curves import Curves
from simlab.scaling.sigmoid import HIGHEST, LOWEST, Sigmoid, fit, fit_each

FEWEST = 5  # values to a curve: three parameters leave two
RESAMPLES = 200  # the error of an interval's width is 5 %
SEED = 0  # of the resamples: the same table every time, and arms with the same seeds are paired
# How far the mean curve may lie from the fit, as a share of its largest change and beyond three standard errors. A
# straight rise during a quarter of the compute lies up to 0.10 from its fit where the curve then stays, and 0.16 where
# it loses a quarter on a straight line to the end: a curve that turns, or rises in two steps, is no sigmoid.
FARTHEST = 0.15
ERRORS = 3.0
ROUNDING = 1e-9  # a smaller change is none


class Refusal(NamedTuple):
    """Why a curve has no fit, in one line."""

    reason: str


class Interval(NamedTuple):
    """An estimate with its 95 % interval, NaN for one seed."""

    mean: float
    low: float
    high: float


class Fit(NamedTuple):
    """A fitted sigmoid and its uncertainty.

    Attributes:
        curve: the curve of the mean over seeds.
        draws: (R, 3) A, log B and log C_mid of each resample of the seeds.
        half: the curve of the first half of the compute; None where that has fewer than ``FEWEST`` values, and where
            its own C_mid lies beyond it.
        r_squared: the share of the variance of the mean curve over compute that the fit explains.
        seeds: (S,) which seeds were fitted.
    """

    curve: Sigmoid
    draws: Float[np.ndarray, "R 3"]
    half: Sigmoid | None
    r_squared: float
    seeds: Int[np.ndarray, " S"]

    @property
    def asymptote(self) -> Interval:
        """A; its interval ends where A must."""
        found = interval(self.curve.asymptote, self.draws[:, 0], len(self.seeds))
        return Interval(found.mean, *np.clip(found[1:], LOWEST, HIGHEST).tolist())

    @property
    def exponent(self) -> Interval:
        """B."""
        return exponential(interval(np.log(self.curve.exponent), self.draws[:, 1], len(self.seeds)))

    @property
    def midpoint(self) -> Interval:
        """C_mid."""
        return exponential(interval(np.log(self.curve.midpoint), self.draws[:, 2], len(self.seeds)))


def interval(mean: float, draws: Float[np.ndarray, " R"], seeds: int) -> Interval:
    """An estimate with the interval that the head of this file says; NaN for one seed."""
    if seeds < 2:
        return Interval(float(mean), np.nan, np.nan)
    half = float(stdtrit(seeds - 1, 0.975) * np.sqrt(seeds / (seeds - 1)) * draws.std())
    return Interval(float(mean), float(mean) - half, float(mean) + half)


def exponential(found: Interval) -> Interval:
    """The interval of a number whose logarithm has this one."""
    return Interval(*np.exp(found).tolist())


def fit_curves(curves: Curves) -> Fit | Refusal:
    """The fit of an arm's curves, or the reason why the data do not determine one.

    There is none of fewer than ``FEWEST`` values a curve; where a value is no number; where no change since the base
    model can be told from 0; where the curve lies more than ``FARTHEST`` of its change away from the best sigmoid; and
    where it does not bend within the data: the interval of C_mid reaches beyond the last compute, or A lies on its
    bound, far from where the curve ends.
    """
    if reason := _unfit(curves):
        return Refusal(reason)
    found = _fitted(curves)
    if reason := _misfit(curves, found.curve) or _straight(curves, found) or _held_by_a_bound(curves, found.curve):
        return Refusal(reason)
    return found


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1e3 else f"{value:.0f}"


def _unfit(curves: Curves) -> str | None:
    """What can be told before any fit."""
    count = len(curves.compute)
    if count < FEWEST:
        return f"too few points: {count} behind the base model; a fit takes {FEWEST} or more"
    if not ((curves.base >= LOWEST) & (curves.base <= HIGHEST)).all():
        return f"the base model's value is {curves.base.mean():.3g}; a fit takes numbers from 0 to 1"
    for compute, values in zip(curves.compute, curves.values.T, strict=True):
        for value in values:
            if not LOWEST <= value <= HIGHEST:
                return f"the value at compute {_number(compute)} is {value:.3g}; a fit takes numbers from 0 to 1"
    return _flat(curves.values - curves.base[:, None])


def _flat(changes: Float[np.ndarray, "S N"]) -> str | None:
    """Whether neither the mean change since the base model nor that at any compute can be told from 0, at 5 % each."""
    mean, half = _with_half(changes.mean(axis=1)[:, None], 0.05)
    means, halves = _with_half(changes, 0.05 / changes.shape[1])  # of so many, one would be far from 0 by chance
    if abs(mean[0]) > half[0] or (np.abs(means) > halves).any():
        return None
    return (
        f"flat: the mean change, {mean[0]:+.4f} [{mean[0] - half[0]:+.4f}, {mean[0] + half[0]:+.4f}], is as good as 0"
    )


def _with_half(
    changes: Float[np.ndarray, "S N"], level: float
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """Means over seeds and half of their t-intervals; of one seed the half is rounding."""
    seeds = len(changes)
    error = changes.std(axis=0, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.zeros(changes.shape[1])
    quantile = stdtrit(seeds - 1, 1 - level / 2) if seeds > 1 else 1.0
    return changes.mean(axis=0), np.maximum(quantile * error, ROUNDING)


def _fitted(curves: Curves) -> Fit:
    compute, seeds = curves.compute, len(curves.seeds)
    mean, base = curves.values.mean(axis=0), float(curves.base.mean())
    curve = fit(compute, mean, base)
    chosen = np.random.default_rng(SEED).integers(seeds, size=(RESAMPLES if seeds > 1 else 0, seeds))
    draws = fit_each(compute, curves.values[chosen].mean(axis=1), curves.base[chosen].mean(axis=1))
    r_squared = 1 - float(((curve.at(compute) - mean) ** 2).sum() / max(((mean - mean.mean()) ** 2).sum(), 1e-300))
    rows = np.array([own.fitted() for own in draws]).reshape(-1, 3)
    return Fit(curve, rows, _of_half(compute, mean, base), r_squared, curves.seeds)


def _of_half(compute: Float[np.ndarray, " N"], mean: Float[np.ndarray, " N"], base: float) -> Sigmoid | None:
    """The fit to the first half of the compute, where that tells one."""
    early = compute <= compute[-1] / 2
    if early.sum() < FEWEST:
        return None
    found = fit(compute[early], mean[early], base)
    return found if found.midpoint <= compute[early][-1] else None


def _misfit(curves: Curves, curve: Sigmoid) -> str | None:
    """Whether the mean curve lies farther from the fit than noise and ``FARTHEST`` allow, and where."""
    mean, seeds = curves.values.mean(axis=0), len(curves.seeds)
    error = curves.values.std(axis=0, ddof=1) / np.sqrt(seeds) if seeds > 1 else 0.0
    away = np.abs(curve.at(curves.compute) - mean) - ERRORS * error
    share, place = away.max() / np.abs(mean - curve.base).max(), int(away.argmax())
    if share <= FARTHEST:
        return None
    where = _number(curves.compute[place])
    return f"no sigmoid: at compute {where} the curve lies {share:.0%} of its largest change away from the best one"


def _straight(curves: Curves, found: Fit) -> str | None:
    """Whether C_mid may lie beyond the last compute."""
    last, middle = float(curves.compute[-1]), found.midpoint
    if np.nanmax([middle.mean, middle.high]) <= last:
        return None
    reach = _number(middle.mean)
    if len(found.seeds) > 1:
        reach += f" [{_number(middle.low)}, {_number(middle.high)}]"
    return f"not bending yet, so that A is open: C_mid is {reach}, the last compute {_number(last)}"


def _held_by_a_bound(curves: Curves, curve: Sigmoid) -> str | None:
    """Whether A is 0 or 1 only because it can be no more, far from where the curve ends."""
    if min(curve.asymptote - LOWEST, HIGHEST - curve.asymptote) > ROUNDING:
        return None
    last = float(curves.values[:, -1].mean())
    if abs(curve.asymptote - last) <= FARTHEST * abs(curve.asymptote - curve.base):
        return None
    return f"not bending yet, so that A is open: the curve ends at {last:.3f}, and nothing but the bound holds A"
