"""Choose the column of each role of a log, by names that trainers use and by what the first rows hold."""

import contextlib
import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simlab.diagnose.reading.cells import (
    CUT_OFF,
    SHOWN,
    Row,
    Unreadable,
    is_absent,
    is_messages,
    json_text,
    read_number,
    read_truncated,
    read_whole,
    split_chat,
)
from simlab.diagnose.reading.names import (
    ANY_ID,
    JUDGED_PARENT,
    NAMES,
    NO_REWARD,
    OF_REWARD,
    OF_TASK,
    OF_VERDICT,
    RIGHT_ANSWER,
    UNSURE,
    candidates,
    leaf,
)
from simlab.diagnose.reading.nesting import GROUP, ROLLOUT, STEP
from simlab.errors import InputError

FILES = "the names of files"
UNSURE_STEPS = ("epoch", "rollout")  # names that may count the samples of a prompt
SHORTEST_COMPLETION = 15  # characters on average of a text of an unknown name
MOST_TASKS = 200  # a column with more values names no tasks


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of a log by role.

    Attributes:
        of: the column of each role that there is.
        rewards: columns whose sum is the reward, those that are null left out.
        components: all columns of parts of the reward, and of other scores.
        split_chat: true where prompt and completion are one conversation.
        no_step: why the column that is named as a step is not used, where no other is.
    """

    of: dict[str, str]
    rewards: tuple[str, ...]
    components: tuple[str, ...]
    split_chat: bool = False
    no_step: str = ""

    def describe(self) -> str:
        """Name the column of each role in one line, those of another name than the role's first."""
        columns = {"reward": " + ".join(self.rewards)} | self.of
        others = [f"`{name}` as {role}" for role, name in columns.items() if leaf(name) != role and role != "mask"]
        by_name = [role for role, name in columns.items() if leaf(name) == role]
        text = f"{', '.join(others)}{'; ' if others and by_name else ''}{', '.join(by_name)}"
        text = text.replace(f"`{GROUP}`", "each record").replace(f"`{STEP}`", FILES).replace(f"`{ROLLOUT}`", FILES)
        return text.replace("log_probability", "logp")


NO_COLUMNS = Columns({}, (), ())


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


def list_columns(rows: Sequence[Row]) -> str:
    """Name the columns of some rows."""
    names = [str(name)[:SHOWN] for name in dict.fromkeys(itertools.chain.from_iterable(rows)) if name[:1] != GROUP]
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "") or "none"


class Chooser:
    """Look at the first rows of a file."""

    def __init__(self, rows: Sequence[Row], named: Mapping[str, str]):
        self.rows, self.named = rows, dict(named)
        self.prompts: list[str] = []
        self.cells: dict[str, list[Any]] = defaultdict(list)  # what is there, of each column
        for row in rows:
            for path, cell in row.items():
                if not is_absent(cell):
                    self.cells[path].append(cell)
        self.paths = [path for path in dict.fromkeys(itertools.chain.from_iterable(rows)) if path[0:1] != GROUP]

    def readable(self, path: str, read: Callable[[Any, str], Any]) -> list[Any]:
        """Return what ``read`` makes of a column's cells; nothing where it refuses most of them."""
        values = []
        for cell in self.cells[path]:
            with contextlib.suppress(Unreadable):
                values.append(read(cell, path))
        return values if 2 * len(values) >= len(self.cells[path]) else []

    def _refused(self, paths: Sequence[str], read: Callable[[Any, str], Any]) -> str:
        """Return the first complaint of ``read`` about the cells of columns; "" where it has none."""
        for path in paths:
            for cell in self.cells[path]:
                try:
                    read(cell, path)
                except Unreadable as why:
                    return str(why)
        return ""

    def named_path(self, name: str, role: str) -> str:
        """Return the column that a user means by its name, or by the end of its path."""
        if name in self.paths:
            return name
        ends = [path for path in self.paths if path.endswith(f".{name}")]
        if len(ends) != 1:
            raise InputError(f"--columns {role}={name}: no column {name!r}; its columns: {list_columns(self.rows)}")
        return ends[0]

    def find(self, role: str, suits: Callable[[str], object]) -> str | None:
        """Return the column of a role: the one that is named, or the most trusted that suits."""
        if role in self.named:
            return self.named_path(self.named[role], role)
        ranked = candidates(role, self.paths, alike=role == "completion")
        return next((path for path in ranked if suits(path)), None)

    def is_text(self, path: str) -> bool:
        """Return True where most cells are texts or lists."""
        texts = sum(
            isinstance(cell, str) or (isinstance(cell, list) and not isinstance(next(iter(cell), ""), float | bool))
            for cell in self.cells[path]
        )
        return texts > 0 and 2 * texts >= len(self.cells[path])

    def is_number(self, path: str) -> bool:
        """Return True where most cells are numbers."""
        return bool(self.readable(path, read_number))

    def is_verdict(self, path: str) -> bool:
        """Return True where most cells are numbers, and those -1, 0 or 1."""
        return set(self.readable(path, read_number) or [2]) <= {-1, 0, 1}

    def choose(self) -> Columns:
        """Return the columns; ``InputError`` where prompt or reward cannot be told."""
        of: dict[str, str | None] = {"step": self.find("step", lambda path: self.readable(path, read_whole))}
        of["step"] = of["step"] or next((path for path in (STEP, ROLLOUT) if self.cells[path]), None)
        steps = [path for path in candidates("step", self.paths) if not self._is_constant(path)]
        no_step = "" if of["step"] else self._refused(steps, read_whole)
        of["completion"] = self.find("completion", self.is_text)
        texts = [path for path in candidates("prompt", self.paths, alike=True) if self._is_prompt(path)]
        texts = [path for path in texts if path != of["completion"]]
        texts.sort(key=self._is_constant)  # an instruction that all share comes last
        of["prompt"] = self.find("prompt", texts.__contains__) if "prompt" in self.named else next(iter(texts), None)
        named = candidates("conversation", self.paths)
        chats = [path for path in (*named, *self.paths) if self._is_chat(path, named, of["completion"])]
        split = bool(chats) and of["completion"] is None and "prompt" not in self.named
        if split:
            of["completion"] = chats[0]
        if of["prompt"] is None:  # an id, since who speaks first may be simulated
            ids = [path for path in candidates("id", self.paths) if self._repeats(path, of["step"])]
            of["prompt"] = next(iter([*ids[:1], *chats]), None)
        split &= of["prompt"] == of["completion"]
        if of["step"] is not None and leaf(of["step"]) in UNSURE_STEPS and self._is_sample(of["step"], of["prompt"]):
            of["step"] = None
        rewards, components, of["correct"] = self._rewards(of["completion"])
        if of["prompt"] is None:
            ids = [path for path in self.paths if ANY_ID.search(leaf(path)) and self._repeats(path)]
            of["prompt"] = next(iter([*candidates("id", self.paths), *ids]), None)
        self.prompts = [json_text(self._prompt(row, of["prompt"], split=split), "prompt") for row in self.rows]
        of["group"] = self._group(of)
        of["prompt"] = of["prompt"] or of["group"] or self._unnamed_text(of, is_prompt=True)
        if of["prompt"] is None:
            columns = list_columns(self.rows)
            raise InputError(f"no column is known as the prompt; needed: --columns prompt=NAME; its columns: {columns}")
        if of["completion"] is None:
            of["completion"] = self._unnamed_text(of, is_prompt=False)
        others = of["prompt"], of["completion"]
        of["answer"] = self.find("answer", lambda path: path not in others and not self._is_gold(path))
        of["truncated"] = self.find("truncated", lambda path: path not in rewards and self._tells_truncated(path))
        of["length"] = self.find("length", self._has_numbers)
        for role in ("advantage", "log_probability", "sampler_log_probability", "entropy"):
            of[role] = self.find(role, lambda path: path not in rewards and self._has_numbers(path))
        of["mask"] = self.find("mask", self._is_list)
        if of["length"] is None and of["log_probability"] is not None and self._is_list(of["log_probability"]):
            of["length"] = of["log_probability"]  # one a token
        of["task"] = self.find("task", lambda path: self._is_task(path, of["prompt"]))
        chosen = {role: path for role, path in of.items() if path is not None}
        return Columns(chosen, rewards, components, split, no_step)

    def _is_prompt(self, path: str) -> bool:
        """Return True for texts and token ids, and for any values of a column with the first of names."""
        return self.is_text(path) or (bool(self.cells[path]) and leaf(path) in NAMES["prompt"][:3])

    def _is_chat(self, path: str, named: Sequence[str], completion: str | None) -> bool:
        """Return True for messages, and texts of a column with such a name; without a completion, of both sides."""
        lists = [cell for cell in self.cells[path] if isinstance(cell, list)]
        return bool(lists) and all(
            (len(cell) > 1 or completion is not None)
            and (is_messages(cell) or (path in named and all(isinstance(item, str) for item in cell)))
            for cell in lists
        )

    def _is_list(self, path: str) -> bool:
        return bool(self.cells[path]) and all(
            isinstance(cell, list) and not isinstance(next(iter(cell), 0), str | dict) for cell in self.cells[path]
        )

    def _has_numbers(self, path: str) -> bool:
        return self.is_number(path) or self._is_list(path)

    def _tells_truncated(self, path: str) -> bool:
        may_tell = leaf(path) != "status" or not CUT_OFF.isdisjoint(map(str, self.cells[path]))
        return may_tell and bool(self.readable(path, read_truncated))

    def _is_sample(self, step: str, prompt: str | None) -> bool:
        """Return True where no step has a prompt twice, so that it counts the samples of a prompt."""
        pairs = [(str(row.get(step)), json_text(row.get(prompt or ""), "prompt")) for row in self.rows]
        return len(set(pairs)) == len(pairs) > (0 if step == ROLLOUT else len({prompt for _, prompt in pairs}))

    def _is_task(self, path: str, prompt: str | None) -> bool:
        values = {cell for cell in self.cells[path] if isinstance(cell, str) and len(cell) <= SHOWN}
        return path != prompt and 1 <= len(values) <= min(MOST_TASKS, 1 + len(self.rows) // 2)

    def _rewards(self, completion: str | None) -> tuple[tuple[str, ...], tuple[str, ...], str | None]:
        """Return the columns of the reward, of its components, and of the verdict."""
        functions = self._functions(completion)
        parts = [path for path in self.paths if self._is_part(path) and self.is_number(path)]
        parts += [path for path in functions if path not in parts]
        correct = self.find("correct", self.is_verdict)
        if correct is None:
            names = [path for path in self.paths if OF_VERDICT.search(leaf(path)) and not NO_REWARD.search(leaf(path))]
            verdicts = [path for path in names if self.is_verdict(path)]
            correct = verdicts[0] if verdicts else self._solved()
        single = self.find("reward", self.is_number)
        if "reward" in self.named and single is not None:
            rewards = [single]
        elif len(functions) > 1 and single in {None, *functions} and not self._is_sum(single, functions):
            rewards = functions
        elif single is not None:
            rewards = [single]
        else:
            flat = [path for path in parts if leaf(path.rpartition(".")[0]) != "metrics"]
            rewards = functions or flat or ([correct] if correct is not None else parts)
        if not rewards:
            empty = [path for path in candidates("reward", self.paths) if not self.cells[path]]
            rewards = self._unnamed_rewards() or empty[:1]
            if len(rewards) != 1:
                refused = self._refused(candidates("reward", self.paths), read_number)
                if refused:
                    raise InputError(f"most rewards cannot be read: {refused}; needed: --columns reward=NAME")
                hint, columns = rewards[0] if rewards else "NAME", list_columns(self.rows)
                why = "no column is known as the reward"
                raise InputError(f"{why}; needed: --columns reward={hint}; columns: {columns}")
        differs = correct not in rewards and not all(map(self._is_constant, rewards))
        if differs and correct is not None and leaf(correct) in UNSURE | {"success"} and self._is_constant(correct):
            correct = None  # whether a request succeeded
        verdicts = [path for path in rewards if self.is_verdict(path) and not self._is_constant(path)]
        if correct is None and len(rewards) > len(verdicts) == 1:
            correct = verdicts[0]  # the others are graded, or always the same
        parts = [path for path in parts if path not in rewards or len(rewards) > 1]
        if correct is not None and correct not in (*parts, *rewards) and self.is_verdict(correct) and parts:
            parts.append(correct)
        return tuple(rewards), tuple(parts), correct

    def _is_constant(self, path: str) -> bool:
        return len(set(map(str, self.cells[path]))) < 2

    def _unnamed_rewards(self) -> list[str]:
        """Return the numbers that have no other role; if one of them alone is a verdict, that one."""
        numbers = [path for path in self.paths if self.is_number(path) and not self._is_constant(path)]
        others = {path for role in NAMES if role not in ("reward", "correct") for path in candidates(role, numbers)}
        numbers = [path for path in numbers if path not in others and leaf(path) not in RIGHT_ANSWER]
        numbers = [path for path in numbers if not NO_REWARD.search(leaf(path))]
        verdicts = [path for path in numbers if self.is_verdict(path)]
        return verdicts if len(verdicts) == 1 else numbers

    def _repeats(self, path: str, step: str | None = None) -> bool:
        """Return True where some cells, of one step, are equal, and others differ."""
        cells = [str(row[path]) for row in self.rows if not is_absent(row.get(path))]
        pairs = {(row.get(step or ""), str(row[path])) for row in self.rows if not is_absent(row.get(path))}
        return len(set(cells)) > 1 and len(pairs) < len(cells)

    def _unnamed_text(self, of: Mapping[str, str | None], *, is_prompt: bool) -> str | None:
        """Return the text of no other role that repeats the most, as prompts do, or the longest."""
        others = [path for path in self.paths if path not in of.values() and self.is_text(path)]
        texts = {path: [cell for cell in self.cells[path] if isinstance(cell, str)] for path in others}
        texts = {path: cells for path, cells in texts.items() if cells}
        if is_prompt:
            distinct = {path: len(set(cells)) for path, cells in texts.items() if self._repeats(path)}
            return min(distinct, key=distinct.__getitem__, default=None)
        texts = {path: cells for path, cells in texts.items() if path.partition(".")[0] not in OF_TASK}
        no_text = NAMES["answer"] + NAMES["id"] + RIGHT_ANSWER
        texts = {path: cells for path, cells in texts.items() if leaf(path) not in no_text}
        lengths = {path: sum(map(len, cells)) / len(cells) for path, cells in texts.items() if len(set(cells)) > 1}
        lengths = {path: length for path, length in lengths.items() if length >= SHORTEST_COMPLETION}
        return max(lengths, key=lengths.__getitem__, default=None)

    def _functions(self, completion: str | None) -> list[str]:
        """Return the columns between completion and advantages, as TRL and ms-swift write a reward function each."""
        advantage = next(iter(candidates("advantage", self.paths)), None)
        if completion is None or advantage is None:
            return []
        start, end = map(self.paths.index, (completion, advantage))
        between = [path for path in self.paths[start + 1 : end] if path.rpartition(".")[0] not in JUDGED_PARENT]
        return [path for path in between if self._is_graded(path)]  # a dictionary of parts may have its sum beside it

    def _is_graded(self, path: str) -> bool:
        """Return True for numbers that are written as such of a reward: floats, and not counts."""
        cells = self.cells[path]
        decimal = all(isinstance(cell, float) or (isinstance(cell, str) and "." in cell) for cell in cells)
        return bool(cells) and decimal and self.is_number(path) and not NO_REWARD.search(leaf(path))

    def _is_part(self, path: str) -> bool:
        parent = leaf(path.rpartition(".")[0])
        is_part = parent in JUDGED_PARENT or OF_REWARD.search(leaf(path))
        others = (name for role in ("reward", "answer", "completion") for name in candidates(role, self.paths))
        return bool(is_part) and not NO_REWARD.search(leaf(path)) and path not in others

    def _is_sum(self, single: str | None, functions: list[str]) -> bool:
        """Return True where one of the columns is the sum of the others, in rows that can be read."""
        if single is None or single not in functions:
            return False
        others, gaps = [path for path in functions if path != single], []
        for row in self.rows:
            with contextlib.suppress(Unreadable):
                total = sum(read_number(row.get(path) or 0, path) for path in others)
                gaps.append(0 if is_absent(row.get(single)) else abs(read_number(row[single], single) - total))
        return all(gap < 1e-6 for gap in gaps)

    def _solved(self) -> str | None:
        """Return the column ``solution`` where it is null for some: simlab's form of right answers alone."""
        cells = [row.get("solution", "") for row in self.rows]
        return "solution" if None in cells and any(isinstance(cell, str) for cell in cells) else None

    def _group(self, of: Mapping[str, str | None]) -> str | None:
        """Return the column of ids that tells groups apart, if one does, and names no single rollout."""
        if "group" in self.named:
            return self.named_path(self.named["group"], "group")
        steps = [json_text(row.get(of["step"] or ""), "step") for row in self.rows]
        outer = list(zip(steps, self.prompts, strict=True))
        records = {(row.get(GROUP), prompt) for row, prompt in zip(self.rows, self.prompts, strict=True)}
        of_records = [GROUP] if len({record for record, _ in records}) == len(records) > 1 else []
        for path in (*candidates("group", self.paths), *candidates("id", self.paths), *of_records):
            ids = [json_text(row.get(path), path) for row in self.rows]
            separate, usual = len(set(zip(outer, ids, strict=True))), len(set(outer))
            names_groups = path != of["prompt"] and (separate < len(self.rows) or usual == len(self.rows))
            if names_groups and (separate > usual or leaf(path) in NAMES["group"] or of["prompt"] is None):
                return path
        return None

    def _prompt(self, row: Row, path: str | None, *, split: bool) -> Any:
        """Return the prompt of a row, null where it cannot be read."""
        with contextlib.suppress(Unreadable):
            return split_chat(row.get(path or ""))[0] if split else row.get(path or "")
        return None

    def _is_gold(self, path: str) -> bool:
        """Return True for the right answer rather than the rollout's: it never differs within a prompt."""
        if leaf(path) not in ("answer", "final_answer", "solution"):
            return False
        answers: dict[str, set[str]] = defaultdict(set)
        rows: dict[str, int] = defaultdict(int)
        for row, key in zip(self.rows, self.prompts, strict=True):
            answers[key].add(json_text(row.get(path), path))
            rows[key] += 1
        repeated = [key for key, count in rows.items() if count > 1]
        constant = bool(repeated) and all(len(answers[key]) == 1 for key in repeated)
        return constant and (leaf(path) != "solution" or len(self.cells[path]) == len(self.rows))
