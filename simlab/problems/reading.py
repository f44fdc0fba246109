"""Lists of numbers, given as such or as the path of a file."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from simlab.errors import InputError


def numbers(name: str, source: Any) -> np.ndarray:
    """One list of numbers, as floats, from a sequence or from the path of a file of them.

    Raises:
        InputError: for an unreadable file, or something that is no list of numbers.
    """
    values = _read_numbers(name, source) if isinstance(source, str) else np.atleast_1d(np.asarray(source))
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise InputError(f"{name}: {values.dtype} of shape {values.shape}; allowed: one list of numbers")
    return values.astype(float)


def _read_numbers(name: str, source: str) -> np.ndarray:
    path = Path(source)
    try:
        if path.suffix == ".npy":
            with path.open("rb") as file:
                return np.lib.format.read_array(file, allow_pickle=False)
        with warnings.catch_warnings(action="ignore"):  # of an empty file, which the caller refuses
            return np.loadtxt(path, ndmin=1)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{name} = {source!r} is neither a list of numbers nor a file of them ({reason})") from None
