"""Diagnose a run while it goes on: counts of every batch, and now and then the estimates of ``simlab diagnose``."""

import dataclasses
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from simlab.diagnose.dead_groups import dead_share, observe_groups
from simlab.diagnose.estimate import LEVEL, IntervalEstimate, in_order
from simlab.diagnose.log import Log, gather
from simlab.diagnose.pace import Pace
from simlab.diagnose.reading.answers import answer_hash, digest, from_completion
from simlab.diagnose.solve_rates import fit_population, learnability, mean_solve_rate, pass_at_k, share_below
from simlab.diagnose.tail_misses import estimate_tail_misses, typical_solution
from simlab.diagnose.unseen import count_solutions, estimate_unseen_mass
from simlab.errors import InputError, check_range, check_whole

PREFIX = "diagnose/"
HARD, EASY = 0.1, 0.9  # solve rates below and above which prompts count as hard and easy
TIMES = (0.5, 2, 4)  # multiples of the group size at which dead groups are predicted
PASSES = (1, 4)  # multiples of the group size at which pass@k is estimated


@dataclasses.dataclass
class Live:
    """Take the rollouts of one batch after the other, and give metrics by their names.

    Attributes:
        every: batches from one fit to the next.
        window: batches that a fit uses.
        threshold: least reward of a correct rollout; None where all rewards are 0 or 1.
        answer: the canonical form of a completion, None for no answer; equal forms are one solution.
        level: of intervals.
        share: the most of the run's time that all this may take; None for no bound. A fit that would take more waits.
            The first fit measures the time of one, and is made when it is due.
        clock: the time in seconds.
    """

    every: int = 10
    window: int = 20
    threshold: float | None = None
    answer: Callable[[str], str | None] = from_completion
    level: float = LEVEL
    share: float | None = None
    clock: Callable[[], float] = time.perf_counter

    def __post_init__(self) -> None:
        self._pace = Pace(self.every, self.share, self.clock)
        check_whole("window", self.window, 1)
        check_range("level", self.level, 0.5, 0.999)
        if self.threshold is not None:
            check_range("threshold", self.threshold)
        self._batches: deque[_Batch] = deque(maxlen=self.window)
        self._count = 0

    def observe(
        self, prompts: Sequence[Hashable], rewards: Sequence[float], completions: Sequence[str] | None = None
    ) -> dict[str, float]:
        """Return metrics after one more batch; empty if no rollout of it has a reward.

        Args:
            prompts: of each rollout, equal for the rollouts of one group.
            rewards: of each rollout, 0 or 1 without a threshold; NaN leaves it out.
            completions: texts; without them there are no metrics of solutions.
        """
        if not self._count:
            self._pace.begin(0)
        began = self.clock()
        batch = self._read_batch(prompts, rewards, completions)
        if not len(batch.prompt):
            return {}
        self._batches.append(batch)
        self._count += 1
        metrics = count_groups(_gather_batches([batch]))
        before = self.clock()
        self._pace.spent += before - began
        if self._pace.is_due(self._count):
            metrics |= fit_metrics(_gather_batches(self._batches), self.level)
            self._pace.spend(self._count, self.clock() - before)
        return {f"{PREFIX}{name}": value for name, value in metrics.items()}

    def _read_batch(
        self, prompts: Sequence[Hashable], rewards: Sequence[float], completions: Sequence[str] | None
    ) -> "_Batch":
        lengths = {len(prompts), len(rewards), len(prompts if completions is None else completions)}
        if len(lengths) > 1:
            raise InputError(f"prompts, rewards and completions are {sorted(lengths)} in number; allowed: one number")
        values = np.asarray(rewards, dtype=float)
        rows = np.flatnonzero(~np.isnan(values))
        right = are_correct(values[rows], self.threshold)
        names = [prompts[row] for row in rows.tolist()]
        hashes = [digest(name if isinstance(name, str) else repr(name), 8) >> 1 for name in names]
        answers = None
        if completions is not None:
            pairs = zip(rows.tolist(), right.tolist(), strict=True)
            texts = [self.answer(completions[row]) if is_right else None for row, is_right in pairs]
            answers = np.array([answer_hash(text) for text in texts], np.uint64)
        return _Batch(np.array(hashes, np.int64), values[rows], right, answers)


def are_correct(rewards: Float[np.ndarray, "..."], threshold: float | None) -> Bool[np.ndarray, "..."]:
    """Find the rewards of at least the threshold, or without one the 1s; NaN is none.

    Raises: InputError: without a threshold, for rewards other than 0 and 1.
    """
    if threshold is None and (odd := rewards[~np.isin(rewards, (0, 1)) & ~np.isnan(rewards)]).size:
        raise InputError(f"a reward is {odd[0]:g}; allowed: 0 and 1, or with threshold, the least of a correct one")
    return np.asarray(rewards >= (1 if threshold is None else threshold))


class _Batch(NamedTuple):
    prompt: np.ndarray
    reward: np.ndarray
    correct: np.ndarray
    answers: np.ndarray | None


def _gather_batches(batches: Collection[_Batch]) -> Log:
    step = np.repeat(np.arange(len(batches)), [len(batch.prompt) for batch in batches])
    prompt, reward, correct = (np.concatenate(column) for column in list(zip(*batches, strict=True))[:3])
    answers = [batch.answers for batch in batches if batch.answers is not None]
    answer = np.concatenate(answers) if len(answers) == len(batches) else None
    return gather("live", step, prompt, correct, answer, reward=reward)[0]


def count_groups(batch: Log) -> dict[str, float]:
    """Count the groups of a batch; nothing is estimated."""
    observed = observe_groups(batch)
    dead = observed.no_signal
    return {
        "solve_rate": float(batch.correct.sum() / batch.group_size.sum()),
        "all_right": observed.all_right,
        "all_wrong": observed.all_wrong,
        "dead": dead,
        "effective_prompts": len(batch.prompt) * (1 - dead),
    }


def fit_metrics(log: Log, level: float, seed: int = 0) -> dict[str, float]:
    """Fit the groups of some batches: estimates and the ends of their intervals (``_low``, ``_high``)."""
    return {
        f"{name}{end}": value
        for name, estimate in _estimates(log, level, seed)
        for end, value in (("", estimate.value), ("_low", estimate.low), ("_high", estimate.high))
        if math.isfinite(value)
    }


def _estimates(log: Log, level: float, seed: int) -> Iterator[tuple[str, IntervalEstimate]]:
    now, size = fit_population(log, level), observe_groups(log).group_size
    yield "fitted/solve_rate", mean_solve_rate(now)
    yield "fitted/learnability", learnability(now)
    yield f"fitted/share_below_{HARD:g}", now.estimate("", share_below(HARD))
    yield f"fitted/share_above_{EASY:g}", now.estimate("", 1 - share_below(EASY))
    sizes = [int(times * size) for times in TIMES if times * size >= 2]
    dead = in_order([now.estimate(f"fitted/dead_at_{other}", dead_share(other)) for other in sizes], np.minimum)
    passes = pass_at_k(now, [times * size for times in PASSES])
    yield from ((estimate.name.replace("pass@", "fitted/pass_at_"), estimate) for estimate in (*dead, *passes))
    counts = count_solutions(log)
    if counts is not None:
        yield "fitted/unseen_share", estimate_unseen_mass(counts, level).share
        solution = typical_solution(counts, level, seed, (size,))
        yield "fitted/tail_miss_typical", estimate_tail_misses(solution, (size,)).missed[0]
