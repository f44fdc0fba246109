"""Problems by name."""

import math
from collections.abc import Callable
from typing import Any

from simlab.errors import build
from simlab.problems.categorical import Categorical, anchored, custom
from simlab.problems.classes import Classes
from simlab.problems.linear_softmax import LinearSoftmax, linear_softmax
from simlab.problems.prompt_bank import PromptBank, prompt_bank
from simlab.problems.tree import Tree, tree

Problem = Categorical | Classes | PromptBank | LinearSoftmax | Tree

PROBLEMS: dict[str, Callable[..., Problem]] = {
    "anchored": anchored,
    "custom": custom,
    "prompt_bank": prompt_bank,
    "linear_softmax": linear_softmax,
    "tree": tree,
}


def problem(name: str, **parameters: Any) -> Problem:
    """Build a problem by name.

    Raises:
        InputError: for an unknown name or parameter, and what the constructor refuses.
    """
    built: Problem = build("problem", name, PROBLEMS, parameters)
    return built


def problem_size(problem: Problem) -> int:
    """How many numbers a lane of the problem carries: its logits, listed or not, and shared weights and features."""
    shared = problem.weights.size + problem.features.size if isinstance(problem, LinearSoftmax) else 0
    return math.prod(problem.shape) + shared
