"""Condense sigmoid fits of arms and their differences from a baseline (``simlab.scaling``) to numbers that are kept."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from figures.shared.condensed import rounded
from simlab.scaling import Curves, Difference, Fit, Refusal, differences, fit_curves


def fitted(arms: Mapping[str, Curves], baseline: str) -> dict[str, dict[str, Any]]:
    """By arm: its fit or why it has none, and its difference from the baseline or why it has none."""
    fits = {name: fit_curves(curves) for name, curves in arms.items()}
    against = differences(baseline, arms, fits)
    return {
        name: _fit(own) | {"against": _difference(against[name]) if name in against else None}
        for name, own in fits.items()
    }


def _fit(found: Fit | Refusal) -> dict[str, Any]:
    if isinstance(found, Refusal):
        return {"refusal": found.reason}
    return {
        "base": rounded(found.curve.base),
        "asymptote": rounded(found.asymptote),
        "exponent": rounded(found.exponent),
        "midpoint": rounded(found.midpoint),
        "half": rounded(found.half.asymptote) if found.half else None,
        "r_squared": rounded(found.r_squared),
    }


def _difference(found: Difference | Refusal) -> dict[str, Any]:
    if isinstance(found, Refusal):
        return {"refusal": found.reason}
    return {
        "asymptote": rounded(found.asymptote),
        "drift": rounded(found.drift),
        "midpoint": rounded(found.midpoint),
        "verdict": found.verdict,
    }


def averaged(curves: Curves) -> dict[str, Any]:
    """The mean over seeds at each compute, the base model first, and its standard error."""
    values = np.concatenate([curves.base[:, None], curves.values], axis=1)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return {"mean": rounded(values.mean(axis=0), 4), "error": rounded(error, 2)}
