"""Fingerprint the library's own code: every module that the modules that make a number can import.

No list of modules is kept by hand. The import closure is read from the sources, so that a new module counts as soon as
one of these imports it, and what a process happens to have imported makes no difference.
"""

import ast
import functools
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from simlab.errors import InputError
from simlab.identity.versions import PACKAGE, numeric_versions

SWEEP = ("simlab.sweeps.run",)  # makes records of cells, and of those a result
TRAINING = ("simlab.llm.training.run",)  # makes a trained model of settings
FOR_TYPE_CHECKERS = ("TYPE_CHECKING", "typing.TYPE_CHECKING")  # conditions that are false wherever code runs


class Source(NamedTuple):
    """What a module's source says.

    Attributes:
        meaning: a hash that comments, docstrings and layout do not change.
        imports: names that it may import when it runs, wherever in it that is: of ``from package import name`` also
            ``package.name``, which need not be a module.
    """

    meaning: str
    imports: frozenset[str]


@functools.cache
def code_fingerprint(entries: tuple[str, ...] = SWEEP) -> str:
    """A hash of the library's code that some modules can reach, and of the versions of the libraries that compute."""
    said = sources_fingerprint(closure(entries)) + repr(sorted(numeric_versions().items()))
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def sources_fingerprint(sources: Mapping[str, Source]) -> str:
    """A hash of sources by the names of their modules."""
    lines = [f"{name} {sources[name].meaning}\n" for name in sorted(sources)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def closure(entries: tuple[str, ...], package: Path = PACKAGE) -> dict[str, Source]:
    """The modules of a package that some of them import, directly or not, and these themselves: sources by name.

    Args:
        entries: names of modules.
        package: the folder of the package, which is called as the folder is.

    Raises:
        InputError: if an entry has no source, as in an installation of compiled files alone.
    """
    found: dict[str, Source] = {}
    waiting = [*entries]
    while waiting:
        name = waiting.pop()
        path = _path(name, package)
        if path is None and name in entries:
            raise InputError(f"{name} has no source in {package}; allowed: an installation with its sources")
        if path is not None and name not in found:
            found[name] = read(path.read_bytes(), name, path.name == "__init__.py")
            waiting += [*_parents(name), *found[name].imports]
    return found


def _path(name: str, package: Path) -> Path | None:
    """The file of a module of the package; None for any other name."""
    top, *rest = name.split(".")
    path = package.joinpath(*rest)
    files = (path / "__init__.py", path.with_name(f"{path.name}.py"))
    return next((file for file in files if file.is_file()), None) if top == package.name else None


def _parents(name: str) -> Iterator[str]:
    """The packages that Python imports on the way to a module."""
    while name := name.rpartition(".")[0]:
        yield name


@functools.cache
def read(source: bytes, name: str, is_package: bool) -> Source:
    """What the source of a module says."""
    tree = ast.parse(source)
    package = name if is_package else name.rpartition(".")[0]
    imports: set[str] = set()
    for statement in _statements(tree):
        imports |= _imported(statement, package)
        _drop_docstring(statement)
    return Source(hashlib.sha256(ast.dump(tree).encode()).hexdigest(), frozenset(imports))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """A module or statement and all statements within it that can run.

    They are a fifth of all nodes, and the only ones that import.
    """
    yield node
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        if part == "body" and isinstance(node, ast.If) and ast.unparse(node.test) in FOR_TYPE_CHECKERS:
            continue
        for child in getattr(node, part, ()):
            yield from _statements(child)


def _imported(node: ast.AST, package: str) -> set[str]:
    """What a statement imports, where it stands in a module of ``package``."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if not isinstance(node, ast.ImportFrom):
        return set()
    above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
    base = ".".join([*above, *([node.module] if node.module else [])])
    return {base} | {f"{base}.{alias.name}" for alias in node.names}


def _drop_docstring(node: ast.AST) -> None:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return
    if ast.get_docstring(node, clean=False) is not None:
        node.body = node.body[1:] or [ast.Pass()]
