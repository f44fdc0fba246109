"""Read methods written as text, called arms, and build the methods that they name.

``maxrl`` is an estimator with the PPO clip and the mean over each sequence; ``dapo`` a whole method of
``simlab.methods``. ``+`` puts another surrogate in place of its own and then adds penalties or a bonus, ``@`` puts
another aggregation, and brackets give parameters (``simlab.grammar`` has the language)::

    f_grpo(gamma=0.5)    grpo+casp(alpha=0.05,candidates=4)    maxrl+clip_higher@token_mean    grpo+kl_penalty

In place of a name stands, as ``mine.py:weight``, what a user has written in a file (``simlab.own_files``): an
``Estimator``, a ``Link``, a ``Method``, a function with defaults for all of its parameters that makes one of these, or
a plain link ``(advantages, rollouts)``; after ``+`` a ``Surrogate``, a function that makes one, or a plain
``(ratio, advantages, rollouts)``. Parameters in brackets are those with defaults.

How a simulator uses it::

    arm = parse("f_grpo(gamma=0.5)+clip_higher(eps_high=0.3)")     # reads, and builds nothing
    arm.floats                  # {"estimator.gamma": 0.5, "surrogate.0.eps_low": 0.2, "surrogate.0.eps_high": 0.3}
    shape = arm.without_floats()        # equal, and of equal hash, for arms that differ in floats alone
    method = shape.build(arm.floats)    # values may be traced by JAX: the same as arm.build() outside of a program
    arm.estimator_name          # "f_grpo", for labels: the base as it is written, without its parameters
    arm.files                   # ("mine.py:weight",): what of the user's files it names, for provenance

``parse(str(arm)) == arm``, and equal arms have equal texts: spaces, the order of parameters and the spelling of numbers
do not count. An arm can be pickled and built in another process that finds the same files.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from simlab import grammar
from simlab.constructors import PENALTIES, Constructor, added_constructor, base_constructor, is_file
from simlab.errors import InputError, check_choice, check_parameters
from simlab.grammar import Part, Value
from simlab.methods import Method
from simlab.surrogates import AGGREGATIONS, add
from simlab.values import WORDS

Floats = Mapping[str, Any]


@dataclass(frozen=True)
class Arm:
    """A method as it is written; ``parse`` reads one.

    Attributes:
        text: as it was written; two arms are equal whatever their spelling.
        base: an estimator or a whole method.
        added: surrogates and penalties.
        aggregation: in place of the method's own; None for that.
    """

    text: str = field(compare=False)
    base: Part
    added: tuple[Part, ...] = ()
    aggregation: str | None = None

    def __str__(self) -> str:
        """The one text of all arms that are equal to this one."""
        return grammar.write(self.base, self.added, self.aggregation)

    @property
    def estimator_name(self) -> str:
        """The base without its parameters, for labels."""
        return self.base.name

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the form ``FILE.py:NAME``."""
        return tuple(dict.fromkeys(part.name for part in (self.base, *self.added) if is_file(part.name)))

    @property
    def floats(self) -> dict[str, float]:
        """The parameters whose defaults are floats, those at their defaults too, by where they are.

        ``estimator.NAME`` are those of the base, ``surrogate.PLACE.NAME`` of what is added, counted from 0. A surrogate
        that is not written has none here: it stays at its defaults.

        Raises:
            InputError: for an unknown name or parameter, and as ``simlab.own_files.load`` does.
        """
        return {
            f"{path}.{name}": float(value)
            for path, part, constructor in self._constructed()
            for name, value in (_float_defaults(constructor) | dict(part.parameters)).items()
            if _is_float(constructor, name, value)
        }

    def without_floats(self) -> "Arm":
        """The arm with all its ``floats`` at their defaults: what shapes a compiled program.

        Raises:
            InputError: as ``floats``.
        """
        parts = [_shape(part, constructor) for _, part, constructor in self._constructed()]
        found = Arm("", parts[0], tuple(parts[1:]), self.aggregation)
        return dataclasses.replace(found, text=str(found))

    def build(self, floats: Floats | None = None) -> Method:
        """The method, with its own numbers or with ``floats`` in their place, which may be traced by JAX.

        Raises:
            InputError: for what cannot be built: an unknown name, parameter or aggregation, a parameter outside its
                range, a second surrogate, what a file of the user's lacks or raises, and floats that the arm has not.
        """
        if floats is not None:
            check_parameters(f"arm {str(self)!r}", floats, self.floats)
        base, *added = (_made(*place, floats or {}) for place in self._constructed())
        whole: Method = base
        for place, (part, surrogate) in enumerate(zip(self.added, added, strict=True)):
            is_penalty = part.name in PENALTIES
            if place and not is_penalty:
                raise InputError(
                    f"arm {self.text!r} would lose what stands before {part.name}; allowed: one surrogate, put first"
                )
            whole = dataclasses.replace(whole, surrogate=add(whole.surrogate, surrogate) if is_penalty else surrogate)
        if self.aggregation is not None:
            check_choice("aggregation", self.aggregation, AGGREGATIONS)
            whole = dataclasses.replace(whole, aggregation=self.aggregation)
        return whole

    def _constructed(self) -> Iterator[tuple[str, Part, Constructor]]:
        """Each part with its place and its constructor, which takes all of its parameters."""
        yield "estimator", self.base, _checked(self.base, base_constructor(self.base.name))
        for place, part in enumerate(self.added):
            yield f"surrogate.{place}", part, _checked(part, added_constructor(part.name))


def parse(text: str) -> Arm:
    """The arm that a text says. Nothing is built and no file opened, so that a name need not be known.

    Raises:
        InputError: for a text that cannot be read; the line says where.

    >>> str(parse("f_grpo( gamma = 0.50, base=maxrl ) @ token_mean"))
    'f_grpo(base=maxrl,gamma=0.5)@token_mean'
    >>> parse("f_grpo(gamma=0.5)").floats, parse("f_grpo").build().aggregation
    ({'estimator.gamma': 0.5}, 'sequence_mean')
    """
    base, added, aggregation = grammar.read(text)
    return Arm(text.strip(" "), _ordered(base), tuple(map(_ordered, added)), aggregation)


def parse_list(text: str) -> tuple[Arm, ...]:
    """The arms of a list separated by commas.

    Raises:
        InputError: as ``parse``.

    >>> [arm.text for arm in parse_list("grpo, f_grpo(gamma=0.5,base=maxrl)")]
    ['grpo', 'f_grpo(gamma=0.5,base=maxrl)']
    """
    return tuple(map(parse, grammar.split(text)))


def _ordered(part: Part) -> Part:
    return Part(part.name, tuple(sorted(part.parameters)))


def _checked(part: Part, constructor: Constructor) -> Constructor:
    check_parameters(part.name, dict(part.parameters), constructor.defaults)
    return constructor


def _float_defaults(constructor: Constructor) -> dict[str, float]:
    return {name: default for name, default in constructor.defaults.items() if isinstance(default, float)}


def _is_float(constructor: Constructor, name: str, value: Value) -> bool:
    """Whether a value is a number of a parameter whose default is a float; a word in its place is a choice."""
    return isinstance(constructor.defaults[name], float) and isinstance(value, (int, float))


def _shape(part: Part, constructor: Constructor) -> Part:
    """A part without its floats, and without what is at its default."""
    return Part(part.name, tuple(pair for pair in part.parameters if _is_choice(constructor, *pair)))


def _is_choice(constructor: Constructor, name: str, value: Value) -> bool:
    """Whether a value is no float, and not the default, which in a user's own code may be anything."""
    default = constructor.defaults[name]
    meant = _meant(value, default)
    return not _is_float(constructor, name, value) and not (type(meant) is type(default) and meant == default)


def _meant(value: Value, default: Any) -> Any:
    """What a value says to a parameter: ``none``, ``true`` and ``false`` are words where the default is one."""
    return WORDS[value] if isinstance(value, str) and value in WORDS and not isinstance(default, str) else value


def _made(path: str, part: Part, constructor: Constructor, floats: Floats) -> Any:
    """What a part builds, with those of ``floats`` that are at its place."""
    own = {name: _meant(value, constructor.defaults[name]) for name, value in part.parameters}
    begin = f"{path}."
    given = {name.removeprefix(begin): value for name, value in floats.items() if name.startswith(begin)}
    return constructor(**own | given)
