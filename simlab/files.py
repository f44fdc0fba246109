"""Write files that appear complete or not at all, and lock folders so that one process at a time writes to them."""

import contextlib
import itertools
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import filelock

from simlab.errors import InputError

UNFINISHED = ".unfinished-"  # begins the names of files that are being written
ABANDONED = 3600.0  # seconds after which nobody writes to such a file any more
KEPT = "finished parts are kept"


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears complete or not at all; after an error the former file is unchanged."""
    unfinished = path.with_name(f"{UNFINISHED}{uuid4().hex}")
    try:
        with unfinished.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: bytes) -> None:
    """Write a file by ``whole_file``."""
    with whole_file(path) as file:
        file.write(content)


def write_output(path: Path, content: bytes, consequence: str = KEPT) -> None:
    """Write the output of a command; ``InputError`` if it cannot be written, which ``consequence`` ends."""
    with explained(f"cannot write {path}", consequence):
        write_whole(path, content)


def remove_unfinished(folder: Path, *, locked: bool = False) -> None:
    """Remove what killed processes left unfinished in a folder an hour ago; if it is ``locked``, all, also below it."""
    for path in folder.glob(f"{'**/' if locked else ''}{UNFINISHED}*"):
        with contextlib.suppress(OSError):
            if locked or time.time() - path.stat().st_mtime > ABANDONED:
                path.unlink()


def set_aside(path: Path) -> Path:
    """Rename a damaged file or folder, for its owner to look at; return its new name."""
    names = (path.with_name(f"{path.name}.damaged{number}") for number in itertools.chain([""], itertools.count(2)))
    return path.rename(next(name for name in names if not name.exists()))


def make_folder(folder: Path) -> None:
    """Make a folder if need be, and remove what is unfinished in it; ``InputError`` if no file can be written to it."""
    with explained(f"cannot write to {folder}"):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"cannot write to {folder}: it is not a folder; allowed: a folder, or a new path")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        remove_unfinished(folder)


def check_replaceable(path: Path) -> None:
    """Raise ``InputError`` if something other than a file stands at ``path``, such as a folder or a device."""
    with explained(f"cannot write {path}"):
        if path.exists() and not path.is_file():
            raise InputError(f"cannot write {path}: it is not a regular file; allowed: a new path, or that of a file")


@contextlib.contextmanager
def explained(problem: str, consequence: str = KEPT) -> Iterator[None]:
    """Turn an ``OSError`` into an ``InputError`` that names the problem, its reason and its consequence."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{problem}: {error.strerror or error}; {consequence}") from None


@contextlib.contextmanager
def file_lock(folder: Path, name: str = ".lock", allowed: str = "a folder of its own") -> Iterator[None]:
    """Lock a file in a folder, made if need be; ``InputError`` with what is ``allowed`` if another has locked it."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(folder / name, blocking=False):
            yield
    except filelock.Timeout:
        raise InputError(f"{folder} is being written by another process; allowed: {allowed}") from None
