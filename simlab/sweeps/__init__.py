"""Run grids that resume, split into shards, and end in one labelled file; ``simlab.sweep`` is ``run.sweep``."""

from simlab.sweeps.grid import Budget, Cell, Sweep
from simlab.sweeps.plan import Plan
from simlab.sweeps.run import merge, run, sweep

__all__ = ["Budget", "Cell", "Plan", "Sweep", "merge", "run", "sweep"]
