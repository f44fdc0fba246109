"""Fit the sigmoid to the mean over seeds, with intervals by the bootstrap over seeds, and compare the fits of arms.

ScaleRL (arXiv 2510.13786, Appendix A.5) tells the error of A from three runs. Here it is the bootstrap's: seeds are
drawn with replacement, each draw's mean curve is fitted again, and an interval is

    estimate +- t(S - 1) s sqrt(S / (S - 1))

with the standard deviation s over the draws. The root takes back that the bootstrap's variance of a mean is too small
by (S - 1) / S; Student's quantile is that of 95 %, as s itself comes from few seeds. B and C_mid have intervals of
their logarithms. An interval covers what other seeds would have given. It does not cover that the curve may be no
sigmoid: for that, every fit is made again of the first half of the compute.

An asymptote is higher, lower or the same where the whole interval of the difference lies above the margin, below it or
within it. Before that, the interval is widened on both sides by the drift: how far the two asymptotes have moved,
together, from the fits of the first half of the compute to those of all. For learning curves are no sigmoids: a fit to
less compute has another asymptote, and so has an arm that is only slower, as if it had less. Where a half tells no
asymptote, the verdict is ``undecided``. The pace, C_mid, is compared where the asymptote is the same.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtrit

from simlab.errors import InputError, check_choice, check_range
from simlab.scaling.sigmoid import HIGHEST, LOWEST, Curves, Sigmoid, fit, fit_each
from simlab.text import aligned

FEWEST = 5  # values to a curve: three parameters leave two
RESAMPLES = 200  # the error of an interval's width is 5 %
SEED = 0  # of the resamples: the same table every time, and arms with the same seeds are paired
# How far the mean curve may lie from the fit, as a share of its largest change and beyond three standard errors. A
# straight rise during a quarter of the compute lies up to 0.10 from its fit where the curve then stays, and 0.16 where
# it loses a quarter on a straight line to the end: a curve that turns, or rises in two steps, is no sigmoid.
FARTHEST, ERRORS = 0.15, 3.0
ROUNDING = 1e-9  # a smaller change is none

MARGIN = 0.02  # two asymptotes that differ by less are the same: the margin of ScaleRL's Appendix A.5
SAME_PACE = 1.01  # two midpoints whose ratio is smaller are the same, as are those of runs that differ by rounding
HIGHER, LOWER, UNDECIDED = "higher asymptote", "lower asymptote", "undecided"
FASTER, SLOWER, ALIKE, OPEN = (f"same asymptote, {pace}" for pace in ("faster", "slower", "same pace", "pace open"))
FORMULA = "R0 + (A - R0) / (1 + (C_mid / C)^B)"


class Refusal(NamedTuple):
    """The reason why a curve has no fit, or two have no difference, in one line."""

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
        draws: A, log B and log C_mid of each resample of the seeds.
        half: the curve of the first half of the compute; None where that has fewer than ``FEWEST`` values, and where
            its own C_mid lies beyond it.
        r_squared: the share of the variance of the mean curve over compute that the fit explains.
        asymptote: A; its interval ends where A must.
    """

    curve: Sigmoid
    draws: Float[np.ndarray, "R 3"]
    half: Sigmoid | None
    r_squared: float
    seeds: Int[np.ndarray, " S"]
    asymptote: Interval
    exponent: Interval
    midpoint: Interval


def _interval(mean: float, draws: Float[np.ndarray, " R"], seeds: int) -> Interval:
    """Return an estimate with the interval that the head of this file says; NaN for one seed."""
    if seeds < 2:
        return Interval(float(mean), np.nan, np.nan)
    half = float(stdtrit(seeds - 1, 0.975) * np.sqrt(seeds / (seeds - 1)) * draws.std())
    return Interval(float(mean), float(mean) - half, float(mean) + half)


def _exponential(interval: Interval) -> Interval:
    return Interval(*np.exp(interval).tolist())


def fit_curves(curves: Curves) -> Fit | Refusal:
    """Fit an arm's curves, or say why the data do not determine one.

    There is none of fewer than ``FEWEST`` values a curve; where a value is no number; where no change since the base
    model can be told from 0; where the curve lies more than ``FARTHEST`` of its change away from the best sigmoid; and
    where it does not bend within the data: the interval of C_mid reaches beyond the last compute, or A lies on its
    bound, far from where the curve ends.
    """
    if reason := _refuse_data(curves):
        return Refusal(reason)
    compute, seeds, base = curves.compute, len(curves.seeds), float(curves.base.mean())
    mean = curves.values.mean(axis=0)
    curve = fit(compute, mean, base)
    chosen = np.random.default_rng(SEED).integers(seeds, size=(RESAMPLES if seeds > 1 else 0, seeds))
    resampled = fit_each(compute, curves.values[chosen].mean(axis=1), curves.base[chosen].mean(axis=1))
    draws = np.array([draw.parameters for draw in resampled]).reshape(-1, 3)
    r_squared = 1 - float(((curve.at(compute) - mean) ** 2).sum() / max(((mean - mean.mean()) ** 2).sum(), 1e-300))
    early = compute <= compute[-1] / 2
    half = fit(compute[early], mean[early], base) if early.sum() >= FEWEST else None
    if half is not None and half.midpoint > compute[early][-1]:
        half = None
    asymptote, *logs = (_interval(mean, own, seeds) for mean, own in zip(curve.parameters, draws.T, strict=True))
    asymptote = Interval(asymptote.mean, *np.clip(asymptote[1:], LOWEST, HIGHEST).tolist())
    result = Fit(curve, draws, half, r_squared, curves.seeds, asymptote, *map(_exponential, logs))
    reason = _refuse_fit(curves, result)
    return Refusal(reason) if reason else result


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1e3 else f"{value:.0f}"


def _refuse_data(curves: Curves) -> str | None:
    """Say why the data have no fit, as far as that can be told before any."""
    count = len(curves.compute)
    if count < FEWEST:
        return f"too few points: {count} behind the base model; a fit takes {FEWEST} or more"
    if not ((curves.base >= LOWEST) & (curves.base <= HIGHEST)).all():
        return f"the base model's value is {curves.base.mean():.3g}; a fit takes numbers from 0 to 1"
    for compute, values in zip(curves.compute, curves.values.T, strict=True):
        for value in values:
            if not LOWEST <= value <= HIGHEST:
                return f"the value at compute {_number(compute)} is {value:.3g}; a fit takes numbers from 0 to 1"
    # Flat: neither the mean change since the base model nor that at any compute can be told from 0, at 5 % each.
    changes = curves.values - curves.base[:, None]
    (mean,), (half,) = _with_half(changes.mean(axis=1)[:, None], 0.05)
    means, halves = _with_half(changes, 0.05 / changes.shape[1])  # of so many, one would be far from 0 by chance
    if abs(mean) > half or (np.abs(means) > halves).any():
        return None
    return f"flat: the mean change, {mean:+.4f} [{mean - half:+.4f}, {mean + half:+.4f}], is as good as 0"


def _with_half(
    changes: Float[np.ndarray, "S N"], level: float
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """Return means over seeds and half of their t-intervals; of one seed the half is rounding."""
    seeds = len(changes)
    quantile = stdtrit(seeds - 1, 1 - level / 2) if seeds > 1 else 1.0
    return changes.mean(axis=0), np.maximum(quantile * _standard_error(changes), ROUNDING)


def _standard_error(values: Float[np.ndarray, "S N"]) -> Float[np.ndarray, " N"]:
    seeds = len(values)
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.zeros(values.shape[1]))


def _refuse_fit(curves: Curves, result: Fit) -> str | None:
    """Say why the best sigmoid is no fit: the mean curve lies far from it, C_mid is open, or a bound holds A."""
    curve, mean, last = result.curve, curves.values.mean(axis=0), float(curves.compute[-1])
    away = np.abs(curve.at(curves.compute) - mean) - ERRORS * _standard_error(curves.values)
    share, farthest = away.max() / np.abs(mean - curve.base).max(), _number(curves.compute[away.argmax()])
    if share > FARTHEST:
        return (
            f"no sigmoid: at compute {farthest} the curve lies {share:.0%} of its largest change away from the best one"
        )
    open_asymptote, middle = "not bending yet, so that A is open", result.midpoint
    if np.nanmax([middle.mean, middle.high]) > last:
        reach = _number(middle.mean)
        if len(result.seeds) > 1:
            reach += f" [{_number(middle.low)}, {_number(middle.high)}]"
        return f"{open_asymptote}: C_mid is {reach}, the last compute {_number(last)}"
    if min(curve.asymptote - LOWEST, HIGHEST - curve.asymptote) > ROUNDING:
        return None
    if abs(curve.asymptote - mean[-1]) <= FARTHEST * abs(curve.asymptote - curve.base):
        return None
    return f"{open_asymptote}: the curve ends at {mean[-1]:.3f}, and nothing but the bound holds A"


class Difference(NamedTuple):
    """The difference of A from a baseline's, ratios of B and C_mid, of seeds of both; the drift of both A."""

    asymptote: Interval
    drift: float
    exponent: Interval
    midpoint: Interval
    verdict: str


def against(baseline: Fit, arm: Fit, margin: float = MARGIN) -> Difference:
    """Compare an arm with a baseline, paired by seed: each resample has the same seeds of both."""
    check_range("margin", margin, 0, 1)
    seeds, others = arm.seeds.tolist(), baseline.seeds.tolist()
    if seeds != others:
        raise InputError(f"seeds {seeds} are not the baseline's, {others}; allowed: the same")
    means, draws = arm.curve.parameters - baseline.curve.parameters, (arm.draws - baseline.draws).T
    asymptote, exponent, midpoint = (_interval(*each, len(seeds)) for each in zip(means, draws, strict=True))
    drift = sum(abs(own.curve.asymptote - own.half.asymptote) if own.half else np.nan for own in (baseline, arm))
    verdict = _verdict(asymptote, drift, midpoint, margin)
    return Difference(asymptote, drift, _exponential(exponent), _exponential(midpoint), verdict)


def _verdict(asymptote: Interval, drift: float, log_midpoint: Interval, margin: float) -> str:
    """Return the verdict of the head of this file; no comparison with NaN is true."""
    low, high, same = asymptote.low - drift, asymptote.high + drift, np.log(SAME_PACE)
    if low > margin:
        return HIGHER
    if high < -margin:
        return LOWER
    if not (-margin <= low and high <= margin):
        return UNDECIDED
    if log_midpoint.high < -same:
        return FASTER
    if log_midpoint.low > same:
        return SLOWER
    return ALIKE if -same <= log_midpoint.low and log_midpoint.high <= same else OPEN


def differences(
    baseline: str, arms: Mapping[str, Curves], fits: Mapping[str, Fit | Refusal]
) -> dict[str, Difference | Refusal]:
    """Compare every other arm with the baseline, over the seeds that both have, or say why they cannot be compared."""

    def difference(name: str) -> Difference | Refusal:
        common = np.intersect1d(arms[baseline].seeds, arms[name].seeds)
        if not common.size:
            return Refusal("no seed in common with the baseline")
        first, second = (
            fits[arm] if arms[arm].seeds.tolist() == common.tolist() else fit_curves(arms[arm].of_seeds(common))
            for arm in (baseline, name)
        )
        if isinstance(first, Refusal):
            return Refusal(f"the baseline has no fit: {first.reason}")
        return second if isinstance(second, Refusal) else against(first, second)

    return {name: difference(name) for name in arms if name != baseline}


def scaling_tables(metric: str, unit: str, arms: Mapping[str, Curves], baseline: str | None = None) -> list[str]:
    """Return the lines of the table of a metric over compute in a unit, and of that of differences from a baseline."""
    if baseline is not None:
        check_choice("baseline", baseline, arms)
    fits = {name: fit_curves(curves) for name, curves in arms.items()}
    rows = [
        {
            "arm": name,
            "seeds": str(len(own.seeds)),
            "R0": f"{own.curve.base:.3f}",
            "A": shown(own.asymptote),
            "A of half": f"{own.half.asymptote:.3f}" if own.half else "-",
            "B": shown(own.exponent, 2),
            "C_mid": shown(own.midpoint, 0),
            "last C": f"{arms[name].compute[-1]:.0f}",
            "R^2": f"{own.r_squared:.4f}",
        }
        for name, own in fits.items()
        if isinstance(own, Fit)
    ]
    head = f"{metric} = {FORMULA}, C in {unit}; 95 % intervals by the bootstrap over seeds"
    lines = [head, *_table(rows, fits)]
    return lines if baseline is None else [*lines, "", *_differences(baseline, arms, fits)]


def _table(rows: list[dict[str, str]], results: Mapping[str, object]) -> Iterator[str]:
    """Yield a table, and a line for each arm that has none."""
    yield from aligned(rows) if rows else ()
    yield from (f"{name}: {own.reason}" for name, own in results.items() if isinstance(own, Refusal))


def _differences(baseline: str, arms: Mapping[str, Curves], fits: Mapping[str, Fit | Refusal]) -> Iterator[str]:
    if isinstance(fits[baseline], Refusal):
        yield f"{baseline} has no fit, so that nothing is compared with it"
        return
    results = differences(baseline, arms, fits)
    yield f"against {baseline}, paired by seed; asymptotes within {MARGIN:g} are the same (ScaleRL's margin: 0.02)"
    rows = [
        {
            "arm": name,
            "A more": shown(own.asymptote, sign="+"),
            "drift": "-" if np.isnan(own.drift) else f"{own.drift:.3f}",
            "B times": shown(own.exponent, 2),
            "C_mid times": shown(own.midpoint, 2),
            "verdict": own.verdict,
        }
        for name, own in results.items()
        if isinstance(own, Difference)
    ]
    yield from _table(rows, results)


def shown(interval: Interval, digits: int = 3, sign: str = "") -> str:
    """Write ``0.684 [0.676, 0.692]``, or the estimate alone where there is no interval.

    >>> shown(Interval(0.5, 0.4, 0.6), 2)
    '0.50 [0.40, 0.60]'
    """
    mean, low, high = (f"{number:{sign}.{digits}f}" for number in interval)
    return mean if np.isnan(interval.low) else f"{mean} [{low}, {high}]"
