"""Find the files of a log and read their records: JSON, CSV, parquet, arrow and events of TensorBoard, also packed.

What a file holds is told by its first bytes. A text that is no UTF-8 is read as UTF-16 where it has its mark or zeros,
and else line by line as Latin-1.
"""

import ast
import contextlib
import csv
import gzip
import io
import itertools
import json
import re
import shlex
import struct
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from simlab.diagnose.log import RefusedRows
from simlab.diagnose.reading.events import read_events
from simlab.diagnose.reading.nesting import ROLLOUT, STEP, unwrap
from simlab.errors import InputError
from simlab.interference.record import FOLDER, Record, read_record
from simlab.seals import Damaged

COMPLETIONS = "completions"  # where TRL writes them in its output folder
RUN, METRICS, ROLLOUTS, EVALUATIONS = "run.json", "metrics.jsonl", "rollouts.jsonl", "evaluation.jsonl"
SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".arrow", ".feather", ".eval")
PACKED = (".gz", ".zst")
EVENTS = "tfevents"
NO_LOGS = {  # files of a run's folder
    "config.json", "metadata.json", "args.json", "run.json", "tokenizer.json", "tokenizer_config.json",
    "generation_config.json", "special_tokens_map.json", "adapter_config.json", "checkpoints.jsonl",
}  # fmt: skip
ROWS_AT_ONCE = 4096  # of parquet: texts of a few kilobytes each then take some tens of megabytes
LONGEST_FIELD = 2**31 - 1  # characters of a CSV's text
CHUNK = 2**20  # characters of a JSON text that are read at once
LONGEST = 2**29  # characters of a line, or of a JSON value: of gzip's zeros, a kilobyte unpacks to a megabyte
MOST_EMPTY = 2**20  # empty lines in turn: gzip packs a thousand of them into a byte
ZSTD = 93  # the method's number in a zip archive
GAP = re.compile(r"[\s,]*")  # between two values
NO_UTF8 = re.compile("[\udc80-\udcff]")  # how Python decodes a byte that is no UTF-8
STEP_IN_NAME = re.compile(
    r"(?:^|[^a-z])(?:global_?)?(step|iter|iteration|completions|batch|checkpoint|version|rollout)s?[-_=]?(\d+)(?:\D|$)"
    r"|^(\d+)$"
)

RECENT = 8  # measurements of a probe that are read: who harms whom changes as a policy learns
ESTIMATORS = ("full", "head")  # of a probe; the first that is there
STREAM, ARROW = b"\xff\xff\xff\xff", b"ARROW1"  # how arrow begins: a stream, as of Hugging Face's datasets, or a file
MARKS = (b"\xff\xfe", b"\xfe\xff")  # of UTF-16
Records = Iterator[tuple[int, Any]]  # with the number of the line or row, from 1


def find_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files, each once, in the order given; those of a folder by their names, in which 10 comes after 9."""
    files: dict[tuple[int, int], Path] = {}
    for file in itertools.chain.from_iterable(map(_expand_path, paths)):
        status = file.stat()
        files.setdefault((status.st_dev, status.st_ino), file)
    return list(files.values())


def _expand_path(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        why = "is empty, or no file" if path.exists() else "is not there"
        raise InputError(f"{path} {why}; allowed: a file of a log, or a folder with some")
    files = _find_run_file(path) or _list_folder(path, "*") or _list_folder(path / COMPLETIONS, "*")
    files = files or _list_folder(path, "**/*")
    if not files:
        raise InputError(f"{path} has no file of a log; allowed: {', '.join(SUFFIXES)}, and events of TensorBoard")
    return files


def _list_folder(folder: Path, pattern: str) -> list[Path]:
    def natural_key(path: Path) -> list[str | int]:
        return [int(text) if number % 2 else text for number, text in enumerate(re.split(r"([0-9]+)", str(path)))]

    def is_log(path: Path) -> bool:
        suffix = (path.with_suffix("") if path.suffix.lower() in PACKED else path).suffix.lower()
        return (suffix in SUFFIXES and path.name not in NO_LOGS) or EVENTS in path.name

    return sorted((path for path in folder.glob(pattern) if is_log(path) and path.is_file()), key=natural_key)


def _find_run_file(folder: Path) -> list[Path]:
    """Return the file to read of a run with one arm and seed: ``rollouts.jsonl``, else ``evaluation.jsonl``."""
    name, parent = folder.resolve().name, folder.resolve().parent.name
    if (folder / RUN).is_file():
        seeds = sorted(folder.glob("arms/*/seed-*"))
    elif parent == "arms":
        seeds = sorted(folder.glob("seed-*"))
    else:
        seeds = [folder] if name.startswith("seed-") else []
    if len(seeds) > 1:
        first = shlex.quote(str(seeds[0]))  # names of arms have brackets, which a shell reads
        raise InputError(f"{folder} has {len(seeds)} arms and seeds; allowed: one of them, such as {first}")
    files = [seed / file for seed in seeds for file in (ROLLOUTS, EVALUATIONS) if (seed / file).is_file()]
    if seeds and not files and (seeds[0] / METRICS).is_file():
        raise InputError(f"{seeds[0]} has neither {ROLLOUTS} nor {EVALUATIONS}; allowed: a run that keeps one of them")
    return files[:1]


def steps_of(files: Sequence[Path]) -> dict[Path, dict[str, int]]:
    """Return the step that the name of each file, or of its folder, says; nothing where they do not differ in it."""
    steps: dict[Path, dict[str, int]] = {}
    for file in files:
        stem = file.name.partition(".")[0]
        if match := STEP_IN_NAME.search(stem.lower()) or STEP_IN_NAME.search(file.parent.name.lower()):
            steps[file] = {ROLLOUT if match[1] == "rollout" else STEP: int(match[2] or match[3])}
    differ = len({tuple(step.items()) for step in steps.values()}) > 1
    return steps if len(steps) == len(files) and differ else {}


def read_probe(paths: Sequence[Path], files: Sequence[Path]) -> tuple[tuple[Record, ...], list[str]]:
    """Read the last measurements of interference by one estimator, by step, and a line for each that is left out.

    They are in the first of the folders that lie in the folders given, beside the files, or beside their folders.
    """
    near = [path for file in files for path in (file.parent, file.parent.parent)]
    for folder in dict.fromkeys(path / FOLDER for path in [*paths, *near]):
        for estimator in ESTIMATORS:
            records, notes = list[Record](), list[str]()
            for path in sorted(folder.glob(f"*.{estimator}.npz"))[-RECENT:]:
                try:
                    records.append(read_record(path))
                except Damaged as why:
                    notes.append(f"a measurement of the probe is left out: {why}")
            if records or notes:
                return tuple(records), notes
    return (), []


def read_records(path: Path, refused: RefusedRows) -> Records:
    """Yield the records of a file; one that cannot be read, or not to its end, is refused."""
    try:
        with _unpack(path) as file:
            start = file.read(2**16)
        with _unpack(path) as file:
            if start.startswith(b"PAR1"):
                table = _pyarrow("parquet files").parquet.ParquetFile(file)
                yield from _batches(table.iter_batches(ROWS_AT_ONCE), path, refused)
            elif start.startswith(STREAM):
                yield from _batches(_pyarrow("arrow files").ipc.open_stream(file), path, refused)
            elif start.startswith(ARROW):
                table = _pyarrow("arrow files").ipc.open_file(file)
                yield from _batches(map(table.get_batch, range(table.num_record_batches)), path, refused)
            elif start.startswith(b"PK\3\4"):
                yield from _read_zip(file, path, refused)
            elif EVENTS in path.name:
                yield from read_events(file, path, refused)
            elif b"\0" in start and b"\0" not in start[1:4:2] + start[:1] and start[:2] not in MARKS:
                refused.add(path, None, "it is binary; allowed: JSON, CSV, parquet, arrow, events of TensorBoard")
            else:
                yield from _read_text(file, start, path, refused)
    except InputError:
        raise
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        refused.add(path, None, f"it cannot be read: {getattr(error, 'strerror', None) or error}")


def _unpack(path: Path) -> io.BufferedIOBase:
    with path.open("rb") as file:
        magic = file.read(4)
    if magic[:2] == b"\x1f\x8b":
        return gzip.open(path)
    if magic == b"\x28\xb5\x2f\xfd":
        stream: io.BufferedIOBase = _pyarrow("files packed by zstd").CompressedInputStream(str(path), "zstd")
        return stream
    return path.open("rb")


def _read_zip(file: Any, path: Path, refused: RefusedRows) -> Records:
    """Yield the records of the files in an archive; of one of inspect's those of its samples."""
    with zipfile.ZipFile(file) as archive:
        names = [name for name in archive.namelist() if Path(name).suffix in SUFFIXES]
        for name in [name for name in names if name.startswith("samples/")] or names:
            content = io.BytesIO(_unzip(archive, archive.getinfo(name)))
            yield from _read_text(content, content.getvalue()[: 2**16], path, refused)


def _unzip(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return the content of a member; inspect packs by zstd, which Python's module knows from 3.14 on."""
    if member.compress_type != ZSTD:
        return archive.read(member)
    packed: Any = archive.fp
    packed.seek(member.header_offset)
    *_, name, extra = struct.unpack("<26xHH", packed.read(30))
    packed.seek(name + extra, io.SEEK_CUR)
    stream = io.BytesIO(packed.read(member.compress_size))
    return bytes(_pyarrow("archives packed by zstd").CompressedInputStream(stream, "zstd").read())


def _pyarrow(what: str) -> Any:
    try:
        import pyarrow  # noqa: PLC0415  # of an extra
        import pyarrow.ipc  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError as error:
        raise InputError(f'{what} need pyarrow ({error}); install it with: pip install "simlab[logs]"') from None
    return pyarrow


def _batches(batches: Iterable[Any], path: Path, refused: RefusedRows) -> Records:
    """Yield the values of each row, a batch at a time; a file that breaks off gives the rows before."""
    number = 0
    try:
        for batch in batches:
            for number, row in enumerate(batch.to_pylist(), number + 1):  # noqa: B020
                yield number, row
    except (OSError, ValueError, MemoryError, KeyError, NotImplementedError) as error:
        refused.add(path, None, f"what comes after row {number} cannot be read: {error}")


def _read_text(file: Any, start: bytes, path: Path, refused: RefusedRows) -> Records:
    encoding = "utf-8-sig"
    if start[:2] in MARKS:
        encoding = "utf-16"
    elif b"\0" in start[:4]:
        encoding = "utf-16-be" if start[:1] == b"\0" else "utf-16-le"
    if encoding != "utf-8-sig":
        refused.notes[f"read as {encoding}"] = path.name
    with io.TextIOWrapper(file, encoding=encoding, errors="surrogateescape", newline="") as lines:
        first = start.decode(encoding, "ignore").lstrip()
        if first[:1] not in ("{", "["):
            yield from _read_csv(lines, path, refused)
        elif _is_json_lines(first):
            yield from _read_jsonl(lines, path, refused)
        else:
            yield from _read_json(lines, first[0] == "[", path, refused)


def _is_json_lines(start: str) -> bool:
    """Return True where the first line is a value, and others follow, or it is no beginning of one."""
    line, end, more = start.partition("\n")
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return bool(end) and not line.rstrip().endswith(("{", "[", ","))
    return bool(more.strip())


def _plain(text: str, path: Path, refused: RefusedRows) -> str:
    """Return a text whose bytes that are no UTF-8 are read as Latin-1."""
    if text.isascii() or not NO_UTF8.search(text):
        return text
    refused.notes["lines that are no UTF-8 are read as Latin-1"] = path.name
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def _bounded(lines: Any) -> Iterator[str]:
    """Yield the lines of a text; ``ValueError`` for one of ``LONGEST`` characters, and for ``MOST_EMPTY`` in turn."""
    empty = 0
    while line := lines.readline(LONGEST):
        empty = empty + 1 if line.isspace() else 0
        if len(line) == LONGEST:
            raise ValueError(f"a line has {LONGEST} characters or more")
        if empty == MOST_EMPTY:
            raise ValueError(f"{MOST_EMPTY} lines in turn are empty")
        yield line


def _read_jsonl(lines: Any, path: Path, refused: RefusedRows) -> Records:
    for number, line in enumerate(_bounded(lines), 1):
        try:
            if line.strip():
                yield number, json.loads(_plain(line, path, refused))
        except (ValueError, RecursionError) as error:
            refused.add(path, number, f"the line is no JSON: {error}")


def _read_json(lines: Any, is_list: bool, path: Path, refused: RefusedRows) -> Records:
    """Yield the items of a list, or the values that stand one after another; a lone object is unwrapped."""
    values = enumerate(_values(lines, is_list, path, refused), 1)
    head = list(itertools.islice(values, 2))
    if len(head) == 1 and isinstance(head[0][1], dict) and not is_list:
        yield from enumerate(unwrap(head[0][1]), 1)
    else:
        yield from itertools.chain(head, values)


def _values(lines: Any, is_list: bool, path: Path, refused: RefusedRows) -> Iterator[Any]:
    """Decode a text value by value, a chunk at a time; a value that is cut off, or none, is refused."""
    decode, text, at, number = json.JSONDecoder().raw_decode, _plain(lines.read(CHUNK), path, refused), 0, 0
    if is_list:
        at = text.index("[") + 1
    while True:
        at = GAP.match(text, at).end()  # type: ignore[union-attr]
        try:
            value, at = decode(text, at)
        except (ValueError, RecursionError) as error:
            chunk = _plain(lines.read(max(CHUNK, len(text))), path, refused)  # ever more, for a long value
            text, at = text[at:] + chunk, 0
            if len(text) > LONGEST:
                raise ValueError(f"a value has more than {LONGEST} characters") from None
            if not chunk and text.strip() in ("", "]"):
                return
            if not chunk:
                refused.add(path, number + 1, f"the value is no JSON, or is cut off: {error}")
                at = text.find("\n") + 1
                if is_list or not at:
                    return
            continue
        number += 1
        yield value


def _read_csv(lines: Any, path: Path, refused: RefusedRows) -> Records:
    """Yield the texts of each row; the first row has the names. Texts in quotes may hold line breaks."""
    csv.field_size_limit(LONGEST_FIELD)
    names: list[str] = []
    header = next(_bounded(lines), "")
    delimiter = max("\t,;", key=header.count)
    reader = csv.reader(itertools.chain([header], _bounded(lines)), delimiter=delimiter, strict=True)
    while True:
        try:
            for row in reader:
                cells = [_plain(cell, path, refused) for cell in row]
                if cells and not names:
                    names = cells
                    if len(set(names)) < len(cells):
                        refused.add(path, reader.line_num, "two columns have one name")
                        return
                elif cells and len(cells) != len(names):
                    why = f"the row has {len(cells)} fields; allowed: {len(names)}, as the first row has"
                    refused.add(path, reader.line_num, why)
                elif cells:
                    yield reader.line_num, dict(zip(names, map(_parse_cell, cells), strict=True))
            return
        except csv.Error as error:
            refused.add(path, reader.line_num, str(error))


def _parse_cell(text: str) -> Any:
    """Return the list or object that a cell holds as JSON, or its text."""
    if text[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                return ast.literal_eval(text)  # as Python writes a list
    return text
