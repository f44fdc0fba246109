"""Read rows of a user's data file: JSON Lines, CSV or Parquet; a row that cannot be read comes with the reason."""

import csv
import hashlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from simlab.errors import InputError, check_choice, package
from simlab.reading import open_regular, parse_json, read_bytes, reason

LARGEST_FILE = 2**30  # bytes


class DataRow(NamedTuple):
    """One row of a file."""

    line: int  # from 1; of Parquet, which has no lines, its number among the rows
    values: dict[str, Any]  # by column; empty for a row that cannot be read
    fault: str = ""  # the reason why it cannot be read


def rows(path: Path, columns: tuple[str, ...]) -> Iterator[DataRow]:
    """Yield the rows of a .jsonl, .csv or .parquet file; of Parquet only these columns."""
    check_choice(f"the ending of {path}", path.suffix.lower(), READERS)
    return READERS[path.suffix.lower()](path, columns)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file's content; ``InputError`` as ``rows``."""
    return hashlib.sha256(read_bytes(path, LARGEST_FILE)).hexdigest()


def _of_json_lines(path: Path, columns: tuple[str, ...]) -> Iterator[DataRow]:
    with open_regular(path, LARGEST_FILE) as file:
        for line, content in enumerate(file, 1):
            if not content.strip():
                continue
            try:
                values = parse_json(content.removeprefix(b"\xef\xbb\xbf") if line == 1 else content, "it")
            except InputError:
                yield DataRow(line, {}, "no JSON")
                continue
            yield DataRow(line, values) if isinstance(values, dict) else DataRow(line, {}, "no JSON object")


def _of_csv(path: Path, columns: tuple[str, ...]) -> Iterator[DataRow]:
    with open_regular(path, LARGEST_FILE) as file:
        # What is no UTF-8 becomes a surrogate, which the reader of prompts and answers refuses row by row.
        text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
        reader = csv.reader(text, strict=True)
        names: list[str] | None = None
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield DataRow(line, {}, f"no CSV ({reason(error)})")
                continue
            if names is None:
                names = cells
            elif cells and len(cells) != len(names):
                yield DataRow(line, {}, f"other than {len(names)} cells, as the first line has")
            elif cells:
                yield DataRow(line, dict(zip(names, cells, strict=True)))


def _of_parquet(path: Path, columns: tuple[str, ...]) -> Iterator[DataRow]:
    parquet = package("pyarrow.parquet", "parquet")
    with open_regular(path, LARGEST_FILE) as opened:
        try:
            with parquet.ParquetFile(opened) as file:
                present = [name for name in columns if name in file.schema_arrow.names]
                number = 0
                for batch in file.iter_batches(columns=present):
                    for values in batch.to_pylist():
                        number += 1
                        yield DataRow(number, values)
        except Exception as error:  # the package's errors have no common class but this
            raise InputError(f"{path} cannot be read: {reason(error)}") from None


READERS: dict[str, Callable[[Path, tuple[str, ...]], Iterator[DataRow]]] = {
    ".jsonl": _of_json_lines,
    ".csv": _of_csv,
    ".parquet": _of_parquet,
}
