"""Problems by name: the library's, those that a user registers, and those in a user's file."""

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from simlab import own_files
from simlab.constructors import Constructor, is_file
from simlab.errors import InputError, check_choice
from simlab.problems.base import Problem
from simlab.problems.categorical import anchored, custom
from simlab.problems.linear_softmax import linear_softmax
from simlab.problems.prompt_bank import prompt_bank
from simlab.problems.tree import tree

Makes = Callable[..., Problem]

_PROBLEMS: dict[str, Makes] = {}
PROBLEMS: Mapping[str, Makes] = MappingProxyType(_PROBLEMS)


def register(makes: Makes) -> Makes:
    """List a function that makes a problem under its own name; also a decorator.

    Raises:
        InputError: for a name that is taken, or a parameter without a default.
    """
    name = makes.__name__
    if name in _PROBLEMS:
        raise InputError(f"problem {name!r} is registered already; choose another name")
    _defaults(name, makes)
    _PROBLEMS[name] = makes
    return makes


def constructor(name: str) -> Constructor:
    """What makes a problem, by its registered name or as ``FILE.py:NAME``, and the defaults of its parameters.

    Raises:
        InputError: for an unknown name, a file without such a function, or one with a parameter that has no default.
    """
    if not is_file(name):
        check_choice("problem", name, sorted(PROBLEMS))
        return Constructor(name, PROBLEMS[name], _defaults(name, PROBLEMS[name]))
    found = own_files.load(name)
    if not callable(found):
        raise InputError(f"{name} is a {type(found).__name__}; allowed: a function that makes a Problem")
    return Constructor(name, found, _defaults(name, found))


def problem(name: str, **parameters: Any) -> Problem:
    """Build a problem by name.

    Raises:
        InputError: as ``constructor``, for an unknown parameter, for what the function refuses, and for one that makes
            no problem.

    >>> problem("anchored", actions=100, correct=10).actions
    100
    """
    made = constructor(name)(**parameters)
    if not isinstance(made, Problem):
        raise InputError(f"problem {name!r} makes a {type(made).__name__}; allowed: a Problem")
    return made


def _defaults(name: str, makes: Makes) -> dict[str, Any]:
    """The defaults of a function's parameters."""
    parameters = inspect.signature(makes).parameters
    if bare := [name for name, parameter in parameters.items() if parameter.default is parameter.empty]:
        raise InputError(f"problem {name!r}: parameters {bare} need a default")
    return {name: parameter.default for name, parameter in parameters.items()}


for _makes in (anchored, custom, prompt_bank, linear_softmax, tree):
    register(_makes)
