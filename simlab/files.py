"""Write files that appear complete or not at all, and lock folders so that one process at a time writes to them."""

import contextlib
import itertools
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import filelock

from simlab.errors import InputError
from simlab.seals import is_sealed

UNFINISHED = ".unfinished-"  # begins the names of files that are being written
ABANDONED = 3600.0  # seconds after which nobody writes to such a file any more
KEPT = "finished parts are kept"
WRITER = "written by simlab, which may replace this file"  # stands in every output that has no seal
MARKS = (WRITER.encode(), b"tEXtsimlab\0")  # the second is in images of figures.shared.images
RESULT = "the result of a sweep"  # the name in the seal of a NetCDF file
LOOKED_AT = 2**16  # bytes at both ends of a file in which a mark is looked for


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
    """Write the output of a command; ``InputError``, which ``consequence`` ends, if it cannot be written there."""
    check_replaceable(path)
    write_part(path, content, consequence)


def write_part(path: Path, content: bytes, consequence: str = KEPT) -> None:
    """Write a file of a folder that is simlab's own, over a former one; raises as ``write_output``."""
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


def check_outputs(*paths: Path | None, inputs: Iterable[Path] = ()) -> None:
    """Check all outputs of a command by ``check_replaceable``, and that they differ; make their folders."""
    outputs, sources = [path for path in paths if path is not None], list(inputs)
    for path in outputs:
        check_replaceable(path, sources)
        make_folder(path.parent)
    if len({path.resolve() for path in outputs}) < len(outputs):
        raise InputError(f"two outputs are both {outputs[-1]}; allowed: a path each")


def check_replaceable(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Raise ``InputError`` if an output at ``path`` would replace an input, or anything that simlab did not write.

    An output is known by a mark in its first or last bytes; an empty file may be replaced, too.
    """
    with explained(f"cannot write {path}"):
        if not path.exists():
            return
        if not path.is_file():
            raise InputError(f"cannot write {path}: it is not a regular file; allowed: a new path, or that of a file")
        if any(source.exists() and path.samefile(source) for source in inputs):
            raise InputError(f"cannot write {path}: it is an input of this command; allowed: another path")
        if not _is_output(path):
            raise InputError(f"cannot write {path}: simlab did not write the file there; allowed: another path")


def check_removable(paths: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Raise ``InputError`` if an input, or a file of an input folder, lies in what a command would remove."""
    removed = [path.resolve() for path in paths]
    for source in inputs:
        if any(file.resolve().is_relative_to(path) for file in (source, *source.glob("*")) for path in removed):
            raise InputError(f"{source} is an input of this command, which would remove it; allowed: another --out")


def _is_output(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(LOOKED_AT)
        file.seek(max(path.stat().st_size - LOOKED_AT, 0))
        tail = file.read()
    is_result = is_sealed(tail) and RESULT.encode() in tail
    return not head or is_result or any(mark in head or mark in tail for mark in MARKS)


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
