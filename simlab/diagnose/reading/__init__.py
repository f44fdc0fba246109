"""Read the logs of a training run, whichever trainer wrote them, as the groups of a ``Log``; a row takes 49 bytes."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simlab.diagnose.log import Log, RefusedRows
from simlab.diagnose.reading.columns import LogReader
from simlab.diagnose.reading.files import NAMES, Unreadable, find_files, read_rows, recognise_layout
from simlab.errors import InputError, check_choice

__all__ = ["Reading", "read_log"]

NO_ANSWERS = "there is neither a column of answers nor one of completions"


@dataclasses.dataclass(frozen=True)
class Reading:
    """A log, and how it was read.

    Attributes:
        files: how many there were.
        mean_reward: of the rows, before the threshold.
        reward, answer: the columns, threshold and source, in words.
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
) -> Reading:
    """Read the groups of a run: the rows of one prompt at one step.

    Args:
        paths: files, and folders of them.
        form: the trainer that wrote them, one of ``files.NAMES``; None to recognise it by the first row's columns.
        columns: the column of each role (``files.ROLES``), where it is not the layout's own.
        reward: the column of the reward; by default, the sum of those that there are.
        threshold: a rollout is correct if its reward is at least this; not needed where all rewards are 0 or 1.
        answer: ``FILE.py:NAME``, a function that gives the canonical form of a completion.

    Raises:
        InputError: for a path or column that is not there, graded rewards without a threshold, and no readable row.
    """
    if form is not None:
        check_choice("--format", form, NAMES)
    files, refused, reader = find_files(paths), RefusedRows(), None
    options: dict[str, Any] = {"columns": columns, "reward": reward, "threshold": threshold, "function": answer}
    for path in files:
        for number, row in read_rows(path, refused):
            try:
                reader = reader or LogReader(recognise_layout(row, form), row, **options)
                reader.add(row)
            except Unreadable as why:
                refused.add(path, number, str(why))
    if reader is None or not reader.rows:
        raise InputError(f"no row can be read: {refused.first[0] if refused.first else f'{files[0]} has none'}")
    reader.check_rewards()
    if reader.absent:
        raise InputError(f"--columns names {min(reader.absent)!r}, which no row has; allowed: columns of the log")
    has_answers = reader.answer_column is not None
    log, mean_reward, repeated = reader.log(refused)
    notes = [reader.layout.note] if reader.layout.note else []
    if repeated:
        notes.append(f"steps that repeat the rollouts of the step before, and are left out: {repeated}")
    if log.answers is not None and (unanswered := log.correct.sum() - log.answers.count.sum()):
        notes.append(f"correct rollouts without an answer, which are no solutions: {unanswered}")
    if "step" not in reader.columns:
        notes.append("no column tells the step: all rows of a prompt are one group")
    least = "1 is correct" if reader.threshold is None else f"{reader.threshold:g} or more is correct"
    rewards = f"{' + '.join(reader.rewards)}, of which {least}"
    answers = f"{reader.answer_rule}, in column {reader.answer_column}" if has_answers else NO_ANSWERS
    return Reading(log, len(files), mean_reward, rewards, answers, tuple(notes))
