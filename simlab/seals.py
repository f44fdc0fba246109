"""Seal what is written with its name and a checksum, and verify both when it is read."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from simlab.errors import InputError

MARK = b"simlab1\n"  # the last bytes of everything that is sealed
SIZE_OF_NAME, SIZE_OF_CHECKSUM = 4, hashlib.sha256().digest_size
CHECKSUM = "checksum"  # the field of JSON that holds it
SHORTEST = SIZE_OF_NAME + SIZE_OF_CHECKSUM + len(MARK)


class Damaged(InputError):
    """What was read is not what was written under this name; the message says why, in the words of a reason."""


def sealed(content: bytes, name: str) -> bytes:
    """The content, and behind it the name, its length, the SHA-256 of all this, and ``MARK``."""
    named = content + name.encode() + len(name.encode()).to_bytes(SIZE_OF_NAME, "big")
    return named + hashlib.sha256(named).digest() + MARK


def is_sealed(data: bytes) -> bool:
    """Whether there is a seal, which may be broken."""
    return len(data) >= SHORTEST and data.endswith(MARK)


def unsealed(data: bytes, name: str) -> bytes:
    """The content of what ``sealed`` made.

    Raises:
        Damaged: for a seal that is missing, broken or of another name.
    """
    if not is_sealed(data):
        raise Damaged("its seal is missing")
    named, checksum = data[: -SIZE_OF_CHECKSUM - len(MARK)], data[-SIZE_OF_CHECKSUM - len(MARK) : -len(MARK)]
    if hashlib.sha256(named).digest() != checksum:
        raise Damaged("its checksum differs")
    end = len(named) - SIZE_OF_NAME
    start = end - int.from_bytes(named[end:], "big")
    if named[start:end] != name.encode():
        raise Damaged(f"it was written as {named[start:end].decode()}")
    return named[:start]


def sealed_json(content: Mapping[str, Any], name: str, indent: int | None = 1) -> bytes:
    """A JSON object, and last in it the checksum of the name and all else; on one line if ``indent`` is None."""
    return (json.dumps({**content, CHECKSUM: json_checksum(content, name)}, indent=indent) + "\n").encode()


def unsealed_json(data: bytes, name: str) -> dict[str, Any]:
    """The content of what ``sealed_json`` made.

    Raises:
        Damaged: for what is no JSON object, or has a checksum that is missing, of other content or of another name.
    """
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise Damaged("it is no JSON") from None
    if not isinstance(content, dict):
        raise Damaged("it is no JSON object")
    return verified(content, name)


def verified(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The object that ``sealed_json`` was given, of the one that it made.

    Raises:
        Damaged: if the checksum is missing, of other content or of another name.
    """
    if CHECKSUM not in content:
        raise Damaged("its checksum is missing")
    own = {key: value for key, value in content.items() if key != CHECKSUM}
    if content[CHECKSUM] != json_checksum(own, name):
        raise Damaged("its checksum differs")
    return own


def json_checksum(content: Mapping[str, Any], name: str) -> str:
    """The SHA-256 of a name and an object of JSON, in whatever order it has its keys."""
    plain = json.loads(json.dumps(content))  # whose keys are all strings
    return hashlib.sha256(json.dumps([name, plain], sort_keys=True).encode()).hexdigest()


def arrays_checksum(arrays: Mapping[str, np.ndarray], said: Mapping[str, Any]) -> str:
    """The SHA-256 of named arrays, with their dtypes and shapes, and of an object of JSON that goes with them."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        values = np.ascontiguousarray(arrays[name])
        found.update(json.dumps([name, str(values.dtype), values.shape]).encode())
        found.update(values.reshape(-1).view(np.uint8).data)
    return json_checksum(said, found.hexdigest())
