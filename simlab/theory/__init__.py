"""Closed forms and exact quantities, one file a topic; importing them does not import JAX."""

from simlab.theory.closed_forms import CLOSED_FORMS, ClosedForm, closed_form
from simlab.theory.likeness import alike
from simlab.theory.masses import Masses, masses
from simlab.theory.redistribution import (
    correct_mass_change,
    first_order_change,
    logit_update,
    subset_change,
    unsampled_correct_mass_change,
)
from simlab.theory.tail_miss import active, conditional_tail_miss, tail_miss

__all__ = [
    "CLOSED_FORMS",
    "ClosedForm",
    "Masses",
    "active",
    "alike",
    "closed_form",
    "conditional_tail_miss",
    "correct_mass_change",
    "first_order_change",
    "logit_update",
    "masses",
    "subset_change",
    "tail_miss",
    "unsampled_correct_mass_change",
]
