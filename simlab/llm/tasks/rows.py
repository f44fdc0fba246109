"""Read rows of a user's data file: JSON Lines, CSV or Parquet, one after the other, whatever stands in it.

A row that cannot be read is handed on with the reason, so that whoever asks can count and name it. A file that cannot
be read at all is refused.
"""

import csv
import hashlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from simlab.errors import InputError, check_choice
from simlab.llm.extra import package
from simlab.reading import open_regular, parse_json, reason

LARGEST_FILE = 2**30  # bytes, of Parquet also those of a part once it is unpacked
LONGEST_ROW = 2**20  # bytes of a line of JSON
ROWS_AT_ONCE = 64  # of Parquet, where a few bytes can stand for many long texts


class DataRow(NamedTuple):
    """One row of a file.

    Attributes:
        line: where it stands, from 1; of Parquet, which has no lines, its number among the rows.
        values: by column; empty for a row that cannot be read.
        fault: why it cannot be read; "" for a row that can.
    """

    line: int
    values: dict[str, Any]
    fault: str = ""


def rows(path: Path, columns: tuple[str, ...]) -> Iterator[DataRow]:
    """The rows of a file, whose name says what it is.

    Args:
        path: ends in .jsonl, .csv or .parquet.
        columns: those that will be read; no other is taken from a Parquet file.

    Raises:
        InputError: for a name with another ending, what is no regular file, one of more than ``LARGEST_FILE`` bytes,
            and a Parquet file that is damaged or has a larger part.
    """
    check_choice(f"the ending of {path}", path.suffix.lower(), READERS)
    return READERS[path.suffix.lower()](path, columns)


def checksum(path: Path) -> str:
    """The SHA-256 of a file's content.

    Raises:
        InputError: for what is no regular file, and one of more than ``LARGEST_FILE`` bytes.
    """
    with open_regular(path, LARGEST_FILE) as file:
        digest = hashlib.sha256()
        while piece := file.read(LONGEST_ROW):
            digest.update(piece)
        return digest.hexdigest()


def _of_json_lines(path: Path, columns: tuple[str, ...]) -> Iterator[DataRow]:
    with open_regular(path, LARGEST_FILE) as file:
        line = 0
        while content := file.readline(LONGEST_ROW + 1):
            line += 1
            if len(content) > LONGEST_ROW:
                while content and not content.endswith(b"\n"):
                    content = file.readline(LONGEST_ROW)
                yield DataRow(line, {}, f"longer than {LONGEST_ROW} bytes")
            elif content.strip():
                yield _json_row(line, content.removeprefix(b"\xef\xbb\xbf") if line == 1 else content)


def _json_row(line: int, content: bytes) -> DataRow:
    try:
        values = parse_json(content, "it")
    except InputError:
        return DataRow(line, {}, "no JSON")
    return DataRow(line, values) if isinstance(values, dict) else DataRow(line, {}, "no JSON object")


def _of_csv(path: Path, columns: tuple[str, ...]) -> Iterator[DataRow]:
    with open_regular(path, LARGEST_FILE) as file:
        # What is no UTF-8 becomes a surrogate, which the reader of prompts and answers refuses row by row.
        text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
        reader = csv.reader(text, strict=True)
        names: list[str] | None = None
        while True:
            first = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield DataRow(first, {}, f"no CSV ({reason(error)})")
                continue
            if names is None:
                names = cells
            elif cells:
                yield _csv_row(first, names, cells)


def _csv_row(line: int, names: list[str], cells: list[str]) -> DataRow:
    if len(cells) != len(names):
        return DataRow(line, {}, f"other than {len(names)} cells, as the first line has")
    return DataRow(line, dict(zip(names, cells, strict=True)))


def _of_parquet(path: Path, columns: tuple[str, ...]) -> Iterator[DataRow]:
    parquet = package("pyarrow.parquet", "parquet")
    with open_regular(path, LARGEST_FILE) as opened:
        try:
            with parquet.ParquetFile(opened) as file:
                _check_parts(path, [file.metadata.row_group(index) for index in range(file.num_row_groups)])
                present = [name for name in columns if name in file.schema_arrow.names]
                number = 0
                for batch in file.iter_batches(ROWS_AT_ONCE, columns=present):
                    for values in batch.to_pylist():
                        number += 1
                        yield DataRow(number, values)
        except InputError:
            raise
        except Exception as error:  # the package's errors have no common class but this
            raise InputError(f"{path} cannot be read: {reason(error)}") from None


def _check_parts(path: Path, groups: list[Any]) -> None:
    largest = max((group.total_byte_size for group in groups), default=0)
    if largest > LARGEST_FILE:
        raise InputError(f"{path} has a part of {largest} bytes; allowed: up to {LARGEST_FILE}")


READERS: dict[str, Callable[[Path, tuple[str, ...]], Iterator[DataRow]]] = {
    ".jsonl": _of_json_lines,
    ".csv": _of_csv,
    ".parquet": _of_parquet,
}
