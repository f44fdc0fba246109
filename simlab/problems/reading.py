"""Read a list or a table of numbers, given as such or as the path of a file."""

import io
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np

from simlab.errors import InputError
from simlab.reading import read_bytes, reason

LARGEST_LIST = 2**28  # bytes of a file of numbers


def numbers(name: str, source: Any) -> np.ndarray:
    """Read one list of numbers, as floats, from a sequence or from the path of a file; ``InputError`` if it is none.

    The file has a number a line, or is what ``numpy.save`` wrote (``.npy``); ``name`` stands in complaints.
    """
    values = _read_numbers(name, source, 1) if isinstance(source, str) else np.atleast_1d(np.asarray(source))
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise InputError(f"{name}: {values.dtype} of shape {values.shape}; allowed: one list of numbers")
    return values.astype(float)


def table(name: str, source: str) -> np.ndarray:
    """Read rows of as many numbers each, as floats, from a file as for ``numbers``; a list is a table of one column."""
    values = _read_numbers(name, source, 2)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or 0 in values.shape or values.dtype.kind not in "iuf":
        raise InputError(f"{name}: {values.dtype} of shape {values.shape}; allowed: rows of as many numbers each")
    return values.astype(float)


def _read_numbers(name: str, source: str, dimensions: Literal[1, 2]) -> np.ndarray:
    try:
        content = io.BytesIO(read_bytes(source, LARGEST_LIST))
        if Path(source).suffix == ".npy":
            return np.lib.format.read_array(content, allow_pickle=False)
        with warnings.catch_warnings(action="ignore"):  # of an empty file, which the caller refuses
            return np.loadtxt(content, ndmin=dimensions)
    except Exception as error:  # NumPy's reader of headers raises many kinds
        raise InputError(
            f"{name} = {source!r} is neither a list of numbers nor a file of them ({reason(error)})"
        ) from None
