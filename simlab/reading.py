"""Read files that somebody else wrote, in bounded time and memory.

What a user points at may be anything: a pipe that nobody writes to, a device without an end, a file larger than
memory, JSON that is nested a hundred thousand deep. Only regular files are opened, and only up to a size that the
reader states beforehand; everything else is refused in one line.
"""

import json
import os
import stat
from collections import Counter
from typing import Any, BinaryIO

from simlab.errors import InputError

LARGEST_JSON = 64 * 2**20  # bytes of a config, a tokenizer or the settings of a run
DEEPEST_JSON = 64  # lists and objects inside one another
LONGEST_REASON = 200  # characters of another package's complaint


def open_regular(path: str | os.PathLike, largest_bytes: int | None = None) -> BinaryIO:
    """A regular file, opened for reading. Pipes, devices and folders are refused, and opening never waits.

    Args:
        path: the path of the file; symbolic links are followed.
        largest_bytes: the largest size that is allowed; None for any.

    Raises:
        InputError: for what is not there, cannot be opened, is no regular file or is too large.
    """
    try:
        # Without O_NONBLOCK a pipe would wait here for someone who writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise InputError(f"{path} cannot be read: {reason(error)}") from None
    file = os.fdopen(descriptor, "rb") if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    if file is None:
        os.close(descriptor)
        raise InputError(f"{path} is no regular file; allowed: no folders, pipes or devices")
    size = os.fstat(descriptor).st_size
    if largest_bytes is not None and size > largest_bytes:
        file.close()
        raise InputError(f"{path} has {size} bytes; allowed: up to {largest_bytes}")
    return file


def read_bytes(path: str | os.PathLike, largest_bytes: int) -> bytes:
    """The content of a regular file of at most ``largest_bytes``.

    Raises:
        InputError: as ``open_regular`` does, and for a file that cannot be read.
    """
    with open_regular(path, largest_bytes) as file:
        try:
            return file.read(os.fstat(file.fileno()).st_size)  # no more than its size, should it grow meanwhile
        except OSError as error:
            raise InputError(f"{path} cannot be read: {reason(error)}") from None


def read_json(path: str | os.PathLike, largest_bytes: int = LARGEST_JSON) -> dict[str, Any]:
    """The object of a JSON file, in bounded time and memory.

    Use it for every JSON file that a user can point at or edit: a pipe, a device, a file of more than
    ``largest_bytes``, lists nested more than ``DEEPEST_JSON`` deep, numbers of more digits than Python reads, a name
    that stands twice and bytes that are no UTF-8 are all refused in one line.

    Raises:
        InputError: if there is no such object; the line names the file.
    """
    return json_object(read_bytes(path, largest_bytes), str(path))


def json_object(content: str | bytes, name: str) -> dict[str, Any]:
    """The object of a JSON text; see ``parse_json``.

    Raises:
        InputError: if there is none.
    """
    entries = parse_json(content, name)
    if not isinstance(entries, dict):
        raise InputError(f"{name} holds no JSON object")
    return entries


def parse_json(content: str | bytes, name: str) -> Any:
    """The value of a JSON text; ``name`` says in complaints what the text is.

    Raises:
        InputError: for what is no JSON, is nested too deeply, or has one name twice in an object.
    """
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_without_repeats)
    except InputError as error:
        raise InputError(f"{name} is no JSON: {error}") from None
    except ValueError:
        raise InputError(f"{name} is no JSON") from None
    except RecursionError:
        raise InputError(f"{name} is nested too deeply; allowed: up to {DEEPEST_JSON} deep") from None
    if _depth(value) > DEEPEST_JSON:
        raise InputError(f"{name} is nested too deeply; allowed: up to {DEEPEST_JSON} deep")
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of two values of one name another reader might take the other."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        (name, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise InputError(f"the name {name[:LONGEST_REASON]!r} stands twice in an object")
    return entries


def _depth(value: Any) -> int:
    """How many lists and objects lie inside one another."""
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return depth


def reason(error: BaseException) -> str:
    """What went wrong, on one short line: the system's words where it has some, else the first line of the error's."""
    said = error.strerror if isinstance(error, OSError) else None
    line = (said or (str(error).splitlines() or [""])[0] or type(error).__name__).strip()
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 3] + "..."
