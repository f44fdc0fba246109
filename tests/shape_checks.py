"""Check shapes and types of every call: jaxtyping's decorator in a form that costs the tests a fraction of the time.

jaxtyping's own binds the arguments of each call to their names and checks them twice, and makes its checks anew for
every function that another one defines, as the builders of estimators do at each call.
"""

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, ForwardRef, Self, get_args

import jaxtyping
from beartype import BeartypeConf, beartype

Function = Callable[..., Any]

# An int may stand for a float, as PEP 484 has it.
check_types = beartype(conf=BeartypeConf(is_pep484_tower=True, violation_type=jaxtyping.TypeCheckError))
jaxtyped = jaxtyping.jaxtyped
made: dict[tuple[object, ...], tuple[Function, Function]] = {}


def install() -> None:
    """Have each function of simlab that is imported from now on checked when it is called."""
    jaxtyping.jaxtyped = checked  # the decorator that jaxtyping's hook uses
    jaxtyping.install_import_hook("simlab", "shape_checks.check_types")
    from simlab import fingerprint  # noqa: PLC0415  # after the hook, as all of simlab

    fingerprint.CHECKERS.add(__name__)  # so that code that is checked has the fingerprint of code that is not


def checked(decorated: Any = None, *, typechecker: Function | None = None) -> Any:
    """The function, with its arguments checked before it runs and what it returns after; axes of one name are one size.

    Raises: TypeCheckError: by the function, for an array or a value that its signature does not admit.
    """
    if decorated is None:
        return functools.partial(checked, typechecker=typechecker)
    if not isinstance(decorated, FunctionType):  # a class, or a property: there are few
        return jaxtyped(decorated, typechecker=typechecker)
    hints = {name: _known(hint, decorated.__globals__) for name, hint in decorated.__annotations__.items()}
    checks: tuple[Function, Function] | None = None

    @functools.wraps(decorated)
    def function(*arguments: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        nonlocal checks
        if jaxtyping.config.jaxtyping_disable:
            return decorated(*arguments, **named)
        if checks is None:
            checks = checks_of(decorated, hints)
        arguments_fit, result_fits = checks
        with jaxtyped("context"):
            arguments_fit(*arguments, **named)
            return result_fits(decorated(*arguments, **named))

    return function


def checks_of(function: FunctionType, hints: dict[str, Any]) -> tuple[Function, Function]:
    """Two empty functions: one that takes what this one takes, and one that returns its argument as this one would.

    They are made once for all functions of the same code and hints.
    """
    key = (function.__code__, *hints.items())
    if key not in made:
        parameters = [
            param.replace(annotation=param.empty, default=param.empty if param.default is param.empty else None)
            for param in inspect.signature(function).parameters.values()
        ]
        scope: dict[str, Any] = {}
        exec(f"def {function.__name__}{inspect.Signature(parameters)}: ...\ndef returned(value): return value", scope)
        result = {name: hint for name, hint in hints.items() if name == "return"}
        made[key] = (
            _as_if_of(scope[function.__name__], function, {name: hints[name] for name in hints.keys() - result}),
            _as_if_of(scope["returned"], function, result),
        )
    return made[key]


def _known(hint: Any, names: dict[str, Any]) -> Any:
    """A hint, or the object that it names in quotes; Any for a name that is not there yet."""
    try:
        resolved = eval(hint, names) if isinstance(hint, str) else hint
    except (NameError, TypeError):  # such as "Policy" | None of what a checker of types alone imports
        return Any
    return Any if resolved is Self or any(_known(name, names) is Any for name in _quoted(resolved)) else resolved


def _quoted(hint: Any) -> list[str]:
    """The names that a hint has in quotes, however deep."""
    args = [arg.__forward_arg__ if isinstance(arg, ForwardRef) else arg for arg in get_args(hint)]
    inner = (name for arg in args if not isinstance(arg, str) for name in _quoted(arg))
    return [*(arg for arg in args if isinstance(arg, str)), *inner]


def _as_if_of(check: FunctionType, function: FunctionType, hints: dict[str, Any]) -> Function:
    """The check of these hints, under the name of the function that it is for."""
    check.__annotations__, check.__module__, check.__qualname__ = hints, function.__module__, function.__qualname__
    return check_types(check)
