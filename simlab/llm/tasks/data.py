"""Tasks of a user's own data: files of prompts and answers, and a verifier by name or a reward function of theirs."""

import contextlib
import functools
import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from simlab.errors import InputError, check_choice, check_parameters, check_range, check_whole
from simlab.llm.tasks.base import Task, TaskProblem, Verdict
from simlab.llm.tasks.rewards import WeightedReward, checked_result, judged
from simlab.llm.tasks.rows import DataRow, checksum, rows
from simlab.llm.tasks.verifiers import Verifier
from simlab.llm.tasks.verifiers import verifier as named_verifier
from simlab.llm.tokenizer import Message, Tokenizer
from simlab.llm.vocabulary import Vocabulary, characters

TRAINING, HELD_OUT = "training", "held-out"
HELD_OUT_OF = 8  # one prompt of so many is held out where no evaluation set is named
MOST_CHARACTERS = 4096  # different ones, in a vocabulary that is made of the data
LINES_SHOWN, REASONS_SHOWN = 5, 8
TEMPLATES = ("auto", "chat", "none")
Asked = str | tuple[Message, ...]


@dataclass(frozen=True)
class DataProblem(TaskProblem):
    """A row."""

    asked: Asked  # the content of the column of prompts: a text, or messages
    answer: Any  # the content of the column of answers, None without one
    right: str  # the answer as completions are compared with it; "" for a reward function
    line: int  # the place of the row


class DataSplit(NamedTuple):
    """Problems of one file, or of a part of it."""

    file: str  # its name, as the user wrote it
    rows: int  # the number of all
    problems: tuple[DataProblem, ...]  # in the order of the file
    left_out: Mapping[str, list[int]]  # the lines of the other rows, by reason

    def without(self, lost: Mapping[int, str]) -> "DataSplit":
        """Leave out the problems of some places, each for a reason; ``InputError`` if no problem is left."""
        left_out = {reason: [*lines] for reason, lines in self.left_out.items()}
        for index, reason in lost.items():
            left_out.setdefault(reason, []).append(self.problems[index].line)
        problems = tuple(problem for index, problem in enumerate(self.problems) if index not in lost)
        split = self._replace(problems=problems, left_out=left_out)
        if not problems:
            raise InputError(f"no problem is left: {split.in_words()}")
        return split

    def in_words(self) -> str:
        """Summarise in words: the number of rows that are used, and the reasons and lines of the others.

        >>> DataSplit("x.jsonl", 9, (), {"empty prompt": [2, 7]}).in_words()
        'x.jsonl: 7 of 9 rows; left out: 2 (empty prompt: lines 2, 7)'
        """
        lost, reasons = sum(map(len, self.left_out.values())), list[str]()
        for reason, lines in [*self.left_out.items()][:REASONS_SHOWN]:
            more = f" and {len(lines) - LINES_SHOWN} more" if len(lines) > LINES_SHOWN else ""
            shown = ", ".join(map(str, lines[:LINES_SHOWN])) + more
            reasons.append(f"{reason}: line{'s' if len(lines) > 1 else ''} {shown}")
        if len(self.left_out) > REASONS_SHOWN:
            reasons.append("and other reasons")
        summary = f"{self.file}: {self.rows - lost} of {self.rows} rows"
        return f"{summary}; left out: {lost} ({'; '.join(reasons)})" if lost else summary


@dataclass(frozen=True)
class Judge:
    """A verifier, or rewards with weights, of which it may be one."""

    verifier: Verifier | None  # None where there are functions alone
    rewards: tuple[WeightedReward, ...]
    correct_from: float  # a completion whose first reward is this or more counts as correct

    @classmethod
    def of(cls, verifier: str, reward: str | Sequence[str], correct_from: float) -> "Judge":
        """Read the names of the settings; ``InputError`` for a name of no verifier or function."""
        texts = [reward] if isinstance(reward, str) else reward
        rewards = tuple(WeightedReward.read(text) for text in texts if text)
        verifies = not rewards or any(each.function is None for each in rewards)
        return cls(named_verifier(verifier) if verifies else None, rewards, correct_from)

    def right(self, answer: Any) -> str:
        """Return the answer as completions are compared with it; ``InputError`` for one that cannot be read."""
        if self.verifier is None:
            return ""
        right = self.verifier.right_answer(_as_text(answer))
        if right is None:
            raise InputError("answer that the verifier cannot read")
        return right

    def demonstration(self, answer: Any) -> str:
        """Return a completion that gives the answer; ``InputError`` for an answer that makes none."""
        text = _as_text(answer)
        return text if self.verifier is None else self.verifier.demonstration(text)

    def verdict(self, problem: DataProblem, completion: str) -> Verdict:
        """Judge a completion by the verifier, or by the rewards, of which the first says what is correct."""
        right = None if self.verifier is None else self.verifier.solution(problem.right, completion)
        verified = float(right is not None)
        if not self.rewards:
            return Verdict(verified, right)
        asked = problem.asked if isinstance(problem.asked, str) else [turn._asdict() for turn in problem.asked]
        several = len(self.rewards) > 1

        def result(function: Callable[..., object] | None) -> Any:
            if function is None:
                return verified
            run = functools.partial(function, asked, completion, problem.answer)
            return checked_result(str(asked), run, may_miss=several)

        results = [result(each.function) for each in self.rewards]
        parts = [part for each, result in zip(self.rewards, results, strict=True) for part in each.parts(result)]
        judgement = judged(parts, lambda: completion.strip() if right is None else right, self.correct_from)
        plain = not several and self.rewards[0].weight == 1 and not isinstance(results[0], dict)
        return judgement._replace(parts=()) if plain else judgement


def _as_text(answer: Any) -> str:
    """Write a text or a number as a text, a float without an exponent."""
    if isinstance(answer, float) and math.isfinite(answer):
        return format(Decimal(repr(answer)), "f")
    if isinstance(answer, int) and not isinstance(answer, bool):
        return str(answer)
    if not isinstance(answer, str):
        raise InputError("no answer" if answer is None else "answer that is no text or number")
    if not answer.strip():
        raise InputError("empty answer")
    return answer


@dataclass(frozen=True)
class Data(Task[DataProblem]):
    """Problems of files; see ``data``. Once it is put to a model, ``notes`` tell which rows are left out."""

    train: DataSplit
    evaluate: Mapping[str, DataSplit]  # evaluation sets by name
    judge: Judge
    checksums: Mapping[str, str]  # SHA-256 of the files by name
    vocabulary: Vocabulary | None  # of ``_characters``
    template: str
    system: str
    shuffle: bool
    max_new_tokens: int = 256
    notes: tuple[str, ...] = ()
    name: str = field(default="data", init=False)
    stop: str | None = field(default=None, init=False)

    @property
    def listed(self) -> tuple[DataProblem, ...]:
        """The training problems."""
        return self.train.problems

    @property
    def evaluation(self) -> tuple[DataProblem, ...]:
        """The first evaluation set."""
        return next(iter(self.evaluate.values())).problems

    @property
    def evaluation_sets(self) -> Mapping[str, tuple[DataProblem, ...]]:
        """The evaluation sets by name, or the problems that are held out."""
        return {name: split.problems for name, split in self.evaluate.items()}

    @property
    def files(self) -> Mapping[str, str]:
        """The SHA-256 of each file."""
        return self.checksums

    @property
    def own_functions(self) -> Mapping[str, object]:
        """The reward functions."""
        return {each.reference: each.function for each in self.judge.rewards if each.function is not None}

    def training(self, index: int) -> DataProblem:
        """Return the training problems, over and over; each pass has them all, in an order of its own."""
        check_whole("index of a training problem", index, 0)
        number, index = divmod(index, len(self.train.problems))
        return self.train.problems[_order(len(self.train.problems), number)[index] if self.shuffle else index]

    def demonstration(self, problem: DataProblem) -> str:
        """Return the answer, as the verifier wants it; ``InputError`` for one that makes no completion."""
        return self.judge.demonstration(problem.answer)

    def verdict(self, problem: DataProblem, completion: str) -> Verdict:
        """Judge a completion; ``InputError`` if a reward function raises or returns what is no finite number."""
        return self.judge.verdict(problem, completion)

    def solution(self, problem: DataProblem, completion: str) -> str | None:
        """Return the canonical form of a correct completion."""
        return self.verdict(problem, completion).solution

    def reward(self, problem: DataProblem, completion: str) -> float:
        """Return the reward, or the weighted sum of rewards."""
        return self.verdict(problem, completion).reward

    def put_to(self, vocabulary: Vocabulary, max_positions: int, demonstrated: bool) -> "Data":
        """Put prompts into the model's chat template, and leave out problems that are too long for it."""
        chat = vocabulary.chat_template if isinstance(vocabulary, Tokenizer) and self.template != "none" else None
        if chat is None and self.template == "chat":
            raise InputError("task.template = 'chat' of a model without a chat template; allowed: auto or none")
        if chat is not None:
            _ = chat.template  # refused here for all rows, if it cannot be read
        room = max_positions - self.max_new_tokens
        if room < 1:
            allowed = f"less than the model's context of {max_positions}"
            raise InputError(f"task.max_new_tokens = {self.max_new_tokens}; allowed: {allowed}")

        def prompt(asked: Asked) -> str:
            if chat is None:
                if isinstance(asked, str):
                    return asked
                raise InputError("messages without a chat template")
            if not isinstance(asked, str):
                return chat.render(asked)
            first = [Message("system", self.system)] if self.system else []
            return chat.render([*first, Message("user", asked)])

        def fit(split: DataSplit, demonstrated: bool) -> DataSplit:
            shown, lost = list[DataProblem](), dict[int, str]()
            for index, problem in enumerate(split.problems):
                try:
                    shown.append(replace(problem, prompt=prompt(problem.asked)))
                    _check_length("prompt", vocabulary.encode(shown[-1].prompt), room)
                    if demonstrated:
                        answer = vocabulary.encode(self.demonstration(problem))
                        _check_length("answer", answer, self.max_new_tokens - 1)
                except InputError as error:
                    shown[index:] = [problem]
                    lost[index] = str(error)
            return split._replace(problems=tuple(shown)).without(lost)

        train = fit(self.train, demonstrated)
        evaluate = {name: fit(split, False) for name, split in self.evaluate.items()}
        how = "in the model's chat template" if chat is not None else "as they stand, without a chat template"
        counts = [f"{name}: {split.in_words()}" for name, split in {TRAINING: train, **evaluate}.items()]
        return replace(self, train=train, evaluate=evaluate, notes=(*counts, f"prompts are given {how}"))


def _check_length(name: str, tokens: Sequence[int], room: int) -> None:
    if not tokens:
        raise InputError(f"{name} of no tokens")
    if len(tokens) > room:
        raise InputError(f"{name} of more than {room} tokens")


def data(
    *,
    train: str = "",
    evaluate: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    verifier: str = "exact",
    reward: str | Sequence[str] = "",
    correct_from: float = 1.0,
    max_new_tokens: int = 256,
    evaluation_size: int = 256,
    template: str = "auto",
    system: str = "",
    shuffle: bool = True,
) -> Data:
    """Make a task of files: JSON Lines, CSV or Parquet.

    A row that cannot be used is left out, counted and named by its line: ``Data.notes`` says so. A training prompt that
    is one of an evaluation set too is left out of training, and one that stands twice in an evaluation set counts once.

    Args:
        train: file of the training rows.
        evaluate: files of evaluation sets by name, the first of which is the one that is followed; without any, one
            prompt in eight of the training file is held out, those of the smallest hashes.
        columns: the names of the columns ``prompt`` and ``answer``, where they are others. A prompt is a text, or a
            list of messages with ``role`` and ``content``.
        verifier: see ``simlab.llm.tasks.verifiers``.
        reward: ``FILE.py:NAME`` of a function in place of the verifier, or several, with ``@WEIGHT``, or
            ``@PART=WEIGHT,...``, behind them; ``verifier`` is the verifier. A function is called with a prompt (a text
            or messages), a completion and an answer (any JSON value, None where there is none), and returns a number,
            or a dictionary of numbers. None among several is missing.
        correct_from: a completion whose first reward is this or more counts as correct; for reward functions.
        max_new_tokens: the longest completion in tokens, the end token included.
        evaluation_size: the most problems of an evaluation set; the others of its file have no part in the run.
        template: put prompts into the model's chat template: "chat", "none", or "auto" for where there is one. Messages
            need one.
        shuffle: each pass through the training rows has an order of its own; else all have that of the file.
        system: a system message before prompts that are texts; "" for none. It needs a chat template.

    Raises: InputError: for a file that cannot be read or of which no row is left, a name that is unknown, and for
    numbers outside their ranges.
    """
    if not train:
        raise InputError("the task data has no file of training rows; allowed: --data FILE, or task.train")
    check_whole("task.max_new_tokens", max_new_tokens, 2)
    check_whole("task.evaluation_size", evaluation_size, 1)
    check_range("task.correct_from", correct_from)
    check_choice("task.template", template, TEMPLATES)
    check_choice("task.shuffle", shuffle, (True, False))
    if system and template == "none":
        raise InputError("task.system is for a chat template; allowed with task.template: auto or chat")
    renamed, named = {**(columns or {})}, {**(evaluate or {})}
    check_parameters("task.columns", renamed, ("prompt", "answer"))
    if TRAINING in named:
        raise InputError(f"an evaluation set is called {TRAINING!r}; allowed: another name")
    judge = Judge.of(verifier, reward, correct_from)
    names = renamed.get("prompt", "prompt"), renamed.get("answer", "answer")
    split, sets = _read(train, names, judge), {name: _read(file, names, judge) for name, file in named.items()}
    if sets:
        sets = {name: _first(_once(results), evaluation_size) for name, results in sets.items()}
        prompts = {problem.asked for results in sets.values() for problem in results.problems}
        places = [index for index, problem in enumerate(split.problems) if problem.asked in prompts]
        split = split.without(dict.fromkeys(places, "prompt of an evaluation set"))
    else:
        split, sets[HELD_OUT] = _hold_out(split, evaluation_size)
    files = {file: checksum(Path(file)) for file in (train, *named.values())}
    vocabulary = _characters(judge, (split, *sets.values()))
    return Data(split, sets, judge, files, vocabulary, template, system, shuffle, max_new_tokens=max_new_tokens)


def _characters(judge: Judge, splits: Iterable[DataSplit]) -> Vocabulary | None:
    """Return the characters of prompts and demonstrations; None for messages, or for more than ``MOST_CHARACTERS``."""
    results: set[str] = set()
    for problem in (problem for split in splits for problem in split.problems):
        if not isinstance(problem.asked, str):
            return None
        results.update(problem.asked)
        with contextlib.suppress(InputError):  # an answer that makes no demonstration
            results.update(judge.demonstration(problem.answer))
    return characters("".join(sorted(results))) if len(results) <= MOST_CHARACTERS else None


def _read(file: str, names: tuple[str, str], judge: Judge) -> DataSplit:
    left_out, problems, count = dict[str, list[int]](), list[DataProblem](), 0
    for row in rows(Path(file), names):
        count += 1
        try:
            problems.append(_problem(row, names, judge))
        except InputError as error:
            left_out.setdefault(str(error), []).append(row.line)
    return DataSplit(file, count, tuple(problems), left_out).without({})


def _problem(row: DataRow, names: tuple[str, str], judge: Judge) -> DataProblem:
    """Return the problem of a row; ``InputError`` with the reason, in few words, if it has none."""
    if row.fault:
        raise InputError(row.fault)
    prompt, answer = names
    if prompt not in row.values:
        raise InputError(f"no column {prompt!r} among {', '.join(map(repr, row.values)) or 'none'}")
    asked, right_answer = _asked(row.values[prompt]), row.values.get(answer)
    right = judge.right(right_answer)
    for text in (right_answer, right):
        _check_text("answer", text)
    return DataProblem(asked if isinstance(asked, str) else "", asked, right_answer, right, row.line)


def _asked(value: Any) -> Asked:
    if not isinstance(value, list):
        return _checked_prompt(value)
    if not value:
        raise InputError("empty prompt")
    for turn in value:
        if not (isinstance(turn, dict) and isinstance(turn.get("role"), str)):
            raise InputError("prompt with a message that has no role")
    return tuple(Message(turn["role"], _checked_prompt(turn.get("content"))) for turn in value)


def _checked_prompt(value: Any) -> str:
    if not isinstance(value, str):
        raise InputError("no prompt" if value is None else "prompt that is no text")
    if not value.strip():
        raise InputError("empty prompt")
    _check_text("prompt", value)
    return value


def _check_text(name: str, value: Any) -> None:
    """Raise ``InputError`` for a text with half a character, as JSON and what is no UTF-8 may bring."""
    try:
        (value if isinstance(value, str) else "").encode()
    except UnicodeEncodeError:
        raise InputError(f"{name} that is no Unicode") from None


def _once(split: DataSplit) -> DataSplit:
    """Leave out the problems whose prompts came before."""
    first: dict[Asked, int] = {}
    places = [index for index, problem in enumerate(split.problems) if first.setdefault(problem.asked, index) != index]
    return split.without(dict.fromkeys(places, "prompt that stands there before"))


def _first(split: DataSplit, most: int) -> DataSplit:
    reason = f"more than the {most} of task.evaluation_size"
    return split.without(dict.fromkeys(range(most, len(split.problems)), reason))


def _hold_out(split: DataSplit, most: int) -> tuple[DataSplit, DataSplit]:
    """Split the problems into training and evaluation; the prompts of the smallest hashes are held out."""
    prompts = sorted({problem.asked for problem in split.problems}, key=lambda asked: _sha256(repr(asked)))
    if len(prompts) < 2:
        raise InputError(f"{split.file} has one prompt, of which none can be held out; allowed: --evaluate")
    chosen = set(prompts[: min(most, max(1, len(prompts) // HELD_OUT_OF))])
    places = [index for index, problem in enumerate(split.problems) if problem.asked in chosen]
    problems = tuple(split.problems[index] for index in places)
    return split.without(dict.fromkeys(places, "held out")), _once(DataSplit(split.file, len(problems), problems, {}))


@functools.lru_cache(maxsize=4)
def _order(count: int, number: int) -> list[int]:
    order = [*range(count)]
    Random(int.from_bytes(_sha256(f"{count} {number}"))).shuffle(order)
    return order


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
