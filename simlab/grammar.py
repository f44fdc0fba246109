"""Read the text of an arm, such as ``f_grpo(gamma=0.5)+clip_higher@token_mean``, into terms; build nothing.

An arm is a base term, then surrogates and penalties after ``+``, then perhaps an aggregation after ``@``. A term is a
name, or a file and a name in it, with parameters in brackets if need be. A list of arms has commas between them::

    arm    base [+ term]... [@ aggregation]
    term   name [( [parameter = value [, parameter = value]...] )]
    name   small letters, digits and _; or a path, a colon and a name in that file: mine.py:weight, dir/mine.py:weight
    value  a number in decimal, or a word: letters, digits and _ . + - / :

Spaces may stand between these, and mean nothing. Python's own parser would not do: a path is no expression, and words
need no quotes. ``simlab.arms`` builds what the terms name; the
explorer's page reads estimators by ``simlab/explore/page/settings.js``.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from simlab.errors import InputError
from simlab.text import NUMBER, WORDS, read_number, shortened

LONGEST_ARM = 1000  # characters
LONGEST_LIST = 20 * LONGEST_ARM
SMALLEST_INEXACT = 10**16  # whole numbers below are floats too, and are written with all their digits
NAME = re.compile(r"[\w./-]+:[^\W\d]\w*|[a-z0-9_]+")  # a file and a name in it, or a name
AGGREGATION = re.compile(r"[a-z_]+")
PARAMETER = re.compile(r"[^\W\d]\w*")
WORD = re.compile(r"[\w.+/:-]+")
INSIDE = re.compile(r"[^()]*")

Value = int | float | str


class Term(NamedTuple):
    """A name or ``FILE.py:NAME``, and its written parameters in their order.

    Numbers are numbers, whole ones ints; all else is a word, as only the constructor knows whether its ``none`` is a
    choice or the absence of one.
    """

    name: str
    parameters: tuple[tuple[str, Value], ...] = ()


class ArmTerms(NamedTuple):
    """The terms of an arm, and its aggregation."""

    base: Term
    added: tuple[Term, ...] = ()
    aggregation: str | None = None


def split(text: str) -> tuple[str, ...]:
    """Split a list of arms at its commas, those within brackets aside.

    Raises:
        InputError: for a list longer than ``LONGEST_LIST``.

    >>> split("grpo, f_grpo(gamma=0.5,base=maxrl)")
    ('grpo', 'f_grpo(gamma=0.5,base=maxrl)')
    """
    if len(text) > LONGEST_LIST:
        raise InputError(f"the list {shortened(text)} is too long; allowed: up to {LONGEST_LIST} characters")
    return tuple(name.strip(" ") for name in _outside_of_brackets(text))


def _outside_of_brackets(text: str) -> Iterator[str]:
    """Yield the pieces between the commas that stand outside of brackets."""
    begin, depth = 0, 0
    for index, sign in enumerate(text):
        depth = max(0, depth + (sign == "(") - (sign == ")"))
        if sign == "," and depth == 0:
            yield text[begin:index]
            begin = index + 1
    yield text[begin:]


def read(text: str) -> ArmTerms:
    """Read one arm.

    Raises:
        InputError: for a text that cannot be read; the line says where, and what is due there.

    >>> read("f_grpo(gamma=0.5) + clip_higher @ token_mean").added
    (Term(name='clip_higher', parameters=()),)
    """
    if len(text) > LONGEST_ARM:
        raise InputError(f"arm {shortened(text)} is too long; allowed: up to {LONGEST_ARM} characters")
    base, index = _read_term(text, 0)
    added, aggregation = [], None
    while text.startswith("+", index):
        term, index = _read_term(text, index + 1)
        added.append(term)
    if text.startswith("@", index):
        aggregation, index = _take(AGGREGATION, text, index + 1, "an aggregation")
    if index < len(text):
        raise _refusal(text, index, "( + @ or the end")
    return ArmTerms(base, tuple(added), aggregation)


def _read_term(text: str, index: int) -> tuple[Term, int]:
    """Read the term at an index; return it and the index after it and any spaces."""
    begin = _skip_spaces(text, index)
    name, index = _take(NAME, text, begin, "a name")
    if not text.startswith("(", index):
        return Term(name), index
    inside, index = _take(INSIDE, text, index + 1, "parameters")
    if not text.startswith(")", index):
        raise _refusal(text, index, ")")
    return Term(name, _read_parameters(inside, text[begin : index + 1])), _skip_spaces(text, index + 1)


def _take(pattern: re.Pattern[str], text: str, index: int, due: str) -> tuple[str, int]:
    """Match a pattern at an index, spaces before it aside; return the match and the index after it and any spaces."""
    index = _skip_spaces(text, index)
    match = pattern.match(text, index)
    if match is None:
        raise _refusal(text, index, due)
    return match[0], _skip_spaces(text, match.end())


def _skip_spaces(text: str, index: int) -> int:
    while text.startswith(" ", index):
        index += 1
    return index


def _refusal(text: str, index: int, due: str) -> InputError:
    where = f"character {index + 1}" if index < len(text) else "its end"
    return InputError(
        f"arm {shortened(text)} cannot be read at {where}, where {due} is due; "
        "allowed: such as grpo, f_grpo(gamma=0.5)+clip_higher@token_mean, mine.py:weight"
    )


def _read_parameters(inside: str, term: str) -> tuple[tuple[str, Value], ...]:
    """Read the inside of the brackets of a term."""
    parameters: dict[str, Value] = {}
    for pair in inside.split(",") if inside.strip(" ") else ():
        name, equals, value = (piece.strip(" ") for piece in pair.partition("="))
        if not (equals and PARAMETER.fullmatch(name) and WORD.fullmatch(value)):
            raise InputError(f"{shortened(pair.strip(' '))} in {shortened(term)} cannot be read; allowed: NAME=VALUE")
        if name in parameters:
            raise InputError(f"{shortened(name)} stands twice in {shortened(term)}; allowed: once")
        try:
            parameters[name] = _read_value(value)
        except InputError as error:
            raise InputError(f"{shortened(term)}: {error}") from None
    return tuple(parameters.items())


def _read_value(text: str) -> Value:
    """Read a number, an int where it is whole; or a word."""
    if not NUMBER.fullmatch(text):
        return text.lower() if text.lower() in WORDS else text
    number = read_number(text)
    is_whole = isinstance(number, float) and number.is_integer() and abs(number) < SMALLEST_INEXACT
    return int(number) if is_whole else number


def write(base: Term, added: Iterable[Term] = (), aggregation: str | None = None) -> str:
    """Write an arm, without spaces; ``read`` reads it.

    >>> write(Term("f_grpo", (("gamma", 0.5),)), aggregation="token_mean")
    'f_grpo(gamma=0.5)@token_mean'
    """
    text = "+".join(map(_write_term, (base, *added)))
    return f"{text}@{aggregation}" if aggregation is not None else text


def _write_term(term: Term) -> str:
    inside = ",".join(f"{name}={_write_value(value)}" for name, value in term.parameters)
    return f"{term.name}({inside})" if inside else term.name


def _write_value(value: Value) -> str:
    """Write equal numbers alike, whether they are ints or floats."""
    if isinstance(value, str):
        return value
    if abs(value) < SMALLEST_INEXACT and value == int(value):
        return str(int(value))
    return repr(float(value)) if float(value) == value else str(value)
