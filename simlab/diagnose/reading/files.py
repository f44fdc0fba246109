"""Find the files of a log, and read their rows: JSONL, CSV and TSV by the standard library, parquet by pyarrow."""

import csv
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from simlab.diagnose.log import RefusedRows
from simlab.diagnose.reading.layouts import Row, Unreadable, expand_line
from simlab.errors import InputError

COMPLETIONS = "completions"  # where TRL writes them in its output folder
RUN, METRICS, ROLLOUTS, EVALUATIONS = "run.json", "metrics.jsonl", "rollouts.jsonl", "evaluation.jsonl"
ROWS_AT_ONCE = 4096  # of parquet: texts of a few kilobytes each then take some tens of megabytes
LONGEST_FIELD = 2**31 - 1  # characters of a CSV's text
NO_UTF8 = re.compile("[\udc80-\udcff]")  # how Python decodes a byte that is no UTF-8

NumberedRows = Iterator[tuple[int, Row]]  # with the number of the line or row, from 1


def find_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files, in the order given; those of a folder by their names, in which 10 comes after 9."""
    return [file for path in paths for file in _expand_path(path)]


def _expand_path(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        why = "is empty, or no file" if path.exists() else "is not there"
        raise InputError(f"{path} {why}; allowed: a file of a log, or a folder with some")
    files = _find_run_file(path) or _list_folder(path) or _list_folder(path / COMPLETIONS)
    if not files:
        raise InputError(f"{path} has no file of a log; allowed: {', '.join(READERS)}")
    return files


def _list_folder(folder: Path) -> list[Path]:
    files = [path for path in folder.glob("*") if path.suffix.lower() in READERS and path.is_file()]
    return sorted(files, key=lambda path: _natural_key(path.name))


def _natural_key(name: str) -> list[str | int]:
    return [int(text) if number % 2 else text for number, text in enumerate(re.split(r"([0-9]+)", name))]


def _find_run_file(folder: Path) -> list[Path]:
    """Return the file to read of a run of ``simlab train`` with one arm and seed, or of such a folder in it.

    It is ``rollouts.jsonl`` where the run recorded it (``--param record.rollouts=N``), and else ``evaluation.jsonl``.
    A folder that is no run has neither.
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


def read_rows(path: Path, refused: RefusedRows) -> NumberedRows:
    """Yield a row a rollout with the number of its line; a file that cannot be read, or not to its end, is refused."""
    suffix = path.suffix.lower()
    if suffix not in READERS:
        refused.add(path, None, f"its name ends on {suffix!r}; allowed: {', '.join(READERS)}")
        return
    try:
        for number, line in READERS[suffix](path, refused):
            try:
                rows = expand_line(line)
            except Unreadable as why:
                refused.add(path, number, str(why))
                continue
            yield from ((number, row) for row in rows)
    except OSError as error:
        refused.add(path, None, f"it cannot be read: {error.strerror or error}")


def _read_jsonl(path: Path, refused: RefusedRows) -> NumberedRows:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                refused.add(path, number, f"the line is no JSON: {error}")
                continue
            if isinstance(row, dict):
                yield number, row
            else:
                refused.add(path, number, "the line holds no JSON object")


def _read_csv(path: Path, refused: RefusedRows) -> NumberedRows:
    """Yield the texts of each row; the first row has the names. Texts in quotes may hold line breaks."""
    csv.field_size_limit(LONGEST_FIELD)
    names: list[str] = []
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
        while True:
            try:
                row = next(reader, None)
            except csv.Error as error:
                refused.add(path, reader.line_num, str(error))
                continue
            if row is None:
                return
            number, fields = reader.line_num, len(row)
            if any(map(NO_UTF8.search, row)):
                refused.add(path, number, "the row is no UTF-8")
            elif row and not names:
                names = row
                if len(set(names)) < fields:
                    refused.add(path, number, "two columns have one name")
                    return
            elif row and fields != len(names):
                why = f"the row has {fields} fields; allowed: {len(names)}, as the first row has"
                refused.add(path, number, why)
            elif row:
                yield number, dict(zip(names, row, strict=True))


def _read_parquet(path: Path, refused: RefusedRows) -> NumberedRows:
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
        refused.add(path, None, f"{where} is no parquet: {error}")


READERS = {
    ".parquet": _read_parquet,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".csv": _read_csv,
    ".tsv": _read_csv,
}
