"""Read the lines of a file one by one in bounded memory; a line that is too long is passed over and reported."""

from collections.abc import Iterator
from typing import BinaryIO

LONGEST_LINE = 2**23  # bytes; one row, with its prompt and its completion
AT_ONCE = 2**20  # bytes that are passed over in one go


def bounded_lines(file: BinaryIO, longest: int = LONGEST_LINE) -> Iterator[tuple[int, bytes | None]]:
    """The number of each line, from 1, and the line without its end; None for one of more than ``longest`` bytes."""
    number = 0
    while line := file.readline(longest + 1):
        number += 1
        if len(line) > longest and not line.endswith(b"\n"):
            _pass_over(file)
            yield number, None
        else:
            yield number, line.rstrip(b"\r\n")


def _pass_over(file: BinaryIO) -> None:
    """Read on to the end of the line, keeping none of it."""
    while (part := file.readline(AT_ONCE)) and not part.endswith(b"\n"):
        pass
