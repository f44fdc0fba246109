"""Find the files of a log, and read their rows: JSONL, CSV and TSV by the standard library, parquet by pyarrow."""

import csv
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from simlab.diagnose.log import RefusedRows
from simlab.errors import InputError, one_line

SUFFIXES = (".parquet", ".jsonl", ".ndjson", ".csv", ".tsv")
COMPLETIONS = "completions"  # where TRL writes them in its output folder
RUN, METRICS, ROLLOUTS, EVALUATIONS = "run.json", "metrics.jsonl", "rollouts.jsonl", "evaluation.jsonl"
ROWS_AT_ONCE = 4096  # of parquet: texts of a few kilobytes each then take some tens of megabytes
LONGEST_FIELD = 2**31 - 1  # characters of a CSV's text
COMPLAINTS = 5  # refused rows that are named
NO_UTF8 = re.compile("[\udc80-\udcff]")  # how Python decodes a byte that is no UTF-8

NumberedRow = tuple[int, dict[str, Any]]  # the number of the line or row, from 1, and its values by column


class Refusals:
    """Rows and files that were left out: how many, and why the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[str] = []

    def add(self, path: str | os.PathLike, line: int | None, why: str) -> None:
        """Count one; ``line`` is None where a file is left out."""
        self.count += 1
        if len(self.first) < COMPLAINTS:
            self.first.append(one_line(f"{path}: {why}" if line is None else f"{path}:{line}: {why}"))

    def result(self) -> RefusedRows:
        """Return the entry of a ``Log``."""
        return RefusedRows(self.count, tuple(self.first))


def find_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files, in the order given; those of a folder by their names, in which 10 comes after 9.

    Raises:
        InputError: for a path that is not there, a folder without a log, and a run of several arms or seeds.
    """
    return [file for path in paths for file in _expand_path(path)]


def _expand_path(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(f"{path} is not there; allowed: a file of a log, or a folder with some")
    files = _find_run_file(path) or _list_folder(path) or _list_folder(path / COMPLETIONS)
    if not files:
        raise InputError(f"{path} has no file of a log; allowed: {', '.join(SUFFIXES)}")
    return files


def _list_folder(folder: Path) -> list[Path]:
    files = [path for path in folder.glob("*") if path.suffix.lower() in SUFFIXES and path.is_file()]
    return sorted(files, key=lambda path: _natural_key(path.name))


def _natural_key(name: str) -> list[str | int]:
    """Return texts and numbers in turn, so that 10 comes after 9."""
    return [int(text) if number % 2 else text for number, text in enumerate(re.split(r"([0-9]+)", name))]


def _find_run_file(folder: Path) -> list[Path]:
    """Return the file to read of a run of ``simlab train`` with one arm and seed, or of such a folder in it.

    It is ``rollouts.jsonl``, a line a step with the first groups of its batch, where the run recorded it
    (``--param record.rollouts=N``), and else ``evaluation.jsonl``: how many samples of each evaluation problem are
    right. A folder that is no run has neither.
    """
    name, parent = folder.resolve().name, folder.resolve().parent.name
    if (folder / RUN).is_file():
        seeds = sorted(folder.glob("arms/*/seed-*"))
    elif parent == "arms":
        seeds = sorted(folder.glob("seed-*"))
    else:
        seeds = [folder] if name.startswith("seed-") else []
    if len(seeds) > 1:
        raise InputError(f"{folder} has {len(seeds)} arms and seeds; allowed: one of them, such as {seeds[0]}")
    files = [seed / file for seed in seeds for file in (ROLLOUTS, EVALUATIONS) if (seed / file).is_file()]
    if seeds and not files and (seeds[0] / METRICS).is_file():
        raise InputError(f"{seeds[0]} has neither {ROLLOUTS} nor {EVALUATIONS}; allowed: a run that keeps one of them")
    return files[:1]


def read_rows(path: Path, refusals: Refusals) -> Iterator[NumberedRow]:
    """Yield the rows of a file; a file that cannot be read, or not to its end, is refused.

    Raises:
        InputError: where pyarrow is needed and not installed.
    """
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            yield from _read_parquet(path, refusals)
        elif suffix in (".csv", ".tsv"):
            yield from _read_csv(path, "\t" if suffix == ".tsv" else ",", refusals)
        elif suffix in (".jsonl", ".ndjson"):
            yield from _read_jsonl(path, refusals)
        else:
            refusals.add(path, None, f"its name ends on {suffix!r}; allowed: {', '.join(SUFFIXES)}")
    except OSError as error:
        refusals.add(path, None, f"it cannot be read: {error.strerror or error}")


def _read_jsonl(path: Path, refusals: Refusals) -> Iterator[NumberedRow]:
    """Yield the object of each line; empty lines are passed over."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                refusals.add(path, number, f"the line is no JSON: {error}")
                continue
            if isinstance(row, dict):
                yield number, row
            else:
                refusals.add(path, number, "the line holds no JSON object")


def _read_csv(path: Path, delimiter: str, refusals: Refusals) -> Iterator[NumberedRow]:
    """Yield the texts of each row; the first row has the names. Texts in quotes may hold line breaks."""
    csv.field_size_limit(LONGEST_FIELD)
    names: list[str] | None = None
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                refusals.add(path, reader.line_num, str(error))
                continue
            number = reader.line_num
            if not row:
                continue
            if any(map(NO_UTF8.search, row)):
                refusals.add(path, number, "the row is no UTF-8")
            elif names is None:
                names = row
                if len(set(names)) < len(names):
                    refusals.add(path, number, "two columns have one name")
                    return
            elif len(row) != len(names):
                refusals.add(
                    path, number, f"the row has {len(row)} fields; allowed: {len(names)}, as the first row has"
                )
            else:
                yield number, dict(zip(names, row, strict=True))


def _read_parquet(path: Path, refusals: Refusals) -> Iterator[NumberedRow]:
    """Yield the values of each row, a batch at a time; a file that breaks off gives the rows before."""
    try:
        import pyarrow.parquet  # noqa: PLC0415  # of an extra
    except ImportError as error:
        raise InputError(f'parquet files need pyarrow ({error}); install it with: pip install "simlab[logs]"') from None
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(ROWS_AT_ONCE):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (OSError, ValueError, MemoryError, KeyError, NotImplementedError) as error:
        where = f"what comes after row {number}" if number else "the file"
        refusals.add(path, None, f"{where} is no parquet: {error}")
