"""Problems: what is sampled and what is correct."""

from simlab.problems.categorical import Categorical, anchored, custom
from simlab.problems.classes import Classes
from simlab.problems.linear_softmax import LinearSoftmax, linear_softmax
from simlab.problems.prompt_bank import PromptBank, prompt_bank
from simlab.problems.registry import PROBLEMS, Problem, problem, problem_size
from simlab.problems.tree import Tree, tree

__all__ = [
    "PROBLEMS",
    "Categorical",
    "Classes",
    "LinearSoftmax",
    "Problem",
    "PromptBank",
    "Tree",
    "anchored",
    "custom",
    "linear_softmax",
    "problem",
    "problem_size",
    "prompt_bank",
    "tree",
]
