"""Read parquet by pyarrow, a batch of rows at a time."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simlab.diagnose.reading.refusals import Refusals
from simlab.errors import InputError
from simlab.reading import open_regular, reason

ROWS_AT_ONCE = 4096  # texts of a few kilobytes each then take some tens of megabytes


def parquet_rows(path: Path, refused: Refusals) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number of each row, from 1, and its values by column; a file that breaks off gives the rows before.

    Raises:
        InputError: for what is no regular file, and where pyarrow is not installed.
    """
    parquet = pyarrow_parquet()
    with open_regular(path) as file:
        last = 0
        try:
            for batch in parquet.ParquetFile(file).iter_batches(ROWS_AT_ONCE):
                yield from _rows_of(batch, path, last, refused)
                last += batch.num_rows
        # Of a damaged file pyarrow says so by its own errors, or by those of reading and of memory.
        except (OSError, ValueError, MemoryError, KeyError, NotImplementedError) as error:
            what = "the file" if last == 0 else f"what comes after row {last}"
            refused.add(path, None, f"{what} is no parquet: {reason(error)}")


def pyarrow_parquet() -> Any:
    """pyarrow's module for parquet.

    Raises:
        InputError: if it is not installed.
    """
    try:
        import pyarrow.parquet  # noqa: PLC0415  # of an extra
    except ImportError as error:
        raise InputError(
            f'parquet files need pyarrow ({reason(error)}); install it with: pip install "simlab[logs]"'
        ) from None
    return pyarrow.parquet


def _rows_of(batch: Any, path: Path, before: int, refused: Refusals) -> Iterator[tuple[int, dict[str, Any]]]:
    names = batch.schema.names
    columns = [_values(column) for column in batch.columns]
    for number, values in zip(itertools.count(before + 1), zip(*columns, strict=True), strict=False):
        bad = next((name for name, value in zip(names, values, strict=True) if isinstance(value, _Broken)), None)
        if bad is None:
            yield number, dict(zip(names, values, strict=True))
        else:
            refused.add(path, number, f"{bad} is no UTF-8")


class _Broken:
    """A value that cannot be read."""


def _values(column: Any) -> list[Any]:
    """The values of a column as Python has them; those whose text is no UTF-8 are ``_Broken``."""
    try:
        found: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        return [_value(one) for one in column]
    return found


def _value(one: Any) -> Any:
    try:
        return one.as_py()
    except UnicodeDecodeError:
        return _Broken()
