"""Preset ``least-variance``: each weight beside the baseline of least variance for its speed, in three places.

A weight and its rival have the same expected update, and so one learning rate for both. Groups of 4 are the smallest
that a weight of pass@4 takes; there the noise is largest.
"""

from simlab.sweeps.presets.base import BANK, ON_BANK, RATE, Preset, SweepSettings
from simlab.sweeps.presets.network_league import league

BASES = ("reinforce", "nsr", "rloo", "grpo", "maxrl", "pkpo")
ARMS = tuple(f"{name}+reinforce" for base in BASES for name in (base, f"least_variance(base={base})"))
_SETTINGS: SweepSettings = dict(arms=ARMS, group_sizes=(4, 16), seeds=16, steps=400, record_every=5)

LEAST_VARIANCE: Preset = {
    "bank-sgd": ON_BANK | _SETTINGS | {"pass_at_k": (1, 16, 256), "parameters": BANK | {RATE: (4.0, 16.0)}},
    "linear-sgd": league("linear", "sgd", (), {RATE: (1.0, 4.0)}) | _SETTINGS,
    "network-adam": league("one", "adam", (), {RATE: (0.001, 0.004)}) | _SETTINGS,
}
