"""Lock a folder, so that one process at a time writes to it."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from simlab.errors import InputError
from simlab.files import make_folders


@contextlib.contextmanager
def file_lock(folder: Path, lock: str = ".lock", allowed: str = "a folder of its own") -> Iterator[None]:
    """Keep other processes out of a folder; the lock of a process that dies, however it does, is released.

    Args:
        folder: the folder, which is made if need be.
        lock: the file in it that is locked, and stays there; processes that lock different files write side by side.
            Where the file system has no locks, nothing is locked.
        allowed: what the error says that a user can do instead.

    Raises:
        InputError: if another process has locked it.
    """
    make_folders(folder)
    with (folder / lock).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder} is being written by another process; allowed: {allowed}") from None
        except OSError:
            pass
        yield
