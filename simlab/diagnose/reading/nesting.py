"""Turn a record of a log, however it is nested, into flat rows: one a rollout, or one a step of metrics.

A list of objects that are judged, and lists that run in parallel with a list of rewards, are the axis along which
rollouts differ; what stands above it is repeated in each row. Objects become columns such as ``metrics.correct``.
Messages, token ids and the turns of a rollout that has a reward of its own stay as they are.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from simlab.diagnose.reading.cells import WORDS, is_messages
from simlab.diagnose.reading.names import COMPLETION, JUDGED, JUDGED_PARENT, OF_REWARD, UNSURE, leaf

MOST_SAMPLES = 10**6  # of a problem in an evaluation
GROUP = "#"  # column of the record, and of the list in it, that held the row
STEP, ROLLOUT = "#step", "#rollout"  # columns of what the name of a file says: ``rollout_3`` is a step, or a sample
TURNS = {"steps", "turns", "transitions", "trajectory", "messages", "tool_calls", "events", "history"}
ONE_EACH = re.compile(r"(token_ids|_ids|masks?)$")  # lists of one rollout, where their items are numbers
NUMBERED = re.compile(r"(.+?)[_ ]?\d+")
STEP_KEY = re.compile(r"(global_?)?(step|iter|iteration|checkpoint)s?[-_ ]?\d+")
CORRECT = ("num_correct", "n_correct", "correct_count", "c", "correct")  # how many of SAMPLES are
SAMPLES = ("num_samples", "n_samples", "num_rollouts", "n_rollouts", "num_generations", "samples", "n")
ANY_SAMPLES = set(SAMPLES)

Rows = list[dict[str, Any]]


def expand(record: Any, number: int) -> Rows:
    """Return the rows of a record; those of several have the column ``GROUP``."""
    if isinstance(record, list):  # a group a line
        record = {"rollouts": record}
    if "_1" in " ".join(record):
        record = _join_numbered(record)
    counted = not ANY_SAMPLES.isdisjoint(record) and _count(record)
    if counted or not any(isinstance(value, list | dict) for value in record.values()):
        return counted or [dict(record)]
    rows = _rows(record)
    if len(rows) == 1:
        rows[0].pop(GROUP, None)
        return rows
    return [row | {GROUP: f"{number}:{row[GROUP]}"} for row in rows]


def _count(record: Mapping[str, Any]) -> Rows:
    """Return the rollouts of a record that says how many of so many are correct, or a list of them, one a problem."""
    samples = next((_whole(record[name]) for name in SAMPLES if name in record), None)
    correct = next((record[name] for name in CORRECT if name in record), None)
    if samples and isinstance(correct, list):
        above = {"step": record.get("step", 0)}
        parts = [(above | {"prompt": f"evaluation problem {at}"}, right) for at, right in enumerate(correct)]
    elif (
        samples and "correct" not in record and (right := _whole(correct)) is not None and COMPLETION.isdisjoint(record)
    ):
        parts = [({name: cell for name, cell in record.items() if name not in CORRECT + SAMPLES}, right)]
    else:
        return []
    drawn = range(min(samples, MOST_SAMPLES))
    return [above | {"reward": float(sample < right)} for above, right in parts for sample in drawn]


def _whole(cell: Any) -> int | None:
    return int(cell) if type(cell) is int or (isinstance(cell, str) and cell.isdecimal()) else None


def _join_numbered(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record whose columns ``output_1``, ``output_2``, ... and those beside them are lists."""
    stems: dict[str, list[Any]] = {}
    for key, value in record.items():
        if match := NUMBERED.fullmatch(key):
            stems.setdefault(match[1], []).append(value)
    sizes = [len(cells) for stem, cells in stems.items() if leaf(stem) in COMPLETION or _are_verdicts(cells)]
    lists = {stem: cells for stem, cells in stems.items() if sizes and len(cells) == sizes[0] > 1}
    others = {key: value for key, value in record.items() if key.rstrip("0123456789").rstrip("_ ") not in lists}
    return others | lists


def _are_verdicts(cells: list[Any]) -> bool:
    return bool(cells) and all(
        isinstance(cell, bool) or (isinstance(cell, str) and cell.strip().lower() in WORDS) for cell in cells
    )


def unwrap(document: Mapping[str, Any]) -> list[Any]:
    """Return the records of a file that is one object: those of a table, of objects by id, or of its longest list."""
    if records := _transpose(document) or _entries(document):
        return records
    judged = any(leaf(key) in JUDGED for key in document)
    lists = {key: value for key, value in document.items() if _is_objects(value) and not (judged and key in TURNS)}
    if not lists or any(leaf(key) in JUDGED and isinstance(document[key], list | dict | bool) for key in document):
        return [document]
    key = max(lists, key=lambda name: (any(map(_is_judged, lists[name])), len(lists[name])))
    above = {name: value for name, value in document.items() if _is_above(name) and not isinstance(value, list | dict)}
    return [above | item if isinstance(item, dict) else item for item in lists[key]]


def _is_above(name: str) -> bool:
    """Return True for what may be repeated in rows: a verdict of the whole is none of its rollouts."""
    return leaf(name) not in JUDGED | UNSURE


def _transpose(document: Mapping[str, Any]) -> list[Any] | None:
    """Return the rows of a table: names of columns and data, or cells by the number of the row, as pandas has it."""
    names, rows = document.get("columns"), document.get("data")
    if isinstance(names, list) and isinstance(rows, list) and all(isinstance(row, list) for row in rows):
        return [dict(zip(map(str, names), row, strict=False)) for row in rows]
    columns = list(document.values())
    if not columns or not all(isinstance(column, dict) and column.keys() == columns[0].keys() for column in columns):
        return None
    if not all(key.isdigit() and not isinstance(cell, dict | list) for key, cell in columns[0].items()):
        return None
    return [{name: column[key] for name, column in document.items()} for key in columns[0]]


def _is_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and not is_messages(value)


def _is_judged(value: Any, depth: int = 8) -> bool:
    """Return True for an object that has a reward or a verdict, or objects that have."""
    if isinstance(value, list):
        return depth > 0 and bool(value) and _is_judged(value[0], depth - 1)
    if not isinstance(value, dict):
        return False
    return any(
        (leaf(key) in JUDGED and not (isinstance(item, list) and (not item or isinstance(item[0], str))))
        or (leaf(key) in UNSURE and _are_verdicts([item]))
        or (depth > 0 and _is_judged(item, depth - 1))
        for key, item in value.items()
    )


def _entries(node: Mapping[str, Any]) -> list[Any] | None:
    """Return the objects, or lists of verdicts, of a table by id or step; None for any other object."""
    values = list(node.values())
    if len(values) < 2 or any(leaf(key) in JUDGED | JUDGED_PARENT for key in node):
        return None
    name = "step" if all(STEP_KEY.fullmatch(key) for key in node) else "id"
    if all(isinstance(value, list) and value and type(value[0]) in (bool, int, float) for value in values):
        judged = all(cell in (-1, 0, 1) for value in values for cell in value)
        return [{name: key, "rewards": value} for key, value in node.items()] if judged else None
    values = [_objects(value) for value in values]
    if not all((isinstance(value, dict) or _is_objects(value)) and _is_judged(value) for value in values):
        return None
    return [
        {name: key, **value} if isinstance(value, dict) and _entries(value) is None else {name: key, "rollouts": value}
        for key, value in zip(node, values, strict=True)
    ]


def _objects(value: Any) -> Any:
    """Return a list of pairs of a number and an object as one of objects; any other value as it is."""
    if isinstance(value, list) and value and all(isinstance(item, list) and len(item) == 2 for item in value):
        return [item[1] for item in value]
    return value


def _rows(node: Mapping[str, Any], *, split: bool = True) -> Rows:
    above: dict[str, Any] = {}
    axes: list[Rows] = []
    for key, cell in node.items():
        is_choice = _is_objects(cell) and len(cell) == 1 and leaf(key) not in TURNS and not _is_judged(cell)
        value = cell[0] if is_choice else cell  # the only one
        items = value if _is_objects(value) else None
        if isinstance(value, dict) and value and "role" not in value:
            items = _entries(value)
            if items is None:
                rows = _rows(value, split=False)
                if len(rows) > 1:
                    axes.append(rows)
                else:
                    above |= {f"{key}.{name}": cell for name, cell in rows[0].items() if name != GROUP}
                continue
        is_turns = leaf(key) in TURNS and any(leaf(name) in JUDGED for name in node)
        if items is not None and not is_turns and any(map(_is_judged, items)):
            axes.append(_number(_rows(item) for item in items if isinstance(item, dict)))
        else:
            above[key] = value
    if not axes:
        return _split(above) if split else [above]
    rows = max(axes, key=len)
    if len(rows) > 1:
        above = {key: value for key, value in above.items() if _is_above(key)}
    return [row | {key: value for key, value in above.items() if key not in row or len(rows) == 1} for row in rows]


def _number(parts: Iterable[Rows]) -> Rows:
    """Join the rows of the items of a list; those of an item with several have its number in ``GROUP``."""
    return [
        row | {GROUP: f"{number}/{row.get(GROUP, '')}" if len(rows) > 1 else ""}
        for number, rows in enumerate(parts)
        for row in rows
    ]


def _split(row: dict[str, Any]) -> Rows:
    """Return the rows of parallel lists."""
    lists = {key: value for key, value in row.items() if isinstance(value, list) and value and not is_messages(value)}
    scalars = {leaf(key) for key, value in row.items() if key not in lists and value is not None}
    if not lists or scalars & JUDGED:
        return [row]
    judged = [key for key in lists if leaf(key) in JUDGED or OF_REWARD.search(leaf(key))]
    judged = [key for key in judged if not isinstance(lists[key][0], dict)]
    judged = judged or [key for key, cells in lists.items() if _are_verdicts(cells)]
    if judged:
        main = max(judged, key=lambda key: isinstance(lists[key][0], list))
        beside = [value for key, value in lists.items() if key != main and len(value) == len(lists[main])]
        if scalars & COMPLETION and not any(isinstance(value[0], str | list | dict) for value in beside):
            return [row | {main: sum(cell for cell in lists[main] if isinstance(cell, int | float))}]  # one a token
    else:
        texts = [key for key in lists if leaf(key) in COMPLETION and isinstance(lists[key][0], str | list)]
        if not texts:
            return [row]
        main = texts[0]
    size, deep = len(lists[main]), len(lists[main][0]) if isinstance(lists[main][0], list) and judged else 0
    pieces = [
        {key: _item(key, value, at, size, deep) if key in lists else value for key, value in row.items()}
        for at in range(size)
    ]
    return _number(map(_rows, pieces))


def _item(key: str, value: list[Any], at: int, size: int, deep: int) -> Any:
    """Return the share of a list that belongs to one of ``size`` items, which have ``deep`` rollouts each."""
    if isinstance(value[0], int) and ONE_EACH.search(key):
        return value
    if len(value) == size:
        return value[at]
    if deep and len(value) == size * deep:
        return value[at * deep : (at + 1) * deep]
    if len(value) > 1 and size % len(value) == 0:  # a prompt, and then each of its rollouts
        return value[at * len(value) // size]
    return value
