"""Read the logs of a training run, whoever wrote them: rollouts as groups and columns, or metrics over steps."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simlab.diagnose.log import Log, RefusedRows
from simlab.diagnose.reading.answers import FROM_COMPLETIONS, from_completion, load_function
from simlab.diagnose.reading.cells import Row, Unreadable
from simlab.diagnose.reading.columns import NO_COLUMNS, Chooser, Columns
from simlab.diagnose.reading.files import EVALUATIONS, find_files, read_probe, read_records, steps_of
from simlab.diagnose.reading.metrics import Metrics, is_metrics, read_metrics
from simlab.diagnose.reading.names import TO_NAME
from simlab.diagnose.reading.nesting import ROLLOUT, STEP, expand
from simlab.diagnose.reading.table import LoggedRollouts, Table
from simlab.errors import InputError
from simlab.interference.record import Record

__all__ = ["LoggedRollouts", "Metrics", "Reading", "read_log", "read_logs"]

NO_ANSWERS = "there is neither a column of answers nor one of completions"
NO_ROLLOUTS = "the run recorded no rollouts (record.rollouts): these are its evaluations, not what it learned from"
LOOKED_AT = 2000  # rows of a file by which columns are chosen
MANY_REFUSED = 0.1  # share of rows that cannot be read of which a report begins
MOST_REFUSED = 0.5  # share of them above which the command fails
MARKS = {  # columns by which the trainer is told whose commands are given
    "trl": {"step", "prompt", "completion", "advantage"},
    "verl": {"input", "output", "score", "step"},
    "simlab": {"step", "prompt", "text", "reward", "solution", "logp"},
}


@dataclasses.dataclass(frozen=True)
class Reading:
    """A log of rollouts, and how it was read.

    Attributes:
        log: its groups.
        rollouts: its rollouts in columns.
        columns: by role, where each of them came from.
        files: how many there were.
        mean_reward: of the rows, before the threshold.
        reward, answer, guessed: the columns, threshold and source, in words.
        warnings: what makes the report doubtful, to be read first.
        unscored: how many rollouts had no reward, and were left out.
        probe: the last measurements of how prompts move one another, where the trainer wrote some.
    """

    log: Log
    rollouts: LoggedRollouts
    columns: Columns
    files: int
    mean_reward: float
    reward: str
    answer: str
    guessed: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    unscored: int = 0
    probe: tuple[Record, ...] = ()

    @property
    def refused_share(self) -> float:
        """The share of rows that could not be read."""
        return self.log.refused.count / (self.log.refused.count + len(self.rollouts.group))


def read_log(paths: Sequence[Path], **options: Any) -> Reading:
    """Read rollouts; as ``read_logs``, but metrics are refused."""
    reading = read_logs(paths, **options)
    if isinstance(reading, Metrics):
        raise InputError(f"{paths[0]} holds metrics; allowed: a log of rollouts")
    return reading


def read_logs(
    paths: Sequence[Path],
    *,
    columns: Mapping[str, str] | None = None,
    reward: str | None = None,
    threshold: float | None = None,
    answer: str | None = None,
) -> Reading | Metrics:
    """Read the rollouts of a run, or where no file has any, its metrics.

    Args:
        paths: files, and folders of them.
        columns: the column of each role (``names.TO_NAME``), where it is not the one that would be chosen.
        reward: the column of the reward; by default one that is known, or the sum of those of its parts.
        threshold: a rollout is correct if its reward is at least this; not needed where rewards are two values, or a
            column says it.
        answer: ``FILE.py:NAME``, a function that gives the canonical form of a completion.

    Raises:
        InputError: for a path or column that is not there, a prompt or reward that cannot be told, graded rewards
            without a threshold, and no readable row.
    """
    named = dict(columns or {})
    if reward is not None and named.setdefault("reward", reward) != reward:
        raise InputError(f"--reward {reward} and --columns reward={named['reward']} differ; allowed: one of them")
    for role in named:
        if role not in TO_NAME:
            raise InputError(f"--columns names {role!r}; allowed: {', '.join(TO_NAME)}, such as prompt=question")
    files, refused = find_files(paths), RefusedRows()
    table = Table(threshold, load_function(answer) if answer else from_completion, is_own=answer is not None)
    kinds, metrics = _read_files(files, table, named, refused)
    if metrics and not table.rows:
        return read_metrics(itertools.chain.from_iterable(metrics), len(metrics))
    if not table.rows:
        none = "all of them lack a reward" if table.unscored else f"{files[0]} has none"
        raise InputError(f"no row can be read: {refused.first[0] if refused.first else none}")
    kind = max(kinds, key=lambda kind: kind.rows)
    form = next((name for name, marks in MARKS.items() if marks <= kind.names), "table")
    table.check_rewards(kind.columns)
    log, rollouts, left_out = table.finish(form, refused)
    probe, damaged = read_probe(paths, files)
    notes = [NO_ROLLOUTS] if any(path.name == EVALUATIONS for path in files) else []
    notes += [f"files of metrics beside the rollouts, left out: {len(metrics)}"] if metrics else []
    notes += [*left_out, *(f"{what}: {name}" for what, name in refused.notes.items())]
    notes += _notes(table, log, kind.columns)
    return Reading(
        log=log,
        rollouts=rollouts,
        columns=kind.columns,
        files=len(files),
        mean_reward=float(rollouts.reward.mean()),
        reward=f"{' + '.join(kind.columns.rewards)}, of which {table.rule}",
        answer=_describe_answers(log, kind.columns, answer),
        guessed=f"read {kind.columns.describe()} (change: --columns ROLE=NAME)",
        notes=tuple(notes),
        warnings=(*damaged, *_warnings(log, kind.columns, len(rollouts.group), table.unscored)),
        unscored=table.unscored,
        probe=probe,
    )


@dataclasses.dataclass
class _Kind:
    """Files whose records have the same keys: their columns, and the rows that wait until these are chosen."""

    table: Table
    refused: RefusedRows
    columns: Columns = NO_COLUMNS
    names: frozenset[str] = frozenset()
    waiting: list[tuple[Path, int, Row]] = dataclasses.field(default_factory=list)
    rows: int = 0

    def add(self, rows: Iterable[tuple[Path, int, Row]]) -> None:
        for path, number, row in rows:
            self.rows += 1
            try:
                self.table.add(row, self.columns, path)
            except Unreadable as why:
                self.refused.add(path, number, str(why))

    def choose(self, named: Mapping[str, str], *, is_alone: bool) -> None:
        """Choose the columns by the rows that wait, and add these; of several files, one without such is left out."""
        waiting, self.waiting = self.waiting, []
        rows = [row for _, _, row in waiting]
        try:
            if self.columns is NO_COLUMNS:
                self.columns = Chooser(rows, named).choose()
                self.names = frozenset(itertools.chain.from_iterable(rows))
            self.add(waiting)
        except InputError as why:
            if is_alone:
                raise
            if len(waiting) == 1:  # the summary that evaluations write beside their samples
                self.refused.notes["a file of one record without rollouts is left out"] = waiting[0][0].name
                return
            for path in dict.fromkeys(path for path, _, _ in waiting):
                self.refused.add(path, None, str(why))


def _read_files(
    files: Sequence[Path], table: Table, named: Mapping[str, str], refused: RefusedRows
) -> tuple[list[_Kind], list[list[Row]]]:
    """Read rollouts into the table; return the kinds of their files, and the rows of each file of metrics."""
    kinds: dict[frozenset[str], _Kind] = {}
    metrics, in_names, is_alone = [], steps_of(files), len(files) == 1
    for path in files:
        rows = _of_one_filter(_rows(path, refused, in_names.get(path, {})), refused)
        head = list(itertools.islice(rows, LOOKED_AT))
        if not named and is_metrics([row for _, _, row in head]):
            metrics.append([row for _, _, row in itertools.chain(head, rows)])
            continue
        keys = frozenset(name.partition(".")[0] for _, _, row in head for name in row)
        kind = kinds.setdefault(keys, _Kind(table, refused))
        kind.waiting += head
        if len(kind.waiting) >= LOOKED_AT:  # else the file has no more rows
            kind.choose(named, is_alone=is_alone)
            if kind.columns is not NO_COLUMNS:
                kind.add(rows)
    for kind in kinds.values():
        if kind.waiting:
            kind.choose(named, is_alone=is_alone)
    return list(kinds.values()), metrics


def _rows(path: Path, refused: RefusedRows, in_name: Mapping[str, int]) -> Iterator[tuple[Path, int, Row]]:
    """Yield the flat rows of a file, with the number of their record."""
    for number, record in read_records(path, refused):
        if not isinstance(record, dict) and not (isinstance(record, list) and all(isinstance(r, dict) for r in record)):
            refused.add(path, number, "the record is no JSON object")
            continue
        try:
            for row in expand(record, number):
                row.update(in_name)
                yield path, number, row
        except RecursionError:
            refused.add(path, number, "the record is nested too deeply")


def _of_one_filter(rows: Iterable[tuple[Path, int, Row]], refused: RefusedRows) -> Iterator[tuple[Path, int, Row]]:
    """Leave out what lm-evaluation-harness repeats: each filter of answers judges the same completions."""
    kind = None
    for path, number, row in rows:
        kind = kind or (row.get("filter") if "filtered_resps" in row else None)
        if kind is None or row.get("filter") == kind:
            yield path, number, row
        else:
            refused.notes[f"rows of other filters than {kind!r} are left out"] = path.name


def _notes(table: Table, log: Log, columns: Columns) -> Iterator[str]:
    if table.unscored:
        yield f"rollouts without a reward, left out: {table.unscored:,}"
    if log.answers is not None and (unanswered := log.correct.sum() - log.answers.count.sum()):
        yield f"correct rollouts without an answer, which are no solutions: {unanswered}"
    if columns.of.get("step", STEP) in (STEP, ROLLOUT):
        in_names = "step" in columns.of
        steps = "steps are those in the names of the files" if in_names else "all rows of a prompt are one group"
        yield f"no column tells the step: {steps}"


def _describe_answers(log: Log, columns: Columns, function: str | None) -> str:
    if log.answers is None:
        return NO_ANSWERS
    if "answer" in columns.of and function is None:
        return f"as it stands, in column {columns.of['answer']}"
    return f"{function or FROM_COMPLETIONS}, in column {columns.of.get('completion')}"


def _warnings(log: Log, columns: Columns, rows: int, unscored: int) -> Iterator[str]:
    refused = log.refused
    if refused.count > MANY_REFUSED * (refused.count + rows):
        yield f"{refused.count:,} of {refused.count + rows:,} rows cannot be read: {refused.first[0]}"
    if unscored > MANY_REFUSED * (unscored + rows):
        yield f"{unscored:,} of {unscored + rows:,} rows have no reward, and are left out: is it missing or NaN?"
    if columns.no_step:
        yield f"all rows of a prompt are one group, since {columns.no_step}; needed: --columns step=NAME"
    sizes, counts = np.unique(log.group_size, return_counts=True)
    usual = int(sizes[np.argmax(counts)])
    larger = (log.group_size > usual) & (log.group_size % usual == 0)
    if usual > 1 and larger.any() and "group" not in columns.of:
        yield (
            f"{larger.sum():,} of {len(log.step):,} groups hold a multiple of the usual {usual} rollouts: one prompt "
            "may be in a step more than once; needed: --columns group=NAME, a column of ids of groups"
        )
