"""Read values that a person wrote (bounded numbers, ``true``, ``none``, words), and write numbers and columns."""

import ast
import math
import re
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from simlab.errors import InputError

LONGEST_NUMBER = 32  # characters; the digits of a float are at most 17
SHOWN = 60  # characters of a long value in a message
LARGEST_PLAIN = 1e15  # a larger number is written with an exponent
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_PARSING = threading.Lock()
WORDS = {"none": None, "true": True, "false": False}


def read_as(kind: type, text: str) -> Any:
    """Read an int or a float as Python does, but ``1_0`` is not 10, nor ``1e-400`` 0: ``ValueError``."""
    value = kind(text)
    if "_" in text or (value == 0 and re.search("[1-9]", text.lower().partition("e")[0])):
        raise ValueError(text)
    return value


def read_number(text: str) -> int | float:
    """Read a number in decimal, whole where it has neither a point nor an exponent; ``InputError`` if it is none.

    >>> read_number("-12"), read_number("1e-3")
    (-12, 0.001)
    """
    if len(text) > LONGEST_NUMBER:
        raise InputError(f"the number {shortened(text)} is too long; allowed: up to {LONGEST_NUMBER} characters")
    if not NUMBER.fullmatch(text):
        raise InputError(f"{text!r} is not a number")
    try:
        value = read_as(float, text)
    except ValueError:
        raise InputError(f"the number {text} is too small; allowed: 0, or from 5e-324") from None
    if not math.isfinite(value):
        raise InputError(f"the number {text} is too large; allowed: up to 1.7e308")
    return int(text) if re.fullmatch("[+-]?[0-9]+", text) else value


def parse_python(text: str, mode: str = "exec") -> Any:
    """Parse Python, one thread at a time: in Python 3.11 two at once may fail."""
    with _PARSING:
        return ast.parse(text, mode=mode)


def read_value(text: str) -> Any:
    """Read a number, ``true``, ``false``, ``none``, or else the text itself; ``InputError`` as for ``read_number``.

    >>> [read_value(text) for text in ("3", "1e-3", "True", "none", "batch")]
    [3, 0.001, True, None, 'batch']
    """
    if NUMBER.fullmatch(text):
        return read_number(text)
    return WORDS.get(text.lower(), text)


def shortened(text: str) -> str:
    """Write a text as a message names it: only its beginning, if it is long.

    >>> print(shortened("1" * 400))
    '111111111111111111111111111111111111111111111111111111111111...' (400 characters)
    """
    return repr(text) if len(text) <= SHOWN else f"{text[:SHOWN] + '...'!r} ({len(text)} characters)"


def plain_number(value: float | np.floating[Any], digits: int = 3, sign: str = "") -> str:
    """Write a number as a sentence has it: to some digits, but a large one without an exponent, and whole ones in full.

    >>> [plain_number(value) for value in (0.01234, 12.34, 1234.5, 65536.0)]
    ['0.0123', '12.3', '1,230', '65,536']
    """
    number = float(value)
    if not 10 ** min(digits, 3) <= abs(number) < LARGEST_PLAIN:
        return f"{number:{sign}.{digits}g}"
    return f"{number if number == round(number) else float(f'{number:.{digits}g}'):{sign},.0f}"


def aligned(rows: Sequence[dict[str, str]]) -> list[str]:
    """Write the heads, which are the keys of every row, and the rows: the first column left, the others right.

    >>> aligned([{"arm": "grpo", "k": "1"}, {"arm": "f_grpo", "k": "16"}])
    ['arm      k', 'grpo     1', 'f_grpo  16']
    """
    table = [list(rows[0]), *(list(row.values()) for row in rows)]
    first, *others = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join([row[0].ljust(first), *map(str.rjust, row[1:], others)]).rstrip() for row in table]
