"""Problems: what is sampled and what is correct."""

from simlab.problems.categorical import Categorical, anchored, custom
from simlab.problems.classes import Classes
from simlab.problems.prompt_bank import PromptBank, prompt_bank
from simlab.problems.registry import PROBLEMS, Problem, problem

__all__ = [
    "PROBLEMS",
    "Categorical",
    "Classes",
    "Problem",
    "PromptBank",
    "anchored",
    "custom",
    "problem",
    "prompt_bank",
]
