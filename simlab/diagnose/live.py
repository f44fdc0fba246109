"""What a diagnosis tells, while the run goes on: numbers for the tracker that a trainer reports to.

Every batch gives what its groups are. What is fitted is that of the last batches together, every few batches: the
same estimates as ``simlab diagnose`` makes of files, by the same functions.
"""

import dataclasses
import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np

from simlab.diagnose.estimate import LEVEL, Estimate
from simlab.diagnose.groups import dead_share, observed
from simlab.diagnose.log import Answers, Log
from simlab.diagnose.pass_at_k import of_population
from simlab.diagnose.rarest import rarest
from simlab.diagnose.reading.answers import from_completion
from simlab.diagnose.reading.gather import answer_hash
from simlab.diagnose.solutions import solutions
from simlab.diagnose.solve_rates import learnability, mean_solve_rate, population, share_below
from simlab.diagnose.tail_misses import tail_misses
from simlab.diagnose.typical import typical
from simlab.diagnose.unseen import unseen_mass
from simlab.errors import InputError, check_range, check_whole

PREFIX = "diagnose/"
HARD, EASY = 0.1, 0.9  # solve rates below and above which prompts count as hard and easy
TIMES = (0.5, 2, 4)  # of the group size: where dead groups are predicted
PASSES = (1, 4)  # of the group size: k of pass@k
Canonical = Callable[[str], str | None]


@dataclasses.dataclass
class Live:
    """Takes the rollouts of one batch after the other, and gives metrics by their names.

    Attributes:
        every: batches from one fit to the next.
        window: how many batches a fit uses.
        threshold: least reward of a correct rollout; None where all rewards are 0 or 1.
        answer: the canonical form of a completion, None for no answer; equal forms are one solution.
        level: of intervals.
        share: the most of the run's time that all this may take; None for no bound. A fit that would take more waits.
            The first fit tells what one takes, and is made when it is due.
        clock: the time in seconds.

    Raises:
        InputError: for numbers below 1, a level outside [0.5, 0.999] and a share outside (0, 1].
    """

    every: int = 10
    window: int = 20
    threshold: float | None = None
    answer: Canonical = from_completion
    level: float = LEVEL
    share: float | None = None
    clock: Callable[[], float] = time.perf_counter

    def __post_init__(self) -> None:
        if self.share is not None:
            check_range("share", self.share, 0, 1, open_low=True)
        check_whole("every", self.every, 1)
        check_whole("window", self.window, 1)
        check_range("level", self.level, 0.5, 0.999)
        if self.threshold is not None:
            check_range("threshold", self.threshold)
        self._batches: deque[Log] = deque(maxlen=self.window)
        self._seen, self._fitted_at = 0, 0
        self._start: float | None = None
        self._spent, self._last_fit = 0.0, 0.0

    def observe(
        self, prompts: Sequence[Hashable], rewards: Sequence[float], completions: Sequence[str] | None = None
    ) -> dict[str, float]:
        """Metrics after one more batch; empty if no rollout of it has a reward.

        Args:
            prompts: (N,) of each rollout, equal for those of one group.
            rewards: (N,) of each rollout; those that are NaN are left out.
            completions: (N,) texts; without them nothing is said of solutions.

        Raises:
            InputError: for other lengths, and for rewards other than 0 and 1 without a threshold.
        """
        began = self.clock()
        self._start = began if self._start is None else self._start
        batch = self._log(prompts, rewards, completions)
        if batch is None:
            return {}
        self._batches.append(batch)
        self._seen += 1
        found = of_groups(batch)
        if self._is_due():
            found |= self._fit()
        self._spent += self.clock() - began
        return {f"{PREFIX}{name}": value for name, value in found.items()}

    def _is_due(self) -> bool:
        """Whether enough batches have come since the last fit, and another leaves the share what it may be."""
        if self.share is None:
            return self._seen % self.every == 0
        assert self._start is not None
        run = self.clock() - self._start
        affordable = not self._fitted_at or self._spent + self._last_fit <= self.share * run
        return self._seen - self._fitted_at >= self.every and affordable

    def _fit(self) -> dict[str, float]:
        began = self.clock()
        found = fitted(joined(self._batches), self.level)
        self._last_fit, self._fitted_at = self.clock() - began, self._seen
        return found

    def _log(
        self, prompts: Sequence[Hashable], rewards: Sequence[float], completions: Sequence[str] | None
    ) -> Log | None:
        lengths = {len(prompts), len(rewards), len(prompts if completions is None else completions)}
        if len(lengths) > 1:
            raise InputError(f"prompts, rewards and completions are {sorted(lengths)} in number; allowed: one number")
        given = np.asarray(rewards, dtype=float)
        told = np.flatnonzero(~np.isnan(given)).tolist()
        if not told:
            return None
        if self.threshold is None and (odd := given[told][~np.isin(given[told], (0, 1))]).size:
            raise InputError(
                f"a reward is {odd[0]:g}; allowed: 0 and 1, or with threshold, the least of a correct rollout"
            )
        names = [_number(prompts[row]) for row in told]
        prompt, place = np.unique(np.array(names, dtype=np.int64), return_inverse=True)
        right = given[told] >= (1 if self.threshold is None else self.threshold)
        answers = None
        if completions is not None:
            texts = [completions[row] for row, own in zip(told, right, strict=True) if own]
            answers = self._answers(prompt, place[right], texts)
        step, size, correct = np.full(len(prompt), self._seen), np.bincount(place), np.bincount(place, right)
        return Log("live", prompt, step, size, correct.astype(int), (), answers)

    def _answers(self, prompt: np.ndarray, group: np.ndarray, texts: list[str]) -> Answers:
        """The answers of correct rollouts, each told from those of other prompts by its hash."""
        said = [(own, self.answer(text)) for own, text in zip(group.tolist(), texts, strict=True)]
        pairs = [(own, _hash(f"{prompt[own]} {answer}")) for own, answer in said if answer is not None]
        rows, times = np.unique(np.array(pairs, dtype=np.int64).reshape(-1, 2), axis=0, return_counts=True)
        return Answers(rows[:, 0], rows[:, 1], times)


def _number(prompt: Hashable) -> int:
    return _hash(prompt if isinstance(prompt, str) else repr(prompt))


def _hash(text: str) -> int:
    """63 bits, which numpy's whole numbers hold."""
    return answer_hash(text) >> 1


def joined(batches: Sequence[Log] | deque[Log]) -> Log:
    """The groups of several batches; without answers, unless all have them."""
    first = np.cumsum([0, *(len(own.prompt) for own in batches)])

    def column(name: str) -> np.ndarray:
        return np.concatenate([getattr(own, name) for own in batches])

    told = [own.answers for own in batches if own.answers is not None]
    answers = None
    if len(told) == len(batches):
        answers = Answers(
            np.concatenate([own.group + start for own, start in zip(told, first, strict=False)]),
            np.concatenate([own.answer for own in told]),
            np.concatenate([own.count for own in told]),
        )
    return Log("live", column("prompt"), column("step"), column("group_size"), column("correct"), (), answers)


def of_groups(batch: Log) -> dict[str, float]:
    """What the groups of a batch are: counted, not estimated."""
    seen = observed(batch)
    dead = seen.all_right + seen.all_wrong if seen.group_size > 1 else 1.0
    return {
        "solve_rate": float(batch.correct.sum() / batch.group_size.sum()),
        "all_right": seen.all_right,
        "all_wrong": seen.all_wrong,
        "dead": dead,
        "effective_prompts": len(batch.prompt) * (1 - dead),
    }


def fitted(log: Log, level: float, seed: int = 0) -> dict[str, float]:
    """What the groups of some batches tell: estimates and the ends of their intervals (``_low``, ``_high``).

    Args:
        log: the groups.
        level: the level of the intervals.
        seed: the seed of the bootstrap.
    """
    return {name: value for name, own in _estimates(log, level, seed) for name, value in _numbers(name, own)}


def _estimates(log: Log, level: float, seed: int) -> Iterator[tuple[str, Estimate]]:
    now, size = population(log, level), observed(log).group_size
    yield "fitted/solve_rate", mean_solve_rate(now)
    yield "fitted/learnability", learnability(now)
    yield f"fitted/share_below_{HARD:g}", now.estimate("", share_below(HARD))
    yield f"fitted/share_above_{EASY:g}", now.estimate("", 1 - share_below(EASY))
    for other in (int(times * size) for times in TIMES):
        if other > 1:
            yield f"fitted/dead_at_{other}", now.estimate("", dead_share(other))
    for times in PASSES:
        yield f"fitted/pass_at_{times * size}", of_population(now, times * size)
    seen = solutions(log)
    if seen is not None:
        yield "fitted/unseen_share", unseen_mass(seen, level).share
        for name, kind in (("typical", typical), ("rarest", rarest)):
            yield f"fitted/tail_miss_{name}", tail_misses(kind(seen, level, seed, (size,)), (size,)).missed[0]


def _numbers(name: str, own: Estimate) -> Iterator[tuple[str, float]]:
    for end, value in (("", own.value), ("_low", own.low), ("_high", own.high)):
        if math.isfinite(value):
            yield f"{name}{end}", value
