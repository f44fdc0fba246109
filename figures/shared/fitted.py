"""Condense sigmoid fits of arms and their differences from a baseline (``simlab.scaling``) to numbers that are kept."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from figures.shared.condensed import rounded
from simlab.scaling import Curves, Difference, Fit, Refusal, differences, fit_curves


def fitted(arms: Mapping[str, Curves], baseline: str) -> dict[str, dict[str, Any]]:
    """Return each arm's fit and its difference from the baseline, or the reason why it has none."""
    fits = {name: fit_curves(curves) for name, curves in arms.items()}
    against = differences(baseline, arms, fits)
    return {
        name: _fit(fit) | {"against": _difference(against[name]) if name in against else None}
        for name, fit in fits.items()
    }


def _fit(fit: Fit | Refusal) -> dict[str, Any]:
    if isinstance(fit, Refusal):
        return {"refusal": fit.reason}
    return {
        "base": rounded(fit.curve.base),
        "asymptote": rounded(fit.asymptote),
        "exponent": rounded(fit.exponent),
        "midpoint": rounded(fit.midpoint),
        "half": rounded(fit.half.asymptote) if fit.half else None,
        "r_squared": rounded(fit.r_squared),
    }


def _difference(difference: Difference | Refusal) -> dict[str, Any]:
    if isinstance(difference, Refusal):
        return {"refusal": difference.reason}
    return {
        "asymptote": rounded(difference.asymptote),
        "drift": rounded(difference.drift),
        "midpoint": rounded(difference.midpoint),
        "verdict": difference.verdict,
    }


def averaged(curves: Curves) -> dict[str, Any]:
    """The mean over seeds at each compute, the base model first, and its standard error."""
    values = np.concatenate([curves.base[:, None], curves.values], axis=1)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return {"mean": rounded(values.mean(axis=0), 4), "error": rounded(error, 2)}
