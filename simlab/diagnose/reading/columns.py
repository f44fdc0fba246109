"""Read the columns of a row by their roles: the prompt, the reward, and what else a log has."""

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

from simlab.diagnose.reading.answers import FROM_COMPLETIONS, from_completion, load_function
from simlab.diagnose.reading.gather import RolloutRow
from simlab.errors import InputError

MAY_BE_ABSENT = ("answer", "log_probability", "length")  # from some of the rows
OPTIONAL = ("step", "completion", *MAY_BE_ABSENT)
ROLES = ("prompt", "reward", *OPTIONAL)
LARGEST_WHOLE = 2**53  # whole numbers up to here are the same in every format, floats included
SHOWN = 60  # characters of a value in a complaint
ROUNDING = 1e-2  # nats by which the rounded log-probability of a sure rollout may lie above 0
LOOKED_AT = 10_000  # rows of graded rewards after which a threshold is asked for
NAMED = 6  # rewards that are named then

# Values of one cell, from whichever format


class Unreadable(Exception):
    """A row that is left out; the message says why."""


def read_number(value: Any, name: str) -> float:
    """Return a finite number: a bool counts as 0 or 1, and so does a text that says one, as every cell of a CSV does.

    Raises:
        Unreadable: for anything else.
    """
    try:
        number = _as_float(value)
    except (ValueError, OverflowError):
        raise Unreadable(f"{name} is {shown(value)}; allowed: a number") from None
    if not math.isfinite(number):
        raise Unreadable(f"{name} is {shown(value)}; allowed: a finite number")
    return number


def _as_float(value: Any) -> float:
    if isinstance(value, str):
        text = value.strip()
        if text in ("True", "true", "False", "false"):
            return float(text in ("True", "true"))
        if "_" in text:  # Python would take 1_000 for a thousand
            raise ValueError
        return float(text)
    if isinstance(value, Real | Decimal):
        return float(value)
    raise ValueError


def read_whole(value: Any, name: str) -> int:
    """Return a whole number from 0 up; 3.0 is one too.

    Raises:
        Unreadable: for anything else.
    """
    number = read_number(value, name)
    if number != int(number) or not 0 <= number <= LARGEST_WHOLE:
        raise Unreadable(f"{name} is {shown(value)}; allowed: a whole number from 0 to 2^53")
    return int(number)


def prompt_text(value: Any, name: str) -> str:
    """Return a text that is equal for equal prompts: of a conversation, its JSON.

    Raises:
        Unreadable: for a prompt that is neither.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list | dict) and value:
        return json_text(value, name)
    raise Unreadable(f"{name} is {shown(value)}; allowed: a text, or a list of messages")


def message_text(value: Any, name: str) -> str:
    """Return a text as it is, of a conversation the content of its last message.

    Raises:
        Unreadable: for a value that is neither.
    """
    for _ in range(4):  # a list of messages, the last of them, its content, an item of it
        if isinstance(value, list):
            value = value[-1] if value else ""
        elif isinstance(value, dict):
            value = value.get("content") if value.get("content") is not None else value.get("text", "")
    if isinstance(value, str):
        return value
    raise Unreadable(f"{name} is {shown(value)}; allowed: a text, or a list of messages")


def json_text(value: Any, name: str) -> str:
    """Return JSON that is equal for equal values.

    Raises:
        Unreadable: for a value nested too deeply.
    """
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


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


# Columns by role


@dataclasses.dataclass(frozen=True)
class Format:
    """The column names of a trainer's logs.

    Attributes:
        name: the name of the format.
        columns: the usual column of each role.
        marks: columns by which a file of this format is recognised; a row has all of them.
        rewards: the reward columns of a row where there may be several, in place of one in ``columns``.
        repeats: true if a step may hold the rows of the step before once more, as they are.
        note: a remark for the reader of such a log.
    """

    name: str
    columns: Mapping[str, str]
    marks: frozenset[str]
    rewards: Callable[[Mapping[str, Any]], Sequence[str]] | None = None
    repeats: bool = False
    note: str = ""


def named_columns(text: str | None) -> dict[str, str]:
    """Parse the columns by role that a user names.

    Raises:
        InputError: for a text of another form, and a role that stands twice.

    >>> named_columns("prompt=question,reward=score")
    {'prompt': 'question', 'reward': 'score'}
    """
    columns: dict[str, str] = {}
    for item in text.split(",") if text is not None else ():
        role, equals, name = item.partition("=")
        if not equals or not name or role in columns:
            raise InputError(f"--columns {text!r} cannot be read; allowed: prompt=NAME,reward=NAME,..., each role once")
        columns[role] = name
    return columns


def _list_columns(row: Mapping[str, Any]) -> str:
    names = [str(name)[:SHOWN] for name in row]
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "") or "none"


class RowReader:
    """Make a ``RolloutRow`` of each row of a log, whose columns are chosen by its first row.

    A column is the one that the user names, or else the format's; optional ones are read where the first row has them.
    The options are those of ``simlab.diagnose.reading.read_log``, where ``function`` is called ``answer``.

    Raises:
        InputError: for an unknown role, two columns for the reward, and a function that there is not, or that has no
            completions to read.
        Unreadable: for a first row that lacks a column.
    """

    def __init__(
        self,
        form: Format,
        row: Mapping[str, Any],
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
        usual = {role: name for role, name in form.columns.items() if role not in OPTIONAL or name in row}
        self.format, self.columns, self.threshold = form, {**usual, **named}, threshold
        single = self.columns.pop("reward", None)
        self.rewards = [single] if single is not None else list(form.rewards(row)) if form.rewards else []
        required = {name: role for role, name in self.columns.items() if role not in MAY_BE_ABSENT}
        self._required = required | dict.fromkeys(self.rewards, "reward")
        others = form.columns.keys() - self.columns.keys() - {"reward"}
        self._unexpected = {form.columns[role]: role for role in others}
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

    def read(self, row: Mapping[str, Any]) -> RolloutRow:
        """Return one rollout.

        Raises:
            Unreadable: for a row that lacks a column, or holds a value that its column does not allow.
            InputError: for graded rewards without a threshold, and an error of the user's function.
        """
        self._check_columns(row)
        self.absent -= row.keys()
        value = self._cell(row, "prompt")
        prompt = prompt_text(value, "prompt")
        title = prompt if value is prompt else message_text(value, "prompt")
        step = read_whole(self._cell(row, "step"), "step") if "step" in self.columns else 0
        reward = self._sum_rewards(row)
        log_probability, length = self._log_probability(row), self._cell(row, "length")
        tokens = 0 if length is None or length == "" else read_whole(length, "length")
        text = self._answer_text(row)
        content = ""
        if self.format.repeats:  # a later step may repeat all of a row but the step
            content = json_text({name: cell for name, cell in row.items() if name != self.columns["step"]}, "the row")
        self._count_reward(reward)
        correct = reward >= (1 if self.threshold is None else self.threshold)
        answer = None
        if correct and text is not None:
            answer = (text.strip() or None) if self._is_answer else self._canonical(text)
        return RolloutRow(prompt, title, step, reward, correct, answer, log_probability, tokens, content)

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

    def _check_columns(self, row: Mapping[str, Any]) -> None:
        """Raise ``Unreadable`` for a row that lacks a column, or has one that the first row lacked."""
        if not self._required.keys() <= row.keys():
            name = next(name for name in self._required if name not in row)
            raise Unreadable(
                f"no column {name!r} for the {self._required[name]} (--columns); its columns: {_list_columns(row)}"
            )
        if self._unexpected.keys() & row.keys():
            name = next(name for name in self._unexpected if name in row)
            raise Unreadable(
                f"the first row has no column {name!r}; allowed: --columns {self._unexpected[name]}={name}"
            )

    def _sum_rewards(self, row: Mapping[str, Any]) -> float:
        """Sum the row's rewards; among several those that are null or NaN do not count, as in TRL."""
        if len(self.rewards) == 1:
            return read_number(row[self.rewards[0]], self.rewards[0])
        values = [read_number(row[name], name) for name in self.rewards if not _is_missing(row[name])]
        if not values:
            raise Unreadable(f"no reward function judged it: {', '.join(self.rewards)} are all null")
        return sum(values)

    def _count_reward(self, reward: float) -> None:
        self.rows += 1
        if self.threshold is None and len(self._different) <= NAMED:
            self._different.add(reward)
        if self.rows >= LOOKED_AT:
            self.check_rewards()

    def _cell(self, row: Mapping[str, Any], role: str) -> Any:
        return row.get(self.columns[role]) if role in self.columns else None

    def _log_probability(self, row: Mapping[str, Any]) -> float | None:
        value = self._cell(row, "log_probability")
        if value is None or value == "":
            return None
        number = read_number(value, "log_probability")
        if number > ROUNDING:
            raise Unreadable(f"log_probability is {number:g}; allowed: up to 0, in nats")
        return number

    def _answer_text(self, row: Mapping[str, Any]) -> str | None:
        if self.answer_column is None:
            return None
        value = row.get(self.answer_column)
        if not self._is_answer:
            return message_text(value, self.answer_column)
        return value if value is None or isinstance(value, str) else json_text(value, self.answer_column)
