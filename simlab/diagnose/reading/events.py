"""Read the scalars of TensorBoard's event files, without TensorBoard: a step's tags are one record.

A file is a sequence of records, each a length of eight bytes, a checksum of four, a protocol buffer and another
checksum; the buffer's fields 2 and 5 are the step and the summary, whose values have a tag (1) and a number (2), or a
tensor (8) of one float.
"""

import io
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simlab.diagnose.log import RefusedRows

WIDTH = {1: 8, 5: 4}  # bytes of numbers of fixed width, by the type of a field
LARGEST = 2**26  # bytes of one event


def read_events(file: io.BufferedIOBase, path: Path, refused: RefusedRows) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield ``{"step": ..., tag: number, ...}`` of each event that has scalars."""
    number = 0
    while len(head := file.read(12)) == 12:
        number += 1
        (size,) = struct.unpack("<Q", head[:8])
        content = file.read(size) if size <= LARGEST else b""
        if len(content) < size:
            refused.add(path, number, "the file of events is cut off")
            return
        file.read(4)
        try:
            event = _fields(content)
            scalars = dict(_scalars(event))
        except (IndexError, struct.error, UnicodeDecodeError):
            refused.add(path, number, "the event cannot be read")
            continue
        if scalars:
            yield number, {"step": next((value for field, value in event if field == 2), 0)} | scalars


def _scalars(event: list[tuple[int, Any]]) -> Iterator[tuple[str, float]]:
    for summary in (content for field, content in event if field == 5):
        for value in (_fields(content) for field, content in _fields(summary) if field == 1):
            parts = dict(value)
            if 2 in parts:
                yield parts[1].decode(), struct.unpack("<f", parts[2])[0]
            elif 8 in parts:
                tensor = dict(_fields(parts[8]))
                number = tensor.get(5, tensor.get(4, b""))  # float_val, or the content as it lies in memory
                if tensor.get(1) == 1 and len(number) == 4:
                    yield parts[1].decode(), struct.unpack("<f", number)[0]


def _fields(content: bytes) -> list[tuple[int, Any]]:
    """Return the fields of a protocol buffer: whole numbers, or bytes."""
    fields: list[tuple[int, Any]] = []
    position = 0
    while position < len(content):
        key, position = _varint(content, position)
        kind = key & 7
        if kind == 0:
            value, position = _varint(content, position)
            fields.append((key >> 3, value))
            continue
        size = WIDTH.get(kind)
        if size is None:
            size, position = _varint(content, position)
        fields.append((key >> 3, content[position : position + size]))
        position += size
    return fields


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[position]
        value |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return value, position
