"""Fit the sigmoid to the mean over seeds, with intervals by the bootstrap over seeds, and compare the fits of arms.

ScaleRL (arXiv 2510.13786, Appendix A.5) tells the error of A from three runs. Here it is the bootstrap's: seeds are
drawn with replacement, each draw's mean curve is fitted again, and an interval is

    estimate +- t(S - 1) s sqrt(S / (S - 1))

with the standard deviation s over the draws. The root takes back that the bootstrap's variance of a mean is too small
by (S - 1) / S; Student's quantile is that of 95 %, as s itself comes from few seeds. B and C_mid have intervals of
their logarithms. An interval covers what other seeds would have given. Learning curves are no sigmoids, though: a
longer run has another A. So every fit is made again of the first half and quarter of the compute. Where A has moved
from the half to all by more than the interval's half, the interval of A reaches on to where such moves lead, each
further doubling by the same share of the one before; if moves do not shrink, to 0 or 1.

Example: A of a quarter, half and all .70, .80, .85. The next moves are .025, .0125, ..., and A may come to .90.

An asymptote is higher, lower or the same where the whole interval of the difference lies above the margin, below it or
within it. Before that, the interval is widened on both sides by the drift: how far the two asymptotes have moved,
together, from the fits of the first half of the compute to those of all. For learning curves are no sigmoids: a fit to
less compute has another asymptote, and so has an arm that is only slower, as if it had less. Where a half tells no
asymptote, the verdict is ``undecided``, and says how much longer a run, or how many more seeds, would tell. The pace,
C_mid, is compared where the asymptote is the same.

Where one of two arms has no fit, their last values are compared, at equal compute: an arm that ends above another is
no mere clock of it once the lower one has settled, which no more compute takes there.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from simlab.errors import InputError, check_choice, check_range
from simlab.intervals import Interval, half_width
from simlab.scaling.sigmoid import HIGHEST, LOWEST, Curves, Sigmoid, fit, fit_each
from simlab.text import aligned, plain_number

FEWEST = 5  # values to a curve: three parameters leave two
RESAMPLES = 200  # the error of an interval's width is 5 %
SEED = 0  # of the resamples: the same table every time, and arms with the same seeds are paired
# How far the mean curve may lie from the fit, as a share of its largest change and beyond three standard errors. A
# straight rise during a quarter of the compute lies up to 0.10 from its fit where the curve then stays, and 0.16 where
# it loses a quarter on a straight line to the end: a curve that turns, or rises in two steps, is no sigmoid.
FARTHEST, ERRORS = 0.15, 3.0

ROUNDING = 1e-9  # a smaller change is none
MARGIN = 0.02  # two asymptotes that differ by less are the same: the margin of ScaleRL's Appendix A.5
MOST_SEEDS, MOST_DOUBLINGS = 100, 10  # that advice on an undecided verdict names
SAME_PACE = 1.01  # two midpoints whose ratio is smaller are the same, as are those of runs that differ by rounding
HIGHER, LOWER, UNDECIDED = "higher asymptote", "lower asymptote", "undecided"
FASTER, SLOWER, ALIKE, OPEN = (f"same asymptote, {pace}" for pace in ("faster", "slower", "same pace", "pace open"))
FORMULA = "R0 + (A - R0) / (1 + (C_mid / C)^B)"


class Refusal(NamedTuple):
    """The reason why a curve has no fit, or two have no difference, in one line."""

    reason: str


class Fit(NamedTuple):
    """A fitted sigmoid and its uncertainty.

    Attributes:
        curve: the curve of the mean over seeds.
        draws: A, log B and log C_mid of each resample of the seeds.
        half: the curve of the first half of the compute; None where that has fewer than ``FEWEST`` values, and where
            its own C_mid lies beyond it.
        shrinking: the last move of A, from half to all, over the move before, from quarter to half, at most 1; 1 where
            that is not known.
        r_squared: the share of the variance of the mean curve over compute that the fit explains.
        asymptote: A; its interval ends where A must.
    """

    curve: Sigmoid
    draws: Float[np.ndarray, "R 3"]
    half: Sigmoid | None
    shrinking: float
    r_squared: float
    seeds: Int[np.ndarray, " S"]
    asymptote: Interval
    exponent: Interval
    midpoint: Interval


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


def _interval(mean: float, draws: Float[np.ndarray, " R"], seeds: int) -> Interval:
    """Return an estimate with the interval that the head of this file says; NaN for one seed."""
    if seeds < 2:
        return Interval(float(mean), np.nan, np.nan)
    half = float(half_width(np.sqrt(seeds / (seeds - 1)) * draws.std(), seeds))
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
    half, quarter = (_fit_until(compute, mean, base, compute[-1] * share) for share in (0.5, 0.25))
    asymptote, *logs = (_interval(mean, draw, seeds) for mean, draw in zip(curve.parameters, draws.T, strict=True))
    shrinking = 1.0
    if half is not None and quarter is not None and (before := abs(half.asymptote - quarter.asymptote)) > ROUNDING:
        shrinking = min(abs(curve.asymptote - half.asymptote) / before, 1.0)
    asymptote = _extended(asymptote, half, shrinking)
    result = Fit(curve, draws, half, shrinking, r_squared, curves.seeds, asymptote, *map(_exponential, logs))
    reason = _refuse_fit(curves, result)
    return Refusal(reason) if reason else result


def _fit_until(
    compute: Float[np.ndarray, " N"], mean: Float[np.ndarray, " N"], base: float, last: float
) -> Sigmoid | None:
    """Fit the curve up to a compute; None of fewer than ``FEWEST`` values, and where C_mid lies beyond them."""
    early = compute <= last
    curve = fit(compute[early], mean[early], base) if early.sum() >= FEWEST else None
    return None if curve is None or curve.midpoint > compute[early][-1] else curve


def _extended(asymptote: Interval, half: Sigmoid | None, shrinking: float) -> Interval:
    """Let the interval of A reach to where its moves lead, if the last is larger than half of it; end it at 0 and 1."""
    mean, low, high = asymptote
    move = 0.0 if half is None else mean - half.asymptote
    if abs(move) > (high - low) / 2:
        end = mean + (move * shrinking / (1 - shrinking) if shrinking < 1 else np.copysign(1.0, move))
        low, high = min(low, end), max(high, end)
    return Interval(mean, *np.clip([low, high], LOWEST, HIGHEST).tolist())


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
                return f"the value at compute {plain_number(compute)} is {value:.3g}; a fit takes numbers from 0 to 1"
    # Flat: neither the mean change since the base model nor that at any compute can be told from 0, at 5 % each.
    changes = curves.values - curves.base[:, None]
    (mean,), (half,) = with_half(changes.mean(axis=1)[:, None], 0.05)
    means, halves = with_half(changes, 0.05 / changes.shape[1])  # of so many, one would be far from 0 by chance
    if abs(mean) > half or (np.abs(means) > halves).any():
        return None
    return f"flat: the mean change, {mean:+.4f} [{mean - half:+.4f}, {mean + half:+.4f}], is as good as 0"


def _refuse_fit(curves: Curves, result: Fit) -> str | None:
    """Say why the best sigmoid is no fit: the mean curve lies far from it, C_mid is open, or a bound holds A."""
    curve, mean, last = result.curve, curves.values.mean(axis=0), float(curves.compute[-1])
    away = np.abs(curve.at(curves.compute) - mean) - ERRORS * standard_error(curves.values)
    share, farthest = away.max() / np.abs(mean - curve.base).max(), plain_number(curves.compute[away.argmax()])
    if share > FARTHEST:
        return (
            f"no sigmoid: at compute {farthest} the curve lies {share:.0%} of its largest change away from the best one"
        )
    open_asymptote, middle = "not bending yet, so that A is open", result.midpoint
    if np.nanmax([middle.mean, middle.high]) > last:
        reach = plain_number(middle.mean)
        if len(result.seeds) > 1:
            reach += f" [{plain_number(middle.low)}, {plain_number(middle.high)}]"
        return f"{open_asymptote}: C_mid is {reach}, the last compute {plain_number(last)}"
    if min(curve.asymptote - LOWEST, HIGHEST - curve.asymptote) > ROUNDING:
        return None
    if abs(curve.asymptote - mean[-1]) <= FARTHEST * abs(curve.asymptote - curve.base):
        return None
    return f"{open_asymptote}: the curve ends at {mean[-1]:.3f}, and nothing but the bound holds A"


class Difference(NamedTuple):
    """The difference of A from a baseline's, ratios of B and C_mid, of seeds of both; the drift of both A.

    ``advice`` says how much longer a run, or how many more seeds, would decide what is undecided.
    """

    asymptote: Interval
    drift: float
    exponent: Interval
    midpoint: Interval
    verdict: str
    advice: str = ""


def against(baseline: Fit, arm: Fit, margin: float = MARGIN) -> Difference:
    """Compare an arm with a baseline, paired by seed: each resample has the same seeds of both."""
    check_range("margin", margin, 0, 1)
    seeds, others = arm.seeds.tolist(), baseline.seeds.tolist()
    if seeds != others:
        raise InputError(f"seeds {seeds} are not the baseline's, {others}; allowed: the same")
    means, draws = arm.curve.parameters - baseline.curve.parameters, (arm.draws - baseline.draws).T
    asymptote, exponent, midpoint = (_interval(*each, len(seeds)) for each in zip(means, draws, strict=True))
    drift = sum(abs(each.curve.asymptote - each.half.asymptote) if each.half else np.nan for each in (baseline, arm))
    verdict = _verdict(asymptote, drift, midpoint, margin)
    advice = ""
    if verdict == UNDECIDED and len(seeds) > 1:
        advice = _advise(asymptote, drift, max(baseline.shrinking, arm.shrinking), margin)
    return Difference(asymptote, drift, _exponential(exponent), _exponential(midpoint), verdict, advice)


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


def _advise(asymptote: Interval, drift: float, shrinking: float, margin: float) -> str:
    """Say how many more seeds, or how much longer a run, would take the widened interval off the margin.

    The interval shrinks with the root of the seeds, the drift by ``shrinking`` with each doubling of the compute, or
    by half where that is not known.
    """
    if np.isnan(drift):
        return "run it at least twice as long, as half of the run tells no asymptote"
    room, half = abs(abs(asymptote.mean) - margin), (asymptote.high - asymptote.low) / 2
    if room < margin / MOST_SEEDS**0.5:
        return "the difference is about the margin itself"
    if half >= room:
        return f"about {int(np.ceil((half / room) ** 2 * 1.5))} times as many seeds would tell"
    share = shrinking if shrinking < 1 else 0.5
    doublings = int(np.ceil(np.log((room - half) / drift) / np.log(share))) if drift > room - half else 1
    return f"about {2 ** min(doublings, MOST_DOUBLINGS)} times as long a run would tell"


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


# Tables


def shown(interval: Interval, digits: int = 3, sign: str = "") -> str:
    """Write ``0.684 [0.676, 0.692]``, or the estimate alone where there is no interval.

    >>> shown(Interval(0.5, 0.4, 0.6), 2)
    '0.50 [0.40, 0.60]'
    """
    mean, low, high = (f"{number:{sign}.{digits}f}" for number in interval)
    return mean if np.isnan(interval.low) else f"{mean} [{low}, {high}]"


def scaling_tables(metric: str, unit: str, arms: Mapping[str, Curves], baseline: str | None = None) -> list[str]:
    """Return the lines of the table of a metric over compute in a unit, and of that of differences from a baseline."""
    if baseline is not None:
        check_choice("baseline", baseline, arms)
    fits = {name: fit_curves(curves) for name, curves in arms.items()}
    rows = [
        {
            "arm": name,
            "seeds": str(len(fitted.seeds)),
            "R0": f"{fitted.curve.base:.3f}",
            "A": shown(fitted.asymptote),
            "A of half": f"{fitted.half.asymptote:.3f}" if fitted.half else "-",
            "B": shown(fitted.exponent, 2),
            "C_mid": shown(fitted.midpoint, 0),
            "last C": f"{arms[name].compute[-1]:.0f}",
            "R^2": f"{fitted.r_squared:.4f}",
        }
        for name, fitted in fits.items()
        if isinstance(fitted, Fit)
    ]
    head = f"{metric} = {FORMULA}, C in {unit}; 95 % intervals by the bootstrap over seeds"
    refusals = {name: fitted.reason for name, fitted in fits.items() if isinstance(fitted, Refusal)}
    lines = [head, *_table(rows, refusals)]
    return lines if baseline is None else [*lines, "", *_differences(baseline, arms, fits)]


def _table(rows: list[dict[str, str]], refusals: Mapping[str, str]) -> list[str]:
    """Return the lines of a table, and one for each arm that has no row."""
    return [*(aligned(rows) if rows else ()), *(f"{name}: {reason}" for name, reason in refusals.items())]


def _differences(baseline: str, arms: Mapping[str, Curves], fits: Mapping[str, Fit | Refusal]) -> list[str]:
    results = differences(baseline, arms, fits)
    head = f"against {baseline}, paired by seed; asymptotes within {MARGIN:g} are the same (ScaleRL's margin: 0.02)"
    rows = [
        {
            "arm": name,
            "A more": shown(result.asymptote, sign="+"),
            "drift": "-" if np.isnan(result.drift) else f"{result.drift:.3f}",
            "B times": shown(result.exponent, 2),
            "C_mid times": shown(result.midpoint, 2),
            "verdict": f"{result.verdict}: {result.advice}" if result.advice else result.verdict,
        }
        for name, result in results.items()
        if isinstance(result, Difference)
    ]
    refusals = {name: result.reason for name, result in results.items() if isinstance(result, Refusal)}
    for name in refusals:
        if ends := compare_ends(arms[baseline], arms[name], baseline):
            refusals[name] += f"; it {ends}"
    return [head, *_table(rows, refusals)]
