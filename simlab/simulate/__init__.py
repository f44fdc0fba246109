"""The simulator: engines, sampling, updates and what is recorded of them. Importing it imports JAX."""

from simlab.simulate.labelled import simulate
from simlab.simulate.lanes import run_lanes
from simlab.simulate.program import Numbers, Program

__all__ = ["Numbers", "Program", "run_lanes", "simulate"]
