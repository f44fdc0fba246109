"""Read a list or a table of numbers, given as such or as the path of a file."""

import io
import math
import re
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np

from simlab.errors import InputError
from simlab.reading import read_bytes, reason

LARGEST_LIST = 2**28  # bytes of a file of numbers
# What numpy.save puts before the numbers: a mark, the length of a dictionary, and that dictionary as text.
NPY = re.compile(
    rb"\x93NUMPY\x01\0..\{'descr': '([<>|=][a-zA-Z][0-9]{0,3})', 'fortran_order': (True|False), "
    rb"'shape': \(([0-9, ]{0,80})\), \} *\n",
    re.DOTALL,
)


def numbers(name: str, source: Any) -> np.ndarray:
    """One list of numbers, as floats, from a sequence or from the path of a file of them.

    Args:
        name: the name of the list, in complaints.
        source: a sequence, or the path of a text file with a number a line or of what ``numpy.save`` wrote (``.npy``),
            of at most ``LARGEST_LIST`` bytes.

    Raises:
        InputError: for an unreadable file, or something that is no list of numbers.
    """
    values = _read_numbers(name, source, 1) if isinstance(source, str) else np.atleast_1d(np.asarray(source))
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise InputError(f"{name}: {values.dtype} of shape {values.shape}; allowed: one list of numbers")
    return values.astype(float)


def table(name: str, source: str) -> np.ndarray:
    """Rows of as many numbers each, as floats, from a file such as ``numbers`` reads; a list is a table of one column.

    Raises:
        InputError: for an unreadable file, or something that is no table of numbers.
    """
    values = _read_numbers(name, source, 2)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or 0 in values.shape or values.dtype.kind not in "iuf":
        raise InputError(f"{name}: {values.dtype} of shape {values.shape}; allowed: rows of as many numbers each")
    return values.astype(float)


def _read_numbers(name: str, source: str, dimensions: Literal[1, 2]) -> np.ndarray:
    try:
        content = read_bytes(source, LARGEST_LIST)
        if Path(source).suffix == ".npy":
            return _of_npy(content)
        with warnings.catch_warnings(action="ignore"):  # of an empty file, which the caller refuses
            return np.loadtxt(io.BytesIO(content), ndmin=dimensions)
    except ValueError as error:
        why = reason(error)
        raise InputError(f"{name} = {source!r} is neither a list of numbers nor a file of them ({why})") from None


def _of_npy(content: bytes) -> np.ndarray:
    """The array that ``numpy.save`` wrote; NumPy's own reader takes a header's word for how much memory it needs."""
    header = NPY.match(content)
    if header is None:
        raise ValueError("it has no header of numpy.save's")
    try:
        kind = np.dtype(header[1].decode())
    except TypeError as error:
        raise ValueError(str(error)) from None
    lengths = [int(length) for length in header[3].split(b",") if length.strip()]
    if kind.hasobject or math.prod(lengths) * kind.itemsize != len(content) - header.end():
        raise ValueError(f"its header says {lengths} numbers of {kind}, but {len(content) - header.end()} bytes follow")
    values = np.frombuffer(content, kind, offset=header.end())
    return values.reshape(lengths[::-1]).T if header[2] == b"True" else values.reshape(lengths)
