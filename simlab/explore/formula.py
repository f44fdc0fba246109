"""Weights written as formulas, such as ``=(1 - p)^g * (r - p)/s``: read into a tree and walked, never run as code.

A formula says what a rollout weighs, for rewards 0 and 1::

    text     = formula [@g=number]
    formula  sum of products of powers, with + - * / ^, brackets, numbers, the names below and FUNCTIONS
    r        the rollout's reward, 0 or 1        p, q   the group's solve rate, and 1 - p
    G        the group size                      s      the standard deviation of the group's rewards, sqrt(p q)
    g        a number of one's own, the slider gamma

A value that is not finite counts as 0, as in groups whose rewards are all alike where it is divided by s. The page
reads the same language by ``page/formula.js``.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from array_api_compat import array_namespace

from simlab.errors import InputError
from simlab.estimators.base import Estimator, chain, stateless
from simlab.estimators.registry import REGISTRY, forget, register
from simlab.rollouts import Array, Rollouts, Scalar, group_count, is_correct, remainder, solve_rate
from simlab.text import NUMBER, read_number, shortened

SIGN = "="  # a weight that begins with it is a formula
GIVEN = "@g="
TAG = "formula"
LARGEST_G = 8.0
LONGEST = 200  # characters
DEEPEST = 24  # brackets within brackets
MOST_KEPT = 64  # formulas that are registered at a time
NAMES = ("p", "q", "r", "s", "G", "g")
FUNCTIONS: Mapping[str, int] = {"sqrt": 1, "exp": 1, "log": 1, "abs": 1, "min": 2, "max": 2}  # and their arguments
ALLOWED = f"allowed: {', '.join(NAMES)}, numbers, + - * / ^ ( ), {', '.join(FUNCTIONS)}"
_TOKEN = re.compile(rf" *({NUMBER.pattern.removeprefix('[+-]?')}|[A-Za-z]+|[-+*/^(),])")

Tree = tuple[Any, ...]


def is_formula(weight: str) -> bool:
    """Whether a weight is written as a formula."""
    return weight.startswith(SIGN)


def read(text: str) -> Tree:
    """The tree of a formula: ``("number", 2.0)``, ``("name", "p")``, or an operation with its arguments.

    Raises:
        InputError: for a text that is no formula; the line says where, and what is allowed.

    >>> read("1 - p")
    ('-', ('number', 1.0), ('name', 'p'))
    """
    if len(text) > LONGEST:
        raise InputError(f"formula {shortened(text)} is too long; allowed: up to {LONGEST} characters")
    reader = _Reader(text)
    tree = reader.sum(0)
    if reader.token:
        reader.refuse()
    return tree


class _Reader:
    """Reads a formula from left to right; ``token`` is what comes next, empty at the end."""

    def __init__(self, text: str):
        self.text, self.place, self.token = text, 0, ""
        self.advance()

    def advance(self) -> str:
        """Go on to the next token; returns the one before."""
        before = self.token
        found = _TOKEN.match(self.text, self.place)
        if found is None and self.text[self.place :].strip(" "):
            self.token, self.place = "?", self.place + 1
            self.refuse()
        self.token = found[1] if found else ""
        self.place = found.end() if found else len(self.text)
        return before

    def takes(self, sign: str) -> bool:
        """Whether this sign comes next; then it is read."""
        if self.token != sign:
            return False
        self.advance()
        return True

    def refuse(self) -> NoReturn:
        """Raise what is wrong here."""
        where = f"character {self.place - len(self.token) + 1}" if self.token else "its end"
        raise InputError(f"formula {shortened(self.text)} cannot be read at {where}; {ALLOWED}")

    def sum(self, depth: int) -> Tree:
        """Products, added and subtracted."""
        if depth > DEEPEST:
            raise InputError(f"formula {shortened(self.text)} is nested too deeply; allowed: {DEEPEST} brackets")
        found = self.product(depth)
        while self.token in ("+", "-"):
            found = (self.advance(), found, self.product(depth))
        return found

    def product(self, depth: int) -> Tree:
        """Signed powers, multiplied and divided."""
        found = self.signed(depth)
        while self.token in ("*", "/"):
            found = (self.advance(), found, self.signed(depth))
        return found

    def signed(self, depth: int) -> Tree:
        """A power, perhaps behind signs."""
        negative = False
        while self.token in ("+", "-"):
            negative ^= self.advance() == "-"
        found = self.power(depth)
        return ("negative", found) if negative else found

    def power(self, depth: int) -> Tree:
        """An atom, perhaps to a power; 2^3^2 is 2^(3^2)."""
        base = self.atom(depth)
        if not self.takes("^"):
            return base
        if depth > DEEPEST:
            raise InputError(f"formula {shortened(self.text)} is nested too deeply; allowed: {DEEPEST} brackets")
        return ("^", base, self.signed(depth + 1))

    def atom(self, depth: int) -> Tree:
        """A number, a name, a function with its arguments, or brackets."""
        if self.takes("("):
            found = self.sum(depth + 1)
        elif self.token in FUNCTIONS:
            return self.function(depth)
        elif self.token in NAMES:
            return ("name", self.advance())
        elif NUMBER.fullmatch(self.token):
            return ("number", float(read_number(self.advance())))
        else:
            self.refuse()
        if not self.takes(")"):
            self.refuse()
        return found

    def function(self, depth: int) -> Tree:
        """A function and its arguments."""
        name = self.advance()
        arguments = []
        for place in range(FUNCTIONS[name]):
            if not self.takes("," if place else "("):
                self.refuse()
            arguments.append(self.sum(depth + 1))
        if not self.takes(")"):
            self.refuse()
        return (name, *arguments)


_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "+": lambda xp, one, other: one + other,
    "-": lambda xp, one, other: one - other,
    "*": lambda xp, one, other: one * other,
    "/": lambda xp, one, other: one / other,
    "^": lambda xp, one, other: one**other,
    "negative": lambda xp, one: -one,
    "sqrt": lambda xp, one: xp.sqrt(one),
    "exp": lambda xp, one: xp.exp(one),
    "log": lambda xp, one: xp.log(one),
    "abs": lambda xp, one: xp.abs(one),
    "min": lambda xp, one, other: xp.where(one < other, one, other),
    "max": lambda xp, one, other: xp.where(one > other, one, other),
}


def value(tree: Tree, given: Mapping[str, Array]) -> Array:
    """The value of a formula where its names have these values, arrays of one shape; 0 where it is not finite."""
    xp = array_namespace(given["r"])
    found = _value(tree, given)
    return xp.where(xp.isfinite(found), found, xp.zeros_like(found))


def _value(tree: Tree, given: Mapping[str, Array]) -> Array:
    kind, *rest = tree
    if kind == "number":
        return given["r"] * 0 + rest[0]
    if kind == "name":
        return given[rest[0]]
    xp = array_namespace(given["r"])
    return _OPERATIONS[kind](xp, *(_value(one, given) for one in rest))


def names_in(tree: Tree) -> set[str]:
    """The names that a formula reads."""
    kind, *rest = tree
    if kind == "name":
        return {rest[0]}
    return set().union(*(names_in(one) for one in rest)) if kind != "number" else set()


def weighing(formula: str, g: Scalar) -> Estimator:
    """The estimator of a formula."""
    tree = read(formula)

    def weight(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        p = solve_rate(rollouts) + 0 * advantages
        q = remainder(p)
        size = group_count(rollouts) + 0 * advantages
        r = xp.where(is_correct(rollouts), xp.ones_like(advantages), xp.zeros_like(advantages))
        return value(tree, {"p": p, "q": q, "r": r, "s": xp.sqrt(p * q), "G": size, "g": 0 * advantages + g})

    return chain(stateless(weight, domain="binary", exchangeable=True))


def split(weight: str) -> tuple[str, float | None]:
    """The formula and the g of a weight, such as ``=(1 - p)^g@g=0.5``; None where no g is given.

    Raises:
        InputError: for a g that is no number from 0 to ``LARGEST_G``.
    """
    formula, found, number = weight.removeprefix(SIGN).partition(GIVEN)
    if not found:
        return formula.strip(" "), None
    if not NUMBER.fullmatch(number) or not 0 <= (g := float(read_number(number))) <= LARGEST_G:
        raise InputError(f"g = {shortened(number)} is not allowed; allowed: [0, {LARGEST_G:g}]")
    return formula.strip(" "), g


def registered(weight: str) -> tuple[str, dict[str, Any]]:
    """The name under which a formula's estimator is registered from now on, and its parameters: ``g``, if it reads it.

    Raises:
        InputError: for a text that is no formula.
    """
    formula, g = split(weight)
    has_g = "g" in names_in(read(formula))
    name = f"formula_{hashlib.sha256(formula.encode()).hexdigest()[:16]}"
    if name not in REGISTRY:
        _make_room()
        _register(name, formula, has_g)
    return name, {"g": 1.0 if g is None else g} if has_g else {}


def _register(name: str, formula: str, has_g: bool) -> None:
    def with_g(g: Scalar = 1.0) -> Estimator:
        """A weight of one's own."""
        return weighing(formula, g)

    def without_g() -> Estimator:
        """A weight of one's own."""
        return weighing(formula, 0.0)

    build = with_g if has_g else without_g
    build.__name__ = name
    register(TAG, formula)(build)


def _make_room() -> None:
    """Forget the formula that was registered first, if there are many."""
    kept = [name for name, entry in REGISTRY.items() if entry.tag == TAG]
    if len(kept) >= MOST_KEPT:
        forget(kept[0])
