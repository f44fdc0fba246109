"""Work out the expressions of a chat template, from the tree that jinja2 reads it into."""

from collections.abc import Callable, Mapping
from typing import Any

from simlab.llm.chat.values import (
    FILTERS,
    UNDEFINED,
    Budget,
    Refused,
    Undefined,
    as_text,
    called,
    check_small,
    checked_number,
    contains,
    is_number,
    kind,
    method_of,
    same,
    tested,
)
from simlab.text import shortened

MOST_OF_RANGE = 10_000
COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "eq": same,
    "ne": lambda one, other: not same(one, other),
    "lt": lambda one, other: one < other,
    "lteq": lambda one, other: one <= other,
    "gt": lambda one, other: one > other,
    "gteq": lambda one, other: one >= other,
    "in": lambda one, other: contains(other, one),
    "notin": lambda one, other: not contains(other, one),
}
REFUSED_ARGUMENTS = ("dyn_args", "dyn_kwargs")


class Namespace(dict[str, Any]):
    """What ``namespace(...)`` makes: a mapping that ``set`` may change."""


Macro = Callable[[list[Any], dict[str, Any]], Any]


class Scope:
    """Names and their values, and those of the scope around it."""

    def __init__(self, values: Mapping[str, Any], outer: "Scope | None" = None):
        self.values, self.outer = dict(values), outer

    def find(self, name: str) -> Any:
        """The value of a name, undefined if it has none."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        return UNDEFINED


class Expressions:
    """Works out expressions; each kind of node has a method of its name.

    Args:
        budget: the budget of the rendering.
    """

    def __init__(self, budget: Budget):
        self.budget = budget

    def value(self, node: Any, scope: Scope) -> Any:
        """The value of an expression.

        Raises:
            Refused: for a kind of expression that is not known here, one that cannot be worked out, and one step too
                many.
        """
        self.budget.spend()
        name = type(node).__name__
        method = getattr(self, f"_{name.lower()}", None) if name in KNOWN else None
        if method is None:
            raise Refused(f"it has an expression of the kind {name}")
        return method(node, scope)

    def _values(self, nodes: Any, scope: Scope) -> list[Any]:
        return [self.value(node, scope) for node in nodes]

    def _const(self, node: Any, scope: Scope) -> Any:
        return node.value

    def _name(self, node: Any, scope: Scope) -> Any:
        return scope.find(node.name)

    def _list(self, node: Any, scope: Scope) -> list[Any]:
        return self._values(node.items, scope)

    def _tuple(self, node: Any, scope: Scope) -> tuple[Any, ...]:
        return tuple(self._values(node.items, scope))

    def _dict(self, node: Any, scope: Scope) -> dict[Any, Any]:
        pairs = [(self.value(pair.key, scope), self.value(pair.value, scope)) for pair in node.items]
        for key, _ in pairs:
            if not isinstance(key, str | int | float | None):
                raise Refused(f"it has a mapping from a {kind(key)}")
        return dict(pairs)

    def _condexpr(self, node: Any, scope: Scope) -> Any:
        if self.value(node.test, scope):
            return self.value(node.expr1, scope)
        return UNDEFINED if node.expr2 is None else self.value(node.expr2, scope)

    def _and(self, node: Any, scope: Scope) -> Any:
        left = self.value(node.left, scope)
        return self.value(node.right, scope) if left else left

    def _or(self, node: Any, scope: Scope) -> Any:
        left = self.value(node.left, scope)
        return left if left else self.value(node.right, scope)

    def _not(self, node: Any, scope: Scope) -> bool:
        return not self.value(node.node, scope)

    def _compare(self, node: Any, scope: Scope) -> bool:
        left = self.value(node.expr, scope)
        for operand in node.ops:
            right = self.value(operand.expr, scope)
            check_small(left, right)
            try:
                if not COMPARED[operand.op](left, right):
                    return False
            except TypeError:
                raise Refused(f"it compares a {kind(left)} with a {kind(right)}") from None
            left = right
        return True

    def _add(self, node: Any, scope: Scope) -> Any:
        left, right = self._values((node.left, node.right), scope)
        for kind_of_both in (str, list, tuple):
            if isinstance(left, kind_of_both) and isinstance(right, kind_of_both):
                self.budget.room(len(left) + len(right))
                return left + right  # type: ignore[operator]
        return _calculated(left, right, lambda one, other: one + other)

    def _sub(self, node: Any, scope: Scope) -> Any:
        return self._of_numbers(node, scope, lambda one, other: one - other)

    def _mul(self, node: Any, scope: Scope) -> Any:
        return self._of_numbers(node, scope, lambda one, other: one * other)

    def _mod(self, node: Any, scope: Scope) -> Any:
        return self._of_numbers(node, scope, lambda one, other: one % other)

    def _floordiv(self, node: Any, scope: Scope) -> Any:
        return self._of_numbers(node, scope, lambda one, other: one // other)

    def _neg(self, node: Any, scope: Scope) -> Any:
        return _calculated(0, self.value(node.node, scope), lambda one, other: one - other)

    def _of_numbers(self, node: Any, scope: Scope, function: Callable[[Any, Any], Any]) -> Any:
        return _calculated(self.value(node.left, scope), self.value(node.right, scope), function)

    def _concat(self, node: Any, scope: Scope) -> str:
        texts = [as_text(value, self.budget) for value in self._values(node.nodes, scope)]
        self.budget.room(sum(map(len, texts)))
        return "".join(texts)

    def _getattr(self, node: Any, scope: Scope) -> Any:
        return self._inside(self.value(node.node, scope), node.attr)

    def _getitem(self, node: Any, scope: Scope) -> Any:
        whole = self.value(node.node, scope)
        if type(node.arg).__name__ != "Slice":
            return self._inside(whole, self.value(node.arg, scope))
        ends = [
            None if end is None else self.value(end, scope) for end in (node.arg.start, node.arg.stop, node.arg.step)
        ]
        if not isinstance(whole, str | list | tuple):
            raise Refused(f"it takes a part of a {kind(whole)}")
        self.budget.room(len(whole))
        return called(lambda: whole[slice(*ends)], (), {})

    def _inside(self, whole: Any, place: Any) -> Any:
        """A member of a list, or the value of a name in a mapping; undefined if there is none."""
        if isinstance(whole, Undefined):
            raise Refused(f"it looks for {shortened(str(place))} in a value that is not defined")
        if isinstance(whole, dict) and isinstance(place, str | int | float | None):
            return whole.get(place, UNDEFINED)
        if isinstance(whole, str | list | tuple) and isinstance(place, int) and -len(whole) <= place < len(whole):
            return whole[place]
        return UNDEFINED

    def _filter(self, node: Any, scope: Scope) -> Any:
        if node.node is None:
            raise Refused("it filters a block")
        if node.name not in FILTERS:
            raise Refused(f"it has the filter {shortened(node.name)}; known: {', '.join(FILTERS)}")
        arguments, named = self._arguments(node, scope)
        return called(FILTERS[node.name], (self.value(node.node, scope), self.budget, *arguments), named)

    def _test(self, node: Any, scope: Scope) -> bool:
        arguments, named = self._arguments(node, scope)
        value = self.value(node.node, scope)
        return bool(called(lambda: tested(node.name, value, *arguments, **named), (), {}))

    def _call(self, node: Any, scope: Scope) -> Any:
        arguments, named = self._arguments(node, scope)
        if type(node.node).__name__ == "Getattr":
            whole = self.value(node.node.node, scope)
            if not (isinstance(whole, dict) and callable(whole.get(node.node.attr))):
                return called(method_of(whole, node.node.attr), (whole, self.budget, *arguments), named)
        name = getattr(node.node, "name", "")
        own = self.value(node.node, scope)
        if callable(own):
            return own(arguments, named)
        if name in FUNCTIONS and isinstance(own, Undefined):
            return called(FUNCTIONS[name], (self.budget, *arguments), named)
        raise Refused(f"it calls {shortened(name)}; known: {', '.join(FUNCTIONS)} and its own macros")

    def _arguments(self, node: Any, scope: Scope) -> tuple[list[Any], dict[str, Any]]:
        if any(getattr(node, kind, None) is not None for kind in REFUSED_ARGUMENTS):
            raise Refused("it calls something with * or **")
        return self._values(node.args, scope), {own.key: self.value(own.value, scope) for own in node.kwargs}


def _calculated(left: Any, right: Any, function: Callable[[Any, Any], Any]) -> Any:
    """What a function makes of two numbers.

    Raises:
        Refused: for what is no number, a division by zero, and a result that is too large.
    """
    if not (is_number(left) and is_number(right)):
        raise Refused(f"it calculates with a {kind(left)} and a {kind(right)}")
    try:
        return checked_number(function(left, right))
    except ZeroDivisionError:
        raise Refused("it divides by zero") from None


KNOWN = {
    "Const", "Name", "List", "Tuple", "Dict", "CondExpr", "And", "Or", "Not", "Compare", "Add", "Sub", "Mul", "Mod",
    "FloorDiv", "Neg", "Concat", "Getattr", "Getitem", "Filter", "Test", "Call",
}  # fmt: skip


def _range(budget: Budget, *ends: int) -> list[int]:
    found = range(*ends)
    if len(found) > MOST_OF_RANGE:
        raise Refused(f"it counts through {len(found)} numbers; allowed: {MOST_OF_RANGE}")
    budget.room(len(found))
    return list(found)


def _raise(budget: Budget, message: Any = "") -> None:
    raise Refused(f"it says: {shortened(str(message))}")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "namespace": lambda budget, **values: Namespace(values),
    "dict": lambda budget, **values: dict(values),
    "range": _range,
    "raise_exception": _raise,
}
