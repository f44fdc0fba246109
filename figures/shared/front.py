"""The front of rollouts against what is kept: chosen on the first seeds, confirmed and priced on the others.

A point is a method at one setting: each seed's rollouts where its pass@1 first reaches a level, and its pass@256
there. A point is on the front if no other keeps as much for fewer rollouts.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from simlab.columns import ABSENT, each_cell, with_columns
from simlab.intervals import CHANGE, POSITIVE, SHARE, Estimate, over_seeds
from simlab.sweeps.equal_level import read_at

KEPT = "pass@256"
CHOOSING = 4  # seeds
GAIN, LEAST = 0.02, 0.001  # the least pass@256 that a step of the front gains


class Point(NamedTuple):
    """A method at one setting, and by seed its rollouts to the level and what it keeps there; NaN where it fails."""

    kind: str
    method: str
    setting: str
    rollouts: np.ndarray
    kept: np.ndarray

    @property
    def name(self) -> str:
        """The method with its setting."""
        return f"{self.method}, {self.setting}" if self.setting else self.method

    def seeds(self, which: slice) -> "Point":
        """Return the same at some of its seeds."""
        return self._replace(rollouts=self.rollouts[which], kept=self.kept[which])

    @property
    def reached(self) -> bool:
        """True if all seeds reach the level."""
        return bool(np.isfinite(self.rollouts).all())


def halves(point: Point) -> tuple[Point, Point]:
    """Return a point at the seeds that choose, the first half but four at most, and at those that judge."""
    choosing = min(CHOOSING, len(point.rollouts) // 2)
    return point.seeds(slice(choosing)), point.seeds(slice(choosing, None))


def points(kind: str, dataset: xr.Dataset, level: float, metric: str = KEPT) -> Iterator[Point]:
    """Yield a point for each cell of a sweep with a budget; ``metric`` is read where pass@1 is at the level."""
    extended, _ = with_columns({"": dataset}, [metric], ())
    for labels, cell in each_cell(extended[""]):
        method = labels.pop("arm").removesuffix("+reinforce")
        if (threshold := labels.pop("threshold", ABSENT)) != ABSENT:
            method += f"(threshold={threshold})"
        read = read_at(cell, [metric], np.array([level]))
        named = [f"{name} = {label}" for name, label in labels.items() if _tells(dataset, name, label)]
        yield Point(kind, method, ", ".join(named), read["cost"].values[0], read[metric].values[0])


def _tells(dataset: xr.Dataset, name: str, label: str) -> bool:
    return label != ABSENT and (dataset.sizes[name] > 1 or (name == "group_size" and label != "8"))


def margin(passed: float) -> float:
    """Return the least difference from a pass@256 that counts: ``GAIN`` or half of its gap to 1, at least ``LEAST``."""
    return max(LEAST, min(GAIN, (1 - passed) / 2))


def staircase(rollouts: np.ndarray, passed: np.ndarray) -> list[int]:
    """Return the points of the front, from the fewest rollouts up; each keeps a margin more than the one before it.

    >>> staircase(np.array([3.0, 1.0, 2.0, 4.0]), np.array([0.9, 0.5, 0.4, 0.905]))
    [1, 0]
    """
    chosen: list[int] = []
    for at in np.lexsort((-passed, rollouts)):
        if np.isfinite(rollouts[at]) and (not chosen or passed[at] >= passed[chosen[-1]] + margin(passed[chosen[-1]])):
            chosen.append(int(at))
    return chosen


def with_more_seeds(chosen: Sequence[Point], others: Sequence[Point]) -> list[Point]:
    """Replace points by others of the same name with more seeds, whose first seeds are the same."""
    more = {point.name: point for point in sorted(others, key=lambda point: len(point.kept))}
    longer = [max(point, more.get(point.name, point), key=lambda other: len(other.kept)) for point in chosen]
    return [other._replace(kind=point.kind) for other, point in zip(longer, chosen, strict=True)]


def front(every: Sequence[Point]) -> list[Point]:
    """Return the points of the front by the means over the seeds that choose, with all their seeds."""
    able = [point for point in every if point.reached]
    first = [halves(point)[0] for point in able]
    rollouts, passed = (np.array([getattr(point, name).mean() for point in first]) for name in ("rollouts", "kept"))
    return [able[index] for index in staircase(rollouts, passed)]


class Step(NamedTuple):
    """A point of the front at the seeds that judge, and what it costs and gains over the point before it.

    ``ratio`` is of rollouts, its mean the geometric one; both are None for the first point.
    """

    point: Point
    rollouts: Estimate
    kept: Estimate
    ratio: Estimate | None
    gain: Estimate | None

    @property
    def holds(self) -> bool:
        """True if the step keeps more for more rollouts beyond the 95 % intervals; the first one always."""
        return self.ratio is None or self.gain is None or bool(self.ratio.low > 1 and self.gain.low > 0)


def steps(chosen: Sequence[Point]) -> list[Step]:
    """Judge and price the steps of a front, paired by seed."""
    judged = [halves(point)[1] for point in chosen]
    priced = []
    for number, entry in enumerate(judged):
        ratio = gain = None
        if number:
            both = slice(min(len(entry.kept), len(judged[number - 1].kept)))  # the seeds that both have
            after, before = entry.seeds(both), judged[number - 1].seeds(both)
            ratio = ratio_by_seed(after.rollouts, before.rollouts)
            gain = over_seeds(after.kept - before.kept, CHANGE)
        priced.append(Step(entry, over_seeds(entry.rollouts, POSITIVE), over_seeds(entry.kept, SHARE), ratio, gain))
    return priced


def ratio_by_seed(values: np.ndarray, others: np.ndarray) -> Estimate:
    """Return the geometric mean of a ratio by seed with its interval; the error is that of its logarithm."""
    logs = over_seeds(np.log(values / others))
    return Estimate(np.exp(logs.mean), logs.error, np.exp(logs.low), np.exp(logs.high))
