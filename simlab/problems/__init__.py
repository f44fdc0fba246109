"""Problems: what is sampled and what is correct."""

from simlab.problems.categorical import PROBLEMS, Categorical, Problem, anchored, custom, problem
from simlab.problems.classes import Classes

__all__ = ["PROBLEMS", "Categorical", "Classes", "Problem", "anchored", "custom", "problem"]
