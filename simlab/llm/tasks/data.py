"""Tasks of a user's own data: files of prompts and answers, and a verifier by name or a reward function of theirs."""

import contextlib
import functools
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from simlab.errors import InputError, check_choice, check_parameters, check_range, check_whole
from simlab.llm.chat import Message
from simlab.llm.tasks.base import Task, TaskProblem
from simlab.llm.tasks.judges import ByFunction, ByVerifier, Judge
from simlab.llm.tasks.left_out import LeftOut
from simlab.llm.tasks.rows import DataRow, checksum, rows
from simlab.llm.tasks.verifiers import verifier as named_verifier
from simlab.llm.tokenizer import Tokenizer
from simlab.llm.vocabulary import Vocabulary, characters

TRAINING, HELD_OUT = "training", "held-out"
HELD_OUT_OF = 8  # one prompt of so many is held out where no evaluation set is named
LONGEST_PROMPT = 2**18  # characters
MOST_TEXT = 2**31  # characters of all prompts and answers of a file
MOST_CHARACTERS = 4096  # different ones, in a vocabulary that is made of the data
TEMPLATES = ("auto", "chat", "none")


@dataclass(frozen=True)
class DataProblem(TaskProblem):
    """A row.

    Attributes:
        asked: what the column of prompts holds: a text, or messages.
        answer: what the column of answers holds, None without one.
        right: the answer as completions are compared with it; "" for a reward function.
        line: where the row stands.
    """

    asked: str | tuple[Message, ...]
    answer: Any
    right: str
    line: int


class DataSplit(NamedTuple):
    """Problems of one file, or of a part of it.

    Attributes:
        problems: in the order of the file.
        left_out: what became of the other rows.
    """

    problems: tuple[DataProblem, ...]
    left_out: LeftOut

    def without(self, lost: Mapping[int, str]) -> "DataSplit":
        """Without the problems of some places, each of which has a reason.

        Raises:
            InputError: if no problem is left.
        """
        left_out = self.left_out.copy()
        for index, reason in lost.items():
            left_out.add(reason, self.problems[index].line)
        problems = tuple(problem for index, problem in enumerate(self.problems) if index not in lost)
        if not problems:
            raise InputError(f"no problem is left: {left_out.in_words()}")
        return DataSplit(problems, left_out)


@dataclass(frozen=True)
class Data(Task[DataProblem]):
    """Problems of files; see ``data``.

    Attributes:
        train: what is trained on.
        evaluate: evaluation sets by name.
        judge: of completions.
        checksums: SHA-256 of the files by name.
        vocabulary: the characters of prompts and demonstrations; None where prompts are messages, or where there are
            more than ``MOST_CHARACTERS``.
        longest, template, system, shuffle: ``max_new_tokens`` and others of ``data``.
        notes: what became of the rows, once the task is put to a model.
    """

    train: DataSplit
    evaluate: Mapping[str, DataSplit]
    judge: Judge
    checksums: Mapping[str, str]
    vocabulary: Vocabulary | None
    longest: int
    template: str
    system: str
    shuffle: bool
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
    def max_new_tokens(self) -> int:
        """The longest completion, of the settings."""
        return self.longest

    @property
    def files(self) -> Mapping[str, str]:
        """The SHA-256 of each file."""
        return self.checksums

    @property
    def own_functions(self) -> Mapping[str, object]:
        """The reward function, where there is one."""
        return self.judge.own_functions

    def training(self, index: int) -> DataProblem:
        """The training problems, over and over; each pass has them all, in an order of its own.

        Raises:
            InputError: for a negative index.
        """
        check_whole("index of a training problem", index, 0)
        number, index = divmod(index, len(self.train.problems))
        return self.train.problems[_order(len(self.train.problems), number)[index] if self.shuffle else index]

    def demonstration(self, problem: DataProblem) -> str:
        """The answer, as the verifier wants it.

        Raises:
            InputError: for an answer that makes no completion.
        """
        return self.judge.demonstration(problem.answer)

    def solution(self, problem: DataProblem, completion: str) -> str | None:
        """Return the canonical form of a correct completion, as the judge sees it.

        Raises:
            InputError: if a reward function raises or returns no finite number.
        """
        return self.judge.solution(_as_json(problem.asked), completion, problem.answer, problem.right)

    def reward(self, problem: DataProblem, completion: str) -> float:
        """Return the reward that the judge gives.

        Raises:
            InputError: if a reward function raises or returns no finite number.
        """
        return self.judge.reward(_as_json(problem.asked), completion, problem.answer, problem.right)

    def put_to(self, vocabulary: Vocabulary, max_positions: int, demonstrated: bool) -> "Data":
        """With prompts in the model's chat template, and without problems that are too long for it.

        Raises:
            InputError: for a template that is asked for and not there, or that is refused, and if a set loses all of
                its problems.
        """
        chat = vocabulary.chat_template if isinstance(vocabulary, Tokenizer) and self.template != "none" else None
        if chat is None and self.template == "chat":
            raise InputError("task.template = 'chat' of a model without a chat template; allowed: auto or none")
        if chat is not None:
            chat.check()
        room = max_positions - self.longest
        if room < 1:
            raise InputError(
                f"task.max_new_tokens = {self.longest}; allowed: less than the model's context of {max_positions}"
            )

        def prompt(problem: DataProblem) -> str:
            if chat is not None:
                return chat.render(self._messages(problem))
            if not isinstance(problem.asked, str):
                raise InputError("messages without a chat template")
            return problem.asked

        def fit(split: DataSplit, demonstrated: bool) -> DataSplit:
            shown, lost = list[DataProblem](), dict[int, str]()
            for index, problem in enumerate(split.problems):
                try:
                    shown.append(replace(problem, prompt=prompt(problem)))
                    _check_length("prompt", vocabulary.encode(shown[-1].prompt), room)
                    if demonstrated:
                        answer = vocabulary.encode(self.demonstration(problem))
                        _check_length("answer", answer, self.longest - 1)
                except InputError as error:
                    shown[index:] = [problem]
                    lost[index] = str(error)
            return DataSplit(tuple(shown), split.left_out).without(lost)

        train = fit(self.train, demonstrated)
        evaluate = {name: fit(split, False) for name, split in self.evaluate.items()}
        how = "in the model's chat template" if chat is not None else "as they stand, without a chat template"
        counts = [f"{name}: {split.left_out.in_words()}" for name, split in {TRAINING: train, **evaluate}.items()]
        return replace(self, train=train, evaluate=evaluate, notes=(*counts, f"prompts are given {how}"))

    def _messages(self, problem: DataProblem) -> list[Message]:
        if not isinstance(problem.asked, str):
            return [*problem.asked]
        first = [Message("system", self.system)] if self.system else []
        return [*first, Message("user", problem.asked)]


def _check_length(what: str, tokens: Sequence[int], room: int) -> None:
    if not tokens:
        raise InputError(f"{what} of no tokens")
    if len(tokens) > room:
        raise InputError(f"{what} of more than {room} tokens")


def data(
    *,
    train: str = "",
    evaluate: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    verifier: str = "exact",
    reward: str = "",
    correct_from: float = 1.0,
    max_new_tokens: int = 256,
    evaluation_size: int = 256,
    template: str = "auto",
    system: str = "",
    shuffle: bool = True,
) -> Data:
    """A task of files: JSON Lines, CSV or Parquet.

    A row that cannot be used is left out, counted and named by its line: ``Data.notes`` says so. A training prompt that
    is one of an evaluation set too is left out of training, and one that stands twice in an evaluation set counts once.

    Args:
        train: file of the training rows.
        evaluate: files of evaluation sets by name, the first of which is the one that is followed; without any, one
            prompt in eight of the training file is held out, those of the smallest hashes.
        columns: the names of the columns ``prompt`` and ``answer``, where they are others. A prompt is a text, or a
            list of messages with ``role`` and ``content``.
        verifier: see ``simlab.llm.tasks.verifiers``.
        reward: ``FILE.py:NAME`` of a function in place of the verifier. It is called with a prompt (a text or
            messages), a completion and an answer (any JSON value, None where there is none).
        correct_from: a completion of this reward or more counts as correct; for a reward function.
        max_new_tokens: the longest completion in tokens, the end token included.
        evaluation_size: the most problems of an evaluation set; the others of its file have no part in the run.
        template: whether prompts are put into the model's chat template: "chat", "none", or "auto" for where there is
            one. Messages need one.
        shuffle: whether each pass through the training rows has an order of its own, or all have that of the file.
        system: a system message before prompts that are texts; "" for none. It needs a chat template.

    Raises:
        InputError: for a file that cannot be read or of which no row is left, a name that is unknown, and for numbers
            outside their ranges.
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
    names_of_columns, named = {**(columns or {})}, {**(evaluate or {})}
    check_parameters("task.columns", names_of_columns, ("prompt", "answer"))
    if TRAINING in named:
        raise InputError(f"an evaluation set is called {TRAINING!r}; allowed: another name")
    judge = ByFunction(reward, correct_from) if reward else ByVerifier(named_verifier(verifier))
    names = names_of_columns.get("prompt", "prompt"), names_of_columns.get("answer", "answer")
    split, sets = _read(train, names, judge), {name: _read(file, names, judge) for name, file in named.items()}
    if sets:
        sets = {name: _first(_once(results), evaluation_size) for name, results in sets.items()}
        prompts = {problem.asked for results in sets.values() for problem in results.problems}
        reason = "prompt of an evaluation set"
        split = split.without(
            {index: reason for index, problem in enumerate(split.problems) if problem.asked in prompts}
        )
    else:
        split, held_out = _held_out(split, evaluation_size)
        sets = {HELD_OUT: held_out}
    files = {file: checksum(Path(file)) for file in (train, *named.values())}
    vocabulary = _characters(judge, (split, *sets.values()))
    return Data(split, sets, judge, files, vocabulary, max_new_tokens, template, system, shuffle)


def _characters(judge: Judge, splits: Iterable[DataSplit]) -> Vocabulary | None:
    """The vocabulary of all prompts and demonstrations; see ``Data``."""
    results: set[str] = set()
    for problem in (problem for split in splits for problem in split.problems):
        if not isinstance(problem.asked, str):
            return None
        results.update(problem.asked)
        with contextlib.suppress(InputError):  # an answer that makes no demonstration
            results.update(judge.demonstration(problem.answer))
    return characters("".join(sorted(results))) if len(results) <= MOST_CHARACTERS else None


def _read(file: str, names: tuple[str, str], judge: Judge) -> DataSplit:
    """The problems of a file."""
    left_out, problems, text = LeftOut(file), list[DataProblem](), 0
    for row in rows(Path(file), names):
        left_out.rows += 1
        try:
            problems.append(_problem(row, names, judge))
        except InputError as error:
            left_out.add(str(error), row.line)
            continue
        text += len(str(problems[-1].asked)) + len(str(problems[-1].answer))
        if text > MOST_TEXT:
            raise InputError(f"{file} has more than {MOST_TEXT} characters of prompts and answers; allowed: fewer")
    return DataSplit(tuple(problems), left_out).without({})


def _problem(row: DataRow, names: tuple[str, str], judge: Judge) -> DataProblem:
    """The problem of a row.

    Raises:
        InputError: if it has none; why, in few words.
    """
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


def _asked(value: Any) -> str | tuple[Message, ...]:
    if isinstance(value, list):
        if not value:
            raise InputError("empty prompt")
        return tuple(map(_message, value))
    return _checked_prompt(value)


def _message(value: Any) -> Message:
    if not (isinstance(value, dict) and isinstance(value.get("role"), str)):
        raise InputError("prompt with a message that has no role")
    return Message(value["role"], _checked_prompt(value.get("content")))


def _checked_prompt(value: Any) -> str:
    if not isinstance(value, str):
        raise InputError("no prompt" if value is None else "prompt that is no text")
    if not value.strip():
        raise InputError("empty prompt")
    if len(value) > LONGEST_PROMPT:
        raise InputError(f"prompt of more than {LONGEST_PROMPT} characters")
    _check_text("prompt", value)
    return value


def _check_text(what: str, value: Any) -> None:
    """Raise ``InputError`` for a text with half a character, as JSON and what is no UTF-8 may bring."""
    try:
        (value if isinstance(value, str) else "").encode()
    except UnicodeEncodeError:
        raise InputError(f"{what} that is no Unicode") from None


def _as_json(asked: str | tuple[Message, ...]) -> Any:
    """A prompt as it stands in a file of JSON."""
    return asked if isinstance(asked, str) else [message._asdict() for message in asked]


def _once(split: DataSplit) -> DataSplit:
    """Without the problems whose prompts came before."""
    prompts, lost = set(), dict[int, str]()
    for index, problem in enumerate(split.problems):
        if problem.asked in prompts:
            lost[index] = "prompt that stands there before"
        prompts.add(problem.asked)
    return split.without(lost)


def _first(split: DataSplit, most: int) -> DataSplit:
    return split.without(
        {index: f"more than the {most} of task.evaluation_size" for index in range(most, len(split.problems))}
    )


def _held_out(split: DataSplit, most: int) -> tuple[DataSplit, DataSplit]:
    """Split the problems into training and evaluation; the prompts of the smallest hashes are held out.

    Raises:
        InputError: for fewer than two prompts.
    """
    prompts = sorted({problem.asked for problem in split.problems}, key=_hash)
    if len(prompts) < 2:
        raise InputError(f"{split.left_out.file} has one prompt, of which none can be held out; allowed: --evaluate")
    chosen = set(prompts[: min(most, max(1, len(prompts) // HELD_OUT_OF))])
    held_out = {index: "held out" for index, problem in enumerate(split.problems) if problem.asked in chosen}
    problems = tuple(split.problems[index] for index in held_out)
    return split.without(held_out), _once(DataSplit(problems, LeftOut(split.left_out.file, len(problems))))


@functools.lru_cache(maxsize=4)
def _order(count: int, number: int) -> list[int]:
    """The order of a pass."""
    order = [*range(count)]
    Random(int.from_bytes(hashlib.sha256(f"{count} {number}".encode()).digest())).shuffle(order)
    return order


def _hash(asked: str | tuple[Message, ...]) -> bytes:
    return hashlib.sha256(repr(asked).encode()).digest()
