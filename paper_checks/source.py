"""Find the code that decided a claim: its check, and all that the check uses of its paper's package."""

import ast
import functools
import inspect
import symtable
import sys
from collections.abc import Iterator
from types import ModuleType

from paper_checks.claim import PACKAGES, Claim

Definition = tuple[ModuleType, ast.stmt]


def source_of(claim: Claim) -> list[str]:
    """The check with its statement, then the helpers and constants of the paper's package that it uses.

    These come by module and line, a statement each. Empty for a claim that cannot be decided here.
    """
    if claim.needs:
        return []
    package = f"paper_checks.{PACKAGES[claim.paper]}."
    check = _entry(claim)
    wanted = [check]
    for home, statement in wanted:  # grows on the way
        for name in _names(home, statement):
            if (definition := _definition(home, name, package)) and definition not in wanted:
                wanted.append(definition)
    wanted.sort(key=lambda definition: (definition != check, definition[0].__name__, definition[1].lineno))
    return [_text(home, statement) for home, statement in wanted]


@functools.cache
def _parsed(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _entry(claim: Claim) -> Definition:
    """The statement that enters a claim, at the top of its module."""
    module = sys.modules[claim.module]
    return module, next(entry for entry in _parsed(module).body if claim.line <= (entry.end_lineno or 0))


@functools.cache
def _definition(module: ModuleType, name: str, package: str) -> Definition | None:
    """Find where a module's name is defined, through imports inside the paper's package."""
    for statement in _parsed(module).body:
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(package):
            for alias in statement.names:
                if name == (alias.asname or alias.name):
                    return _definition(sys.modules[str(statement.module)], alias.name, package)
        elif name in _defined(statement):
            return module, statement
    return None


def _defined(statement: ast.stmt) -> set[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


@functools.cache
def _names(module: ModuleType, statement: ast.stmt) -> list[str]:
    """The names of the module that a statement uses: not those of its own variables and arguments."""
    top = symtable.symtable(_text(module, statement), module.__name__, "exec")
    return [
        symbol.get_name()
        for scope in _scopes(top)
        for symbol in scope.get_symbols()
        if symbol.is_referenced() and (scope is top or symbol.is_global())
    ]


def _scopes(scope: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield scope
    for child in scope.get_children():
        yield from _scopes(child)


def _text(module: ModuleType, statement: ast.stmt) -> str:
    decorators = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    return "\n".join(_lines(module)[first - 1 : statement.end_lineno])


@functools.cache
def _lines(module: ModuleType) -> list[str]:
    return inspect.getsource(module).splitlines()
