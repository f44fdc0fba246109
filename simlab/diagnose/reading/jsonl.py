"""Read JSONL: an object a line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simlab.diagnose.reading.lines import LONGEST_LINE, bounded_lines
from simlab.diagnose.reading.refusals import Refusals
from simlab.errors import InputError
from simlab.reading import json_object, open_regular


def json_rows(path: Path, refused: Refusals, longest: int = LONGEST_LINE) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number of each line and its object; other lines are refused, empty ones passed over.

    Raises:
        InputError: for what is no regular file.
        OSError: if it cannot be read.
    """
    with open_regular(path) as file:
        for number, line in bounded_lines(file, longest):
            if line is None:
                refused.add(path, number, f"the line is too long; allowed: up to {longest} bytes")
            elif line.strip():
                try:
                    yield number, json_object(line, "the line")
                except InputError as error:
                    refused.add(path, number, str(error))
