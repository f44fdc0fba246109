"""Ceiling or clock: fit sigmoids to metrics against compute, and compare the fits of arms (``simlab fit``)."""

from simlab.scaling.curves import Curves
from simlab.scaling.estimates import Fit, Refusal, fit_curves
from simlab.scaling.sigmoid import Sigmoid, fit
from simlab.scaling.table import differences, scaling_tables
from simlab.scaling.verdicts import MARGIN, Difference, against

__all__ = [
    "MARGIN",
    "Curves",
    "Difference",
    "Fit",
    "Refusal",
    "Sigmoid",
    "against",
    "differences",
    "fit",
    "fit_curves",
    "scaling_tables",
]
