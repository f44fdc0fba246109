"""Ceiling or clock: fit sigmoids to metrics against compute, and compare the fits of arms (``simlab fit``)."""

from simlab.scaling.estimates import (
    HIGHER,
    LOWER,
    MARGIN,
    Difference,
    Fit,
    Refusal,
    against,
    differences,
    fit_curves,
    scaling_tables,
)
from simlab.scaling.sigmoid import Curves, Sigmoid, fit

__all__ = [
    "HIGHER", "LOWER", "MARGIN", "Curves", "Difference", "Fit", "Refusal", "Sigmoid", "against", "differences", "fit",
    "fit_curves", "scaling_tables",
]  # fmt: skip
