"""Fingerprint what a user hands in, such as an estimator, a reward function or a task, with the user's code it calls.

Two things are hashed: the text of the user's files that define some of the code, and of the user's modules that these
import; and a pickle of the value. In this a function stands as its code, its defaults, the values that it closes over
and the globals that it reads; what an installed package or this library defines stands as its name and version.
"""

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import io
import pickle
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from simlab.errors import InputError
from simlab.identity import BUNDLED, PACKAGE
from simlab.text import parse_python

OWN_FILE = "own_file_"  # begins the names of modules that ``simlab.own_files`` makes
INSTALLED = {"site-packages", "dist-packages"}
PLAIN = (type(None), bool, int, float, str, bytes, tuple, list, dict)  # what a pickle writes by value
CHECKERS = {"jaxtyping"}  # packages whose wrappers check types, and change no number
BEARTYPE = "__beartype_"  # begins the names that beartype adds, which differ between processes


class Unhashable(InputError):
    """A value whose content Python does not show, so that it cannot be told from another."""


def own_source(value: Any) -> str | None:
    """Hash all that a value is and calls; None if none of its code is the user's. ``Unhashable`` for such as a lock."""
    digest, modules = _hash(value)
    return digest if modules else None


def fingerprint(value: Any) -> str:
    """Hash all that a value is and calls, whoever's code it is; ``Unhashable`` as for ``own_source``."""
    return _hash(value)[0]


def _hash(value: Any) -> tuple[str, set[str]]:
    """Return the hash, and the user's modules that define some of the code."""
    content = io.BytesIO()
    walk = _Pickler(content)
    try:
        walk.dump(value)
    except Exception as error:  # whatever an object's own way to be pickled raises
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error).partition("\n")[0]
        raise Unhashable(f"the content of a {type(value).__name__} cannot be hashed ({reason})") from None
    texts, waiting = dict[str, str](), [*walk.modules]
    while waiting:
        if (name := waiting.pop()) not in texts and owner(name) is None:
            texts[name] = _text(name)
            waiting += _imports(name, texts[name])
    content.write(repr(sorted(texts.values())).encode("utf-8", "surrogateescape"))
    return hashlib.sha256(content.getvalue()).hexdigest()[:16], walk.modules


@functools.cache
def owner(module: str) -> str | None:
    """Return the owner of a module, with its version: Python, this library or a package; None for the user."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return f"python {sys.version_info.major}.{sys.version_info.minor}"
    if top == PACKAGE.name:
        return top
    path = None if top.startswith(OWN_FILE) else _path(top)
    # A wheel holds figures and checks beside the library; they count by content, as in a checkout.
    if path is None or not INSTALLED & {*path.parts} or BUNDLED in path.parents:
        return None
    try:
        return f"{top} {importlib.metadata.version(top)}"
    except importlib.metadata.PackageNotFoundError:  # the distribution has another name
        names = importlib.metadata.packages_distributions().get(top, [])
        return " ".join([top, *map(importlib.metadata.version, names)])


def _path(module: str) -> Path | None:
    """Return the file of a module, loaded or not, or the folder of a package without ``__init__``; None for neither."""
    try:
        source: Any = sys.modules.get(module) or importlib.util.find_spec(module)
        file = getattr(source, "__file__", None) or getattr(source, "origin", None)
        return Path(file or next(iter(getattr(source, "__path__", None) or source.submodule_search_locations)))
    except Exception:  # there is none, or the package around it cannot be imported
        return None


@functools.cache
def _text(module: str) -> str:
    """Return the text of a module's file when it was first asked for; none for a module without a file."""
    path = _path(module)
    return path.read_text("utf-8", "surrogateescape") if path is not None and path.is_file() else ""


def _imports(module: str, text: str) -> Iterator[str]:
    """Yield the names of what a module imports, at its top or in a function: modules, and names in them."""
    try:
        tree = parse_python(text)
    except (SyntaxError, ValueError):  # a compiled module
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = getattr(sys.modules.get(module), "__package__", None) or module.rpartition(".")[0]
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


class _Pickler(pickle.Pickler):
    """A pickler that writes functions, classes, modules, sets and arrays by content: equal ones in equal bytes."""

    def __init__(self, file: io.BytesIO):
        super().__init__(file, protocol=4)
        self.fast = True  # whether two equal strings are one object does not count
        self.modules = set[str]()  # of the user's
        self.visited = dict[int, tuple[int, Any]]()  # the number of each object by its address, and the object itself

    def _owner(self, module: str) -> str:
        package = owner(module)
        if package is None:
            self.modules.add(module)
        return package or "own"

    def persistent_id(self, value: Any) -> Any:
        """Return what is written in place of a value; None for itself."""
        if type(value) in PLAIN:
            return None
        if type(value) in (set, frozenset):
            return "set", sorted(value, key=repr)
        if isinstance(value, types.CodeType):
            return value.co_code, value.co_consts, value.co_names, value.co_varnames, value.co_freevars
        if id(value) in self.visited:
            return "visited", self.visited[id(value)][0]
        self.visited[id(value)] = len(self.visited), value
        return _public_name(value) or self._described(value)

    def _described(self, value: Any) -> Any:
        if isinstance(value, types.ModuleType):
            return "module", value.__name__, self._owner(value.__name__)
        if isinstance(value, types.FunctionType):
            return self._function(_without_checks(value))
        if isinstance(value, type):
            members = {name: _content(name, member) for name, member in sorted(vars(value).items())}
            return "class", value.__qualname__, self._owner(value.__module__), value.__bases__, members
        if hasattr(value, "__wrapped__"):  # ``jax.jit`` or the like
            return type(value), value.__wrapped__
        if hasattr(value, "__array__") and hasattr(value, "dtype") and not getattr(value.dtype, "hasobject", False):
            array = np.asarray(value)
            return "array", str(array.dtype), array.shape, array.tobytes()
        return None

    def _function(self, function: types.FunctionType) -> tuple[Any, ...]:
        code, space = function.__code__, function.__globals__
        made_by = self._owner(str(space.get("__name__", "__main__")))
        cells = [cell.cell_contents for cell in function.__closure__ or () if cell != types.CellType()]
        attributes = {name: value for name, value in vars(function).items() if not name.startswith(BEARTYPE)}
        read = {name: space[name] for name in sorted({*_names(code)} & {*space}) if made_by == "own"}
        return made_by, code, function.__defaults__, function.__kwdefaults__, cells, attributes, read


def _names(code: types.CodeType) -> Iterator[str]:
    """Yield the names that a function's code reads, and that of the functions and classes within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _content(name: str, member: Any) -> Any:
    """Return the function or the plain value of a class's attribute; None for another, which the text describes."""
    function = getattr(member, "__func__", None) or getattr(member, "fget", None) or getattr(member, "func", member)
    is_plain = type(function) in PLAIN[:6] and not name.startswith("__")
    return function if isinstance(function, types.FunctionType) or is_plain else None


def _public_name(value: Any) -> tuple[str, str, str] | None:
    """Return module, name and owner of an object that is found by them and is not the user's own; else None."""
    module = getattr(value, "__module__", None) or type(value).__module__
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str) or (package := owner(module)) is None:
        return None
    reached: Any = sys.modules.get(module)
    for attribute in name.split("."):
        reached = getattr(reached, attribute, None)
    return (module, name, package) if reached is value else None


def _without_checks(function: types.FunctionType) -> types.FunctionType:
    """Return the function that jaxtyping or beartype has put a type checker around."""
    is_checker = any(name.startswith(BEARTYPE) for name in function.__kwdefaults__ or ())
    is_checker |= str(function.__globals__.get("__name__")).partition(".")[0] in CHECKERS
    inner = getattr(function, "__wrapped__", None)
    return _without_checks(inner) if is_checker and isinstance(inner, types.FunctionType) else function
