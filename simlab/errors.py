"""The one error a user is meant to read, and the checks that raise it."""

import difflib
import importlib
import inspect
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from numbers import Integral, Real
from typing import Any

LONGEST_MESSAGE = 2000  # characters
LONGEST_WORD = re.compile(r"(\S{150})\S{100,}(\S{50})")
# Line breaks, and what a terminal would act on, turn round or could not show.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


class InputError(ValueError):
    """A request that cannot be met; its message is one line naming the value and what is allowed."""

    def __init__(self, message: str):
        super().__init__(one_line(message))


def one_line(message: str) -> str:
    """Write a message as one line that can be printed anywhere; what is very long, or one long word, is cut.

    >>> len(one_line("9" * 5000))
    203
    """
    message = LONGEST_WORD.sub(r"\1...\2", message)
    if len(message) > LONGEST_MESSAGE:
        message = f"{message[: LONGEST_MESSAGE // 2]} ... {message[-LONGEST_MESSAGE // 4 :]}"
    return UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], message)


class Diverged(InputError):
    """A run whose numbers are no longer finite: its present state is not worth keeping."""


def is_concrete_number(value: Any) -> bool:
    """Return True for a Python or NumPy number, to be compared now (a traced JAX value cannot be)."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_range(
    name: str, value: Any, low: float = -math.inf, high: float = math.inf, *, open_low: bool = False
) -> None:
    """Raise ``InputError`` unless low <= value <= high (low < value if ``open_low``), finite; traced values pass."""
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        value = value[()]
    if not is_concrete_number(value):
        if isinstance(value, bool) or not hasattr(value, "dtype"):
            raise InputError(f"{name} = {value!r} is not a number")
        return
    inside = (value > low if open_low else value >= low) and value <= high
    if not inside or value in (-math.inf, math.inf):  # math.isfinite cannot take an int above 10^308
        opening, closing = "(" if open_low else "[", "]" if math.isfinite(high) else ")"
        raise InputError(f"{name} = {value} is outside its range {opening}{low}, {high}{closing}")


def check_ranges(low: float, high: float = math.inf, /, *, open_low: bool = False, **values: Any) -> None:
    """Check several values of one range by ``check_range``, each under its name."""
    for name, value in values.items():
        check_range(name, value, low, high, open_low=open_low)


def check_whole(name: str, value: Any, low: int, high: float = math.inf) -> None:
    """Raise ``InputError`` unless ``value`` is a whole number from ``low`` up to ``high``."""
    check_range(name, value, low, high)
    if not isinstance(value, Integral):
        to = f"up to {high}" if math.isfinite(high) else "up"
        raise InputError(f"{name} = {value!r} is not a whole number; allowed: whole numbers from {low} {to}")


def check_shares(name: str, values: Any) -> None:
    """Raise ``InputError`` unless all numbers of an array are from 0 to 1."""
    outside = ~((values >= 0) & (values <= 1))
    if outside.any():
        raise InputError(f"{name} = {values[outside][0]} is outside its range [0, 1]")


def nearest(value: object, allowed: Iterable[object]) -> str | None:
    """Return the allowed value that begins with ``value`` or is nearest to it, whatever cases and dashes; or None.

    >>> nearest("bas", ["baseline", "at"]), nearest("nothing", ["at"])
    ('baseline', None)
    """
    by_key = {str(name).lower().replace("_", "-"): str(name) for name in allowed}
    text = str(value).lower().replace("_", "-")
    close = [name for name in by_key if text and name.startswith(text)] or difflib.get_close_matches(text, by_key, n=1)
    return by_key[close[0]] if close else None


def did_you_mean(value: object, allowed: Iterable[object]) -> str:
    """Name the ``nearest`` allowed value, or nothing.

    >>> did_you_mean("fgrpo", ["grpo", "f_grpo", "maxrl"])
    " (did you mean 'f_grpo'?)"
    """
    near = nearest(value, allowed)
    return f" (did you mean {near!r}?)" if near else ""


def check_no_option(pair: str, name: str, value: str, options: Collection[str]) -> None:
    """Raise ``InputError`` for a ``--param`` whose name is that of an option; it shows the option with the value."""
    if name.replace("-", "_") in options:
        flag = name.replace("_", "-")
        raise InputError(f"--param {pair!r} has an option of its own; allowed: --{flag} {value or 'VALUE'}")


def check_choice(name: str, value: Any, allowed: Any) -> None:
    """Raise ``InputError`` unless ``value`` is one of ``allowed``; it names the nearest of them and all of them."""
    if value not in list(allowed):  # not in a set or dict, which would fail for a list
        choices = ", ".join(str(choice) for choice in allowed)
        raise InputError(f"{name} = {value!r} is unknown{did_you_mean(value, allowed)}; allowed: {choices}")


def check_parameters(name: str, parameters: Iterable[str], allowed: Collection[str]) -> None:
    """Raise ``InputError`` for a parameter that is none of those that ``name`` takes."""
    for parameter in parameters:
        if parameter not in allowed:
            hint = did_you_mean(parameter, allowed)
            raise InputError(f"{name} has no parameter {parameter!r}{hint}; it takes: {', '.join(allowed) or 'none'}")


def package(name: str, extra: str = "llm") -> Any:
    """Import a package of an extra, or raise ``InputError`` with the extra that brings it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        allowed = f"pip install 'simlab[{extra}]'"
        raise InputError(f"{name} cannot be imported ({error}); install it with: {allowed}") from None


def build(kind: str, name: str, known: Mapping[str, Callable[..., Any]], parameters: Mapping[str, Any]) -> Any:
    """Call ``known[name](**parameters)``; ``InputError`` for a name or a parameter that is not known."""
    check_choice(kind, name, sorted(known))
    check_parameters(name, parameters, inspect.signature(known[name]).parameters)
    return known[name](**parameters)
