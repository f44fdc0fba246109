"""Gather rows into the groups of a ``Log``: in memory that grows with groups and answers, not with rows or texts."""

import hashlib
import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt64

from simlab.diagnose.log import AnswerCounts, Log, RolloutLogProbs

ROWS_AT_ONCE = 2**14
PROMPT_SHOWN = 80  # characters of a prompt that are recorded
NO_ANSWER = 0  # in place of the hash of an answer
WAITING = 2**18  # rows that wait before they are added up
SAMPLE = 100_000  # rollouts with log-probabilities; the standard error of a share is then at most 0.0016


class RolloutRow(NamedTuple):
    """One rollout.

    Attributes:
        prompt: a text that identifies the prompt.
        title: the prompt for people; of a conversation the last message.
        step: the step of the training.
        reward: its reward.
        correct: true if the reward reaches the threshold.
        answer: the canonical form, None for an incorrect rollout and where there is none.
        log_probability: in nats, None where there is none.
        length: in tokens, 0 where it is unknown.
        content: identifies the row where steps may be repeated; else empty.
    """

    prompt: str
    title: str
    step: int
    reward: float
    correct: bool
    answer: str | None
    log_probability: float | None
    length: int
    content: str


class Gathered(NamedTuple):
    """The groups of all rows.

    Attributes:
        log: the groups.
        mean_reward: the mean reward of the rows.
        repeated: steps that were left out since they repeat the step before.
    """

    log: Log
    mean_reward: float
    repeated: int


class Gatherer:
    """Take rows in any order, and make a ``Log`` of them.

    Prompts are identified by 128 bits of a hash, and the answers of a prompt by 63: of a million different answers of
    one prompt two are mistaken for one with a probability of 1e-7.

    Args:
        rows_at_once: rows that are added up at a time; the log does not depend on it.
    """

    def __init__(self, rows_at_once: int = ROWS_AT_ONCE):
        self._prompts: dict[bytes, int] = {}
        self._titles: list[str] = []
        self._waiting: list[tuple[int, int, float, bool, int, float, int]] = []
        self._groups, self._answers = Tally(2, 3), Tally(3, 1)
        self._sample = UniformSample(5)
        self._contents: dict[int, int] = {}
        self._rows_at_once = rows_at_once

    def add(self, row: RolloutRow) -> None:
        """Add one rollout."""
        log_probability = np.nan if row.log_probability is None else row.log_probability
        answer = NO_ANSWER if row.answer is None else answer_hash(row.answer)
        prompt = self._prompts.setdefault(_digest(row.prompt, 16), len(self._titles))
        if prompt == len(self._titles):
            self._titles.append(row.title[:PROMPT_SHOWN])
        self._waiting.append((row.step, prompt, row.reward, row.correct, answer, log_probability, row.length))
        if row.content:  # the sum of hashes is that of the rows in any order
            total = self._contents.get(row.step, 0) + int.from_bytes(_digest(row.content, 16), "big")
            self._contents[row.step] = total % 2**128
        if len(self._waiting) >= self._rows_at_once:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        step, prompt, reward, correct, answer, log_probability, length = zip(*self._waiting, strict=True)
        self._waiting = []
        keys = np.array([step, prompt], np.uint64).T
        self._groups.add(keys, np.array([np.ones(len(keys)), correct, reward]).T)
        answers = np.array(answer, np.uint64)
        mask = answers != NO_ANSWER
        self._answers.add(np.concatenate([keys, answers[:, None]], axis=1)[mask], np.ones((mask.sum(), 1)))
        columns = np.array([step, prompt, correct, log_probability, length], float).T
        self._sample.add(columns[~np.isnan(columns[:, 3])])

    def log(self, form: str, *, answers: bool) -> Gathered:
        """Return the log of all rows; ``form`` is the name of its format, ``answers`` true if the rows have answers."""
        self._flush()
        keys, sums = self._groups.totals()
        steps = sorted(self._contents)
        repeated = [late for early, late in itertools.pairwise(steps) if self._contents[early] == self._contents[late]]
        mask = ~np.isin(keys[:, 0], np.array(repeated, np.uint64))
        log = Log(
            form,
            prompt=keys[:, 1].astype(np.int64),
            step=keys[:, 0].astype(np.int64),
            group_size=sums[:, 0].astype(np.int64),
            correct=sums[:, 1].astype(np.int64),
            prompts=tuple(self._titles),
            answers=self._answer_counts(keys) if answers else None,
            log_probs=self._log_probs(keys),
        )
        mean_reward = float(sums[mask, 2].sum() / sums[mask, 0].sum())
        return Gathered(log if mask.all() else log.select(mask), mean_reward, len(repeated))

    def _answer_counts(self, groups: np.ndarray) -> AnswerCounts:
        keys, sums = self._answers.totals()
        return AnswerCounts(_group_indices(groups, keys[:, :2]), number_keys(keys[:, 1:]), sums[:, 0].astype(np.int64))

    def _log_probs(self, groups: np.ndarray) -> RolloutLogProbs | None:
        rows = self._sample.rows()
        if not len(rows):
            return None
        group = _group_indices(groups, rows[:, :2].astype(np.uint64))
        return RolloutLogProbs(group, rows[:, 2] == 1, rows[:, 3], rows[:, 4].astype(np.int64))


def answer_hash(answer: str) -> int:
    """Return 63 bits and a lowest bit that is 1, so that no hash is ``NO_ANSWER``."""
    return int.from_bytes(_digest(answer, 8), "big") | 1


def _digest(text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


def _group_indices(groups: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return the index of each pair of step and prompt among the groups, which are sorted and have them all."""
    steps, prompts = np.unique(groups[:, 0]), int(groups[:, 1].max(initial=0)) + 1

    def code(pairs: np.ndarray) -> np.ndarray:
        return np.searchsorted(steps, pairs[:, 0]) * prompts + pairs[:, 1].astype(np.int64)

    return np.searchsorted(code(groups), code(keys))


class Tally:
    """Sums by key, in memory that grows with the different keys and not with the rows.

    Args:
        keys: numbers of a key, K.
        sums: numbers that are added up for each, S.
    """

    def __init__(self, keys: int, sums: int):
        self._keys = [np.zeros((0, keys), np.uint64)]
        self._sums = [np.zeros((0, sums))]
        self._waiting = self._different = 0

    def add(self, keys: UInt64[np.ndarray, "rows K"], sums: Float[np.ndarray, "rows S"]) -> None:
        """Add rows; they are added up when they are as many as the different keys."""
        self._keys.append(keys)
        self._sums.append(sums)
        self._waiting += len(keys)
        if self._waiting > max(WAITING, self._different):
            self.totals()

    def totals(self) -> tuple[UInt64[np.ndarray, "different K"], Float[np.ndarray, "different S"]]:
        """Return the different keys in ascending order, and the sums of each."""
        keys, sums = np.concatenate(self._keys), np.concatenate(self._sums)
        order, is_first = _sort_keys(keys)
        starts = np.flatnonzero(is_first)
        totals = np.add.reduceat(sums[order], starts, axis=0) if len(starts) else sums
        self._keys, self._sums = [keys[order[starts]]], [totals]
        self._different, self._waiting = len(starts), 0
        return self._keys[0], self._sums[0]


def number_keys(keys: UInt64[np.ndarray, "rows K"]) -> Int[np.ndarray, " rows"]:
    """Return one number for all rows of a key, from 0 in the order of the keys."""
    order, is_first = _sort_keys(keys)
    numbers = np.empty(len(keys), np.int64)
    numbers[order] = np.cumsum(is_first) - 1
    return numbers


def _sort_keys(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of the rows by key, the first number first, and where in it a new key begins."""
    order = np.lexsort(keys.T[::-1])
    ordered = keys[order]
    is_first = np.ones(len(keys), bool)
    is_first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return order, is_first


class UniformSample:
    """A uniform sample of a stream of rows of unknown length: the rows with the smallest of random numbers.

    One number is drawn for each row in its order, so that every set of rows of that size is equally likely, and the
    sample is the same however the rows are cut into batches.

    Args:
        columns: numbers of a row.
        size: most rows of the sample.
        seed: the seed of the random numbers.
    """

    def __init__(self, columns: int, size: int = SAMPLE, seed: int = 0):
        self._rows = np.zeros((0, columns))
        self._keys = np.zeros(0)
        self._size, self._random = size, np.random.default_rng(seed)

    def add(self, rows: np.ndarray) -> None:
        """Offer rows, (rows, columns)."""
        self._rows = np.concatenate([self._rows, rows])
        self._keys = np.concatenate([self._keys, self._random.random(len(rows))])
        if len(self._keys) > 2 * self._size:
            self._cut()

    def rows(self) -> np.ndarray:
        """Return the sample in the order of the rows."""
        self._cut()
        return self._rows

    def _cut(self) -> None:
        if len(self._keys) > self._size:
            smallest = np.sort(np.argpartition(self._keys, self._size - 1)[: self._size])
            self._rows, self._keys = self._rows[smallest], self._keys[smallest]
