"""A folder that one process at a time writes."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from simlab.errors import InputError
from simlab.files import make_folders


@contextlib.contextmanager
def alone(folder: Path, lock: str = ".lock", allowed: str = "a folder of its own") -> Iterator[None]:
    """Hold a folder against other processes; one that dies, however it does, lets go.

    Args:
        folder: the folder, which is made if need be.
        lock: the file in it that is locked, and stays there; those who lock different ones write side by side. Where
            the file system knows no locks, nothing is held.
        allowed: what the complaint says of what to do.

    Raises:
        InputError: if another process holds it.
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
