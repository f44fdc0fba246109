"""How often groups teach without having drawn a solution: that they teach against it ``[f-grpo:lemma-3.1]``.

Lemma 3.1 is of one prompt and one solution. Over prompts that differ, the mean of the lemma is not the lemma at mean
masses and solve rates, so that it is estimated prompt by prompt (``simlab.diagnose.subsets``). Prompts of fewer
rollouts than nine in ten prompts have are left out: N is the same for all that remain.
"""

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from simlab.diagnose.estimate import Estimate, accelerated, between, resampled_sums
from simlab.diagnose.solutions import Solutions
from simlab.diagnose.subsets import Column, Draws, Range, Sums

FEW = 0.1  # share of the prompts that may be left out for having fewer rollouts than the others
STEP = 1e-5  # of each sum, between which slopes are taken
EXACT, BOUNDED = "bootstrap over prompts", "bounds beyond the rollouts of a prompt, bootstrap over prompts"


@dataclasses.dataclass(frozen=True)
class TailMiss:
    """How often groups of several sizes miss a solution ``[f-grpo:lemma-3.1]``.

    From as many rollouts as its prompts have, on, an interval holds all that moments allow, and the value is the power
    law of the last two sizes.

    Attributes:
        solution: which one.
        mass: its probability.
        solve_rate: the solve rate of the prompts that have it.
        group_sizes: G.
        missed: probability that a group teaches without having drawn it: that it teaches against it.
        against: the same, of the groups that teach.
    """

    solution: str
    mass: Estimate
    solve_rate: Estimate
    group_sizes: tuple[int, ...]
    missed: tuple[Estimate, ...]
    against: tuple[Estimate, ...]


Columns = dict[Column, Float[np.ndarray, " P"]]


@runtime_checkable
class Kind(Protocol):
    """What is known of a kind of solution from sums over prompts."""

    def mass(self, sums: Sums) -> Range:
        """Its mean probability."""

    def solve_rate(self, sums: Sums) -> Range:
        """The mean solve rate of its prompts."""

    def missed(self, sums: Sums, size: int) -> Range:
        """Probability that a group teaches without it."""

    def against(self, sums: Sums, size: int) -> Range:
        """The same, of the groups that teach."""


class Solution(NamedTuple):
    """A kind of solution in a log.

    Attributes:
        name: which solution.
        kind: how to read the sums.
        rows: (P, C) what each prompt adds to the sums.
        sums: of the log and of its resamples.
        events: (draws,) 0 for the log and Exp(1) for each resample: so many more of what may have come too seldom.
        level: of intervals.
        smooth: whether the prompts differ; if not, resamples are those of an event that could have come and did not.
    """

    name: str
    kind: Kind
    rows: Float[np.ndarray, "P C"]
    sums: Sums
    events: Draws
    level: float
    smooth: bool = True

    def estimate(self, name: str, of: Callable[[Sums], Range], value: float | None = None) -> Estimate:
        """A smooth function of the sums; ``value`` stands in for its own value."""
        found = of(self.sums)
        own = float(found.value[0]) if value is None else value
        exact = np.array_equal(found.low, found.high, equal_nan=True)
        method = EXACT if exact else BOUNDED
        if not math.isfinite(own):
            return Estimate(name, math.nan, math.nan, math.nan, self.level, method)
        first = self._around(name, method, found.low, lambda sums: of(sums).low)
        last = first if exact else self._around(name, method, found.high, lambda sums: of(sums).high)
        return Estimate(name, own, min(own, first.low), max(own, last.high), self.level, first.method)

    def _around(self, name: str, method: str, draws: Draws, of: Callable[[Sums], Draws]) -> Estimate:
        value = float(draws[0])
        if not self.smooth:
            return between(name, value, draws[1:], self.level, method)
        influence = self._influence(of)
        lower, higher = (of(self.with_more(self.rows[at]))[1:] for at in (influence.argmin(), influence.argmax()))
        return accelerated(
            name, value, draws[1:], influence, with_more=(lower, higher), level=self.level, method=method
        )

    def with_more(self, row: Float[np.ndarray, " C"]) -> Sums:
        """The sums with ``events`` prompts more that add this row each."""
        return self.sums._replace(values=self.sums.values + self.events[:, None] * row)

    def _influence(self, of: Callable[[Sums], Draws]) -> Float[np.ndarray, " P"]:
        """What each prompt adds to the error of a function of the sums, to first order."""
        own = self.sums.values[0]
        moved = np.diag(STEP * own)
        above, below = (np.nan_to_num(of(Sums(self.sums.columns, own + sign * moved))) for sign in (1, -1))
        slopes = np.where(own != 0, (above - below) / np.where(own != 0, 2 * STEP * own, 1.0), 0.0)
        found: Float[np.ndarray, " P"] = self.rows @ slopes
        return found


def with_enough(seen: Solutions) -> Solutions:
    """The prompts of at least as many rollouts as nine in ten have."""
    return seen.with_trials(int(np.quantile(seen.trials, FEW, method="lower")))


def solution(name: str, kind: Kind, columns: Columns, level: float, seed: int) -> Solution:
    """A kind of solution from what each prompt adds to its columns."""
    rows = np.stack(list(columns.values()), axis=1)
    sums = resampled_sums(rows, seed)
    events = np.random.default_rng((seed, 1)).standard_exponential(len(sums) - 1)
    return Solution(name, kind, rows, Sums(tuple(columns), sums), np.append(0.0, events), level)


def tail_misses(own: Solution, group_sizes: tuple[int, ...]) -> TailMiss:
    """How often groups of several sizes miss a solution."""

    def over_sizes(name: str, of: Callable[..., Range]) -> tuple[Estimate, ...]:
        return tuple(own.estimate(f"{name} at G = {size}", partial(of, size=size)) for size in group_sizes)

    return TailMiss(
        own.name,
        own.estimate(f"mass of the solution {own.name}", own.kind.mass),
        own.estimate(f"solve rate of prompts with the solution {own.name}", own.kind.solve_rate),
        group_sizes,
        over_sizes("tail miss", own.kind.missed),
        over_sizes("teaching groups against it", own.kind.against),
    )
