"""What the columns of a log mean: which is the prompt, which the reward, and what else there is.

Each format has a file of its own (``trl``, ``verl``, ``table``), which says how its columns are called.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simlab.diagnose.reading.values import SHOWN, Unreadable, number
from simlab.errors import InputError

OPTIONAL = ("step", "completion", "answer", "log_probability", "length")
MAY_LACK = ("answer", "log_probability", "length")
ROLES = ("prompt", "reward", *OPTIONAL)


@dataclasses.dataclass(frozen=True)
class Format:
    """How a format calls its columns.

    Attributes:
        name: the name of the format.
        columns: the usual column of each role.
        marks: columns by which a file of this format is known; a row has all of them.
        rewards: the reward columns of a row where there may be several, in place of one in ``columns``.
        repeats: whether a step may hold the rows of the step before once more, as they are.
        note: what the reader of such a log should know of it.
    """

    name: str
    columns: Mapping[str, str]
    marks: frozenset[str]
    rewards: Callable[[Mapping[str, Any]], Sequence[str]] | None = None
    repeats: bool = False
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Layout:
    """The columns of one log, which all of its rows have.

    Attributes:
        format: the one that they belong to.
        columns: by role, without the reward.
        rewards: the reward is the sum of these columns.
    """

    format: Format
    columns: Mapping[str, str]
    rewards: tuple[str, ...]

    def reward(self, row: Mapping[str, Any]) -> float:
        """The sum of the row's rewards; among several those that are null or NaN do not count, as in TRL.

        Raises:
            Unreadable: for a reward that is no finite number.
        """
        if len(self.rewards) == 1:
            return number(row[self.rewards[0]], self.rewards[0])
        given = [number(row[name], name) for name in self.rewards if not _is_missing(row[name])]
        if not given:
            raise Unreadable(f"no reward function judged it: {', '.join(self.rewards)} are all null")
        return sum(given)

    def check(self, row: Mapping[str, Any]) -> None:
        """Raise ``Unreadable`` for a row that lacks a column, or has one of which the first row told nothing."""
        if not self.needed.keys() <= row.keys():
            name = next(name for name in self.needed if name not in row)
            raise Unreadable(
                f"no column {name!r} for the {self.needed[name]} (--columns); its columns: {in_words(row)}"
            )
        if self.untold.keys() & row.keys():
            name = next(name for name in self.untold if name in row)
            raise Unreadable(f"the first row has no column {name!r}; allowed: --columns {self.untold[name]}={name}")

    @functools.cached_property
    def needed(self) -> Mapping[str, str]:
        """By the columns that every row has, their roles; where others have no value, a row of JSON may lack them."""
        others = {name: role for role, name in self.columns.items() if role not in MAY_LACK}
        return others | dict.fromkeys(self.rewards, "reward")

    @functools.cached_property
    def untold(self) -> Mapping[str, str]:
        """By the columns that the format has and this log has not, their roles."""
        usual = self.format.columns
        return {name: role for role, name in usual.items() if role not in self.columns and role != "reward"}


def layout_of(
    form: Format, row: Mapping[str, Any], columns: Mapping[str, str] | None = None, reward: str | None = None
) -> Layout:
    """The layout of a log by its first row.

    Args:
        form: its format.
        row: what is to be in all rows that is in this one.
        columns: columns that the user names, by role; the others are the format's, optional ones where the row has
            them.
        reward: the reward column that the user names.

    Raises:
        InputError: for a role that there is not, and two columns for the reward.
        Unreadable: for a row that lacks a column.
    """
    named = dict(columns or {})
    for role in named:
        if role not in ROLES:
            raise InputError(f"--columns names {role!r}; allowed: {', '.join(ROLES)}, such as prompt=question")
    if reward is not None and named.setdefault("reward", reward) != reward:
        raise InputError(f"--reward {reward} and --columns reward={named['reward']} differ; allowed: one of them")
    usual = {role: name for role, name in form.columns.items() if role not in OPTIONAL or name in row}
    chosen = {**usual, **named}
    one = chosen.pop("reward", None)
    layout = Layout(form, chosen, (one,) if one is not None else tuple(form.rewards(row)) if form.rewards else ())
    layout.check(row)
    if not layout.rewards:
        raise Unreadable(f"there is no reward column; its columns: {in_words(row)}")
    return layout


def named_columns(text: str | None) -> dict[str, str]:
    """The columns by role that a text names.

    Raises:
        InputError: for a text of another form, and a role that stands twice.

    >>> named_columns("prompt=question,reward=score")
    {'prompt': 'question', 'reward': 'score'}
    """
    found: dict[str, str] = {}
    for part in text.split(",") if text is not None else ():
        role, equals, name = part.partition("=")
        if not equals or not name or role in found:
            raise InputError(f"--columns {text!r} cannot be read; allowed: prompt=NAME,reward=NAME,..., each role once")
        found[role] = name
    return found


def in_words(row: Mapping[str, Any]) -> str:
    """The names of a row's columns, the first of them if there are many."""
    names = [str(name)[:SHOWN] for name in row]
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "") or "none"


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)  # noqa: PLR0124  # NaN
