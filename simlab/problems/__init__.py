"""Problems: what is sampled and what is correct."""

from simlab.problems.base import Problem
from simlab.problems.categorical import Categorical, anchored, custom
from simlab.problems.linear_softmax import LinearSoftmax, linear_softmax
from simlab.problems.prompt_bank import PromptBank, prompt_bank
from simlab.problems.tree import Tree, tree
