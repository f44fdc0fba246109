"""Parse the layout of a GGUF file: its entries, and where the numbers of each tensor lie.

Every length and offset is checked against the size of the file before anything is read or allocated, so that the size
bounds the time and memory that reading takes.
"""

import math
import mmap
import os
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simlab.errors import InputError
from simlab.llm.extra import package
from simlab.reading import open_regular

MAGIC, VERSIONS = b"GGUF", (2, 3)
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
ALIGNMENT = 32  # of the tensors, unless the file says another
LARGEST_HEADER = 2**26  # bytes before the tensors; a vocabulary of 250,000 tokens takes about 2**24
MOST_DIMENSIONS = 4


class Stored(NamedTuple):
    """A tensor as it is stored.

    Attributes:
        kind: how, one of ``gguf.GGMLQuantizationType``.
        shape: the shape of the numbers, the outermost first.
        data: their bytes, one row a row of numbers.
    """

    kind: Any
    shape: tuple[int, ...]
    data: np.ndarray


class GGUFFile(NamedTuple):
    """What a file holds: its entries by name, and its tensors by name."""

    entries: dict[str, Any]
    tensors: dict[str, Stored]


def read_layout(path: Path) -> GGUFFile:
    """The entries of a file and its tensors, which stay in the file until they are used.

    Raises:
        InputError: for a file that is missing, no GGUF file of this machine's order of bytes, or broken.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b"")
    header = _Header(content[:LARGEST_HEADER])
    try:
        if bytes(header.take(len(MAGIC))) != MAGIC:
            raise InputError("it does not begin with the letters GGUF")
        if (version := header.number("I")) not in VERSIONS:
            raise InputError(f"its version is {version}; allowed: 2 and 3")
        tensors, entries = header.number("Q"), header.number("Q")
        said = header.entries(entries)
        return GGUFFile(said, _tensors(header, tensors, said, content))
    except (InputError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as GGUF: {error}") from None


class _Header:
    """What stands before the tensors, read from front to back."""

    def __init__(self, content: memoryview):
        self.content, self.offset = content, 0

    def take(self, size: int) -> memoryview:
        """The next bytes.

        Raises:
            InputError: if there are fewer.
        """
        if size > len(self.content) - self.offset:
            raise InputError(f"it ends, or its header is too long, where {size} bytes should follow byte {self.offset}")
        self.offset += size
        return self.content[self.offset - size : self.offset]

    def number(self, kind: str) -> Any:
        return struct.unpack(f"<{kind}", self.take(struct.calcsize(f"<{kind}")))[0]

    def text(self) -> str:
        return bytes(self.take(self.number("Q"))).decode("utf-8")

    def entries(self, count: int) -> dict[str, Any]:
        """Names and values; ``count`` is only believed as far as the bytes reach."""
        found: dict[str, Any] = {}
        for _ in range(count):
            name = self.text()
            if name in found:
                raise InputError(f"the entry {name!r} stands twice")
            found[name] = self.value(self.number("I"))
        return found

    def value(self, kind: int) -> Any:
        """A number, a text, or a list of either."""
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            raise InputError(f"an entry is of kind {kind}; allowed: 0 to 12")
        inner, count = self.number("I"), self.number("Q")
        if inner == STRING:
            return [self.text() for _ in range(count)]
        if inner not in SCALARS:
            raise InputError(f"an entry is a list of kind {inner}; allowed: lists of numbers and of texts")
        numbers = np.dtype(f"<{SCALARS[inner]}")
        return np.frombuffer(self.take(count * numbers.itemsize), numbers).tolist()


def _tensors(header: _Header, count: int, entries: dict[str, Any], content: memoryview) -> dict[str, Stored]:
    """The tensors, which must lie in the file, and together take no more of it than there is."""
    listed = {}
    for _ in range(count):
        name, dimensions = header.text(), header.number("I")
        if name in listed or not 1 <= dimensions <= MOST_DIMENSIONS:
            raise InputError(f"tensor {name!r} stands twice, or has {dimensions} dimensions; allowed: 1 to 4")
        lengths = [header.number("Q") for _ in range(dimensions)]
        listed[name] = (tuple(reversed(lengths)), header.number("I"), header.number("Q"))
    alignment = entries.get("general.alignment", ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise InputError(f"general.alignment = {alignment!r}; allowed: whole numbers from 1 up")
    start = -(-header.offset // alignment) * alignment
    tensors = {name: _stored(name, *tensor, content[start:]) for name, tensor in listed.items()}
    if sum(stored.data.nbytes for stored in tensors.values()) > len(content):
        raise InputError("its tensors overlap")
    return tensors


def _stored(name: str, shape: tuple[int, ...], kind: int, offset: int, content: memoryview) -> Stored:
    gguf = package("gguf")
    try:
        known = gguf.GGMLQuantizationType(kind)
    except ValueError:
        raise InputError(f"tensor {name!r} is stored as kind {kind}, which is not known") from None
    block, block_bytes = gguf.GGML_QUANT_SIZES[known]
    rows, width = math.prod(shape[:-1]), shape[-1] // block * block_bytes
    if shape[-1] % block or rows * width < 1:
        raise InputError(f"tensor {name!r} has shape {shape}; allowed: rows of whole blocks of {block} numbers")
    if offset + rows * width > len(content):
        raise InputError(f"tensor {name!r} has {rows * width} bytes from byte {offset}; there are {len(content)}")
    data = np.frombuffer(content, np.uint8, rows * width, offset).reshape(*shape[:-1], width)
    return Stored(known, shape, data)
