"""Which files a user means: files, and folders in which trainers have left some."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from simlab.diagnose.reading.comma_separated import csv_rows
from simlab.diagnose.reading.jsonl import json_rows
from simlab.diagnose.reading.parquet import parquet_rows, pyarrow_parquet
from simlab.diagnose.reading.refusals import Refusals
from simlab.diagnose.reading.simlab_run import SEED_FILES, of_run, run_rows
from simlab.errors import InputError
from simlab.reading import reason

Rows = Callable[[Path, Refusals], Iterator[tuple[int, dict[str, Any]]]]
READERS: dict[str, Rows] = {
    ".parquet": parquet_rows,
    ".jsonl": json_rows,
    ".ndjson": json_rows,
    ".csv": csv_rows,
    ".tsv": csv_rows,
}
BELOW = "completions"  # where TRL writes them in its output folder


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The files, in the order given; those of a folder by their names, in which 10 comes after 9.

    Raises:
        InputError: for a path that is not there, and a folder without a file that can be read.
    """
    return [file for path in paths for file in _files_at(path)]


def _files_at(path: Path) -> list[Path]:
    try:
        if not path.is_dir():
            if not path.exists():
                raise InputError(f"{path} is not there; allowed: a file of a log, or a folder with some")
            return [path]
        found = of_run(path) or _inside(path) or (_inside(path / BELOW) if (path / BELOW).is_dir() else [])
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} cannot be read: {reason(error)}") from None
    if not found:
        raise InputError(f"{path} has no file of a log; allowed: {', '.join(READERS)}")
    return found


def _inside(folder: Path) -> list[Path]:
    found = [path for path in folder.iterdir() if path.suffix.lower() in READERS and not path.is_dir()]
    return sorted(found, key=lambda path: _natural(path.name))


def _natural(name: str) -> list[tuple[int, str]]:
    """A key by which numbers in names are in their order."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]{1,18})", name)]


def rows_of(path: Path, refused: Refusals) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number and the columns of each row; a file that cannot be read, or not to its end, is refused.

    Raises:
        InputError: where the package that the format needs is not installed.
    """
    suffix = path.suffix.lower()
    read = run_rows if path.name in SEED_FILES else READERS.get(suffix)
    if read is None:
        refused.add(path, None, f"its name ends on {suffix!r}; allowed: {', '.join(READERS)}")
        return
    if read is parquet_rows:
        pyarrow_parquet()
    try:
        yield from read(path, refused)
    except InputError as error:
        refused.add(path, None, _without(path, str(error)))
    except OSError as error:
        refused.add(path, None, f"it cannot be read: {reason(error)}")


def _without(path: Path, message: str) -> str:
    """A complaint that begins with the path, without it."""
    return message.removeprefix(f"{path} ")
