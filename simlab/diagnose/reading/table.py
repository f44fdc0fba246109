"""Gather the rows of a log into columns of numbers; a text is kept as its hash, and a prompt's first characters."""

import dataclasses
import functools
import itertools
import math
import operator
from array import array
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from simlab.diagnose.log import NO_ANSWER, Log, RefusedRows, gather
from simlab.diagnose.reading.answers import answer_hash, digest, plain_answer
from simlab.diagnose.reading.cells import (
    SUMS,
    Row,
    Unreadable,
    is_absent,
    json_text,
    message_text,
    ratio_sums,
    read_last,
    read_length,
    read_mean,
    read_number,
    read_sum,
    read_truncated,
    read_whole,
    shown,
    split_chat,
)
from simlab.diagnose.reading.columns import Columns
from simlab.errors import InputError

ROUNDING = 1e-2  # nats by which the rounded log-probability of a sure rollout may lie above 0
LOOKED_AT = 10_000  # rows of graded rewards after which a threshold is asked for
NAMED = 6  # rewards that are named then
PROMPT_SHOWN = 80  # characters of a prompt that are recorded


@dataclasses.dataclass(frozen=True)
class LoggedRollouts:
    """The rollouts of a log in columns, (N,) each; None where the log has no such column, NaN in an empty cell.

    Attributes:
        group: the row of the ``Log`` that holds the rollout's group.
        step, prompt: of that group.
        reward: the sum of the reward's columns.
        correct: true for a right rollout.
        answer: hash of the canonical answer, ``NO_ANSWER`` for none.
        components: parts of the reward and other scores by column.
        length: tokens.
        truncated: 1 for a rollout that was cut off.
        log_probability, sampler_log_probability: of the whole rollout, in nats, under trainer and sampler.
        entropy: nats a token.
        task: number in ``tasks``, -1 for none.
        token_ratios: the ``cells.SUMS`` over the tokens of a rollout, where both log-probabilities are of tokens.
        prompt_hashes: of the whole texts, by the number of the prompt.
    """

    group: np.ndarray
    step: np.ndarray
    prompt: np.ndarray
    reward: np.ndarray
    correct: np.ndarray
    answer: np.ndarray | None
    components: dict[str, np.ndarray]
    length: np.ndarray | None = None
    truncated: np.ndarray | None = None
    advantage: np.ndarray | None = None
    log_probability: np.ndarray | None = None
    sampler_log_probability: np.ndarray | None = None
    entropy: np.ndarray | None = None
    task: np.ndarray | None = None
    tasks: tuple[str, ...] = ()
    token_ratios: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    prompt_hashes: tuple[int, ...] = ()


OF_TOKENS = ("log_probability", "sampler_log_probability", "mask")  # columns that may hold a list
READERS = {"truncated": read_truncated, "length": read_length, "advantage": read_last, "entropy": read_mean}
OPTIONAL = ("length", "truncated", "advantage", "log_probability", "sampler_log_probability", "entropy", "task")


class Table:
    """Rows that are added one by one."""

    def __init__(self, threshold: float | None, canonical: Callable[[str], str | None], *, is_own: bool):
        self.threshold, self._canonical, self._is_own = threshold, canonical, is_own
        self.rows, self.unscored, self.rule = 0, 0, ""
        self.different: set[float] = set()  # rewards, up to NAMED and one more
        self.has_verdicts = self.has_answers = False
        self._files: dict[Path, int] = {}
        self._prompts: dict[int, int] = {}
        self.titles: list[str] = []
        self._tasks: dict[str, int] = {}
        self._whole = {name: array("q") for name in ("file", "step", "prompt", "key")}
        self._answer = array("Q")
        self._real: dict[str, array[float]] = {}
        self._parts: dict[str, array[float]] = {}
        self._contents: dict[int, int] = defaultdict(int)  # by step, the sum of hashes: that of its rows in any order

    def add(self, row: Row, columns: Columns, path: Path) -> None:
        """Add a rollout; one without a reward is counted, and a cell that cannot be read is ``Unreadable``."""
        of = columns.of
        cells = [(name, row[name]) for name in columns.rewards if not is_absent(row.get(name))]
        if not cells and any(name in row for name in columns.rewards):
            self.unscored += 1
            return
        if not cells:
            raise Unreadable(f"no column {columns.rewards[0]!r} for the reward")
        # Term by term, as trainers add: since Python 3.12 sum() rounds but once.
        reward = functools.reduce(operator.add, (read_number(cell, name) for name, cell in cells))
        step = read_whole(row.get(of["step"]), "step") if "step" in of else 0
        prompt, completion = _texts(row, columns)
        real = {role: self._read(role, row, of) for role in OPTIONAL if role in of}
        if real.get("log_probability", 0) > ROUNDING:
            raise Unreadable(f"log_probability is {real['log_probability']:g}; allowed: up to 0, in nats")
        trainer, sampler, mask = (row.get(of.get(role, "")) for role in OF_TOKENS)
        real |= ratio_sums(trainer, sampler, mask) | {"reward": reward, "correct": self._verdict(row, of)}
        answer = self._answer_of(row, of, completion)
        parts = {name: read_number(row[name], name) for name in columns.components if not is_absent(row.get(name))}
        key = digest(_as_text(row.get(of["group"]), "group"), 8) >> 1 if "group" in of else 0
        number = self._prompts.setdefault(digest(_as_text(prompt, "prompt"), 16), len(self.titles))
        if number == len(self.titles):
            self.titles.append(_title(prompt)[:PROMPT_SHOWN])
        file = self._files.setdefault(path, len(self._files))
        for name, entry in (("file", file), ("step", step), ("prompt", number), ("key", key)):
            self._whole[name].append(entry)
        self._answer.append(answer)
        for store, cells_of in ((self._real, real), (self._parts, parts)):
            for name in cells_of.keys() - store.keys():  # a column that begins here
                store[name] = array("d", [math.nan]) * self.rows
            for name, values in store.items():
                values.append(cells_of.get(name, math.nan))
        self.rows += 1
        if "advantage" in of and completion is not None:
            self._contents[step] += hash((number, reward, real["advantage"], str(completion)))
        if len(self.different) <= NAMED and reward not in self.different:
            self.different.add(reward)
        if self.rows >= LOOKED_AT and len(self.different) > 1:
            self.check_rewards(columns)

    def _read(self, role: str, row: Row, of: dict[str, str]) -> float:
        cell, name = row.get(of[role]), of[role]
        if is_absent(cell):
            return math.nan
        if role == "task":
            return float(self._tasks.setdefault(str(cell), len(self._tasks)))
        mask = row.get(of.get("mask", ""))
        if role == "length" and isinstance(cell, list) and isinstance(mask, list) and len(mask) == len(cell):
            return float(sum(map(bool, mask)))
        if role in READERS:
            return READERS[role](cell, name)
        return read_sum(cell, name, mask)

    def _verdict(self, row: Row, of: dict[str, str]) -> float:
        if "correct" not in of:
            return math.nan
        cell = row.get(of["correct"])
        self.has_verdicts = True
        if of["correct"].endswith("solution"):
            return float(cell is not None)
        return math.nan if is_absent(cell) else float(read_number(cell, of["correct"]) > 0)

    def _answer_of(self, row: Row, of: dict[str, str], completion: Any) -> int:
        if "answer" in of and not self._is_own:
            self.has_answers = True
            cell = row.get(of["answer"])
            if isinstance(cell, list) and len(cell) == 1:
                cell = cell[0]
            text = cell if cell is None or isinstance(cell, str) else json_text(cell, of["answer"])
            return answer_hash(None if text is None else plain_answer(text) or None)
        if completion is None or (isinstance(completion, list) and completion and isinstance(completion[0], int)):
            return NO_ANSWER
        self.has_answers = True
        return answer_hash(self._canonical(message_text(completion, "completion")))

    def check_rewards(self, columns: Columns) -> None:
        """Raise ``InputError`` where a threshold is needed: for graded rewards without verdicts."""
        if self.threshold is not None or self.has_verdicts:
            return
        values = sorted(self.different)
        if self.different <= {-1, 0, 1} or (len(values) == 2 and values[0] <= 0 < values[1]):
            return
        if len(values) == 1:
            raise InputError(
                f"all rewards ({' + '.join(columns.rewards)}) are {values[0]:g}: no group has a signal, and nothing is "
                "learned; check the reward's function; needed for the other questions: --threshold X"
            )
        named = ", ".join(f"{value:g}" for value in values[:NAMED]) + (", ..." if len(values) > NAMED else "")
        others = ", or --reward NAME for one of them alone" if len(columns.rewards) > 1 else ""
        raise InputError(
            f"rewards ({' + '.join(columns.rewards)}) are {named}, and no column says which rollouts are correct; "
            f"needed: --threshold X, the least reward of a correct rollout, such as --threshold {values[-1]:g}{others}"
        )

    def finish(self, form: str, refused: RefusedRows) -> tuple[Log, LoggedRollouts, tuple[str, ...]]:
        """Return the groups, the rollouts in columns, and what was left out, in words."""
        step, prompt, key = (np.frombuffer(self._whole[name], np.int64) for name in ("step", "prompt", "key"))
        real = {name: np.frombuffer(values, float) for name, values in self._real.items()}
        reward, correct = real["reward"], self._correct(real["reward"], real["correct"])
        notes = []
        counted = np.isfinite(correct)
        if not counted.all():
            notes.append(f"rollouts without a verdict, left out: {(~counted).sum():,}")
        pairs = itertools.pairwise(sorted(self._contents))
        repeated = [late for early, late in pairs if self._contents[early] == self._contents[late]]
        if repeated:
            notes.append(f"steps that repeat the rollouts of the step before, and are left out: {len(repeated)}")
        again = _superseded(np.frombuffer(self._whole["file"], np.int64), step, prompt)
        if again.any():
            notes.append(f"rollouts that a restart has superseded, left out: {again.sum():,}")
        counted &= ~np.isin(step, repeated) & ~again
        answer = np.frombuffer(self._answer, np.uint64)[counted] if self.has_answers else None
        step, prompt, key, reward, correct = (column[counted] for column in (step, prompt, key, reward, correct > 0))
        log, group = gather(form, step, prompt, correct, answer, key=key, reward=reward)
        optional: dict[str, Any] = {name: column[counted] for name, column in real.items() if name in OPTIONAL}
        if "task" in optional:
            optional["task"] = np.nan_to_num(optional["task"], nan=-1).astype(int)
        parts = {name: np.frombuffer(values, float)[counted] for name, values in self._parts.items()}
        ratios = {name: column[counted] for name, column in real.items() if name in SUMS}
        optional |= {"tasks": tuple(self._tasks), "token_ratios": ratios, "prompt_hashes": tuple(self._prompts)}
        rollouts = LoggedRollouts(group, step, prompt, reward, correct, answer, parts, **optional)
        return dataclasses.replace(log, prompts=tuple(self.titles), refused=refused), rollouts, tuple(notes)

    def _correct(self, reward: np.ndarray, verdict: np.ndarray) -> np.ndarray:
        """Return 1 for correct rollouts, 0 for others, and NaN where nobody says; ``rule`` has it in words."""
        values = sorted(self.different)
        least = 1.0 if self.different <= {-1, 0, 1} or len(values) != 2 else values[1]
        if self.threshold is not None:
            self.rule = f"{self.threshold:g} or more is correct"
            return (reward >= self.threshold).astype(float)
        if not self.has_verdicts:
            self.rule = f"{least:g} is correct"
            return (reward >= least).astype(float)
        self.rule = "correct by its own column"
        is_verdict = self.different <= {-1, 0, 1}
        return np.where(np.isnan(verdict), (reward >= least).astype(float) if is_verdict else math.nan, verdict)


def _texts(row: Row, columns: Columns) -> tuple[Any, Any]:
    """Return the prompt and the completion, None where there is none."""
    of = columns.of
    if columns.split_chat:
        return split_chat(row.get(of["prompt"]))
    prompt = row.get(of["prompt"])
    if is_absent(prompt):
        raise Unreadable(f"prompt is {shown(prompt)}; allowed: a text, messages, or an id")
    return prompt, row.get(of["completion"]) if "completion" in of else None


def _as_text(value: Any, name: str) -> str:
    if isinstance(value, float) and value.is_integer():  # pandas writes 3 as 3.0 where another id is missing
        value = int(value)
    return value if isinstance(value, str) else json_text(value, name)


def _title(prompt: Any) -> str:
    if isinstance(prompt, list) and prompt and not isinstance(prompt[-1], dict | str):
        return f"tokens {' '.join(map(str, prompt[:20]))}"
    return message_text(prompt, "prompt") if isinstance(prompt, str | list | dict) else str(prompt)


def _superseded(file: np.ndarray, step: np.ndarray, prompt: np.ndarray) -> np.ndarray:
    """Return the mask of rollouts that a restart has superseded, in each file and then from file to file."""
    again = np.zeros(len(step), bool)
    for rows in np.split(np.arange(len(step)), np.flatnonzero(np.diff(file)) + 1):
        again[rows] = _before_restarts(step[rows], prompt[rows], from_first=True)
    rows = np.flatnonzero(~again)
    again[rows] = _before_restarts(step[rows], prompt[rows], from_first=False)
    return again


def _before_restarts(step: np.ndarray, prompt: np.ndarray, *, from_first: bool) -> np.ndarray:
    """Return the mask of rollouts before a restart whose step is the one that it goes back to, or a later one.

    Steps also go back where workers share a log, and where it is sorted by sample, or shuffled. Then they do so often,
    or the step that they go back to holds only a part of its rollouts. Restarts are fewer than half of the steps, and
    this step has mostly the same prompts, as often as before. With ``from_first`` a log may also begin anew at its
    first step. Files of workers and passes of one rollout a prompt do so without a restart.
    """
    none, again = np.zeros((2, len(step)), bool)
    falls = np.flatnonzero(np.diff(step) < 0) + 1
    if 2 * len(falls) >= len(np.unique(step)):
        return none
    for start, end in itertools.pairwise([*falls, len(step)]):
        at_step = step == step[start]
        before, now = (
            np.bincount(prompt[rows][at_step[rows] & ~again[rows]], minlength=prompt.max() + 1)
            for rows in (slice(start), slice(start, end))
        )
        if 2 * np.minimum(before, now).sum() < np.maximum(before, now).sum():
            return none
        if step[start] == step.min() and not (from_first and now.max() > 1):
            return none
        again[:start] |= step[:start] >= step[start]
    return again
