"""Walk through the statements of a chat template and collect what it prints."""

from typing import Any

from simlab.llm.chat.expressions import Expressions, Namespace, Scope
from simlab.llm.chat.values import LONGEST, UNDEFINED, Budget, Refused, as_text, items_of, kind
from simlab.text import shortened

DEEPEST_CALL = 16  # macros inside of one another


class Break(Exception):
    """Leaves a loop."""


class Continue(Exception):
    """Goes on with the next turn of a loop."""


class Statements:
    """One rendering: statements print into ``printed``; each kind has a method of its name."""

    def __init__(self) -> None:
        self.budget = Budget()
        self.expressions = Expressions(self.budget)
        self.printed: list[str] = []
        self.size = self.depth = 0

    def run(self, nodes: Any, scope: Scope) -> None:
        """Run statements one after the other.

        Raises:
            Refused: for a kind of statement that is not known here, and for what their expressions do wrong.
        """
        for node in nodes:
            self.budget.spend()
            name = type(node).__name__
            if name not in KNOWN:
                raise Refused(f"it has a statement of the kind {name}")
            getattr(self, f"_{name.lower()}")(node, scope)

    def _print(self, text: str) -> None:
        self.size += len(text)
        if self.size > LONGEST:
            raise Refused(f"it prints more than {LONGEST} characters")
        self.printed.append(text)

    def _output(self, node: Any, scope: Scope) -> None:
        for part in node.nodes:
            if type(part).__name__ == "TemplateData":
                self._print(part.data)
            else:
                self._print(as_text(self.expressions.value(part, scope), self.budget))

    def _if(self, node: Any, scope: Scope) -> None:
        for branch in (node, *node.elif_):
            if self.expressions.value(branch.test, scope):
                self.run(branch.body, scope)
                return
        self.run(node.else_, scope)

    def _for(self, node: Any, scope: Scope) -> None:
        if node.recursive:
            raise Refused("it has a recursive loop")
        members = items_of(self.expressions.value(node.iter, scope))
        if node.test is not None:
            members = [own for own in members if self.expressions.value(node.test, self._turn(node, own, {}, scope))]
        for place, member in enumerate(members):
            self.budget.spend()
            try:
                self.run(node.body, self._turn(node, member, {"loop": _loop(members, place)}, scope))
            except Continue:
                continue
            except Break:
                break
        if not members:
            self.run(node.else_, scope)

    def _turn(self, node: Any, member: Any, names: dict[str, Any], scope: Scope) -> Scope:
        """The scope of one turn of a loop."""
        inner = Scope(names, scope)
        self._set(node.target, member, inner)
        return inner

    def _break(self, node: Any, scope: Scope) -> None:
        raise Break

    def _continue(self, node: Any, scope: Scope) -> None:
        raise Continue

    def _assign(self, node: Any, scope: Scope) -> None:
        self._set(node.target, self.expressions.value(node.node, scope), scope)

    def _assignblock(self, node: Any, scope: Scope) -> None:
        if node.filter is not None:
            raise Refused("it filters a block")
        self._set(node.target, self._captured(node.body, Scope({}, scope)), scope)

    def _set(self, target: Any, value: Any, scope: Scope) -> None:
        name = type(target).__name__
        if name == "Name":
            scope.values[target.name] = value
        elif name == "NSRef":
            held = scope.find(target.name)
            if not isinstance(held, Namespace):
                raise Refused(f"it sets {shortened(target.attr)} in a {kind(held)}; allowed: in a namespace")
            held[target.attr] = value
        elif name == "Tuple" and isinstance(value, list | tuple) and len(value) == len(target.items):
            for part, own in zip(target.items, value, strict=True):
                self._set(part, own, scope)
        else:
            raise Refused(f"it sets a {name} to a {kind(value)}")

    def _macro(self, node: Any, scope: Scope) -> None:
        names = [argument.name for argument in node.args]
        first_default = len(names) - len(node.defaults)

        def macro(arguments: list[Any], named: dict[str, Any]) -> str:
            if len(arguments) > len(names) or not named.keys() <= {*names}:
                raise Refused(f"it calls its macro {shortened(node.name)} with what that does not take")
            inner = Scope({}, scope)
            for place, name in enumerate(names):
                default = node.defaults[place - first_default] if place >= first_default else None
                given = arguments[place] if place < len(arguments) else named.get(name, UNDEFINED)
                absent = place >= len(arguments) and name not in named and default is not None
                inner.values[name] = self.expressions.value(default, inner) if absent else given
            return self._captured(node.body, inner)

        scope.values[node.name] = macro

    def _captured(self, nodes: Any, scope: Scope) -> str:
        """What statements print, as a value."""
        self.depth += 1
        if self.depth > DEEPEST_CALL:
            raise Refused(f"its macros call one another more than {DEEPEST_CALL} deep")
        outer, self.printed = self.printed, []
        try:
            self.run(nodes, scope)
            return "".join(self.printed)
        finally:
            self.printed, self.depth = outer, self.depth - 1


KNOWN = {"Output", "If", "For", "Break", "Continue", "Assign", "AssignBlock", "Macro"}


def _loop(members: list[Any], place: int) -> dict[str, Any]:
    """What ``loop`` says in a turn."""
    count = len(members)
    return {
        "index": place + 1,
        "index0": place,
        "revindex": count - place,
        "revindex0": count - place - 1,
        "first": place == 0,
        "last": place == count - 1,
        "length": count,
        "previtem": members[place - 1] if place else UNDEFINED,
        "nextitem": members[place + 1] if place + 1 < count else UNDEFINED,
    }
