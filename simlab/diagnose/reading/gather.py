"""Gather rows into the groups of a ``Log``: in memory that grows with groups and answers, not with rows or texts."""

import hashlib
import itertools
from typing import NamedTuple

import numpy as np

from simlab.diagnose.log import Answers, Confidence, Log
from simlab.diagnose.reading.sample import UniformSample
from simlab.diagnose.reading.tally import Tally, numbered

ROWS_AT_ONCE = 2**14
PROMPT_SHOWN = 80  # characters of a prompt that are kept
NO_ANSWER = 0  # in place of the hash of an answer


class Row(NamedTuple):
    """One rollout.

    Attributes:
        prompt: its text, which tells it from others.
        shown: what people see of it; of a conversation the last message.
        step: the step of the training.
        reward: its reward.
        correct: whether the reward reaches the threshold.
        answer: the canonical form, None for an incorrect rollout and where there is none.
        log_probability: in nats, None where there is none.
        length: in tokens, 0 where it is not told.
        content: what tells a row from others where steps may be repeated; else empty.
    """

    prompt: str
    shown: str
    step: int
    reward: float
    correct: bool
    answer: str | None
    log_probability: float | None
    length: int
    content: str


class Gathered(NamedTuple):
    """What the rows make.

    Attributes:
        log: their groups.
        mean_reward: the mean reward of its rows.
        repeated: steps that were left out since they repeat the step before.
    """

    log: Log
    mean_reward: float
    repeated: int


class Gatherer:
    """Takes rows in any order, and makes a ``Log`` of them.

    Prompts are told apart by 128 bits of a hash, and the answers of a prompt by 63: of a million different answers of
    one prompt two are mistaken for one with a probability of 1e-7.

    Args:
        rows_at_once: after how many rows they are added up.
    """

    def __init__(self, rows_at_once: int = ROWS_AT_ONCE):
        self._prompts: dict[bytes, int] = {}
        self._shown: list[str] = []
        self._waiting: list[tuple[int, int, float, bool, int, float, int]] = []
        self._groups, self._answers = Tally(2, 3), Tally(3, 1)
        self._sample = UniformSample(5)
        self._contents: dict[int, int] = {}
        self._rows_at_once = rows_at_once

    def add(self, row: Row) -> None:
        """Add one rollout."""
        log_probability = np.nan if row.log_probability is None else row.log_probability
        answer = NO_ANSWER if row.answer is None else answer_hash(row.answer)
        self._waiting.append(
            (row.step, self._prompt(row), row.reward, row.correct, answer, log_probability, row.length)
        )
        if row.content:
            added = self._contents.get(row.step, 0) + int.from_bytes(_digest(row.content, 16), "big")
            self._contents[row.step] = added % 2**128
        if len(self._waiting) >= self._rows_at_once:
            self._flush()

    def _prompt(self, row: Row) -> int:
        number = self._prompts.setdefault(_digest(row.prompt, 16), len(self._shown))
        if number == len(self._shown):
            self._shown.append(row.shown[:PROMPT_SHOWN])
        return number

    def _flush(self) -> None:
        if not self._waiting:
            return
        step, prompt, reward, correct, answer, log_probability, length = zip(*self._waiting, strict=True)
        self._waiting = []
        keys = np.array([step, prompt], np.uint64).T
        self._groups.add(keys, np.array([np.ones(len(keys)), correct, reward]).T)
        answers = np.array(answer, np.uint64)
        told = answers != NO_ANSWER
        with_answers = np.concatenate([keys, answers[:, None]], axis=1)[told]
        self._answers.add(with_answers, np.ones((told.sum(), 1)))
        columns = np.array([step, prompt, correct, log_probability, length], float).T
        self._sample.add(columns[~np.isnan(columns[:, 3])])

    def log(self, form: str, *, answers: bool) -> "Gathered":
        """The log of all rows.

        Args:
            form: the name of its format.
            answers: whether the rows have answers.
        """
        self._flush()
        keys, sums = self._groups.totals()
        repeated = self._repeated()
        kept = ~np.isin(keys[:, 0], np.array(repeated, np.uint64))
        log = Log(
            form,
            prompt=keys[:, 1].astype(np.int64),
            step=keys[:, 0].astype(np.int64),
            group_size=sums[:, 0].astype(np.int64),
            correct=sums[:, 1].astype(np.int64),
            prompts=tuple(self._shown),
            answers=self._answers_of(keys) if answers else None,
            confidence=self._confidence_of(keys),
        )
        mean_reward = float(sums[kept, 2].sum() / sums[kept, 0].sum())
        return Gathered(log if kept.all() else log.where(kept), mean_reward, len(repeated))

    def _repeated(self) -> list[int]:
        """The steps whose rows are those of the step before."""
        steps = sorted(self._contents)
        pairs = itertools.pairwise(steps)
        return [step for before, step in pairs if self._contents[before] == self._contents[step]]

    def _answers_of(self, groups: np.ndarray) -> Answers:
        keys, sums = self._answers.totals()
        return Answers(_places(groups, keys[:, :2]), numbered(keys[:, 1:]), sums[:, 0].astype(np.int64))

    def _confidence_of(self, groups: np.ndarray) -> Confidence | None:
        rows = self._sample.rows()
        if not len(rows):
            return None
        group = _places(groups, rows[:, :2].astype(np.uint64))
        return Confidence(group, rows[:, 2] == 1, rows[:, 3], rows[:, 4].astype(np.int64))


def answer_hash(answer: str) -> int:
    """63 bits, of which the lowest is 1, so that none is ``NO_ANSWER``."""
    return int.from_bytes(_digest(answer, 8), "big") | 1


def _digest(text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


def _places(groups: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Where each pair of step and prompt stands among the groups, which are sorted and have them all."""
    steps, prompts = np.unique(groups[:, 0]), int(groups[:, 1].max(initial=0)) + 1

    def code(pairs: np.ndarray) -> np.ndarray:
        return np.searchsorted(steps, pairs[:, 0]) * prompts + pairs[:, 1].astype(np.int64)

    return np.searchsorted(code(groups), code(keys))
