"""Read the text of an arm, such as ``f_grpo(gamma=0.5)+clip_higher@token_mean``, into its parts; build nothing.

An arm is a base, then surrogates and penalties after ``+``, then perhaps an aggregation after ``@``. Each part is a
name, or a file and a name in it, with parameters in brackets if need be. A list of arms has commas between them::

    arm    base [+ part]... [@ aggregation]
    part   name [( [parameter = value [, parameter = value]...] )]
    name   small letters, digits and _; or a path, a colon and a name in that file: mine.py:weight, dir/mine.py:weight
    value  a number in decimal, or a word: letters, digits and _ . + - / :

Spaces may stand between these, and mean nothing. ``simlab.arms`` says what the parts are and builds them; the
explorer's page reads the same language by ``simlab/explore/page/grammar.js``.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, NoReturn

from simlab.errors import InputError
from simlab.values import NUMBER, WORDS, read_number, shortened

LONGEST_ARM = 1000  # characters
LONGEST_LIST = 20 * LONGEST_ARM
SMALLEST_INEXACT = 10**16  # whole numbers below are floats too, and are written with all their digits
NAME = re.compile(r"[\w./-]+:[^\W\d]\w*|[a-z0-9_]+")  # a file and a name in it, or a name
AGGREGATION = re.compile(r"[a-z_]+")
PARAMETER = re.compile(r"[^\W\d]\w*")
WORD = re.compile(r"[\w.+/:-]+")
INSIDE = re.compile(r"[^()]*")

Value = int | float | str


class Part(NamedTuple):
    """A name or ``FILE.py:NAME``, and the parameters that are given, in their order.

    Numbers are numbers, whole ones ints; all else is a word, as only the constructor knows whether its ``none`` is a
    choice or the absence of one.
    """

    name: str
    parameters: tuple[tuple[str, Value], ...] = ()


class Written(NamedTuple):
    """The parts of an arm."""

    base: Part
    added: tuple[Part, ...] = ()
    aggregation: str | None = None


def split(text: str) -> tuple[str, ...]:
    """The arms in a list separated by commas, those within brackets aside.

    Raises:
        InputError: for a list longer than ``LONGEST_LIST``.

    >>> split("grpo, f_grpo(gamma=0.5,base=maxrl)")
    ('grpo', 'f_grpo(gamma=0.5,base=maxrl)')
    """
    if len(text) > LONGEST_LIST:
        raise InputError(f"the list {shortened(text)} is too long; allowed: up to {LONGEST_LIST} characters")
    return tuple(name.strip(" ") for name in _outside_of_brackets(text))


def _outside_of_brackets(text: str) -> Iterator[str]:
    """What lies between the commas that stand outside of brackets."""
    begin, depth = 0, 0
    for place, sign in enumerate(text):
        depth = max(0, depth + (sign == "(") - (sign == ")"))
        if sign == "," and depth == 0:
            yield text[begin:place]
            begin = place + 1
    yield text[begin:]


def read(text: str) -> Written:
    """The parts of one arm.

    Raises:
        InputError: for a text that cannot be read; the line says where, and what is due there.

    >>> read("f_grpo(gamma=0.5) + clip_higher @ token_mean").added
    (Part(name='clip_higher', parameters=()),)
    """
    if len(text) > LONGEST_ARM:
        raise InputError(f"arm {shortened(text)} is too long; allowed: up to {LONGEST_ARM} characters")
    reader = _Reader(text)
    base, added, aggregation = reader.part(), [], None
    while reader.takes("+"):
        added.append(reader.part())
    if reader.takes("@"):
        aggregation = reader.take(AGGREGATION, "an aggregation")
    reader.end()
    return Written(base, tuple(added), aggregation)


class _Reader:
    """Reads an arm from left to right."""

    def __init__(self, text: str):
        self.text, self.place = text, 0

    def _skip_spaces(self) -> None:
        while self.text.startswith(" ", self.place):
            self.place += 1

    def takes(self, sign: str) -> bool:
        """Whether this sign comes next; then it is read."""
        self._skip_spaces()
        found = self.text.startswith(sign, self.place)
        self.place += len(sign) * found
        return found

    def take(self, pattern: re.Pattern[str], due: str) -> str:
        """What comes next, which must be of this pattern."""
        self._skip_spaces()
        found = pattern.match(self.text, self.place)
        if found is None:
            self._refuse(due)
        self.place = found.end()
        return found[0]

    def end(self) -> None:
        """Nothing may come next."""
        self._skip_spaces()
        if self.place < len(self.text):
            self._refuse("( + @ or the end")

    def part(self) -> Part:
        """A name with its parameters."""
        self._skip_spaces()
        begin = self.place
        name = self.take(NAME, "a name")
        if not self.takes("("):
            return Part(name)
        inside = self.take(INSIDE, "parameters")
        if not self.takes(")"):
            self._refuse(")")
        return Part(name, _parameters(inside, self.text[begin : self.place]))

    def _refuse(self, due: str) -> NoReturn:
        where = f"character {self.place + 1}" if self.place < len(self.text) else "its end"
        raise InputError(
            f"arm {shortened(self.text)} cannot be read at {where}, where {due} is due; "
            "allowed: such as grpo, f_grpo(gamma=0.5)+clip_higher@token_mean, mine.py:weight"
        )


def _parameters(inside: str, part: str) -> tuple[tuple[str, Value], ...]:
    """What stands in the brackets of a part."""
    found: dict[str, Value] = {}
    for pair in inside.split(",") if inside.strip(" ") else ():
        name, equals, value = (piece.strip(" ") for piece in pair.partition("="))
        if not (equals and PARAMETER.fullmatch(name) and WORD.fullmatch(value)):
            raise InputError(f"{shortened(pair.strip(' '))} in {shortened(part)} cannot be read; allowed: NAME=VALUE")
        if name in found:
            raise InputError(f"{shortened(name)} stands twice in {shortened(part)}; allowed: once")
        try:
            found[name] = _value(value)
        except InputError as error:
            raise InputError(f"{shortened(part)}: {error}") from None
    return tuple(found.items())


def _value(text: str) -> Value:
    """A number, an int where it is whole; or a word."""
    if not NUMBER.fullmatch(text):
        return text.lower() if text.lower() in WORDS else text
    number = read_number(text)
    whole = isinstance(number, float) and number.is_integer() and abs(number) < SMALLEST_INEXACT
    return int(number) if whole else number


def write(base: Part, added: Iterable[Part] = (), aggregation: str | None = None) -> str:
    """The text of an arm, without spaces; ``read`` reads it.

    >>> write(Part("f_grpo", (("gamma", 0.5),)), aggregation="token_mean")
    'f_grpo(gamma=0.5)@token_mean'
    """
    text = "+".join(map(_written, (base, *added)))
    return f"{text}@{aggregation}" if aggregation is not None else text


def _written(part: Part) -> str:
    inside = ",".join(f"{name}={_value_text(value)}" for name, value in part.parameters)
    return f"{part.name}({inside})" if inside else part.name


def _value_text(value: Value) -> str:
    """One text for equal numbers, whether they are ints or floats."""
    if isinstance(value, str):
        return value
    if abs(value) < SMALLEST_INEXACT and value == int(value):
        return str(int(value))
    return repr(float(value)) if float(value) == value else str(value)
