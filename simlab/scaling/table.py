"""The tables of ``simlab fit`` and ``simlab compare --fit``: a fit an arm, and its difference from a baseline."""

from collections.abc import Iterator, Mapping

import numpy as np

from simlab.errors import check_choice
from simlab.scaling.curves import Curves
from simlab.scaling.estimates import Fit, Interval, Refusal, fit_curves
from simlab.scaling.verdicts import MARGIN, Difference, against
from simlab.text import aligned

FORMULA = "R0 + (A - R0) / (1 + (C_mid / C)^B)"


def scaling_tables(
    metric: str, unit: str, arms: Mapping[str, Curves], baseline: str | None = None, margin: float = MARGIN
) -> list[str]:
    """The lines of the table of a metric, and of that of differences from a baseline.

    Args:
        metric: what the values are.
        unit: of compute.
        arms: by name.
        baseline: the arm to which the others are compared.
        margin: asymptotes that differ by less are the same.

    Raises:
        InputError: for a baseline that is none of the arms.
    """
    if baseline is not None:
        check_choice("baseline", baseline, arms)
    fits = {name: fit_curves(curves) for name, curves in arms.items()}
    lines = [
        f"{metric} = {FORMULA}, C in {unit}; 95 % intervals by the bootstrap over seeds",
        *_aligned([_row(name, arms[name], found) for name, found in fits.items() if isinstance(found, Fit)]),
        *(f"{name}: {found.reason}" for name, found in fits.items() if isinstance(found, Refusal)),
    ]
    return lines if baseline is None else [*lines, "", *_differences(baseline, arms, fits, margin)]


def _row(name: str, curves: Curves, found: Fit) -> dict[str, str]:
    return {
        "arm": name,
        "seeds": str(len(found.seeds)),
        "R0": f"{found.curve.base:.3f}",
        "A": shown(found.asymptote),
        "A of half": f"{found.half.asymptote:.3f}" if found.half else "-",
        "B": shown(found.exponent, 2),
        "C_mid": shown(found.midpoint, 0),
        "last C": f"{curves.compute[-1]:.0f}",
        "R^2": f"{found.r_squared:.4f}",
    }


def shown(found: Interval, digits: int = 3, sign: str = "") -> str:
    """``0.684 [0.676, 0.692]``, or the estimate alone where there is no interval.

    >>> shown(Interval(0.5, 0.4, 0.6), 2)
    '0.50 [0.40, 0.60]'
    """
    mean, low, high = (f"{number:{sign}.{digits}f}" for number in found)
    return mean if np.isnan(found.low) else f"{mean} [{low}, {high}]"


def _aligned(rows: list[dict[str, str]]) -> list[str]:
    return aligned(rows) if rows else []


def differences(
    baseline: str, arms: Mapping[str, Curves], fits: Mapping[str, Fit | Refusal], margin: float = MARGIN
) -> dict[str, Difference | Refusal]:
    """How every other arm differs from the baseline, over the seeds that both have, or why they cannot be compared."""
    others = [name for name in arms if name != baseline]
    return {name: _difference(arms[baseline], arms[name], (fits[baseline], fits[name]), margin) for name in others}


def _difference(
    baseline: Curves, arm: Curves, fits: tuple[Fit | Refusal, Fit | Refusal], margin: float
) -> Difference | Refusal:
    common = np.intersect1d(baseline.seeds, arm.seeds)
    if not common.size:
        return Refusal("no seed in common with the baseline")
    chosen = [
        found if own.seeds.tolist() == common.tolist() else fit_curves(own.of_seeds(common))
        for own, found in zip((baseline, arm), fits, strict=True)
    ]
    for whose, found in zip(("the baseline has no fit: ", ""), chosen, strict=True):
        if isinstance(found, Refusal):
            return Refusal(whose + found.reason)
    first, second = (found for found in chosen if isinstance(found, Fit))
    return against(first, second, margin)


def _differences(
    baseline: str, arms: Mapping[str, Curves], fits: Mapping[str, Fit | Refusal], margin: float
) -> Iterator[str]:
    if isinstance(fits[baseline], Refusal):
        yield f"{baseline} has no fit, so that nothing is compared with it"
        return
    found = differences(baseline, arms, fits, margin)
    yield f"against {baseline}, paired by seed; asymptotes within {margin:g} are the same (ScaleRL's margin: 0.02)"
    rows = [_difference_row(name, own) for name, own in found.items() if isinstance(own, Difference)]
    yield from _aligned(rows)
    yield from (f"{name}: {own.reason}" for name, own in found.items() if isinstance(own, Refusal))


def _difference_row(name: str, found: Difference) -> dict[str, str]:
    return {
        "arm": name,
        "A more": shown(found.asymptote, sign="+"),
        "drift": "-" if np.isnan(found.drift) else f"{found.drift:.3f}",
        "B times": shown(found.exponent, 2),
        "C_mid times": shown(found.midpoint, 2),
        "verdict": found.verdict,
    }
