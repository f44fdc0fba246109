"""Sweeps by name: the settings of ``Sweep`` that differ from its defaults, one file a subject."""

from simlab.sweeps.presets import banks, frontier, interference, papers
from simlab.sweeps.presets.base import PRESETS, SweepSettings
from simlab.sweeps.presets.papers import F_GRPO_FIG2

__all__ = ["F_GRPO_FIG2", "PRESETS", "SweepSettings", "banks", "frontier", "interference", "papers"]
