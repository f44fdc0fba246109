"""Run grids that resume, split into shards, and end in one labelled file; ``simlab.sweep`` is ``api.sweep``."""

from simlab.sweeps.api import sweep
from simlab.sweeps.budget import Budget
from simlab.sweeps.grid import Cell, Sweep
from simlab.sweeps.plan import Plan
from simlab.sweeps.run import merge, run

__all__ = ["Budget", "Cell", "Plan", "Sweep", "merge", "run", "sweep"]
