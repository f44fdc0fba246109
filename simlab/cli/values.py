"""Read the value of an option: a path, a number, a list."""

import argparse
import os
from pathlib import Path

from simlab.errors import InputError


def read_path(text: str) -> Path:
    """The name of a file or folder."""
    try:
        named = bool(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        named = False
    if not named:
        raise argparse.ArgumentTypeError(f"{text!r} is no path; allowed: the name of a file or folder")
    return Path(text)


def read_file(text: str) -> Path:
    """The name of a file, which does not end as that of a folder does."""
    if text.endswith(("/", os.sep)):
        raise argparse.ArgumentTypeError(f"{text!r} is a folder; allowed: a file, such as {text}sweep.nc")
    return read_path(text)


def read_whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be read; allowed: a whole number") from None


def read_number(text: str) -> float:
    """A number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be read; allowed: a number") from None


def read_whole_list(text: str) -> tuple[int, ...]:
    """Whole numbers separated by commas; ``2,4,...,64`` is filled in."""
    from simlab.sweeps.options import expand

    try:
        return tuple(read_whole(item) for item in expand(text))
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def read_moment(text: str) -> str | int:
    """Which evaluation ``simlab compare`` shows."""
    from simlab.llm.compare import moments

    try:
        return moments.read_moment(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
