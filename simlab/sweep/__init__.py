"""Sweeps: grids of runs that resume, split into shards, and end in one labelled file."""

from simlab.sweep.grid import Cell, Sweep
from simlab.sweep.run import merge, run

__all__ = ["Cell", "Sweep", "merge", "run"]
