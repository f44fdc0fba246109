"""The standard streams: what is done where one is closed, full, or read by nobody."""

import io
import os
import sys

from simlab.errors import InputError, one_line


def check_streams() -> None:
    """Refuse to work for nobody, and give standard streams that were closed a place to write to.

    Otherwise the next file to be opened, perhaps the result, would take the closed stream's number, and what a library
    prints there would be written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, which is this one
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115  # it stays open
    if sys.stdout is None:
        raise InputError("standard output is closed; allowed: a terminal, a file, a pipe or /dev/null")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may have letters that the terminal has not


def give_up_output() -> None:
    """Forget what cannot be written: it could not be when Python exits either."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(message: str, code: int) -> int:
    """Print a message for whoever ran the command, and return the exit code."""
    print(f"simlab: {one_line(message)}", file=sys.stderr)
    return code
