"""Refuse rules of a ``tokenizer.json`` that are random, or that may take exponential time or stop the process.

The ``tokenizers`` package trusts such a file. Some of its components end the whole process on a damaged entry, some
take exponential time or memory, and some change tokens at random or drop them silently. These are refused here, by
name, before the package sees the file.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from simlab.errors import InputError

LARGEST_GROWTH = 256  # how many times longer a normalizer may make a text
LONGEST_PATTERN = 4096  # characters of a regular expression
CLASS = re.compile(r"\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]", re.DOTALL)
OPENING = re.compile(r"\((?:\?(?:[a-zA-Z-]*:|<?[=!]|>|<\w+>))?")
RANGE = re.compile(r"\{\d*,\d*\}")
REPEATED = re.compile(r"[*+]|\{\d*,?\d*\}")
GROWTH = {"NFKC": 18.0, "NFKD": 18.0, "NFD": 4.0, "NFC": 3.0, "ByteLevel": 4.0}  # at most, in characters


def check_rules(entries: Mapping[str, Any]) -> None:
    """Refuse rules that are not safe to follow.

    Refused are: a normalizer of precompiled tables; normalizers that together make a text more than
    ``LARGEST_GROWTH`` times longer, or that replace an empty text; byte pairs that are left out at random, or that
    carry a prefix or suffix inside a word; pieces of no length; and regular expressions that can take exponential time
    (``check_pattern``).

    Raises:
        InputError: one line that names the component.
    """
    model = entries.get("model")
    if isinstance(model, dict):
        for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
            if model.get("type", "BPE") == "BPE" and model.get(name) not in (None, 0, ""):
                raise InputError(f"the tokenizer's {name} = {model[name]!r} is not supported; allowed: none")
    growth = 1.0
    for component in _components(entries.get("normalizer")):
        growth *= _growth(component)
        if growth > LARGEST_GROWTH:
            raise InputError(f"the tokenizer's normalizer can make a text over {LARGEST_GROWTH} times longer")
    for place in ("normalizer", "pre_tokenizer", "decoder"):
        for component in _components(entries.get(place)):
            _check_component(component)


def _components(outermost: Any) -> Iterator[dict[str, Any]]:
    """Every component, those inside of sequences too."""
    waiting = [outermost]
    while waiting:
        component = waiting.pop()
        if isinstance(component, list):
            waiting += component
        elif isinstance(component, dict):
            yield component
            waiting += [component.get(name) for name in ("normalizers", "pretokenizers", "decoders")]


def _check_component(component: Mapping[str, Any]) -> None:
    kind, pattern = component.get("type"), component.get("pattern")
    if kind == "Precompiled":
        raise InputError("the tokenizer's component Precompiled is not supported; allowed: NFC, NFKC and the like")
    if kind == "FixedLength" and component.get("length") == 0:
        raise InputError("the tokenizer's component FixedLength has length 0; allowed: whole numbers from 1 up")
    if not isinstance(pattern, dict):
        return
    if kind == "Replace" and "" in pattern.values():
        raise InputError("the tokenizer's component Replace replaces an empty text")
    if isinstance(pattern.get("Regex"), str):
        check_pattern(pattern["Regex"])


def _growth(normalizer: Mapping[str, Any]) -> float:
    """How many times longer a normalizer can make a text of some length."""
    kind, pattern = normalizer.get("type"), normalizer.get("pattern")
    if kind == "Prepend":
        return 1.0 + len(str(normalizer.get("prepend")))
    if kind != "Replace":
        return GROWTH.get(str(kind), 1.0)
    replaced = str(pattern.get("String", ".")) if isinstance(pattern, dict) else "."
    return max(1.0, len(str(normalizer.get("content"))) / max(1, len(replaced)))


def check_pattern(pattern: str) -> None:
    r"""Refuse a regular expression in which something repeated is repeated once more, or that refers back.

    ``(a+)+`` and ``(a|ab)*`` can cut one text in exponentially many ways, and trying them all takes as long; none of
    the patterns that models of Llama's, Qwen's and GPT's kinds are published with needs them. What is left takes time
    polynomial in the length of the text.

    Raises:
        InputError: for such a pattern, and for one of more than ``LONGEST_PATTERN`` characters.

    >>> check_pattern(r"(?i:'s|'t|'re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\d(?=(?:\d{3})+\b)|\s+(?!\S)")
    >>> check_pattern("(a+)+b")
    Traceback (most recent call last):
    ...
    simlab.errors.InputError: the tokenizer's pattern '(a+)+b' can take exponential time; allowed: no group with ...
    """
    shown = repr(pattern if len(pattern) <= 80 else pattern[:77] + "...")
    if len(pattern) > LONGEST_PATTERN:
        raise InputError(f"the tokenizer's pattern {shown} has {len(pattern)} characters; allowed: {LONGEST_PATTERN}")
    if re.search(r"\\[1-9kg]|\(\?[&PR(]", pattern):
        raise InputError(f"the tokenizer's pattern {shown} refers back to a group; allowed: none that do")
    if _repeats_a_choice(CLASS.sub(".", re.sub(r"\\[pP]\{\^?\w+\}|\\[^\[]|\\\[", ".", pattern))):
        raise InputError(
            f"the tokenizer's pattern {shown} can take exponential time; allowed: no group with | * or + in it that "
            "is itself repeated"
        )


def _repeats_a_choice(pattern: str) -> bool:
    """Whether a group that holds a choice or a repetition is repeated; escapes and classes are dots already."""
    has_choice, place = [False], 0  # of each open group
    while place < len(pattern):
        if opening := OPENING.match(pattern, place):
            has_choice.append(False)
            place = opening.end()
            continue
        if pattern[place] == ")" and len(has_choice) > 1:
            inside = has_choice.pop()
            if inside and REPEATED.match(pattern, place + 1):
                return True
            has_choice[-1] |= inside
        elif pattern[place] in "|?*+" or RANGE.match(pattern, place):
            has_choice[-1] = True
        place += 1
    return False
