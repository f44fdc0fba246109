"""What a chat template can do with values: its methods, filters and tests, and the bounds on all of them.

A value is a text, a number, true, false, none, a list, a tuple or a mapping of values, a macro, or undefined. There is
nothing else, so that no attribute leads to anything that a program is made of.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

from simlab.errors import InputError
from simlab.text import shortened

LONGEST = 2**20  # characters of a text, members of a list
LARGEST_NUMBER = 2**53
MOST_STEPS = 50_000
DEEPEST = 16  # lists and mappings inside of one another, where a value is read as a whole


class Refused(InputError):
    """Raised when a template does something forbidden, or asks for something that is not there."""


class Undefined:
    """What a name stands for that nobody has set: false, empty, and an error to look into."""

    def __repr__(self) -> str:
        return "Undefined"

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return ""


UNDEFINED = Undefined()


class Budget:
    """Counts the steps of one rendering, and looks at the size of each new value."""

    def __init__(self, steps: int = MOST_STEPS):
        self.left = steps

    def spend(self, steps: int = 1) -> None:
        """Take so many steps.

        Raises:
            Refused: if fewer are left.
        """
        self.left -= steps
        if self.left < 0:
            raise Refused(f"it takes more than {MOST_STEPS} steps")

    def room(self, size: int) -> None:
        """Take the steps of making a text or list of this size, before it is made.

        Raises:
            Refused: for more than ``LONGEST``.
        """
        if size > LONGEST:
            raise Refused(f"it makes a text or list of more than {LONGEST} parts")
        self.spend(size // 256)


def as_text(value: Any, budget: Budget) -> str:
    """A value as it is printed."""
    budget.room(extent(value))
    return value if isinstance(value, str) else str(value)


def extent(value: Any, deep: int = 0) -> int:
    """About how many characters a value has when it is printed.

    Raises:
        Refused: for more than ``LONGEST``, for values nested more than ``DEEPEST`` deep, and for a macro.
    """
    if isinstance(value, str):
        return len(value)
    if value is None or isinstance(value, int | float | Undefined):
        return 32
    if not isinstance(value, list | tuple | dict) or deep > DEEPEST:
        raise Refused(f"it reads or prints a {kind(value)}, nested {deep} deep")
    total = 2
    for inner in (part for pair in value.items() for part in pair) if isinstance(value, dict) else value:
        total += 2 + extent(inner, deep + 1)
        if total > LONGEST:
            raise Refused(f"it reads or prints a value of more than {LONGEST} characters")
    return total


def items_of(value: Any) -> list[Any]:
    """What a loop goes through."""
    if isinstance(value, Undefined):
        return []
    if isinstance(value, str | list | tuple | dict):
        return list(value)
    raise Refused(f"it goes through a {kind(value)}")


def kind(value: Any) -> str:
    """What a value is called in a complaint."""
    return "value that is not defined" if isinstance(value, Undefined) else type(value).__name__


def is_number(value: Any) -> bool:
    """Whether a value is a number; true and false are, as in Python."""
    return isinstance(value, int | float)


def checked_number(value: Any) -> Any:
    """A number, unless it is too large."""
    if abs(value) > LARGEST_NUMBER:
        raise Refused(f"it counts beyond {LARGEST_NUMBER}")
    return value


def replaced(text: str, budget: Budget, old: str, new: str, count: int = -1) -> str:
    """``str.replace``, once it is known how long the result is."""
    times = text.count(old) if count < 0 else min(count, text.count(old))
    budget.room(len(text) + times * max(0, len(new) - len(old)))
    return text.replace(old, new, count)


def split(text: str, budget: Budget, separator: str | None = None, most: int = -1) -> list[str]:
    """``str.split``."""
    budget.room(len(text))
    return text.split(separator, most)


def joined(values: Any, budget: Budget, separator: str = "") -> str:
    """Jinja's filter ``join``."""
    texts = [as_text(value, budget) for value in items_of(values)]
    budget.room(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def as_json(value: Any, budget: Budget, indent: int | None = None) -> str:
    """The filter ``tojson`` of ``transformers``: JSON with its characters as they are."""
    budget.room(2 * extent(value))
    if indent is not None and not 0 <= checked_number(indent) <= 8:
        raise Refused(f"tojson has an indent of {indent}")
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent)
    except TypeError:
        raise Refused("tojson has what is no JSON") from None


def plain(name: str) -> Callable[..., Any]:
    """A method of texts that makes nothing longer but by a case that has more letters."""

    def method(text: str, budget: Budget, *arguments: Any) -> Any:
        budget.room(3 * len(text))
        return getattr(text, name)(*arguments)

    return method


def _filled(value: Any, budget: Budget, other: Any = "", boolean: bool = False) -> Any:
    """Jinja's filter ``default``."""
    return other if isinstance(value, Undefined) or (boolean and not value) else value


def _length(value: Any, budget: Budget) -> int:
    return len(items_of(value))


def _at(place: int) -> Callable[[Any, Budget], Any]:
    return lambda value, budget: (items_of(value)[place : place + 1 or None] or [UNDEFINED])[0]


def _whole(value: Any, budget: Budget, other: int = 0) -> int:
    try:
        return int(checked_number(float(value)))
    except (TypeError, ValueError):
        return other


def _pairs(value: Any, budget: Budget) -> list[tuple[Any, Any]]:
    if isinstance(value, Undefined):
        return []
    if not isinstance(value, dict):
        raise Refused(f"it takes the items of a {kind(value)}")
    return list(value.items())


def chosen(wanted: bool) -> Callable[..., list[Any]]:
    """Jinja's filters ``selectattr`` and ``rejectattr``."""

    def choose(values: Any, budget: Budget, name: str, test: str = "true", *arguments: Any) -> list[Any]:
        found = []
        for value in items_of(values):
            budget.spend()
            own = value.get(name, UNDEFINED) if isinstance(value, dict) else UNDEFINED
            passed = bool(own) if test == "true" and not arguments else tested(test, own, *arguments)
            if passed == wanted:
                found.append(value)
        return found

    return choose


def _mapped(values: Any, budget: Budget, *, attribute: str) -> list[Any]:
    budget.room(len(items_of(values)))
    return [value.get(attribute, UNDEFINED) if isinstance(value, dict) else UNDEFINED for value in items_of(values)]


def check_small(*values: Any) -> None:
    """Raise ``Refused`` for lists and mappings that take long to compare: each may stand in another many times."""
    for value in values:
        if isinstance(value, list | tuple | dict):
            extent(value)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal.

    Raises:
        Refused: for values that take long to compare.
    """
    check_small(one, other)
    return bool(one == other)


TEXT_METHODS: dict[str, Callable[..., Any]] = {
    **{name: plain(name) for name in ("strip", "lstrip", "rstrip", "upper", "lower", "title", "capitalize")},
    **{name: plain(name) for name in ("startswith", "endswith", "find", "rfind", "count", "isdigit")},
    **{name: plain(name) for name in ("removeprefix", "removesuffix", "splitlines")},
    "replace": replaced,
    "split": split,
    "join": lambda text, budget, values: joined(values, budget, text),
}
MAPPING_METHODS: dict[str, Callable[..., Any]] = {
    "get": lambda mapping, budget, name, other=None: mapping.get(name, other),
    "items": lambda mapping, budget: list(mapping.items()),
    "keys": lambda mapping, budget: list(mapping),
    "values": lambda mapping, budget: list(mapping.values()),
}
FILTERS: dict[str, Callable[..., Any]] = {
    "trim": lambda value, budget, characters=None: as_text(value, budget).strip(characters),
    "upper": lambda value, budget: plain("upper")(as_text(value, budget), budget),
    "lower": lambda value, budget: plain("lower")(as_text(value, budget), budget),
    "title": lambda value, budget: plain("title")(as_text(value, budget), budget),
    "capitalize": lambda value, budget: plain("capitalize")(as_text(value, budget), budget),
    "replace": lambda value, budget, old, new: replaced(as_text(value, budget), budget, old, new),
    "string": as_text,
    "safe": as_text,
    "join": joined,
    "tojson": as_json,
    "default": _filled,
    "d": _filled,
    "length": _length,
    "count": _length,
    "first": _at(0),
    "last": _at(-1),
    "list": lambda value, budget: items_of(value),
    "int": _whole,
    "items": _pairs,
    "selectattr": chosen(True),
    "rejectattr": chosen(False),
    "map": _mapped,
}
TESTS: dict[str, Callable[..., bool]] = {
    "defined": lambda value: not isinstance(value, Undefined),
    "undefined": lambda value: isinstance(value, Undefined),
    "none": lambda value: value is None,
    "string": lambda value: isinstance(value, str),
    "number": is_number,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "true": lambda value: value is True,
    "false": lambda value: value is False,
    "mapping": lambda value: isinstance(value, dict),
    "sequence": lambda value: isinstance(value, str | list | tuple | dict),
    "iterable": lambda value: isinstance(value, str | list | tuple | dict | Undefined),
    "in": lambda value, group: contains(group, value),
    **dict.fromkeys(("equalto", "eq", "=="), same),
    **dict.fromkeys(("ne", "!="), lambda value, other: not same(value, other)),
}


def tested(name: str, value: Any, *arguments: Any) -> bool:
    """Whether a value passes a test.

    Raises:
        Refused: for a test that is not known here.
    """
    if name not in TESTS:
        raise Refused(f"it has the test {shortened(str(name))}; known: {', '.join(TESTS)}")
    return TESTS[name](value, *arguments)


def contains(group: Any, value: Any) -> bool:
    """Python's ``in``.

    Raises:
        Refused: if the group is nothing that contains anything.
    """
    if isinstance(group, Undefined):
        return False
    check_small(group, value)
    try:
        return bool(value in group)
    except TypeError:
        raise Refused(f"it looks for a {kind(value)} in a {kind(group)}") from None


def method_of(value: Any, name: str) -> Callable[..., Any]:
    """A method of a text or a mapping.

    Raises:
        Refused: for any other.
    """
    known: dict[str, Callable[..., Any]] = {}
    if isinstance(value, str | dict):
        known = TEXT_METHODS if isinstance(value, str) else MAPPING_METHODS
    if name not in known:
        raise Refused(f"it calls {shortened(name)} of a {kind(value)}; known: {', '.join(known) or 'nothing'}")
    return known[name]


def called(function: Callable[..., Any], arguments: Iterable[Any], named: dict[str, Any]) -> Any:
    """What a method, filter or test returns.

    Raises:
        Refused: for arguments that it does not take.
    """
    try:
        return function(*arguments, **named)
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise Refused(f"it calls something with what that does not take ({error})") from None
