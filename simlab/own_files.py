"""Load what a user has written in a file of theirs, named as ``FILE.py:NAME``.

The file is run once a process, under a module name that is made from its resolved path: two files of one name do not
meet, and ``Path(__file__).parent`` is the folder that it lies in. A path is taken from the current folder. A file that
the process has imported already, under whatever name, is that module and is not run again; one that changes is a new
process's business. What the file imports is found as in any Python process: by ``PYTHONPATH``, not in its folder.

What an object may be is for whoever asks for it: for a method see ``simlab.arms``.
"""

import hashlib
import sys
import traceback
import types
from pathlib import Path
from typing import Any

from simlab.errors import InputError
from simlab.fingerprint import OWN_FILE
from simlab.reading import read_bytes, reason

_loaded: dict[Path, tuple[types.ModuleType, str]] = {}


def load(reference: str) -> Any:
    """The object that ``FILE.py:NAME`` names.

    Raises:
        InputError: for a text of another form, no such file, one that is no ``.py`` file, no such name in it, and for
            whatever the file raises when it is run; that line has its type, message and place in the file.
    """
    path, name = _place(reference)
    module, _ = _module(path)
    if not hasattr(module, name):
        known = ", ".join(sorted(own for own in vars(module) if not own.startswith("_"))) or "none"
        raise InputError(f"{reference!r}: {path.name} has no {name!r}; its names: {known}")
    return getattr(module, name)


def source_of(reference: str) -> str:
    """The text of the file that ``FILE.py:NAME`` is in, as it was run.

    Raises:
        InputError: as ``load``.
    """
    path, _ = _place(reference)
    _, text = _module(path)
    return text


def file_of(reference: str) -> str:
    """The path in ``FILE.py:NAME``, as it is written there."""
    return reference.rpartition(":")[0]


def failure(what: str, file: str | Path, error: BaseException) -> InputError:
    """One line about what the code of a user's file raised: ``what``, the error, and the last line in the file."""
    path = str(Path(file).resolve())
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    said = reason(error)
    if isinstance(error, SyntaxError) and error.filename == path:
        lines, said = [error.lineno], error.msg
    where = f", line {lines[-1]} of {Path(file).name}" if lines else ""
    return InputError(f"{what}: {type(error).__name__}: {said}{where}")


def _place(reference: str) -> tuple[Path, str]:
    """The resolved path, and the name in it."""
    file, colon, name = reference.rpartition(":")
    if not colon or not name.isidentifier() or not file.endswith(".py") or "\0" in file:
        raise InputError(f"{reference!r} names nothing in a .py file; allowed: FILE.py:NAME, such as mine.py:weight")
    try:
        return Path(file).resolve(), name
    except (OSError, RuntimeError) as error:  # a loop of links
        raise InputError(f"{reference!r}: {file} cannot be read: {reason(error)}") from None


def _module(path: Path) -> tuple[types.ModuleType, str]:
    """The module of a file and its text, run now if it has not been."""
    if path not in _loaded:
        content = read_bytes(path)
        module = _imported(path) or _run(path, content)
        _loaded[path] = module, content.decode("utf-8", "surrogateescape")
    return _loaded[path]


def _imported(path: Path) -> types.ModuleType | None:
    """The module that has been imported from a file, if one has."""
    for module in tuple(sys.modules.values()):
        file = getattr(module, "__dict__", {}).get("__file__")  # not by getattr, for which some modules import more
        if isinstance(file, str) and Path(file).name == path.name and Path(file).resolve() == path:
            return module
    return None


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
