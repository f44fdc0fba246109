"""Read files that a user points at: what is no regular file, no JSON or too large is refused in one line."""

import json
import os
from pathlib import Path
from typing import Any, BinaryIO

from simlab.errors import InputError

LARGEST_JSON = 64 * 2**20  # bytes of a config, a tokenizer or the settings of a run
LEAST_REFUSED = 2**29  # bytes that any NetCDF file may unpack to
MOST_PACKED = 100  # times its size that a larger one may unpack to; results of sweeps are packed 2 to 20 times
LONGEST_REASON = 200  # characters of another package's complaint


def open_regular(path: str | os.PathLike, largest_bytes: int | None = None) -> BinaryIO:
    """Open a regular file, or a link to one, no larger than allowed; ``InputError`` for any other."""
    try:
        size = os.stat(path).st_size
        if not Path(path).is_file():
            raise InputError(f"{path} is no regular file; allowed: no folders, pipes or devices")
        if largest_bytes is not None and size > largest_bytes:
            raise InputError(f"{path} has {size} bytes; allowed: up to {largest_bytes}")
        return open(path, "rb")
    except InputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise InputError(f"{path} cannot be read: {reason(error)}") from None


def read_bytes(path: str | os.PathLike, largest_bytes: int | None = None) -> bytes:
    """Read a regular file of at most ``largest_bytes``; ``InputError`` as for ``open_regular``."""
    with open_regular(path, largest_bytes) as file:
        return file.read()


def read_json(path: str | os.PathLike) -> dict[str, Any]:
    """Read the object of a JSON file of at most ``LARGEST_JSON`` bytes; ``InputError`` if there is none."""
    entries = parse_json(read_bytes(path, LARGEST_JSON), str(path))
    if not isinstance(entries, dict):
        raise InputError(f"{path} holds no JSON object")
    return entries


def parse_json(content: str | bytes, name: str) -> Any:
    """Parse a JSON text, which messages call ``name``; ``InputError`` if it is none, or too deep for Python."""
    try:
        return json.loads(content if isinstance(content, str) else content.decode("utf-8"))
    except ValueError:
        raise InputError(f"{name} is no JSON") from None
    except RecursionError:
        raise InputError(f"{name} is nested too deeply") from None


def check_declared(path: Path) -> None:
    """Raise ``InputError`` if a NetCDF file would grow out of proportion: arrays of nothing are packed a thousandfold.

    Raises ``OSError`` where it is no HDF5 file.
    """
    import h5py  # noqa: PLC0415  # slow to import

    most = max(LEAST_REFUSED, MOST_PACKED * path.stat().st_size)
    declared = 0

    def add(_: str, item: Any) -> None:
        nonlocal declared
        declared += getattr(item, "nbytes", 0)

    with h5py.File(path) as file:
        file.visititems(add)
    if declared > most:
        raise InputError(f"{path} unpacks to {declared} bytes; allowed for a file of its size: {most}")


def reason(error: BaseException) -> str:
    """Say in one short line what went wrong, in the system's words where it has some, else in the error's."""
    words = error.strerror if isinstance(error, OSError) else None
    line = (words or (str(error).splitlines() or [""])[0] or type(error).__name__).strip()
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 3] + "..."
