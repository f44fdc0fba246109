"""Read cells of a log: numbers, verdicts, steps, texts and messages, as trainers write them."""

import contextlib
import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

Row = Mapping[str, Any]  # the cells of a rollout by column

LARGEST = 1e50  # of which sums of fourth powers, as correlations have them, do not overflow
LARGEST_WHOLE = 2**53  # whole numbers up to here are the same in every format, floats included
SHOWN = 60  # characters of a value in a complaint
WORDS = {
    "true": 1, "yes": 1, "pass": 1, "passed": 1, "correct": 1, "right": 1, "success": 1, "solved": 1, "accepted": 1,
    "c": 1, "i": 0,
    "false": 0, "no": 0, "fail": 0, "failed": 0, "incorrect": 0, "wrong": 0, "failure": 0, "unsolved": 0,
    "timeout": 0, "timed out": 0, "error": 0, "rejected": 0,
}  # fmt: skip
CUT_OFF = {"length", "max_tokens", "max_output_tokens", "max_length", "truncated", "overlong", "max_new_tokens"}
CONTENTS = ("content", "text", "value", "messages", "prompt", "output")  # keys of what a message says
EMPTY = ("", "none", "null", "nan", "n/a")
CUT = 2.0  # at which truncated importance sampling cuts a weight, in the trainers that do
MOST = 50.0  # nats; weights beyond are as if at it
SUMS = ("tokens", "log_ratio", "log_ratio_square", "weight", "weight_square", "above", "weight_above")


class Unreadable(Exception):
    """A row that is left out; the message says why."""


def is_absent(value: Any) -> bool:
    """Return True for null, NaN and an empty text."""
    if isinstance(value, str):
        return value.strip().lower() in EMPTY
    return value is None or (isinstance(value, float) and math.isnan(value))


def read_number(value: Any, name: str) -> float:
    """Return a number, such as of a bool, a text or a word of a verdict; beyond ``LARGEST`` it is ``Unreadable``."""
    number = math.nan
    if type(value) in (float, int, bool) and -LARGEST_WHOLE <= value <= LARGEST_WHOLE:  # most cells
        return float(value)
    with contextlib.suppress(ValueError, OverflowError):
        if isinstance(value, str):
            text = value.strip().lower()
            word = text.partition(":")[0]  # "failed: AssertionError"
            number = float(WORDS.get(word, text.replace("_", "?")))  # Python would take 1_000 for a thousand
        elif isinstance(value, Real | Decimal):
            number = float(value)
        elif isinstance(value, list) and len(value) == 1:
            return read_number(value[0], name)
    if not abs(number) <= LARGEST:  # nor NaN
        raise Unreadable(f"{name} is {shown(value)}; allowed: a number from -{LARGEST:g} to {LARGEST:g}")
    return number


def read_whole(value: Any, name: str) -> int:
    """Return a whole number from 0 up; 3.0 is one too, and so is the end of ``checkpoint-3``."""
    if isinstance(value, str) and (ending := re.fullmatch(r"[A-Za-z][\w /=-]*?(\d+)", value.strip())):
        value = ending[1]
    number = read_number(value, name)
    if number != int(number) or not 0 <= number <= LARGEST_WHOLE:
        raise Unreadable(f"{name} is {shown(value)}; allowed: a whole number from 0 to 2^53")
    return int(number)


def read_truncated(value: Any, name: str) -> float:
    """Return 1 for a truncated rollout and 0 for another, from a verdict or the reason why it ended."""
    if isinstance(value, str) and value.strip().lower() not in WORDS and not value.strip().isdigit():
        return float(value.strip().lower() in CUT_OFF)
    return float(read_number(value, name) > 0)


def read_sum(value: Any, name: str, mask: Any = None) -> float:
    """Return a number, or the sum of a list of them where ``mask`` is true."""
    if not isinstance(value, list):
        return read_number(value, name)
    masked = isinstance(mask, list) and len(mask) == len(value)
    cells = [cell for cell, is_in in zip(value, mask, strict=True) if is_in] if masked else value
    return sum(read_number(cell, name) for cell in cells if cell is not None)


def read_length(value: Any, name: str) -> float:
    """Return a number of tokens, or that of a list of them."""
    return float(len(value) if isinstance(value, list) else read_whole(value, name))


def read_last(value: Any, name: str) -> float:
    """Return a number, or the last of a list: what is one for a rollout, written for each token."""
    return read_number(value[-1] if isinstance(value, list) and value else value, name)


def read_mean(value: Any, name: str) -> float:
    """Return a number, or the mean of a list."""
    return read_sum(value, name) / max(len(value), 1) if isinstance(value, list) else read_number(value, name)


def is_messages(value: Any) -> bool:
    """Return True for a list of chat messages, also of those of a responses API."""
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        return False
    return any(
        "role" in item or ("from" in item and "value" in item) or item.get("type") == "message" for item in value
    )


def message_text(value: Any, name: str) -> str:
    """Return a text as it is, of a conversation the content of its last message."""
    text = value
    for _ in range(5):  # a list of messages, the last of them, its content, an item of it
        if isinstance(text, list):
            text = text[-1] if text else ""
        elif isinstance(text, dict):
            contents = (text[key] for key in CONTENTS if key in text)
            text = next((content for content in contents if content is not None), "")
    if isinstance(text, str):
        return text
    raise Unreadable(f"{name} is {shown(value)}; allowed: a text, or a list of messages")


def split_chat(chat: Any) -> tuple[Any, Any]:
    """Split a conversation where the model first speaks; one of texts alone before its last."""
    if not isinstance(chat, list) or len(chat) < 2:
        raise Unreadable(f"the conversation is {shown(chat)}; allowed: a list of messages")
    start = len(chat) - 1
    if is_messages(chat):
        speakers = [str(message.get("role", message.get("from", ""))).lower() for message in chat]
        start = next((index for index, who in enumerate(speakers) if who in ("assistant", "gpt", "model")), start)
    return chat[:start], chat[start:]


def json_text(value: Any, name: str) -> str:
    """Return JSON that is equal for equal values."""
    try:
        return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    except (RecursionError, ValueError, TypeError):
        raise Unreadable(f"{name} is nested too deeply, or no JSON") from None


def shown(value: Any) -> str:
    """Write a value for a complaint, cut where it is long."""
    if isinstance(value, list | dict | bytes):
        return f"a {type(value).__name__}"
    text = repr(value[:SHOWN] if isinstance(value, str) else value)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def ratio_sums(trainer: Any, sampler: Any, mask: Any = None) -> dict[str, float]:
    """Return the ``SUMS`` over the tokens that have two log-probabilities, and are in ``mask``; {} unless lists match.

    With d = log p - log q and w = exp d of a token: 1, d, d^2, w and w^2, and 1 and w where w > ``CUT``.
    """
    if not isinstance(trainer, list) or not isinstance(sampler, list) or len(trainer) != len(sampler):
        return {}
    ratio = np.asarray(trainer, float) - np.asarray(sampler, float)
    counted = np.isfinite(ratio)
    if isinstance(mask, list) and len(mask) == len(trainer):
        counted &= np.asarray(mask, bool)
    return dict(zip(SUMS, (column.sum() for column in weigh(ratio[counted])), strict=True))


def weigh(ratio: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return what is summed, of each log-ratio."""
    weight = np.exp(np.minimum(ratio, MOST))
    return np.ones(len(ratio)), ratio, ratio**2, weight, weight**2, weight > CUT, weight * (weight > CUT)
