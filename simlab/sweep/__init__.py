"""Sweeps: grids of runs that resume, split into shards, and end in one labelled file.

The package is called as its function ``simlab.sweep.api.sweep``.
"""

from simlab.callable_package import make_callable
from simlab.sweep.api import sweep
from simlab.sweep.grid import Cell, Sweep
from simlab.sweep.plan import Plan
from simlab.sweep.run import merge, run

__all__ = ["Cell", "Plan", "Sweep", "merge", "run", "sweep"]

make_callable(__name__)
