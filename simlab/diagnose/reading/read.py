"""Read the logs of a training run, whichever trainer wrote them, as the groups of a ``Log``."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from simlab.diagnose.log import Log
from simlab.diagnose.reading.files import files_of, rows_of
from simlab.diagnose.reading.gather import ROWS_AT_ONCE, Gatherer
from simlab.diagnose.reading.layouts import Format, layout_of
from simlab.diagnose.reading.refusals import Refusals
from simlab.diagnose.reading.rollouts import Rollouts
from simlab.diagnose.reading.simlab_run import SIMLAB, SIMLAB_EVALUATIONS
from simlab.diagnose.reading.table import TABLE
from simlab.diagnose.reading.trl import TRL
from simlab.diagnose.reading.values import Unreadable
from simlab.diagnose.reading.verl import VERL
from simlab.errors import InputError, check_choice

NO_ANSWERS = "there is neither a column of answers nor one of completions"
FORMATS = (TRL, VERL, SIMLAB, SIMLAB_EVALUATIONS, TABLE)
NAMES = tuple(dict.fromkeys(form.name for form in FORMATS))


@dataclasses.dataclass(frozen=True)
class Reading:
    """A log, and how it was read.

    Attributes:
        log: the groups.
        files: how many there were.
        mean_reward: the mean reward of the rows, before the threshold.
        reward: what was taken for the reward, in words.
        answer: what was taken for an answer, in words.
        notes: what else a reader should know.
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
    """The groups of a run: the rows of one prompt at one step.

    Args:
        paths: files, and folders of them.
        form: what wrote them, one of ``NAMES``; None to tell by the columns of the first row.
        columns: the column of each role (``layouts.ROLES``), where it is not the format's own.
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
    files, refused, gatherer = files_of(paths), Refusals(), Gatherer(rows_at_once)
    rollouts = None
    for path in files:
        for number, row in rows_of(path, refused):
            try:
                if rollouts is None:
                    rollouts = Rollouts(layout_of(format_of(row, form), row, columns, reward), threshold, answer)
                gatherer.add(rollouts.row(row))
            except Unreadable as why:
                refused.add(path, number, str(why))
    if rollouts is None or not rollouts.rewards.rows:
        raise InputError(f"no row can be read: {refused.first[0] if refused.first else f'{files[0]} has none'}")
    return _reading(rollouts, gatherer, refused, len(files))


def format_of(row: Mapping[str, object], name: str | None = None) -> Format:
    """The first format, of this name if one is given, that has the columns of a row; or the last of them."""
    allowed = [form for form in FORMATS if name in (None, form.name)]
    return next((form for form in allowed if form.marks <= row.keys()), allowed[-1])


def _reading(rollouts: Rollouts, gatherer: Gatherer, refused: Refusals, files: int) -> Reading:
    rewards, layout = rollouts.rewards, rollouts.layout
    rewards.check()
    if rollouts.unseen:
        raise InputError(f"--columns names {min(rollouts.unseen)!r}, which no row has; allowed: columns of the log")
    log, mean_reward, repeated = gatherer.log(layout.format.name, answers=rollouts.answers is not None)
    notes = [layout.format.note] if layout.format.note else []
    if repeated:
        notes.append(f"steps that repeat the rollouts of the step before, and are left out: {repeated}")
    if log.answers is not None and (untold := log.correct.sum() - log.answers.count.sum()):
        notes.append(f"correct rollouts without an answer, which are no solutions: {untold}")
    if "step" not in layout.columns:
        notes.append("no column tells the step: all rows of a prompt are one group")
    columns = " + ".join(layout.rewards)
    least = "1 is correct" if rewards.threshold is None else f"{rewards.threshold:g} or more is correct"
    return Reading(
        dataclasses.replace(log, refused=refused.found()),
        files,
        mean_reward,
        f"{columns}, of which {least}",
        NO_ANSWERS if rollouts.answers is None else f"{rollouts.answers.in_words}, in column {rollouts.answers.column}",
        tuple(notes),
    )
