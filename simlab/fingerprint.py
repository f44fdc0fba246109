"""Fingerprint what a user hands in, such as an estimator, a reward function or a task, with the user's code it calls.

These count:

- of a function, its compiled code, its defaults, the values it closes over and the globals that it reads;
- of a class, its attributes and bases; of an object, its class and the content that a pickle would have;
- of numbers, texts, containers and arrays, their values.

The walk stops where the user's own code ends: an installed package counts by its version, and this library by name,
since ``simlab.identity.code_fingerprint`` covers it. Comments and line numbers do not count, so that equal sources have
equal fingerprints in any process.

For example, of ``lambda advantages, rollouts: scale(advantages)`` the walk hashes the bytes of the lambda's code, finds
the global ``scale``, and hashes the code of that function, its defaults, and the globals that it reads in turn.
"""

import contextlib
import copyreg
import dis
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from simlab.errors import InputError
from simlab.identity import BUNDLED, PACKAGE

OWN_FILE = "own_file_"  # begins the names of modules that ``simlab.own_files`` makes
INSTALLED = {"site-packages", "dist-packages"}
PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented), range)
BUILT_IN = (types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType)
SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
WRAPPERS = (staticmethod, classmethod, functools.cached_property, property)
# Attributes that Python, ``abc`` and ``dataclasses`` put into a class; its author's are left.
AUTOMATIC = {
    "__doc__", "__module__", "__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__",
    "__firstlineno__", "__static_attributes__", "__abstractmethods__", "_abc_impl", "__dataclass_fields__",
    "__dataclass_params__",
}  # fmt: skip
CHECKERS = {"jaxtyping"}  # packages whose wrappers check types
BEARTYPE = "__beartype_"  # begins the names that beartype adds
READS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
LOOKUPS = {"globals", "eval", "exec", "__import__", "import_module"}  # whose callers may read any name of their module


class Unhashable(InputError):
    """A value whose content Python does not show, so that it cannot be told from another."""


def own_source(value: Any) -> str | None:
    """Hash all that a value is and calls; None if none of its code is the user's own.

    Raises:
        Unhashable: for what cannot be pickled, such as a lock, and for code that looks up names where there is no
            source.
    """
    digest, has_own_code = _hash(value)
    return digest if has_own_code else None


def fingerprint(value: Any) -> str:
    """Hash all that a value is and calls, whoever's code it is.

    Raises:
        Unhashable: as ``own_source``.
    """
    return _hash(value)[0]


def _hash(value: Any) -> tuple[str, bool]:
    walk = _Walk()
    try:
        walk.visit(value)
    except RecursionError:
        raise Unhashable(f"a {type(value).__name__} is nested too deep to be hashed") from None
    return walk.digest.hexdigest()[:16], walk.has_own_code


@functools.cache
def owner(module: str) -> str | None:
    """Return the owner of a module, with its version: Python, this library or a package; None for the user."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return f"python {sys.version_info.major}.{sys.version_info.minor}"
    if top == PACKAGE.name:
        return top
    if top.startswith(OWN_FILE) or (path := _path(top)) is None:
        return None
    # A wheel holds figures and checks beside the library; they count by content, as in a checkout.
    if not INSTALLED & {*path.parts} or BUNDLED in path.parents:
        return None
    try:
        return f"{top} {importlib.metadata.version(top)}"
    except importlib.metadata.PackageNotFoundError:  # the distribution has another name
        names = importlib.metadata.packages_distributions().get(top, [])
        return " ".join([top, *(importlib.metadata.version(name) for name in names)])


def _path(module: str) -> Path | None:
    """Return the file of a module, loaded or not, or the folder of a package without ``__init__``; None for neither."""
    if module in sys.modules:
        loaded = sys.modules[module]
        origin = getattr(loaded, "__file__", None) or next(iter(getattr(loaded, "__path__", ())), None)
    else:
        try:
            origin = getattr(importlib.util.find_spec(module), "origin", None)
        except (ImportError, ValueError, AttributeError):
            origin = None
    return Path(origin) if origin else None


class _Walk:
    """A walk through a value that hashes each object once, and again only its number in the order of visits."""

    def __init__(self, visited: dict[int, tuple[int, Any]] | None = None):
        self.digest, self.has_own_code = hashlib.sha256(), False
        # The number of each object by its address. The object is held too, so that its address stays its own.
        self.visited = dict(visited or {})
        self.read = set[tuple[str, tuple[str, ...]]]()  # modules of the user's, and the names that were read of them

    def add(self, *words: str | bytes) -> None:
        for word in words:
            content = word.encode("utf-8", "surrogatepass") if isinstance(word, str) else word
            self.digest.update(f"{len(content)}:".encode() + content)

    def visit_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self.visit(value)

    def visit(self, value: Any) -> None:
        if type(value) in PLAIN:
            self.add(type(value).__name__, repr(value))
        elif isinstance(value, types.CodeType):
            self._visit_code(value)
        elif type(value) in (set, frozenset):
            self._visit_set(value)
        elif type(value) is not tuple and id(value) in self.visited:
            self.add("visited", str(self.visited[id(value)][0]))
        else:
            self.visited[id(value)] = len(self.visited), value
            self._visit_new(value)

    def _visit_new(self, value: Any) -> None:
        if type(value) in (tuple, list):
            self.add(type(value).__name__, str(len(value)))
            self.visit_all(value)
        elif isinstance(value, types.ModuleType):
            package = owner(value.__name__)
            self.has_own_code |= package is None
            self.add("module", value.__name__, package or _module_text(value.__name__, vars(value)))
        elif public := _public_name(value):
            self.add("public", *public)
        elif isinstance(value, types.FunctionType):
            self._visit_function(value)
        elif isinstance(value, types.MethodType):
            self.add("method")
            self.visit_all((value.__func__, value.__self__))
        elif isinstance(value, type):
            self._visit_class(value)
        elif type(value) in (dict, types.MappingProxyType):
            self.add("mapping", str(len(value)))
            self.visit_all(item for pair in value.items() for item in pair)
        elif isinstance(value, WRAPPERS):
            self.add(type(value).__name__)
            self.visit_all(getattr(value, name, None) for name in ("__func__", "func", "fget", "fset", "fdel"))
        elif isinstance(value, SLOTS):
            self.add("slot", value.__name__)
        elif isinstance(value, BUILT_IN):
            self.add("built in", value.__qualname__)
            self.visit(getattr(value, "__self__", None))
        else:
            self._visit_object(value)

    def _visit_set(self, values: set[Any] | frozenset[Any]) -> None:
        """Hash each member by itself, from the same beginning, and sort the hashes, for a set has no order."""
        digests = []
        for value in values:
            walk = _Walk(self.visited)
            walk.visit(value)
            self.has_own_code |= walk.has_own_code
            digests.append(walk.digest.digest())
        self.add(type(values).__name__, *sorted(digests), "end")

    def _visit_code(self, code: types.CodeType) -> None:
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self.add("code", code.co_code, repr((counts, names)), code.co_exceptiontable)
        self.visit(code.co_consts)

    def _visit_function(self, function: types.FunctionType) -> None:
        function = _without_checks(function)
        module = str(function.__globals__.get("__name__", "__main__"))
        self.add("function", owner(module) or "own")
        self.visit(function.__code__)
        attributes = {name: value for name, value in vars(function).items() if not name.startswith(BEARTYPE)}
        self.visit_all((function.__defaults__, function.__kwdefaults__, attributes))
        for cell in function.__closure__ or ():
            try:
                content: Any = (cell.cell_contents,)
            except ValueError:
                content = ()  # a name that has no value yet
            self.visit(content)
        if owner(module) is None:
            self.has_own_code = True
            for code in _nested_codes(function.__code__):
                self._visit_reads(code, function.__globals__, module)

    def _visit_reads(self, code: types.CodeType, space: dict[str, Any], module: str) -> None:
        """Hash the globals that a code reads, of the user's modules the attributes that it names, and its imports."""
        instructions = [each for each in dis.get_instructions(code) if each.opname != "EXTENDED_ARG"]
        for name in sorted({each.argval for each in instructions if each.opname in READS} & space.keys()):
            self.add("global", name)
            self._visit_named(space[name], code.co_names)
        for level, listed, instruction in zip(instructions, instructions[1:], instructions[2:], strict=False):
            if instruction.opname == "IMPORT_NAME":
                relative = "." * level.argval + instruction.argval
                name = importlib.util.resolve_name(relative, space.get("__package__") or "")
                self._visit_import(name, listed.argval or (), code.co_names)
        if LOOKUPS & {*code.co_names}:
            self.add("text", _module_text(module, space))

    def _visit_named(self, value: Any, names: tuple[str, ...]) -> None:
        """Hash a global; of a module of the user's, its attributes of some names."""
        if not isinstance(value, types.ModuleType) or owner(value.__name__) is not None:
            self.visit(value)
        elif (value.__name__, names) not in self.read:  # modules may hold one another
            self.has_own_code = True
            self.read.add((value.__name__, names))
            for name in names:
                if name in vars(value):
                    self.add("attribute", name)
                    self._visit_named(vars(value)[name], names)

    def _visit_import(self, name: str, listed: tuple[str, ...], names: tuple[str, ...]) -> None:
        """Hash what a code imports when it runs; a module that is missing is left to the code."""
        self.add("import", name, owner(name) or "own")
        if owner(name) is not None:
            return
        for submodule in listed:
            with contextlib.suppress(ImportError):
                importlib.import_module(f"{name}.{submodule}")
        try:
            self._visit_named(importlib.import_module(name), names)
        except ImportError:
            self.add("missing")

    def _visit_class(self, kind: type) -> None:
        library = owner(kind.__module__)
        self.add("class", kind.__qualname__, library or "own")
        if library is None:
            self.has_own_code = True
            self.visit(kind.__bases__)
            for name, value in sorted(vars(kind).items()):
                if name not in AUTOMATIC and not (isinstance(value, SLOTS) and name.startswith("__")):
                    self.add(name)
                    self.visit(value)

    def _visit_object(self, value: Any) -> None:
        """Hash an array by its values, what ``jax.jit`` or the like wraps, or the content that a pickle would have."""
        content: Any
        try:
            if hasattr(value, "__array__") and hasattr(value, "dtype") and not getattr(value.dtype, "hasobject", False):
                array = np.asarray(value)
                self.add("array", str(array.dtype), str(array.shape), array.tobytes())
                return
            if hasattr(value, "__wrapped__"):
                content = (value.__wrapped__,)
            else:
                reduce = copyreg.dispatch_table.get(type(value))
                content = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0]
            raise Unhashable(f"the content of a {type(value).__qualname__} cannot be hashed ({reason})") from None
        if isinstance(content, str):
            raise Unhashable(f"the content of {content}, a {type(value).__qualname__}, cannot be hashed")
        self.visit(type(value))
        self.visit_all(list(item) if isinstance(item, Iterator) else item for item in content)


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
    """Return the function that jaxtyping or beartype has put a type checker around.

    Their wrappers change no number, and beartype's hold names that differ between processes.
    """
    is_checker = any(name.startswith(BEARTYPE) for name in function.__kwdefaults__ or ())
    is_checker |= str(function.__globals__.get("__name__")).partition(".")[0] in CHECKERS
    inner = getattr(function, "__wrapped__", None)
    return _without_checks(inner) if is_checker and isinstance(inner, types.FunctionType) else function


def _nested_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a function's code and those of the functions and classes within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested_codes(constant)


def _module_text(module: str, space: dict[str, Any]) -> str:
    try:
        return Path(space["__file__"]).read_text(encoding="utf-8", errors="surrogateescape")
    except (KeyError, OSError, TypeError):
        raise Unhashable(
            f"the code of module {module} looks names up and has no source, so that it cannot be hashed"
        ) from None
