"""A folder that one process at a time writes."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from simlab.errors import InputError


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a folder against other processes; one that dies, however it does, lets go.

    The lock is on a file ``.lock`` in it, which stays there. Where the file system knows no locks, nothing is held.

    Raises:
        InputError: if another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder} is being written by another process; allowed: a folder of its own") from None
        except OSError:
            pass
        yield
