"""Read the text of an arm, such as ``f_grpo(gamma=0.5)+clip_higher@token_mean``, into terms; build nothing.

An arm is a base term, then surrogates and penalties after ``+``, then perhaps an aggregation after ``@``::

    term   name [(parameter=value, ...)]
    name   small letters, digits and _; or a path, a colon and a name in that file: mine.py:weight, dir/mine.py:weight
    value  a number, a word, or a text in quotes

Spaces mean nothing. Python itself reads what stands in brackets; ``simlab.arms`` builds what the terms name, and the
explorer's page reads estimators by ``simlab/explore/page/settings.js``.
"""

import ast
import keyword
import re
import sys
from collections.abc import Iterable
from typing import NamedTuple

from simlab.errors import InputError
from simlab.text import WORDS, parse_python, read_as, shortened

SMALLEST_INEXACT = 10**16  # whole numbers below are floats too, and are written with all their digits
TERM = re.compile(r"([\w./-]+:[^\W\d]\w*|[a-z0-9_]+) *(?:\(([^()#\x00-\x1f]*)\))?")

Value = int | float | str


class Term(NamedTuple):
    """A name or ``FILE.py:NAME``, and its written parameters in their order: numbers, whole ones as ints, and words."""

    name: str
    parameters: tuple[tuple[str, Value], ...] = ()


class ArmTerms(NamedTuple):
    """The terms of an arm, and its aggregation."""

    base: Term
    added: tuple[Term, ...] = ()
    aggregation: str | None = None


def split(text: str) -> tuple[str, ...]:
    """Split a list of arms at its commas, those within brackets aside.

    >>> split("grpo, f_grpo(gamma=0.5,base=maxrl)")
    ('grpo', 'f_grpo(gamma=0.5,base=maxrl)')
    """
    return tuple(_split(text, ","))


def _split(text: str, sign: str) -> list[str]:
    return [piece.strip(" ") for piece in re.split(rf"[{sign}](?![^()]*\))", text)]


def read(text: str) -> ArmTerms:
    """Read one arm; ``InputError`` names the term that cannot be read.

    >>> read("f_grpo(gamma=0.5) + clip_higher @ token_mean").added
    (Term(name='clip_higher', parameters=()),)
    """
    terms, *aggregations = _split(text, "@")
    base, *added = (_read_term(term, text) for term in _split(terms, "+"))
    if len(aggregations) > 1 or not all(re.fullmatch("[a-z_]+", name) for name in aggregations):
        raise _refusal(text, "@".join(aggregations))
    return ArmTerms(base, tuple(added), *aggregations)


def _read_term(term: str, arm: str) -> Term:
    if (match := TERM.fullmatch(term)) is None:
        raise _refusal(arm, term)
    try:
        source = f"f({match[2] or ''})"
        call: ast.Call = parse_python(source, "eval").body
        parameters = {str(pair.arg): _read_value(pair.value, source) for pair in call.keywords if pair.arg}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _refusal(arm, term) from None
    if call.args or len(parameters) < len(call.keywords):  # one without a name, or a name twice
        raise _refusal(arm, term)
    return Term(match[1], tuple(parameters.items()))


def _refusal(arm: str, term: str) -> InputError:
    allowed = "such as grpo, f_grpo(gamma=0.5,base=maxrl)+clip_higher@token_mean, mine.py:weight"
    return InputError(f"arm {shortened(arm)} cannot be read at {shortened(term)}; allowed: {allowed}")


def _read_value(node: ast.expr, source: str) -> Value:
    """Read a number, an int where it is whole; or a word. ``ValueError`` for anything else."""
    value = node.id if isinstance(node, ast.Name) else ast.literal_eval(node)
    if value is None or isinstance(value, (str, bool)):
        word = str(value)
        return word.lower() if word.lower() in WORDS else word
    if not isinstance(value, (int, float)) or abs(value) > sys.float_info.max:
        raise ValueError(value)
    read_as(float, ast.get_source_segment(source, node) or "")
    return int(value) if value == int(value) and abs(value) < SMALLEST_INEXACT else value


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
    """Write equal numbers alike, whether they are ints or floats, and quotes around what is no plain name in Python."""
    if isinstance(value, str):
        plain = value.isascii() and value.isidentifier() and not keyword.iskeyword(value)
        return value if plain else repr(value)
    if abs(value) < SMALLEST_INEXACT and value == int(value):
        return str(int(value))
    return repr(float(value)) if float(value) == value else str(value)
