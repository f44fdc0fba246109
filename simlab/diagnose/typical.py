"""The solution of a random correct rollout: how probable it is, and which groups teach against it."""

import numpy as np
from jaxtyping import Float

from simlab.diagnose.solutions import Solutions
from simlab.diagnose.subsets import (
    Draws,
    Range,
    Sums,
    active,
    continued,
    exact_sizes,
    exactly,
    missed,
    ratio,
    reached,
    rising,
)
from simlab.diagnose.tail_misses import Columns, Solution, solution, with_enough

NAME = "of a random correct rollout"


class Typical:
    """How to read the sums of ``_columns``."""

    @staticmethod
    def mass(sums: Sums) -> Range:
        """sum pi^2 / sum p, from pairs of rollouts that give one solution."""
        return exactly(ratio(np.clip(sums.of("alike"), 0, sums.of("both")), sums.of("correct")))

    @staticmethod
    def solve_rate(sums: Sums) -> Range:
        """sum p^2 / sum p, from pairs that are both correct."""
        return exactly(ratio(sums.of("both"), sums.of("correct")))

    @staticmethod
    def missed(sums: Sums, size: int) -> Range:
        """sum pi [(1 - pi)^G - (p - pi)^G - (1 - p)^G] / sum p."""
        return Range(*(ratio(own, sums.of("correct")) for own in _gone(sums, size)))

    @staticmethod
    def against(sums: Sums, size: int) -> Range:
        """The same over sum p (1 - p^G - (1 - p)^G): of groups that teach, prompts weighing as they are solved."""
        gone, whole = _gone(sums, size), _whole(sums, size)
        low = ratio(gone.low, whole.high)
        high = np.clip(np.fmin(ratio(gone.high, whole.low), 1 - ratio(_held(sums, size), whole.high)), low, None)
        return Range(low, np.clip(ratio(gone.value, whole.value), low, high), high)

    @staticmethod
    def holding(sums: Sums, size: int) -> Range:
        """1 - ``against``."""
        return exactly(np.ones(len(sums.values))).less(Typical.against(sums, size))

    @staticmethod
    def teaching_against(sums: Sums, size: int) -> Range:
        """The share of groups that teach, prompts weighing alike, times ``against``."""
        return _teaching(sums, size).times(Typical.against(sums, size))

    @staticmethod
    def teaching_holding(sums: Sums, size: int) -> Range:
        """The share of groups that teach, prompts weighing alike, times ``holding``."""
        return _teaching(sums, size).times(Typical.holding(sums, size))


def _teaching(sums: Sums, size: int) -> Range:
    everyone = sums.of("prompts")
    return Range(*(ratio(own, everyone) for own in rising(sums, "active", size, everyone)))


def _whole(sums: Sums, size: int) -> Range:
    return rising(sums, "reached", size, sums.of("correct"))


def _held(sums: Sums, size: int) -> Draws:
    """The least that groups reach and do not miss: whoever holds a solution and teaches still does so when it grows."""
    last = min(size, sums.largest("missed"))
    if not last:
        return np.zeros(len(sums.values))
    most = sums.of("reached", last)
    held: Draws = np.clip(most - sums.of("missed", last), 0, most)  # events, which are added, may be too many
    return held


def _gone(sums: Sums, size: int) -> Range:
    """What groups miss; no more than what they reach leaves."""
    most = _whole(sums, size).high - _held(sums, size)
    return Range(*(np.clip(own, 0, most) for own in continued(sums, "missed", size)))


def typical(seen: Solutions, level: float, seed: int, group_sizes: tuple[int, ...]) -> Solution:
    """The solution that a random correct rollout gives, and groups of these sizes.

    Where no two correct rollouts of a prompt agree, or no two differ, intervals are those of an event that could have
    come and did not: a number of events that is 0 has the confidence distribution Exp(1). Where no prompt has two of
    them, nothing is told.
    """
    own = with_enough(seen)
    found = solution(NAME, Typical(), _columns(own, group_sizes), level, seed)
    several = own.answered() > 1
    if not several.any():
        return found._replace(sums=found.sums._replace(values=np.full_like(found.sums.values, np.nan)))
    if (own.times == 1).all():
        return _with_events(found, _agreeing(own), own.answered() * (own.answered() - 1), group_sizes)
    if (own.drawn() <= 1).all():
        return _with_events(found, _dissenting(own), own.answered() * several, group_sizes)
    return found


def _columns(own: Solutions, group_sizes: tuple[int, ...]) -> Columns:
    fewest = int(own.trials.min())
    pairs = np.maximum(own.trials * (own.trials - 1.0), 1)
    answered = own.answered()
    columns = {
        ("prompts", 0): np.ones(len(own.trials)),
        ("correct", 0): answered / own.trials,
        ("alike", 0): own.summed(own.times * (own.times - 1.0)) / pairs,
        ("both", 0): answered * np.maximum(own.successes - 1, 0) / pairs,
    }
    told = {"active": (active, fewest), "reached": (reached, fewest - 1), "missed": (missed, fewest - 1)}
    for name, (of, largest) in told.items():
        columns |= {(name, size): of(own, size) for size in exact_sizes(group_sizes, largest)}
    return columns


def _with_events(
    found: Solution, event: Solutions, weight: Float[np.ndarray, " P"], group_sizes: tuple[int, ...]
) -> Solution:
    """The resamples with Exp(1) events more, each of a prompt by its weight and as large as it would be there."""
    rows = np.stack(list(_columns(event, group_sizes).values()), axis=1)
    added = weight @ (rows - found.rows) / weight.sum()
    return found._replace(sums=found.with_more(added), smooth=False)


def _dissenting(own: Solutions) -> Solutions:
    """One correct rollout of each prompt that has several gives another solution than the others."""
    several = own.times > 1
    prompt = np.concatenate([own.prompt, own.prompt[several]])
    return own._replace(prompt=prompt, times=np.concatenate([own.times - several, np.ones(several.sum(), dtype=int)]))


def _agreeing(own: Solutions) -> Solutions:
    """Two correct rollouts of each prompt that has several give one solution."""
    order = np.argsort(own.prompt, kind="stable")
    prompt = own.prompt[order]
    place = np.arange(len(prompt)) - np.searchsorted(prompt, prompt)
    several = own.drawn()[prompt] > 1
    kept = ~(several & (place == 1))
    return own._replace(prompt=prompt[kept], times=(1 + (several & (place == 0)))[kept])
