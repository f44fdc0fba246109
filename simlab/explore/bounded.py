"""Read untrusted numbers and texts within bounds, so that no value is too large for the code that uses it."""

import math
import re
from typing import Any

from simlab.errors import InputError

LONGEST_NUMBER = 32  # characters; the digits of a float are at most 17
LONGEST_TEXT = 400  # an estimator with all its parameters has fewer than 200
SHOWN = 30  # characters of a long value in a message
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")

KINDS = {type(None): "null", list: "a list", dict: "an object"}


def read_number(text: str) -> int | float:
    """The number that a text writes in decimal, whole where it has neither a point nor an exponent.

    Raises:
        InputError: for a text that is no number, is longer than ``LONGEST_NUMBER``, or lies beyond the floats.

    >>> read_number("-12"), read_number("1e-3")
    (-12, 0.001)
    """
    if len(text) > LONGEST_NUMBER:
        raise InputError(f"the number {shortened(text)} is too long; allowed: up to {LONGEST_NUMBER} characters")
    if not NUMBER.fullmatch(text):
        raise InputError(f"{text!r} is not a number")
    value = float(text)
    if not math.isfinite(value):
        raise InputError(f"the number {text} is too large; allowed: up to 1.7e308")
    return int(text) if re.fullmatch("[+-]?[0-9]+", text) else value


def check_plain(name: str, value: Any, allowed: str = "a number or a text") -> None:
    """Raise ``InputError`` unless ``value`` is a number, or a text of at most ``LONGEST_TEXT`` characters.

    Args:
        name: of the value.
        value: out of JSON.
        allowed: what the message names where it is neither.
    """
    if value is None or isinstance(value, (list, dict)):
        raise InputError(f"{name} is {KINDS[type(value)]}; allowed: {allowed}")
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise InputError(f"{name} = {shortened(value)} is too long; allowed: up to {LONGEST_TEXT} characters")


def shortened(text: str) -> str:
    """A text as a message names it: only its beginning, if it is long.

    >>> print(shortened("1" * 400))
    '111111111111111111111111111111...' (400 characters)
    """
    return repr(text) if len(text) <= 2 * SHOWN else f"{text[:SHOWN] + '...'!r} ({len(text)} characters)"
