"""Load objects of a user's file, ``FILE.py:NAME``: it is run once a process, or is the module already imported.

Files that its code opens for reading are noted by an audit hook, so that results are told apart by their contents too.
"""

import contextlib
import hashlib
import os
import sys
import traceback
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from simlab.errors import InputError
from simlab.fingerprint import OWN_FILE
from simlab.reading import read_bytes, reason

_loaded: dict[Path, tuple[types.ModuleType, str]] = {}
_opened_by: dict[str, set[Path]] = {}  # files that each user's file has opened, by its path
# What a line does to a traced array, and what to use, by the name of JAX's error; in estimators jnp may be their xp.
ADVICE = {
    "TracerBoolConversionError": '"if" on a traced array; use jnp.where',
    "ConcretizationTypeError": "float(), int() or bool() of a traced array; use functions of arrays",
    "NonConcreteBooleanIndexError": "a mask as the index of a traced array; use jnp.where",
    "TracerArrayConversionError": "numpy on a traced array; use jax.numpy, or array_namespace(array)",
}
# For other statements than "if", whose error is the same.
INSTEAD_OF = {
    "while": '"while" on a traced array; use a fixed number of turns, and jnp.where',
    "assert": '"assert" on a traced array; leave it out',
}


def load(reference: str) -> Any:
    """Return the object that ``FILE.py:NAME`` names; ``InputError`` if there is none, or for what the file raises."""
    path, name = _split(reference)
    module, _ = _module(path)
    if not hasattr(module, name):
        names = ", ".join(sorted(public for public in vars(module) if not public.startswith("_"))) or "none"
        raise InputError(f"{reference!r}: {path.name} has no {name!r}; its names: {names}")
    return getattr(module, name)


def source_of(reference: str) -> str:
    """Return the text of the file in ``FILE.py:NAME``, as it was run; ``InputError`` as for ``load``."""
    return _module(_split(reference)[0])[1]


def file_of(reference: str) -> str:
    """Return the path in ``FILE.py:NAME``, as it is written there."""
    return reference.rpartition(":")[0]


def failure(problem: str, file: str | Path, error: BaseException) -> InputError:
    """Describe in one line what the code of a user's file raised: problem, error, and the last line in the file."""
    path = str(Path(file).resolve())
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    words = reason(error)
    if isinstance(error, SyntaxError) and error.filename == path:
        lines, words = [error.lineno], error.msg
    where = f", line {lines[-1]} of {Path(file).name}" if lines else ""
    return InputError(f"{problem}: {type(error).__name__}: {words}{where}")


def raised_in_own_file(error: BaseException) -> InputError | None:
    """Describe in one line an error from the code of a user's file, while it ran; None for any other error."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) in _loaded]
    if not frames:
        return None
    last = frames[-1]
    advice = next((ADVICE[kind.__name__] for kind in type(error).mro() if kind.__name__ in ADVICE), None)
    if advice == ADVICE["TracerBoolConversionError"]:
        advice = INSTEAD_OF.get((last.line or "").split(" ")[0], advice)
    advised = f"{Path(last.filename).name}:{last.lineno}: {advice}" if advice else None
    described = advised or failure(f"{last.name} fails", last.filename, error)
    return InputError(f"{described} (--traceback shows all of it)")


def opened_files(references: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of the files that the code of these ``FILE.py:NAME`` has opened so far, by path."""
    digests: dict[str, str] = {}
    for path in {_split(reference)[0] for reference in references}:
        for opened in _opened_by.get(str(path), ()):
            with contextlib.suppress(OSError):
                digests[str(opened)] = hashlib.sha256(opened.read_bytes()).hexdigest()
    return digests


def _note_opened(name: Any, mode: str | None, flags: int) -> None:
    """Note a file that is opened for reading while code of a user's file runs, but not by an import of a module."""
    is_read = "r" in mode if isinstance(mode, str) else not flags & (os.O_WRONLY | os.O_RDWR)
    frame = sys._getframe(1) if is_read and isinstance(name, str | bytes | os.PathLike) else None
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        if frame.f_code.co_filename in _opened_by:
            _opened_by[frame.f_code.co_filename].add(Path(os.fsdecode(name)).absolute())
            return
        frame = frame.f_back


sys.addaudithook(lambda event, arguments: _note_opened(*arguments) if event == "open" and _opened_by else None)


def _split(reference: str) -> tuple[Path, str]:
    file, colon, name = reference.rpartition(":")
    if not colon or not name.isidentifier() or not file.endswith(".py") or "\0" in file:
        raise InputError(f"{reference!r} names nothing in a .py file; allowed: FILE.py:NAME, such as mine.py:weight")
    try:
        return Path(file).resolve(), name
    except (OSError, RuntimeError) as error:  # a loop of links
        raise InputError(f"{reference!r}: {file} cannot be read: {reason(error)}") from None


def _module(path: Path) -> tuple[types.ModuleType, str]:
    """Return the module of a file and its text; run the file if it is neither loaded nor imported."""
    if path not in _loaded:
        _opened_by.setdefault(str(path), set())
        content = read_bytes(path)
        # By ``__dict__``, not by getattr, for which some modules import more.
        files = {str(getattr(module, "__dict__", {}).get("__file__")): module for module in [*sys.modules.values()]}
        imported = [
            module for file, module in files.items() if file.endswith(path.name) and Path(file).resolve() == path
        ]
        module = imported[0] if imported else _run(path, content)
        _loaded[path] = module, content.decode("utf-8", "surrogateescape")
    return _loaded[path]


def _run(path: Path, content: bytes) -> types.ModuleType:
    module = types.ModuleType(f"{OWN_FILE}{hashlib.sha256(bytes(path)).hexdigest()[:16]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # as an import does: dataclasses and pickle look there
    try:
        exec(compile(content, path, "exec"), vars(module))
    except BaseException as error:
        del sys.modules[module.__name__]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise failure(f"{path} cannot be imported", path, error) from None
    return module
