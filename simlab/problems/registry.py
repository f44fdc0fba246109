"""Problems by name: the library's, those that a user registers, and those in a user's file."""

import inspect
from collections.abc import Callable
from typing import Any

from simlab import own_files
from simlab.constructors import Constructor, is_file
from simlab.errors import InputError, check_choice
from simlab.problems.base import Problem
from simlab.problems.categorical import anchored, custom
from simlab.problems.graded import format_reward, length_penalty, partial_credit, reward_hack, rubric
from simlab.problems.interference import interference
from simlab.problems.linear_softmax import linear_softmax
from simlab.problems.network import network
from simlab.problems.prompt_bank import prompt_bank
from simlab.problems.tree import tree

Makes = Callable[..., Problem]
ALLOWED = "allowed: a Problem, or a function with defaults for all parameters that makes one"

PROBLEMS: dict[str, Makes] = {}


def register(makes: Makes) -> Makes:
    """List a function that makes a problem under its own name; also a decorator. ``InputError`` if it cannot be."""
    name = makes.__name__
    if name in PROBLEMS:
        raise InputError(f"problem {name!r} is registered already; choose another name")
    _defaults(name, makes)
    PROBLEMS[name] = makes
    return makes


def problem(name: str, **parameters: Any) -> Problem:
    """Build a problem by its name, or by ``FILE.py:NAME``; ``InputError`` for what is unknown or makes no problem.

    >>> problem("anchored", actions=100, correct=10).actions
    100
    """
    built = problem_constructor(name)(**parameters)
    if not isinstance(built, Problem):
        raise InputError(f"problem {name!r} makes a {type(built).__name__}; {ALLOWED}")
    return built


def problem_constructor(name: str) -> Constructor:
    """Find the constructor of a problem, by a registered name or ``FILE.py:NAME``; ``InputError`` if there is none."""
    if not is_file(name):
        check_choice("problem", name, sorted(PROBLEMS))
        return Constructor(name, PROBLEMS[name], _defaults(name, PROBLEMS[name]))
    loaded = own_files.load(name)
    if isinstance(loaded, Problem):
        return Constructor(name, lambda: loaded, {})
    if not callable(loaded):
        raise InputError(f"{name} is a {type(loaded).__name__}; {ALLOWED}")
    return Constructor(name, loaded, _defaults(name, loaded))


def _defaults(name: str, makes: Makes) -> dict[str, Any]:
    """The defaults of a function's parameters, which all have one."""
    parameters = inspect.signature(makes).parameters
    if bare := [key for key, parameter in parameters.items() if parameter.default is parameter.empty]:
        raise InputError(f"{name} has no default for {bare[0]!r}; {ALLOWED}")
    return {key: parameter.default for key, parameter in parameters.items()}


GRADED = (format_reward, partial_credit, length_penalty, rubric, reward_hack)
for _makes in (anchored, custom, prompt_bank, linear_softmax, interference, network, tree, *GRADED):
    register(_makes)
