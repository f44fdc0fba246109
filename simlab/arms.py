"""Read methods written as text, called arms, and build the methods that they name.

``maxrl`` is an estimator with the PPO clip and the mean over each sequence; ``dapo`` a whole method of
``simlab.methods``. ``+`` puts another surrogate in place of its own and then adds penalties or a bonus, ``@`` puts
another aggregation, and brackets give parameters (``simlab.grammar`` has the language)::

    f_grpo(gamma=0.5)    grpo+casp(alpha=0.05,candidates=4)    maxrl+clip_higher@token_mean    grpo+kl_penalty

A name may also be ``mine.py:weight``, an object in a file of the user's (``simlab.own_files``): an
``Estimator``, a ``Link``, a ``Method``, a function with defaults for all of its parameters that makes one of these, or
a plain link ``(advantages, rollouts)``; after ``+`` a ``Surrogate``, a function that makes one, or a plain
``(ratio, advantages, rollouts)``. Parameters in brackets are those with defaults.

A simulator compiles one program for all arms that are equal ``without_floats``, and hands it the floats::

    arm = parse("f_grpo(gamma=0.5)+clip_higher(eps_high=0.3)")     # reads, and builds nothing
    arm.floats                  # {"estimator.gamma": 0.5, "surrogate.0.eps_low": 0.2, "surrogate.0.eps_high": 0.3}
    method = arm.without_floats().build(arm.floats)    # values may be traced by JAX

``parse(str(arm)) == arm``, and equal arms have equal texts: spaces, the order of parameters and the spelling of numbers
do not count.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from simlab import grammar
from simlab.constructors import PENALTIES, Constructor, added_constructor, base_constructor, is_file
from simlab.errors import InputError, check_choice, check_parameters
from simlab.grammar import Term, Value
from simlab.methods import Method
from simlab.surrogates import AGGREGATIONS, add
from simlab.text import WORDS

Floats = Mapping[str, Any]


@dataclass(frozen=True)
class Arm:
    """A method as it is written, its base (an estimator or a whole method) and terms; equal whatever its spelling."""

    text: str = field(compare=False)
    base: Term
    added: tuple[Term, ...] = ()
    aggregation: str | None = None

    def __str__(self) -> str:
        """Write the arm: equal arms have equal texts."""
        return grammar.write(self.base, self.added, self.aggregation)

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the form ``FILE.py:NAME``."""
        return tuple(dict.fromkeys(term.name for term in (self.base, *self.added) if is_file(term.name)))

    @property
    def floats(self) -> dict[str, float]:
        """Parameters whose defaults are floats, as ``estimator.NAME`` or ``surrogate.INDEX.NAME``, from 0."""
        return {
            f"{path}.{name}": float(value)
            for path, term, constructor in self._constructors()
            for name, value in {**constructor.defaults, **dict(term.parameters)}.items()
            if _is_float(constructor, name, value)
        }

    def without_floats(self) -> "Arm":
        """Return the arm with all its ``floats`` at their defaults: it determines the shape of a compiled program."""
        base, *added = (
            Term(term.name, tuple(pair for pair in term.parameters if _is_choice(constructor, *pair)))
            for _, term, constructor in self._constructors()
        )
        return Arm(grammar.write(base, added, self.aggregation), base, tuple(added), self.aggregation)

    def build(self, floats: Floats | None = None) -> Method:
        """Build the method, with the written numbers or with ``floats`` in their place, which JAX may trace."""
        if floats is not None:
            check_parameters(f"arm {str(self)!r}", floats, self.floats)
        base, *added = (_build(*entry, floats or {}) for entry in self._constructors())
        built: Method = base
        for index, (term, surrogate) in enumerate(zip(self.added, added, strict=True)):
            is_penalty = term.name in PENALTIES
            if index and not is_penalty:
                raise InputError(
                    f"arm {self.text!r} would lose what stands before {term.name}; allowed: one surrogate, put first"
                )
            built = dataclasses.replace(built, surrogate=add(built.surrogate, surrogate) if is_penalty else surrogate)
        if self.aggregation is not None:
            check_choice("aggregation", self.aggregation, AGGREGATIONS)
            built = dataclasses.replace(built, aggregation=self.aggregation)
        return built

    def _constructors(self) -> Iterator[tuple[str, Term, Constructor]]:
        """Yield each term with its path and its constructor, which takes all of its parameters."""
        added = [(f"surrogate.{index}", term, added_constructor) for index, term in enumerate(self.added)]
        for path, term, find in [("estimator", self.base, base_constructor), *added]:
            constructor = find(term.name)
            check_parameters(term.name, dict(term.parameters), constructor.defaults)
            yield path, term, constructor


def parse(text: str) -> Arm:
    """Read an arm; ``InputError`` for a text that is none. Nothing is built and no file opened: names need not exist.

    >>> str(parse("f_grpo( gamma = 0.50, base=maxrl ) @ token_mean"))
    'f_grpo(base=maxrl,gamma=0.5)@token_mean'
    >>> parse("f_grpo(gamma=0.5)").floats, parse("f_grpo").build().aggregation
    ({'estimator.gamma': 0.5}, 'sequence_mean')
    """
    base, added, aggregation = grammar.read(text)
    return Arm(text.strip(" "), _ordered(base), tuple(map(_ordered, added)), aggregation)


def parse_list(text: str) -> tuple[Arm, ...]:
    """Read arms that are separated by commas; ``InputError`` as for ``parse``.

    >>> [arm.text for arm in parse_list("grpo, f_grpo(gamma=0.5,base=maxrl)")]
    ['grpo', 'f_grpo(gamma=0.5,base=maxrl)']
    """
    return tuple(map(parse, grammar.split(text)))


def _ordered(term: Term) -> Term:
    return Term(term.name, tuple(sorted(term.parameters)))


def _is_float(constructor: Constructor, name: str, value: Any) -> bool:
    """Return True for a number of a parameter whose default is a float; a word in its place is a choice."""
    return isinstance(constructor.defaults[name], float) and isinstance(value, (int, float))


def _is_choice(constructor: Constructor, name: str, value: Value) -> bool:
    """Return True for a value that is no float and not the default, which in a user's code may be anything."""
    default = constructor.defaults[name]
    meaning = _interpret(value, default)
    return not _is_float(constructor, name, value) and (type(meaning) is not type(default) or meaning != default)


def _interpret(value: Value, default: Any) -> Any:
    """Turn ``none``, ``true`` and ``false`` into what they name, unless the default is a word too."""
    return WORDS[value] if isinstance(value, str) and value in WORDS and not isinstance(default, str) else value


def _build(path: str, term: Term, constructor: Constructor, floats: Floats) -> Any:
    """Build what a term names, with those of ``floats`` whose paths begin with its path."""
    parameters = {name: _interpret(value, constructor.defaults[name]) for name, value in term.parameters}
    prefix = f"{path}."
    traced = {name.removeprefix(prefix): value for name, value in floats.items() if name.startswith(prefix)}
    return constructor(**parameters | traced)
