"""Estimates with intervals: value, interval, its level and the method; bootstrap and jackknife over prompts."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri, stdtrit

from simlab.text import plain_number

LEVEL = 0.9  # of all intervals
RESAMPLES = 1000  # of the bootstrap: the end of a 90 % interval is then off by 3 % of its width
MOST_FREEDOM = 1e6  # degrees of freedom at which Student's distribution is the normal one
BLOCKS = 4000  # different prompts above which random blocks of them are resampled
ROUNDING = 1e-8  # smaller numbers, which the barrier of a fit leaves, are written as 0


class IntervalEstimate(NamedTuple):
    """A number that a log tells, and how sure it is: NaN where it tells none, and where there is no interval.

    ``level`` says how often such intervals hold the truth, and ``method`` how value and interval were made.
    """

    name: str
    value: float
    low: float
    high: float
    level: float
    method: str

    @property
    def sign(self) -> int:
        """1 or -1 where the whole interval lies above or below 0, and 0 where it does not or there is none."""
        return int(self.low > 0) - int(self.high < 0)

    def linear(self, name: str, start: float, factor: float) -> "IntervalEstimate":
        """Return the estimate of ``start`` + ``factor`` times this."""
        value, *ends = (start + factor * number for number in (self.value, self.low, self.high))
        return self._replace(name=name, value=value, low=min(ends), high=max(ends))

    def within(self, least: float, most: float) -> "IntervalEstimate":
        """Return the estimate with nothing beyond the least and the most that the truth can be."""
        value, low, high = (min(max(number, least), most) for number in (self.value, self.low, self.high))
        return self._replace(value=value, low=low, high=high)

    def include(self, value: float) -> "IntervalEstimate":
        """Return the estimate with this value, in an interval that is widened to hold it."""
        return self._replace(value=value, low=min(self.low, value), high=max(self.high, value))


def missing(name: str, level: float, method: str, value: float = math.nan) -> IntervalEstimate:
    """Return an estimate without an interval."""
    return IntervalEstimate(name, value, math.nan, math.nan, level, method)


def in_order(estimates: Sequence[IntervalEstimate], furthest: np.ufunc = np.maximum) -> tuple[IntervalEstimate, ...]:
    """Return estimates of numbers that never fall, or with ``np.minimum`` never rise: nor do values and ends then.

    Values and ends are each the furthest so far. The truth is in order, so an end that holds it before holds it here.
    """
    ends = furthest.accumulate([(entry.value, entry.low, entry.high) for entry in estimates], axis=0).tolist()
    return tuple(
        entry._replace(value=value, low=low, high=high)
        for entry, (value, low, high) in zip(estimates, ends, strict=True)
    )


def bootstrap(name: str, values: Float[np.ndarray, " P"], level: float, seed: int) -> IntervalEstimate:
    """Estimate the mean over prompts, with a percentile bootstrap."""
    sums = resample_sums(np.stack([values, np.ones(len(values))], axis=1), seed)
    means = sums[:, 0] / sums[:, 1]
    return percentile_interval(name, float(means[0]), means[1:], level, "bootstrap over prompts")


def ratio(above: Float[np.ndarray, "..."], below: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Divide; NaN where the denominator is not above 0."""
    return np.asarray(np.divide(above, below, out=np.full(np.shape(below), np.nan), where=below > 0))


def jackknife(
    name: str, above: Float[np.ndarray, " P"], below: Float[np.ndarray, " P"], level: float, least: float = -math.inf
) -> IntervalEstimate:
    """Estimate the ratio of two sums over prompts, of ``least`` or more; those that add 0 to ``below`` do not count."""
    table = np.stack([above, below], axis=1)[below > 0]
    return jackknife_of(name, table, quotient, level, (least, math.inf))


def quotient(sums: Float[np.ndarray, "rows 2"]) -> Float[np.ndarray, " rows"]:
    """Divide the first of two sums by the second; NaN where that is not above 0."""
    return ratio(sums[:, 0], sums[:, 1])


def jackknife_of(
    name: str,
    table: Float[np.ndarray, "P C"],
    function: Callable[[Float[np.ndarray, "rows C"]], Float[np.ndarray, " rows"]],
    level: float,
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> IntervalEstimate:
    """Estimate a function of sums over prompts, with Student's interval about the delete-one-prompt jackknife.

    Without prompt i, f of the sums moves by U_i, a ratio r = sum a / sum b by (a_i - r b_i) / (sum b - b_i), and the
    variance of f is (P - 1) / P sum U^2 (Tukey 1958, Annals of Mathematical Statistics 29). A prompt with a large part
    of the rollouts draws r to itself, which the percentile bootstrap does not allow for. The degrees of freedom are
    those of ``accelerated_bootstrap``, and at most P - 1. Prompts of zeros alone do not count; fewer than two others,
    or one without which there is no value, give no interval. No end of an interval lies beyond ``limits``.
    """
    method, rows = "Student's, jackknife over prompts", table[table.any(axis=1)]
    total, count = rows.sum(axis=0), len(rows)
    values = function(np.concatenate([total[None], total - rows]))
    value, influence = float(values[0]), values[0] - values[1:]
    if count < 2 or not np.isfinite(influence).all():
        return missing(name, level, method, value)
    largest, unit = _in_units(influence)
    half = 0.0
    if largest:
        error = largest * math.sqrt((count - 1) / count * float((unit**2).sum()))
        half = error * float(stdtrit(min(_freedom(unit), count - 1), (1 + level) / 2))
    return IntervalEstimate(name, value, value - half, value + half, level, method).within(*limits)


def difference(
    name: str, first: IntervalEstimate, last: IntervalEstimate, correlation: float = 0.0
) -> IntervalEstimate:
    """Estimate last - first from the intervals of both, whose errors have a correlation.

    With l = value - low and u = high - value, the interval reaches sqrt(l_last^2 + u_first^2 - 2 r l_last u_first)
    below, and likewise above (Zou and Donner 2008, Statistics in Medicine 27): of two shares it stays in [-1, 1] unless
    r < 0, and it has a width where both are 0 or 1 in the log.
    """
    value = last.value - first.value
    below = last.value - last.low, first.high - first.value
    above = last.high - last.value, first.value - first.low
    low, high = (math.sqrt(max(x**2 + y**2 - 2 * correlation * x * y, 0.0)) for x, y in (below, above))
    return last._replace(name=name, value=value, low=value - low, high=value + high)


def resample_sums(table: Float[np.ndarray, "P C"], seed: int) -> Float[np.ndarray, "draws C"]:
    """Return sums over prompts, then those of bootstrap resamples; of very many different rows by random blocks."""
    if len(np.unique(table, axis=0)) > BLOCKS:
        order = np.random.default_rng(seed).permutation(len(table))
        table = np.add.reduceat(table[order], np.arange(BLOCKS) * len(table) // BLOCKS)
    rows, times = np.unique(table, axis=0, return_counts=True)
    sums = [times[None] @ rows]
    if len(rows):
        random, at_once = np.random.default_rng(seed), max(1, 2**22 // len(rows))
        sizes = [min(at_once, RESAMPLES - done) for done in range(0, RESAMPLES, at_once)]
        sums += [random.multinomial(len(table), times / len(table), size=size) @ rows for size in sizes]
    return np.concatenate(sums)


def percentile_interval(
    name: str, value: float, draws: Float[np.ndarray, " R"], level: float, method: str
) -> IntervalEstimate:
    """Return an estimate whose interval is the middle of the draws; draws that are not finite do not count."""
    finite = draws[np.isfinite(draws)]
    if not finite.size or math.isnan(value):
        return missing(name, level, method, value)
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
    return IntervalEstimate(name, value, float(low), float(high), level, method)


def accelerated_bootstrap(
    name: str,
    value: float,
    draws: Float[np.ndarray, " R"],
    influence: Float[np.ndarray, " P"],
    *,
    with_more: tuple[Float[np.ndarray, " R"], Float[np.ndarray, " R"]],
    level: float,
    method: str,
) -> IntervalEstimate:
    """Return an estimate with an accelerated bootstrap interval, for sums that a few prompts make up.

    A log that has by chance too few of these prompts gives too small a value and also too small an error, so that
    the truth lies above the percentile interval more often than below. The ends are here the quantiles
    Phi(z_0 + (z_0 + t) / (1 - a (z_0 + t))) of the resamples (BCa; Efron 1987, JASA 82): z_0 is the normal quantile of
    the share of resamples below the value, and a = sum U^3 / (6 (sum U^2)^(3/2)). In place of a normal quantile, t is
    Student's, for the variance is an estimate too, of 2 (sum U^2)^2 / (sum U^4 - (sum U^2)^2 / P) degrees of freedom
    (Satterthwaite 1946).

    Prompts of a rare kind may have come too seldom or not at all, which no resample shows. What a count of x events
    leaves open above is Gamma(x + 1), and the resamples' Poisson(x) is one event short of that. As in Fay and Feuer's
    interval of weighted counts (1997, Statistics in Medicine 16), each end is therefore read from resamples with
    Exp(1) prompts more of those that move the value the furthest. The interval includes the value.

    ``influence`` is U, what each prompt adds to the value's error, to first order; ``with_more`` are the resamples with
    Exp(1) prompts more, of the least U and of the largest.
    """
    largest, influence = _in_units(influence)
    finite = np.sort(draws[np.isfinite(draws)])
    if not largest or not finite.size or math.isnan(value):
        return percentile_interval(name, value, draws, level, method).include(value)
    least = 0.5 / len(finite)
    below = (np.searchsorted(finite, value) + np.searchsorted(finite, value, "right")) / (2 * len(finite))
    shift = float(ndtri(np.clip(below, least, 1 - least)))
    skew = float((influence**3).sum()) / (6 * float((influence**2).sum()) ** 1.5)  # between -1/6 and 1/6
    moved = shift + stdtrit(_freedom(influence), np.array([(1 - level) / 2, (1 + level) / 2]))
    shares = ndtr(shift + moved / (1 - skew * moved))
    low, high = (float(np.nanquantile(series, share)) for series, share in zip(with_more, shares, strict=True))
    return IntervalEstimate(name, value, low, high, level, f"accelerated {method}").include(value)


def _in_units(values: Float[np.ndarray, " P"]) -> tuple[float, Float[np.ndarray, " P"]]:
    """Return the largest size and the values in units of it, whose powers neither underflow nor overflow."""
    largest = float(np.abs(values).max(initial=0.0))
    return largest, values / (largest or 1.0)


def _freedom(influence: Float[np.ndarray, " P"]) -> float:
    """Return the degrees of freedom of a variance, a sum of squares, in units of the largest (Satterthwaite 1946)."""
    squares, fourths = float((influence**2).sum()), float((influence**4).sum())
    return 2 / max(fourths / squares**2 - 1 / len(influence), 1 / MOST_FREEDOM)


def as_json(value: Any) -> Any:
    """Turn an estimate, or what holds some, into JSON; NaN and infinities become null."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: as_json(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def shown(estimate: IntervalEstimate, sign: str = "", form: str = ".3g") -> str:
    """Write ``0.073 [0.051, 0.093]``; "-" where there is no value."""
    if not math.isfinite(estimate.value):
        return "-"
    numbers = (estimate.value, estimate.low, estimate.high)
    rounded = (0.0 if abs(number) < ROUNDING else number for number in numbers)
    digits = int(form[1]) if form.endswith("g") else None
    value, low, high = (
        f"{number:{sign}{form}}" if digits is None else plain_number(number, digits, sign) for number in rounded
    )
    return value if math.isnan(estimate.low) else f"{value} [{low}, {high}]"


def share(estimate: IntervalEstimate) -> str:
    """Write ``58% [49%, 66%]``; "-" where there is no value."""
    return shown(estimate, form=".0%")


def percent(value: float) -> str:
    """Write a share; "-" for NaN."""
    return f"{value:.0%}" if math.isfinite(value) else "-"
