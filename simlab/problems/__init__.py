"""Problems: what is sampled and what is correct."""

from simlab.problems.categorical import PROBLEMS, Categorical, anchored, custom, problem

__all__ = ["PROBLEMS", "Categorical", "anchored", "custom", "problem"]
