"""Interference between prompts: how far the update of each moves the solve rate of every other; needs NumPy alone."""

from simlab.interference.kernel import Interference, Push, danger, log_odds, measure, push
from simlab.interference.record import Record, read_record, read_records, write_record
from simlab.interference.weights import rollout_weights

__all__ = [
    "Interference", "Push", "Record", "danger", "log_odds", "measure", "push", "read_record", "read_records",
    "rollout_weights", "write_record",
]  # fmt: skip
