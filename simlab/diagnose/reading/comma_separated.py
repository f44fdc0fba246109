"""Read CSV, and TSV by its name: a first row of column names, and texts that may hold line breaks in quotes."""

import codecs
import csv
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from simlab.diagnose.reading.lines import LONGEST_LINE, bounded_lines
from simlab.diagnose.reading.refusals import Refusals
from simlab.reading import open_regular

NO_UTF8 = re.compile("[\udc80-\udcff]")  # what Python makes of a byte that is none


def csv_rows(path: Path, refused: Refusals) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number of the line that each row ends on, and its texts by column; other rows are refused.

    Raises:
        InputError: for what is no regular file.
        OSError: if it cannot be read.
    """
    with open_regular(path) as file, _fields_of(LONGEST_LINE):
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        reader = csv.reader(_texts(file, path, refused), delimiter=delimiter, strict=True)
        names: list[str] | None = None
        for number, row in _read(reader, path, refused):
            if not row:
                continue
            if any(map(NO_UTF8.search, row)):
                refused.add(path, number, "the row is no UTF-8")
            elif names is None:
                names = row
                if len(set(names)) < len(names):
                    refused.add(path, number, "two columns have one name")
                    return
            elif len(row) != len(names):
                refused.add(path, number, f"the row has {len(row)} fields; allowed: {len(names)}, as the first row has")
            else:
                yield number, dict(zip(names, row, strict=True))


def _read(reader: Any, path: Path, refused: Refusals) -> Iterator[tuple[int, list[str]]]:
    """The rows that can be told apart, each with the number of its last line."""
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            refused.add(path, reader.line_num, str(error))
        else:
            yield reader.line_num, row


def _texts(file: BinaryIO, path: Path, refused: Refusals) -> Iterator[str]:
    """The lines as text; one that is too long becomes an empty one, so that the numbers of the others stay."""
    for number, line in bounded_lines(file):
        if line is None:
            refused.add(path, number, f"the line is too long; allowed: up to {LONGEST_LINE} bytes")
        content = (line or b"").removeprefix(codecs.BOM_UTF8 if number == 1 else b"")
        yield content.decode("utf-8", "surrogateescape") + "\n"


@contextmanager
def _fields_of(largest: int) -> Iterator[None]:
    """Python's module for CSV has one limit for the whole process."""
    former = csv.field_size_limit(largest)
    try:
        yield
    finally:
        csv.field_size_limit(former)
