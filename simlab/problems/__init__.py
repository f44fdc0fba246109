"""Problems: what is sampled, what is correct, and what a policy's parameters are."""

from simlab.problems.base import Problem
from simlab.problems.categorical import Categorical, anchored, custom
from simlab.problems.graded import format_reward, length_penalty, partial_credit, reward_hack, rubric
from simlab.problems.interference import InterferingPrompts, interference
from simlab.problems.linear_softmax import LinearSoftmax, linear_softmax
from simlab.problems.network import Network, network
from simlab.problems.prompt_bank import PromptBank, prompt_bank
from simlab.problems.registry import PROBLEMS, problem, register
from simlab.problems.tree import Tree, tree

__all__ = [
    "PROBLEMS", "Categorical", "InterferingPrompts", "LinearSoftmax", "Network", "Problem", "PromptBank", "Tree",
    "anchored", "custom", "format_reward", "interference", "length_penalty", "linear_softmax", "network",
    "partial_credit", "problem", "prompt_bank", "register", "reward_hack", "rubric", "tree",
]  # fmt: skip
