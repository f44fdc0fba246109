"""Fingerprint what a user hands in, such as an estimator, a reward function or a task, with all code that it calls.

What counts:

- of a function, its compiled code (which is what runs, even if its file has been edited since), its defaults, what it
  closes over and what it reads of its module;
- of a class, its attributes and bases;
- of an object, its class and what a pickle of it would hold;
- of numbers, texts and arrays, their values.

All of that is followed until the user's own code ends: at Python; at installed packages, of which the version counts;
and at this library, of which the import closure of the modules used counts. Names of variables and constants count.
Comments, line numbers and addresses do not, so that the same source has the same fingerprint in any process.
"""

import copyreg
import dis
import functools
import hashlib
import importlib.util
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from simlab.errors import InputError
from simlab.identity.code import closure, read, sources_fingerprint
from simlab.identity.homes import home, is_of_library, source_file

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented), range)
MAPPINGS = (dict, types.MappingProxyType)
BUILT_IN = (types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType)
SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
# What Python, ``abc``, ``dataclasses`` and the like keep in a class beside what its author wrote.
KEPT_BY_PYTHON = {
    "__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__", "__annotations__",
    "__annotate__", "__annotate_func__", "__annotations_cache__", "__abstractmethods__", "_abc_impl",
    "__dataclass_fields__", "__dataclass_params__",
}  # fmt: skip
CHECKERS = {"jaxtyping"}  # packages whose wrappers check types; beartype writes its own into the user's modules
READS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")  # instructions that read a global
# A function that calls one of these looks names up as it runs: the whole text of its module counts then.
LOOKUPS = {"globals", "eval", "exec", "__import__", "import_module"}


class Unseen(InputError):
    """Something whose content Python does not show, so that it cannot be told from another."""


def own_source(value: Any) -> str | None:
    """A fingerprint of all that a value is and calls; None if none of its code is the user's own.

    Raises:
        Unseen: for what cannot be pickled, such as a lock, and for code that looks up names in a module without source.
    """
    walk = _walked(value)
    return _shortened(walk) if walk.own else None


def fingerprint(value: Any) -> str:
    """A fingerprint of all that a value is and calls, whoever's code it is.

    Raises:
        Unseen: as ``own_source``.
    """
    return _shortened(_walked(value))


def _walked(value: Any) -> "_Walk":
    walk = _Walk()
    try:
        walk.visit(value)
    except RecursionError:
        raise Unseen(f"a {type(value).__name__} is nested too deep to be seen through") from None
    return walk


def _shortened(walk: "_Walk") -> str:
    walk.say(sources_fingerprint(closure(tuple(sorted(walk.library)))))
    return walk.digest.hexdigest()[:16]


class _Walk:
    """A walk through a value that hashes what it meets.

    Attributes:
        own: whether any code of the user's has been met.
        library: the modules of this library that have been met.
    """

    def __init__(self, met: dict[int, tuple[int, Any]] | None = None):
        self.digest, self.own, self.library = hashlib.sha256(), False, set[str]()
        # What was met before, by its address, with a number in the order of meeting; held, so that addresses stay.
        self.met = dict(met or {})

    def say(self, *words: str | bytes) -> None:
        for word in words:
            said = word.encode("utf-8", "surrogatepass") if isinstance(word, str) else word
            self.digest.update(f"{len(said)}:".encode() + said)

    def _home(self, module: str) -> str | None:
        """``home``, noting what is of the library."""
        if is_of_library(module):
            self.library.add(module)
        return home(module)

    def visit(self, value: Any) -> None:
        """Hash a value, which is met for the first time or again."""
        if type(value) in PLAIN:
            self.say(type(value).__name__, repr(value))
        elif type(value) is tuple:
            self._visit_sequence(value)
        elif type(value) in (set, frozenset):
            self._visit_set(value)
        elif isinstance(value, types.CodeType):
            self._visit_code(value)
        elif id(value) in self.met:
            self.say("met", str(self.met[id(value)][0]))
        else:
            self.met[id(value)] = len(self.met), value
            self._visit_new(value)

    def visit_all(self, values: Iterable[Any]) -> None:
        """Hash values one after the other."""
        for value in values:
            self.visit(value)

    def _visit_new(self, value: Any) -> None:
        if isinstance(value, types.ModuleType):
            self._visit_module(value.__name__)
        elif (public := _public_name(value)) is not None:
            self.say("named", *public, self._home(public[0]) or "")
        elif isinstance(value, types.FunctionType):
            self._visit_function(value)
        elif isinstance(value, types.MethodType):
            self.say("method")
            self.visit_all((value.__func__, value.__self__))
        elif isinstance(value, type):
            self._visit_class(value)
        elif type(value) is list:
            self._visit_sequence(value)
        elif type(value) in MAPPINGS:
            self.say("mapping", str(len(value)))
            self.visit_all(part for pair in value.items() for part in pair)
        elif isinstance(value, staticmethod | classmethod | functools.cached_property | property):
            parts = ("__func__", "func", "fget", "fset", "fdel")
            self.say(type(value).__name__)
            self.visit_all(getattr(value, part, None) for part in parts)
        elif isinstance(value, weakref.ref):
            self.say("reference")
            self.visit(value())
        elif isinstance(value, SLOTS):
            self.say("slot", value.__name__)
        elif isinstance(value, BUILT_IN):
            self.say("built in", value.__qualname__)
            self.visit(getattr(value, "__self__", None))
        else:
            self._visit_object(value)

    def _visit_sequence(self, values: tuple[Any, ...] | list[Any]) -> None:
        self.say(type(values).__name__, str(len(values)))
        self.visit_all(values)

    def _visit_set(self, values: set[Any] | frozenset[Any]) -> None:
        """Each member by itself, from the same beginning, for a set has no order."""
        found = []
        for value in values:
            walk = _Walk(self.met)
            walk.visit(value)
            self.own |= walk.own
            self.library |= walk.library
            found.append(walk.digest.digest())
        self.say(type(values).__name__, *sorted(found), "end")

    def _visit_code(self, code: types.CodeType) -> None:
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self.say("code", code.co_code, repr((counts, names)), code.co_exceptiontable)
        self.visit(code.co_consts)

    def _visit_function(self, function: types.FunctionType) -> None:
        if _only_checks(function):
            self.visit(function.__wrapped__)  # type: ignore[attr-defined]
            return
        module = function.__globals__.get("__name__", "__main__")
        where = self._home(module)
        self.say("function", where or "own")
        self.visit(function.__code__)
        attributes = {name: value for name, value in vars(function).items() if not name.startswith("__beartype_")}
        self.visit_all((function.__defaults__, function.__kwdefaults__, attributes))
        for cell in function.__closure__ or ():
            self._visit_cell(cell)
        if where is None:
            self.own = True
            self._visit_read(function, module)

    def _visit_cell(self, cell: types.CellType) -> None:
        try:
            content = cell.cell_contents
        except ValueError:
            self.say("empty cell")
        else:
            self.visit(content)

    def _visit_read(self, function: types.FunctionType, module: str) -> None:
        """What a function reads of its module, and what it imports while it runs."""
        found, names = function.__globals__, set[str]()
        for code in _codes(function.__code__):
            names.update(code.co_names)
            for imported in _imported(code, function.__globals__):
                self._visit_module(imported)
            for path in _global_paths(code, found):
                self.say("global", *path)
                value = found.get(path[0])
                for attribute in path[1:]:
                    value = getattr(value, attribute)
                if path[0] in found:
                    self.visit(value)
        if LOOKUPS & names:
            self._visit_module(module)

    def _visit_class(self, kind: type) -> None:
        where = self._home(kind.__module__)
        self.say("class", kind.__qualname__, where or "own")
        if where is not None:
            return
        self.own = True
        self.visit(kind.__bases__)
        for name, value in sorted(vars(kind).items()):
            if name not in KEPT_BY_PYTHON:
                self.say(name)
                self.visit(value)

    def _visit_object(self, value: Any) -> None:
        """An array as its values; a function that ``jax.jit`` or the like wraps; anything else as a pickle holds it."""
        try:
            if hasattr(value, "__array__") and hasattr(value, "dtype") and not getattr(value.dtype, "hasobject", False):
                array = np.asarray(value)
                self.say("array", str(array.dtype), str(array.shape), array.tobytes())
                return
            wrapped = hasattr(value, "__wrapped__")
            reduce: Callable[[Any], Any] = copyreg.dispatch_table.get(type(value), lambda one: one.__reduce_ex__(4))
            parts = (value.__wrapped__,) if wrapped else reduce(value)
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0]
            raise Unseen(f"the content of a {type(value).__qualname__} cannot be seen ({reason})") from None
        if isinstance(parts, str):
            raise Unseen(f"the content of {parts}, a {type(value).__qualname__}, cannot be seen")
        self.visit(type(value))
        self.visit_all(list(part) if isinstance(part, Iterator) else part for part in parts)

    def _visit_module(self, name: str) -> None:
        """A module of the user's as its text, with the texts of those that it imports."""
        self.say("module", name)
        waiting, texts = [name], dict[str, str]()
        while waiting:
            module = waiting.pop()
            if module in texts or ((file := source_file(module)) is None and module != name):
                continue
            if (where := self._home(module)) is not None:
                texts[module] = where
                continue
            if file is None or file.suffix != ".py":
                raise Unseen(f"the content of module {module} cannot be seen: it has no source")
            self.own = True
            source = read(file.read_bytes(), module, file.name == "__init__.py")
            texts[module] = source.meaning
            waiting += source.imports
        self.say(*(part for pair in sorted(texts.items()) for part in pair))


def _only_checks(function: types.FunctionType) -> bool:
    """Whether a function is what a checker of types has put around another, and changes nothing."""
    is_of_checker = str(function.__globals__.get("__name__")).partition(".")[0] in CHECKERS
    is_of_beartype = any(name.startswith("__beartype_") for name in function.__kwdefaults__ or ())
    return hasattr(function, "__wrapped__") and (is_of_checker or is_of_beartype)


def _public_name(value: Any) -> tuple[str, str] | None:
    """Module and name under which something that is not the user's own is found."""
    module = getattr(value, "__module__", None) or type(value).__module__
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str) or home(module) is None:
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return (module, name) if found is value else None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code and those of the functions and classes within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _global_paths(code: types.CodeType, found: dict[str, Any]) -> list[tuple[str, ...]]:
    """The globals that a code reads; of the user's own modules, the attributes that it reads of them."""
    paths = set()
    instructions = _instructions(code)
    for index, instruction in enumerate(instructions):
        if instruction.opname not in READS:
            continue
        path, value = [instruction.argval], found.get(instruction.argval)
        for following in instructions[index + 1 :]:
            is_own = isinstance(value, types.ModuleType) and home(value.__name__) is None
            is_read = following.opname in ("LOAD_ATTR", "LOAD_METHOD")
            if not (is_own and is_read and hasattr(value, following.argval)):
                break
            path.append(following.argval)
            value = getattr(value, following.argval)
        paths.add(tuple(path))
    return sorted(paths)


def _imported(code: types.CodeType, found: dict[str, Any]) -> list[str]:
    """The modules that a code imports."""
    names = set()
    instructions = _instructions(code)
    for index, instruction in enumerate(instructions):
        if instruction.opname == "IMPORT_NAME":
            level, listed = instructions[index - 2].argval, instructions[index - 1].argval or ()
            name = importlib.util.resolve_name("." * level + instruction.argval, found.get("__package__") or "")
            names |= {name} | {f"{name}.{each}" for each in listed if source_file(f"{name}.{each}")}
    return sorted(names)


def _instructions(code: types.CodeType) -> list[dis.Instruction]:
    return [each for each in dis.get_instructions(code) if each.opname != "EXTENDED_ARG"]
