"""Read the columns of rows by their roles, and add the rows up to groups."""

import contextlib
import dataclasses
import itertools
import json
import math
from array import array
from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from simlab.diagnose.log import Log, RefusedRows, RolloutLogProbs, gather
from simlab.diagnose.reading.answers import FROM_COMPLETIONS, answer_hash, digest, from_completion, load_function
from simlab.diagnose.reading.files import MAY_BE_ABSENT, OPTIONAL, ROLES, Layout, Row, Unreadable
from simlab.errors import InputError

LARGEST_WHOLE = 2**53  # whole numbers up to here are the same in every format, floats included
TRUTHS = {"true": True, "false": False}  # as every cell of a CSV says them
SHOWN = 60  # characters of a value in a complaint
ROUNDING = 1e-2  # nats by which the rounded log-probability of a sure rollout may lie above 0
LOOKED_AT = 10_000  # rows of graded rewards after which a threshold is asked for
NAMED = 6  # rewards that are named then
PROMPT_SHOWN = 80  # characters of a prompt that are recorded
# Of step, prompt, reward, correctness, answer's hash, log-probability and length.
KINDS = (np.int64, np.int64, np.float64, np.int8, np.uint64, np.float64, np.int64)
SAMPLE = 100_000  # rollouts with log-probabilities; the standard error of a share is then at most 0.0016


def read_number(value: Any, name: str) -> float:
    """Return a finite number, such as of a bool or a text; anything else is ``Unreadable``."""
    number = math.nan
    with contextlib.suppress(ValueError, OverflowError):
        if isinstance(value, str):
            text = value.strip()
            number = float(TRUTHS.get(text.lower(), text.replace("_", "?")))  # Python would take 1_000 for a thousand
        elif isinstance(value, Real | Decimal):
            number = float(value)
    if not math.isfinite(number):
        raise Unreadable(f"{name} is {shown(value)}; allowed: a finite number")
    return number


def read_whole(value: Any, name: str) -> int:
    """Return a whole number from 0 up; 3.0 is one too."""
    number = read_number(value, name)
    if number != int(number) or not 0 <= number <= LARGEST_WHOLE:
        raise Unreadable(f"{name} is {shown(value)}; allowed: a whole number from 0 to 2^53")
    return int(number)


def message_text(value: Any, name: str) -> str:
    """Return a text as it is, of a conversation the content of its last message."""
    text = value
    for _ in range(4):  # a list of messages, the last of them, its content, an item of it
        if isinstance(text, list):
            text = text[-1] if text else ""
        elif isinstance(text, dict):
            text = text.get("content") if text.get("content") is not None else text.get("text", "")
    if isinstance(text, str):
        return text
    raise Unreadable(f"{name} is {shown(value)}; allowed: a text, or a list of messages")


def json_text(value: Any, name: str) -> str:
    """Return JSON that is equal for equal values."""
    try:
        return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    except (RecursionError, ValueError, TypeError):
        raise Unreadable(f"{name} is nested too deeply, or no JSON") from None


def shown(value: Any) -> str:
    """Write a value for a complaint, cut where it is long."""
    if isinstance(value, list | dict | bytes):
        return f"a {type(value).__name__}"
    text = repr(value[:SHOWN] if isinstance(value, str) else value)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def named_columns(text: str | None) -> dict[str, str]:
    """Parse the columns by role that a user names.

    >>> named_columns("prompt=question,reward=score")
    {'prompt': 'question', 'reward': 'score'}
    """
    columns: dict[str, str] = {}
    for item in text.split(",") if text is not None else ():
        role, _, name = item.partition("=")
        if not name or role in columns:
            raise InputError(f"--columns {text!r} cannot be read; allowed: prompt=NAME,reward=NAME,..., each role once")
        columns[role] = name
    return columns


def _list_columns(row: Row) -> str:
    names = [str(name)[:SHOWN] for name in row]
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "") or "none"


class LogReader:
    """Gather the rows of a log, whose columns are chosen by its first row: the user's, or else the layout's.

    Prompts are identified by 128 bits of a hash, the answers of a prompt by 63. ``function`` is ``read_log``'s answer.
    """

    def __init__(
        self,
        layout: Layout,
        row: Row,
        *,
        columns: Mapping[str, str] | None = None,
        reward: str | None = None,
        threshold: float | None = None,
        function: str | None = None,
    ):
        named = dict(columns or {})
        for role in named:
            if role not in ROLES:
                raise InputError(f"--columns names {role!r}; allowed: {', '.join(ROLES)}, such as prompt=question")
        if reward is not None and named.setdefault("reward", reward) != reward:
            raise InputError(f"--reward {reward} and --columns reward={named['reward']} differ; allowed: one of them")
        usual = {role: name for role, name in layout.columns.items() if role not in OPTIONAL or name in row}
        self.layout, self.columns, self.threshold = layout, usual | named, threshold
        single = self.columns.pop("reward", None)
        self.rewards = layout.rewards(row) if single is None else [single]
        required = {name: role for role, name in self.columns.items() if role not in MAY_BE_ABSENT}
        self._required = required | dict.fromkeys(self.rewards, "reward")
        others = layout.columns.keys() - self.columns.keys() - {"reward"}
        self._unexpected = {layout.columns[role]: role for role in others}
        self._check_columns(row)
        if not self.rewards:
            raise Unreadable(f"there is no reward column; its columns: {_list_columns(row)}")
        completion, answer = self.columns.get("completion"), self.columns.get("answer")
        if function is not None and completion is None:
            raise InputError(f"--answer {function} needs completions; name their column: --columns completion=NAME")
        self._is_answer = function is None and answer is not None
        self.answer_column = answer if self._is_answer else completion
        self._canonical = from_completion if function is None else load_function(function)
        self.answer_rule = "as it stands" if self._is_answer else function or FROM_COMPLETIONS
        self.absent = {name for role, name in self.columns.items() if role in MAY_BE_ABSENT}  # from all rows so far
        self.rows = 0
        self._different: set[float] = set()  # rewards, up to NAMED and one more
        self._prompts: dict[int, int] = {}
        self._titles: list[str] = []
        self._numbers: list[array[Any]] = [array(np.dtype(kind).char) for kind in KINDS]
        self._contents: dict[int, int] = defaultdict(int)  # by step, the sum of hashes: that of its rows in any order

    def add(self, row: Row) -> None:
        """Add one rollout; a row that lacks a column or holds a value that it does not allow is ``Unreadable``."""
        self._check_columns(row)
        self.absent -= row.keys()
        value = self._cell(row, "prompt")
        if not isinstance(value, str) and not (isinstance(value, list | dict) and value):
            raise Unreadable(f"prompt is {shown(value)}; allowed: a text, or a list of messages")
        prompt = value if isinstance(value, str) else json_text(value, "prompt")
        title = message_text(value, "prompt")
        step = read_whole(self._cell(row, "step"), "step") if "step" in self.columns else 0
        reward = self._sum_rewards(row)
        logp, length = (self._cell(row, role) for role in ("log_probability", "length"))
        log_probability = math.nan if logp is None or logp == "" else read_number(logp, "log_probability")
        if log_probability > ROUNDING:
            raise Unreadable(f"log_probability is {log_probability:g}; allowed: up to 0, in nats")
        tokens = 0 if length is None or length == "" else read_whole(length, "length")
        text, content = self._answer_text(row), ""
        if self.layout.repeats:  # a later step may repeat all of a row but the step
            content = json_text({name: cell for name, cell in row.items() if name != self.columns["step"]}, "the row")
        self.rows += 1
        if self.threshold is None and len(self._different) <= NAMED:
            self._different.add(reward)
        if self.rows >= LOOKED_AT:
            self.check_rewards()
        correct = reward >= (1 if self.threshold is None else self.threshold)
        answer = None
        if correct and text is not None:
            answer = (text.strip() or None) if self._is_answer else self._canonical(text)
        number = self._prompts.setdefault(digest(prompt, 16), len(self._titles))
        if number == len(self._titles):
            self._titles.append(title[:PROMPT_SHOWN])
        entries: tuple[Any, ...] = (step, number, reward, correct, answer_hash(answer), log_probability, tokens)
        for column, entry in zip(self._numbers, entries, strict=True):
            column.append(entry)
        if self.layout.repeats:
            self._contents[step] += digest(content, 16)

    def check_rewards(self) -> None:
        """Raise ``InputError`` where a threshold is needed: for any reward other than 0 and 1."""
        if self.threshold is not None or self._different <= {0, 1}:
            return
        values = sorted(self._different)
        named = ", ".join(f"{value:g}" for value in values[:NAMED]) + (", ..." if len(values) > NAMED else "")
        others = ", or --reward NAME for one of them alone" if len(self.rewards) > 1 else ""
        raise InputError(
            f"rewards ({' + '.join(self.rewards)}) are {named}; needed: --threshold X, the least reward of a correct "
            f"rollout{others}"
        )

    def _check_columns(self, row: Row) -> None:
        """Raise ``Unreadable`` for a row that lacks a column, or has one that the first row lacked."""
        for name in self._required:
            if name not in row:
                role, columns = self._required[name], _list_columns(row)
                raise Unreadable(f"no column {name!r} for the {role} (--columns); its columns: {columns}")
        for name, role in self._unexpected.items():
            if name in row:
                raise Unreadable(f"the first row has no column {name!r}; allowed: --columns {role}={name}")

    def _sum_rewards(self, row: Row) -> float:
        """Sum the row's rewards; among several those that are null or NaN do not count."""
        cells = {name: row[name] for name in self.rewards}
        if len(cells) > 1:
            cells = {name: cell for name, cell in cells.items() if str(cell) not in ("None", "nan")}  # as in TRL
        if not cells:
            raise Unreadable(f"no reward function judged it: {', '.join(self.rewards)} are all null")
        return sum(read_number(cell, name) for name, cell in cells.items())

    def _cell(self, row: Row, role: str) -> Any:
        return row.get(self.columns[role]) if role in self.columns else None

    def _answer_text(self, row: Row) -> str | None:
        if self.answer_column is None:
            return None
        value = row.get(self.answer_column)
        if not self._is_answer:
            return message_text(value, self.answer_column)
        return value if value is None or isinstance(value, str) else json_text(value, self.answer_column)

    def log(self, refused: RefusedRows) -> tuple[Log, float, int]:
        """Return the log, its mean reward, and the number of steps left out since they repeat the step before."""
        step, prompt, reward, correct, answer, logp, length = map(np.frombuffer, self._numbers, KINDS)
        has_answers, log_probs = self.answer_column is not None, None
        log, group = gather(self.layout.name, step, prompt, correct, answer if has_answers else None)
        sampled = np.flatnonzero(~np.isnan(logp))
        if len(sampled) > SAMPLE:  # those of the smallest of random numbers
            keys = np.random.default_rng(0).random(len(sampled))
            sampled = sampled[np.sort(np.argpartition(keys, SAMPLE - 1)[:SAMPLE])]
        if len(sampled):
            log_probs = RolloutLogProbs(group[sampled], correct[sampled] == 1, logp[sampled], length[sampled])
        log = dataclasses.replace(log, prompts=tuple(self._titles), log_probs=log_probs, refused=refused)
        pairs = itertools.pairwise(sorted(self._contents))
        repeated = [late for early, late in pairs if self._contents[early] == self._contents[late]]
        mean_reward = float(reward[~np.isin(step, repeated)].mean())
        return log.select(~np.isin(log.step, repeated)), mean_reward, len(repeated)
