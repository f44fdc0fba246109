"""Closed forms and exact quantities, one file a topic; importing them does not import JAX."""

from simlab.theory.closed_forms import CLOSED_FORMS, ClosedForm, closed_form
from simlab.theory.interference import (
    Drift,
    contrast,
    expected_advantages,
    expected_speed,
    log_odds_drift,
    transfer,
)
from simlab.theory.likeness import Clock, alike, clock
from simlab.theory.loss_time import time_until_lost
from simlab.theory.masses import Masses, masses
from simlab.theory.pass_at_k_crossing import crossing_k, pass_at_k_change
from simlab.theory.redistribution import (
    correct_mass_change,
    first_order_change,
    logit_update,
    subset_change,
    unsampled_correct_mass_change,
)
from simlab.theory.rollout_floor import chance_of_rise, groups_to_rise, pull_on_hard, unsolved_chance
from simlab.theory.tail_miss import active, conditional_tail_miss, tail_miss
from simlab.theory.verifier import JudgedMasses, accepted_rate, judged_masses, judged_speed

__all__ = [
    "CLOSED_FORMS", "Clock", "ClosedForm", "Drift", "JudgedMasses", "Masses", "accepted_rate", "active", "alike",
    "chance_of_rise", "clock", "closed_form", "conditional_tail_miss", "contrast", "correct_mass_change",
    "crossing_k", "expected_advantages", "expected_speed", "first_order_change", "groups_to_rise",
    "judged_masses", "judged_speed", "log_odds_drift", "logit_update", "masses",
    "pass_at_k_change", "pull_on_hard", "subset_change", "tail_miss", "time_until_lost", "transfer",
    "unsampled_correct_mass_change", "unsolved_chance",
]  # fmt: skip
