"""Seals: what is written carries its name and a checksum of both, and is verified when it is read."""

import hashlib

from simlab.errors import InputError

MARK = b"simlab1\n"  # the last bytes of everything that is sealed
SIZE_OF_NAME, SIZE_OF_CHECKSUM = 4, hashlib.sha256().digest_size
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
