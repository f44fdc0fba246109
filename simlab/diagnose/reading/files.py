"""Find the files of a log, read their lines, and recognise whose layout they have: a row a rollout.

TRL (``log_completions=True``; ``GRPOTrainer.log``, TRL 1.16) writes a parquet file at each step that it logs. Several
rewards are summed as they are, for the files do not say ``reward_weights``. Where one generation serves several steps
(``num_iterations``, ``steps_per_generation``) each of them writes its rows again: such a step is left out.

verl (``trainer.rollout_data_dir``; ``_write_generations``, verl 0.9) writes a JSONL file a step. The score is the sum
of the rewards of the tokens; ``--reward acc`` takes the reward function's own column.

simlab: a line of ``rollouts.jsonl`` has the first groups of a step (``simlab.llm.training.groups.rollout_records``), a
line of ``evaluation.jsonl`` how many samples of each problem are right.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from simlab.diagnose.log import RefusedRows
from simlab.errors import InputError

MAY_BE_ABSENT = ("answer", "log_probability", "length")  # from some of the rows
OPTIONAL = ("step", "completion", *MAY_BE_ABSENT)
ROLES = ("prompt", "reward", *OPTIONAL)
COMPLETIONS = "completions"  # where TRL writes them in its output folder
RUN, METRICS, ROLLOUTS, EVALUATIONS = "run.json", "metrics.jsonl", "rollouts.jsonl", "evaluation.jsonl"
ROWS_AT_ONCE = 4096  # of parquet: texts of a few kilobytes each then take some tens of megabytes
LONGEST_FIELD = 2**31 - 1  # characters of a CSV's text
NO_UTF8 = re.compile("[\udc80-\udcff]")  # how Python decodes a byte that is no UTF-8
MOST_SAMPLES = 10**6  # of a problem in an evaluation

Row = Mapping[str, Any]  # the values of a rollout by column
NumberedRows = Iterator[tuple[int, Row]]  # with the number of the line or row, from 1


class Unreadable(Exception):
    """A row that is left out; the message says why."""


class Layout(NamedTuple):
    """The columns of a trainer's logs.

    Attributes:
        columns: the usual column of each role.
        marks: columns by which a file is recognised; a row has all of them.
        rewards_between: two columns between which all columns of floats are rewards.
        repeats: true if a step may hold the rows of the step before once more, as they are.
    """

    name: str
    columns: Mapping[str, str]
    marks: tuple[str, ...]
    rewards_between: tuple[str, str] | None = None
    repeats: bool = False
    note: str = ""

    def rewards(self, row: Row) -> list[str]:
        """Return the reward columns of a row, where there may be several."""
        names = list(row)
        if self.rewards_between is None or not set(self.rewards_between) <= set(names):
            return []
        first, last = map(names.index, self.rewards_between)
        return [name for name in names[first + 1 : last] if isinstance(row[name], float)]


IDENTITY = {role: role for role in ROLES}
ROLLOUT_COLUMNS = IDENTITY | {"completion": "text", "answer": "solution", "log_probability": "logp"}
NO_ROLLOUTS = "the run recorded no rollouts (record.rollouts): these are its evaluations, not what it learned from"
LAYOUTS = (
    Layout(
        "trl",
        {"prompt": "prompt", "completion": "completion", "step": "step"},
        ("step", "prompt", "completion", "advantage"),
        rewards_between=("completion", "advantage"),
        repeats=True,
    ),
    Layout(
        "verl",
        {"prompt": "input", "completion": "output", "reward": "score", "step": "step"},
        ("input", "output", "score", "step"),
    ),
    Layout("simlab", ROLLOUT_COLUMNS, ("step", "prompt", "reward", "rollout", "text")),
    Layout(
        "simlab",
        {"prompt": "prompt", "reward": "reward", "step": "step"},
        ("step", "prompt", "reward", "rollout"),
        note=NO_ROLLOUTS,
    ),
    Layout("table", IDENTITY, ()),
)
NAMES = tuple(dict.fromkeys(layout.name for layout in LAYOUTS))


def recognise_layout(row: Row, name: str | None = None) -> Layout:
    """Return the first layout, of this name if any, that has the columns of a row; or the last of them."""
    allowed = [layout for layout in LAYOUTS if name in (None, layout.name)]
    return next((layout for layout in allowed if row.keys() >= set(layout.marks)), allowed[-1])


def expand_line(line: Row) -> list[Row]:
    """Return one row a rollout: those of a step of ``simlab train``, or else the line itself."""
    try:
        if isinstance(line.get("groups"), list):
            return [
                {"step": line["step"], "prompt": group["prompt"], "rollout": number}
                | {name: rollout[name] for name in ("reward", "text", "solution")}
                | {"logp": sum(rollout["logp"]), "length": len(rollout["logp"])}
                for group in line["groups"]
                for number, rollout in enumerate(group["rollouts"])
            ]
        if not isinstance(line.get("correct"), list) or "samples" not in line:
            return [line]
        samples = line["samples"]
        if not 0 <= min(line["correct"]) <= max(line["correct"]) <= samples <= MOST_SAMPLES:
            raise ValueError
        return [
            {"step": line["step"], "prompt": f"evaluation problem {problem}"}
            | {"rollout": sample, "reward": float(sample < correct)}
            for problem, correct in enumerate(line["correct"])
            for sample in range(samples)
        ]
    except (KeyError, TypeError, AttributeError, ValueError):
        raise Unreadable("the line is no step of simlab train") from None


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
    def natural_key(path: Path) -> list[str | int]:
        return [int(text) if number % 2 else text for number, text in enumerate(re.split(r"([0-9]+)", path.name))]

    files = [path for path in folder.glob("*") if path.suffix.lower() in READERS and path.is_file()]
    return sorted(files, key=natural_key)


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
