"""Turn a record of a log, however it is nested, into flat rows: one a rollout, or one a step of metrics.

A list of objects that are judged, and lists that run in parallel with a list of rewards, are the axis along which
rollouts differ; what stands above it is repeated in each row. Objects become columns such as ``metrics.correct``.
Messages, token ids and the turns of a rollout that has a reward of its own stay as they are.
"""

import re
from collections.abc import Mapping
from typing import Any

from simlab.diagnose.reading.cells import is_messages
from simlab.diagnose.reading.names import COMPLETION, JUDGED, JUDGED_PARENT, OF_REWARD, leaf

MOST_SAMPLES = 10**6  # of a problem in an evaluation
GROUP = "#"  # column of the record, and of the list in it, that held the row
TURNS = {"steps", "turns", "transitions", "trajectory", "messages", "tool_calls", "events", "history"}
ONE_EACH = re.compile(r"(token_ids|_ids|masks?)$")  # lists of one rollout, where their items are numbers


def expand(record: Mapping[str, Any], number: int) -> list[dict[str, Any]]:
    """Return the rows of a record; those of several have the column ``GROUP``."""
    if not any(isinstance(value, list | dict) for value in record.values()):
        return [dict(record)]
    if isinstance(record.get("correct"), list) and isinstance(record.get("samples"), int):
        return _count(record)
    rows = _rows(record)
    if len(rows) == 1:
        rows[0].pop(GROUP, None)
        return rows
    return [row | {GROUP: f"{number}:{row[GROUP]}"} for row in rows]


def _count(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rollouts of an evaluation of simlab's, a line of which has how many of so many samples are correct."""
    samples = record["samples"]
    return [
        {"step": record.get("step", 0), "prompt": f"evaluation problem {problem}", "reward": float(sample < correct)}
        for problem, correct in enumerate(record["correct"])
        for sample in range(min(samples, MOST_SAMPLES))
    ]


def unwrap(document: Any) -> list[Any]:
    """Return the records of a file that is one JSON value: of a list its items, of an object its longest list."""
    if not isinstance(document, dict):
        return document if isinstance(document, list) else [document]
    if records := _transpose(document) or _entries(document):
        return records
    lists = {key: value for key, value in document.items() if _is_objects(value)}
    if not lists or any(leaf(key) in JUDGED for key in document):
        return [document]
    key = max(lists, key=lambda name: (any(map(_is_judged, lists[name])), len(lists[name])))
    above = {name: value for name, value in document.items() if not isinstance(value, list | dict)}
    return [above | item if isinstance(item, dict) else item for item in lists[key]]


def _transpose(document: Mapping[str, Any]) -> list[Any] | None:
    """Return the rows of a table: names of columns and data, or cells by the number of the row, as pandas has it."""
    names, rows = document.get("columns"), document.get("data")
    if isinstance(names, list) and isinstance(rows, list) and all(isinstance(row, list) for row in rows):
        return [dict(zip(names, row, strict=False)) for row in rows]
    keys = [list(column) if isinstance(column, dict) else [] for column in document.values()]
    if not keys or keys[0][:1] != ["0"] or any(others != keys[0] for others in keys):
        return None
    return [{name: column[key] for name, column in document.items()} for key in keys[0]]


def _is_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and not is_messages(value)


def _is_judged(value: Any, depth: int = 8) -> bool:
    """Return True for an object that has a reward or a verdict, or objects that have."""
    if isinstance(value, list):
        return depth > 0 and bool(value) and _is_judged(value[0], depth - 1)
    if not isinstance(value, dict):
        return False
    return any(leaf(key) in JUDGED or (depth > 0 and _is_judged(item, depth - 1)) for key, item in value.items())


def _entries(node: Mapping[str, Any]) -> list[Any] | None:
    """Return the objects of a table by id, each with its key as ``id``; None for any other object."""
    values = list(node.values())
    if len(values) < 2 or not all(isinstance(value, dict) or _is_objects(value) for value in values):
        return None
    if not all(map(_is_judged, values)) or any(leaf(key) in JUDGED | JUDGED_PARENT for key in node):
        return None
    return [
        {"id": key, **value} if isinstance(value, dict) else {"id": key, "rollouts": value}
        for key, value in node.items()
    ]


def _rows(node: Mapping[str, Any], *, split: bool = True) -> list[dict[str, Any]]:
    above: dict[str, Any] = {}
    axes: list[list[dict[str, Any]]] = []
    for key, value in node.items():
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
    above = {key: value for key, value in above.items() if leaf(key) not in JUDGED}
    return [above | row for row in rows]


def _number(parts: Any) -> list[dict[str, Any]]:
    """Join the rows of the items of a list; those of an item with several have its number in ``GROUP``."""
    return [
        row | {GROUP: f"{number}/{row.get(GROUP, '')}" if len(rows) > 1 else ""}
        for number, rows in enumerate(parts)
        for row in rows
    ]


def _split(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of parallel lists."""
    lists = {key: value for key, value in row.items() if isinstance(value, list) and value and not is_messages(value)}
    scalars = {leaf(key) for key, value in row.items() if key not in lists and value is not None}
    judged = [key for key in lists if leaf(key) in JUDGED or OF_REWARD.search(leaf(key))]
    judged = [key for key in judged if not isinstance(lists[key][0], dict)]
    if not lists or scalars & JUDGED:
        return [row]
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
        {key: _item(key, value, place, size, deep) if key in lists else value for key, value in row.items()}
        for place in range(size)
    ]
    return _number(_rows(piece) for piece in pieces)


def _item(key: str, value: list[Any], place: int, size: int, deep: int) -> Any:
    """Return the part of a list that belongs to one of ``size`` items, which have ``deep`` rollouts each."""
    if isinstance(value[0], int) and ONE_EACH.search(key):
        return value
    if len(value) == size:
        return value[place]
    if deep and len(value) == size * deep:
        return value[place * deep : (place + 1) * deep]
    if len(value) > 1 and size % len(value) == 0:  # a prompt, and then each of its rollouts
        return value[place * len(value) // size]
    return value
