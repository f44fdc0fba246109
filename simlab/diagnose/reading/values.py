"""Read one cell of a row as a number, a whole number or a text, whichever format it comes from."""

import json
import math
from decimal import Decimal
from numbers import Real
from typing import Any

LARGEST_WHOLE = 2**53  # whole numbers up to here are the same in every format, floats included
SHOWN = 60  # characters of a value in a complaint


class Unreadable(Exception):
    """A row that is left out; the message says why."""


def number(value: Any, name: str) -> float:
    """A finite number: a bool counts as 0 or 1, and so does a text that says one, as every cell of a CSV does.

    Raises:
        Unreadable: for anything else.
    """
    try:
        found = _as_float(value)
    except (ValueError, OverflowError):
        raise Unreadable(f"{name} is {shown(value)}; allowed: a number") from None
    if not math.isfinite(found):
        raise Unreadable(f"{name} is {shown(value)}; allowed: a finite number")
    return found


def _as_float(value: Any) -> float:
    if isinstance(value, str):
        text = value.strip()
        if text in ("True", "true", "False", "false"):
            return float(text in ("True", "true"))
        if "_" in text:  # Python would take 1_000 for a thousand
            raise ValueError
        return float(text)
    if isinstance(value, Real | Decimal):
        return float(value)
    raise ValueError


def optional_number(value: Any, name: str) -> float | None:
    """As ``number``; None where the cell is empty.

    Raises:
        Unreadable: for what is neither.
    """
    return None if value is None or value == "" else number(value, name)


def whole(value: Any, name: str) -> int:
    """A whole number from 0 up; 3.0 is one too.

    Raises:
        Unreadable: for anything else.
    """
    found = number(value, name)
    if found != int(found) or not 0 <= found <= LARGEST_WHOLE:
        raise Unreadable(f"{name} is {shown(value)}; allowed: a whole number from 0 to 2^53")
    return int(found)


def prompt_text(value: Any, name: str) -> str:
    """A text that is equal for equal prompts: of a conversation, its JSON.

    Raises:
        Unreadable: for a prompt that is neither.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list | dict) and value:
        return as_json(value, name)
    raise Unreadable(f"{name} is {shown(value)}; allowed: a text, or a list of messages")


def message_text(value: Any, name: str) -> str:
    """A text as it is, of a conversation the content of its last message.

    Raises:
        Unreadable: for what is neither.
    """
    for _ in range(4):  # a list of messages, the last of them, its content, a part of it
        if isinstance(value, list):
            value = value[-1] if value else ""
        elif isinstance(value, dict):
            value = value.get("content") if value.get("content") is not None else value.get("text", "")
    if isinstance(value, str):
        return value
    raise Unreadable(f"{name} is {shown(value)}; allowed: a text, or a list of messages")


def as_json(value: Any, name: str) -> str:
    """JSON that is equal for equal values.

    Raises:
        Unreadable: for a value nested too deeply.
    """
    try:
        return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    except (RecursionError, ValueError, TypeError):
        raise Unreadable(f"{name} is nested too deeply, or no JSON") from None


def shown(value: Any) -> str:
    """A value in a complaint, cut where it is long."""
    if isinstance(value, list | dict | bytes):
        return f"a {type(value).__name__}"
    text = repr(value[:SHOWN] if isinstance(value, str) else value)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
