"""Read untrusted numbers and texts within bounds, so that no value is too large for the code that uses it."""

from typing import Any

from simlab.errors import InputError
from simlab.text import shortened

LONGEST_TEXT = 400  # an estimator with all its parameters has fewer than 200

KINDS = {type(None): "null", list: "a list", dict: "an object"}


def check_plain(name: str, value: Any, allowed: str = "a number or a text", longest: int = LONGEST_TEXT) -> None:
    """Raise ``InputError`` unless ``value`` is a number, or a text of at most ``longest`` characters.

    Args:
        name: the name of the value.
        value: out of JSON.
        allowed: what the message names where it is neither.
        longest: how many characters a text may have.
    """
    if value is None or isinstance(value, (list, dict)):
        raise InputError(f"{name} is {KINDS[type(value)]}; allowed: {allowed}")
    if isinstance(value, str) and len(value) > longest:
        raise InputError(f"{name} = {shortened(value)} is too long; allowed: up to {longest} characters")
