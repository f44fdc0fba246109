"""Problems by name: the library's, and those that a user has written in a file."""

import inspect
from collections.abc import Callable
from typing import Any

from simlab import own_files
from simlab.constructors import Constructor, is_file
from simlab.errors import InputError, check_choice
from simlab.problems.base import Problem
from simlab.problems.categorical import anchored, custom
from simlab.problems.linear_softmax import linear_softmax
from simlab.problems.prompt_bank import prompt_bank
from simlab.problems.tree import tree

PROBLEMS: dict[str, Callable[..., Problem]] = {
    "anchored": anchored,
    "custom": custom,
    "prompt_bank": prompt_bank,
    "linear_softmax": linear_softmax,
    "tree": tree,
}


def problem(name: str, **parameters: Any) -> Problem:
    """Build a problem by its name, or by ``FILE.py:NAME``.

    Raises:
        InputError: for an unknown name or parameter, and what the constructor refuses.
    """
    built: Problem = problem_constructor(name)(**parameters)
    return built


def problem_constructor(name: str) -> Constructor:
    """What makes the problem of a name: a registered constructor, or an object in a file of the user's.

    The object in ``FILE.py:NAME`` is a ``Problem``, or a function or class with defaults for all of its parameters that
    makes one.

    Raises:
        InputError: for an unknown name, and for a file without such an object.
    """
    if is_file(name):
        return _of_file(name)
    check_choice("problem", name, sorted(PROBLEMS))
    return Constructor(name, PROBLEMS[name], _defaults(PROBLEMS[name]))


def _of_file(name: str) -> Constructor:
    found = own_files.load(name)
    if isinstance(found, Problem):
        return Constructor(name, lambda: found, {})
    allowed = "allowed: a Problem, or a function with defaults for all parameters that makes one"
    try:
        defaults = _defaults(found)
    except (TypeError, ValueError):
        raise InputError(f"{name} is a {type(found).__name__}; {allowed}") from None
    if missing := [own for own, default in defaults.items() if default is inspect.Parameter.empty]:
        raise InputError(f"{name} has no default for {missing[0]!r}; {allowed}")

    def make(**parameters: Any) -> Problem:
        made = found(**parameters)
        if not isinstance(made, Problem):
            raise InputError(f"{name} makes a {type(made).__name__}; {allowed}")
        return made

    return Constructor(name, make, defaults)


def _defaults(make: Callable[..., Any]) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in inspect.signature(make).parameters.items()}
