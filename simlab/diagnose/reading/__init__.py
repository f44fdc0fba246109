"""Read the logs of a training run, whichever trainer wrote them, as the groups of a ``Log``.

The way of the data: ``files`` finds files and reads their lines, ``layouts`` recognises the trainer and makes one row a
rollout, ``columns`` reads the columns of a row by their roles, and ``gather`` adds rows up to groups.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from simlab.diagnose.log import Log
from simlab.diagnose.reading.columns import RowReader, Unreadable
from simlab.diagnose.reading.files import Refusals, find_files, read_rows
from simlab.diagnose.reading.gather import ROWS_AT_ONCE, Gatherer
from simlab.diagnose.reading.layouts import NAMES, expand_line, recognise_format
from simlab.errors import InputError, check_choice

__all__ = ["Reading", "read_log"]

NO_ANSWERS = "there is neither a column of answers nor one of completions"


@dataclasses.dataclass(frozen=True)
class Reading:
    """A log, and how it was read.

    Attributes:
        log: the groups.
        files: how many there were.
        mean_reward: the mean reward of the rows, before the threshold.
        reward: the columns and the threshold of the reward, in words.
        answer: the source of the answers, in words.
        notes: remarks for the reader.
    """

    log: Log
    files: int
    mean_reward: float
    reward: str
    answer: str
    notes: tuple[str, ...]


def read_log(
    paths: Sequence[Path],
    *,
    form: str | None = None,
    columns: Mapping[str, str] | None = None,
    reward: str | None = None,
    threshold: float | None = None,
    answer: str | None = None,
    rows_at_once: int = ROWS_AT_ONCE,
) -> Reading:
    """Read the groups of a run: the rows of one prompt at one step.

    Args:
        paths: files, and folders of them.
        form: the trainer that wrote them, one of ``layouts.NAMES``; None to recognise it by the first row's columns.
        columns: the column of each role (``columns.ROLES``), where it is not the format's own.
        reward: the column of the reward; by default, the sum of those that there are.
        threshold: a rollout is correct if its reward is at least this; not needed where all rewards are 0 or 1.
        answer: ``FILE.py:NAME``, a function that gives the canonical form of a completion.
        rows_at_once: the number of rows that are added up at a time; the log does not depend on it.

    Raises:
        InputError: for a path or a column that is not there, graded rewards without a threshold, and files of which
            no row can be read.
    """
    if form is not None:
        check_choice("--format", form, NAMES)
    files, refusals, gatherer = find_files(paths), Refusals(), Gatherer(rows_at_once)
    reader = None
    for path in files:
        for number, row in _rollout_rows(path, refusals):
            try:
                if reader is None:
                    recognised = recognise_format(row, form)
                    reader = RowReader(
                        recognised, row, columns=columns, reward=reward, threshold=threshold, function=answer
                    )
                gatherer.add(reader.read(row))
            except Unreadable as why:
                refusals.add(path, number, str(why))
    if reader is None or not reader.rows:
        raise InputError(f"no row can be read: {refusals.first[0] if refusals.first else f'{files[0]} has none'}")
    reader.check_rewards()
    if reader.absent:
        raise InputError(f"--columns names {min(reader.absent)!r}, which no row has; allowed: columns of the log")
    return _describe(reader, gatherer, refusals, len(files))


def _rollout_rows(path: Path, refusals: Refusals) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the number of the line and a row of each rollout."""
    for number, line in read_rows(path, refusals):
        try:
            for row in expand_line(line):
                yield number, row
        except Unreadable as why:
            refusals.add(path, number, str(why))


def _describe(reader: RowReader, gatherer: Gatherer, refusals: Refusals, files: int) -> Reading:
    has_answers = reader.answer_column is not None
    log, mean_reward, repeated = gatherer.log(reader.format.name, answers=has_answers)
    notes = [reader.format.note] if reader.format.note else []
    if repeated:
        notes.append(f"steps that repeat the rollouts of the step before, and are left out: {repeated}")
    if log.answers is not None and (unanswered := log.correct.sum() - log.answers.count.sum()):
        notes.append(f"correct rollouts without an answer, which are no solutions: {unanswered}")
    if "step" not in reader.columns:
        notes.append("no column tells the step: all rows of a prompt are one group")
    least = "1 is correct" if reader.threshold is None else f"{reader.threshold:g} or more is correct"
    return Reading(
        dataclasses.replace(log, refused=refusals.result()),
        files,
        mean_reward,
        f"{' + '.join(reader.rewards)}, of which {least}",
        f"{reader.answer_rule}, in column {reader.answer_column}" if has_answers else NO_ANSWERS,
        tuple(notes),
    )
