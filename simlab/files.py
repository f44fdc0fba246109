"""Write files that appear whole or not at all, and are on the disk before anything relies on them."""

import contextlib
import fcntl
import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from simlab.errors import InputError

UNFINISHED = ".unfinished-"


def write_whole(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file that appears whole or not at all, also where the power fails in between.

    Args:
        path: the file; one that is there is replaced.
        content: what it is to hold.
        durable: whether the file is on the disk, and its name too, when this returns. A cache can do without.

    Raises:
        OSError: if it cannot be written, as on a full disk; the former file is kept then.
    """
    with _unfinished(path.parent) as file:
        file.write(content)
        file.flush()
        if durable:
            os.fsync(file.fileno())
        os.replace(file.name, path)
    if durable:
        sync_folder(path.parent)


def write_output(path: Path, content: bytes, kept: str = "finished parts are kept") -> None:
    """Write whole what a command leaves; ``kept`` is what the complaint says of work already done.

    Raises:
        InputError: if it cannot be written, for instance because the disk is full.
    """
    with explained(f"cannot write {path}", kept):
        write_whole(path, content)


@contextlib.contextmanager
def _unfinished(folder: Path) -> Iterator[BinaryIO]:
    """A new file for writing, removed unless it is renamed; it is locked, so that others see that its writer lives."""
    while True:
        path = folder / f"{UNFINISHED}{uuid4().hex}"
        with path.open("xb") as file:
            try:
                with contextlib.suppress(OSError):  # where the file system knows no locks
                    fcntl.flock(file, fcntl.LOCK_EX)
                if os.fstat(file.fileno()).st_nlink:
                    yield file
                    return
                # Another process took it for a dead one's before it was locked.
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(path)


def remove_unfinished(folder: Path, *, below: bool = False) -> None:
    """Remove what dead processes left unfinished in a folder, or also below it; never what a living one is writing."""
    for path in folder.glob(f"{'**/' if below else ''}{UNFINISHED}*"):
        with contextlib.suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def set_aside(path: Path) -> Path:
    """Rename what is damaged, for its owner to look at; returns the name it has now, on the disk.

    Raises:
        OSError: if it cannot be renamed.
    """
    names = (path.with_name(f"{path.name}.damaged{number}") for number in itertools.chain([""], itertools.count(2)))
    aside = next(name for name in names if not name.exists())
    path.rename(aside)
    sync_folder(path.parent)
    return aside


def make_folders(folder: Path) -> None:
    """Make a folder and those above it that are missing, on the disk when this returns.

    Raises:
        OSError: if it cannot be made.
    """
    folder = folder.absolute()
    if not folder.exists():
        make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
    # Also of a folder that is there: who made it may have been killed before this.
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Have the names of a folder's files on the disk: new ones, changed ones and those that are gone.

    Raises:
        OSError: if the disk fails.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return  # a folder that others own, in which only they make names
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder if need be, make sure that files can be written to it, and remove what dead processes left in it.

    Raises:
        InputError: if it cannot be made or written to.
    """
    with explained(f"cannot write to {folder}"):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"cannot write to {folder}: it is not a folder; allowed: a folder, or a new path")
        make_folders(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
        remove_unfinished(folder)


@contextlib.contextmanager
def folders_for(*folders: Path) -> Iterator[None]:
    """Make folders to write to, as ``make_folder`` does; work that is refused leaves none of them behind empty."""
    missing = [above for folder in folders for above in (folder, *folder.parents) if not above.exists()]
    for folder in folders:
        make_folder(folder)
    try:
        yield
    except InputError:
        for folder in sorted(set(missing), key=lambda path: -len(path.parts)):
            with contextlib.suppress(OSError):  # it is not empty
                folder.rmdir()
        raise


def check_replaceable(path: Path) -> None:
    """Raise ``InputError`` if something other than a file stands at ``path``, such as a folder or a device."""
    with explained(f"cannot write {path}"):
        if path.exists() and not path.is_file():
            raise InputError(f"cannot write {path}: it is not a regular file; allowed: a new path, or that of a file")


@contextlib.contextmanager
def explained(what: str, kept: str = "finished parts are kept") -> Iterator[None]:
    """Turn an ``OSError`` into an ``InputError`` that says what went wrong, and what is kept of the work done."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{what}: {error.strerror or error}; {kept}") from None
