"""Seal files with their name and a checksum, and verify both when they are read."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from simlab.errors import InputError

MARK = b"simlab1\n"  # the last bytes of a sealed file
LENGTH_BYTES = 4
SEAL_BYTES = hashlib.sha256().digest_size + len(MARK)
CHECKSUM = "checksum"  # the field of a JSON object that holds it


class Damaged(InputError):
    """A file that is not what was written under its name; the message gives the reason."""


def sealed(content: bytes, name: str) -> bytes:
    """Return the content, followed by the name, its length, the SHA-256 of all this, and ``MARK``."""
    named = content + name.encode() + len(name.encode()).to_bytes(LENGTH_BYTES, "big")
    return named + hashlib.sha256(named).digest() + MARK


def is_sealed(data: bytes) -> bool:
    """Return True if there is a seal, which may be broken."""
    return len(data) >= LENGTH_BYTES + SEAL_BYTES and data.endswith(MARK)


def unsealed(data: bytes, name: str) -> bytes:
    """Return the content that ``sealed`` was given; ``Damaged`` if the seal is missing, broken or of another name."""
    if not is_sealed(data):
        raise Damaged("it is cut off, or its checksum is missing")
    named = data[:-SEAL_BYTES]
    if hashlib.sha256(named).digest() + MARK != data[-SEAL_BYTES:]:
        raise Damaged("its checksum differs")
    end = len(named) - LENGTH_BYTES
    start = end - int.from_bytes(named[end:], "big")
    if named[start:end] != name.encode():
        raise Damaged(f"it was written as {named[start:end].decode()}")
    return named[:start]


def sealed_json(content: Mapping[str, Any], name: str) -> bytes:
    """Write a JSON object with the checksum of name and content as its last field."""
    return (json.dumps({**content, CHECKSUM: _checksum(content, name)}, indent=1) + "\n").encode()


def unsealed_json(data: bytes, name: str) -> dict[str, Any]:
    """Return the object that ``sealed_json`` was given; ``Damaged`` if it is none, or as ``verified``."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise Damaged("it is no JSON") from None
    if not isinstance(content, dict):
        raise Damaged("it is no JSON object")
    return verified(content, name)


def verified(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an object without its checksum; ``Damaged`` if that is missing, of other content or of another name."""
    if CHECKSUM not in content:
        raise Damaged("its checksum is missing")
    unsealed_content = {key: value for key, value in content.items() if key != CHECKSUM}
    if content[CHECKSUM] != _checksum(unsealed_content, name):
        raise Damaged("its checksum differs")
    return unsealed_content


def _checksum(content: Mapping[str, Any], name: str) -> str:
    plain = json.loads(json.dumps(content))  # whose keys are all strings
    return hashlib.sha256(json.dumps([name, plain], sort_keys=True).encode()).hexdigest()
