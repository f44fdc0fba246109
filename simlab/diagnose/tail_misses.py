"""Estimate how often groups teach without having drawn a solution: they teach against it ``[f-grpo:lemma-3.1]``.

Lemma 3.1 is of one prompt and one solution. Over prompts that differ, the mean of the lemma is not the lemma at mean
masses and solve rates, so that it is estimated prompt by prompt (``simlab.diagnose.subsets``). Prompts of fewer
rollouts than nine in ten prompts have are left out: N is the same for all others.

Two solutions are of interest: the typical one, of a random correct rollout, and one that was drawn once.
"""

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from simlab.diagnose.dead_groups import SIZES
from simlab.diagnose.estimate import (
    IntervalEstimate,
    accelerated_bootstrap,
    missing,
    percentile_interval,
    resample_sums,
)
from simlab.diagnose.log import Log
from simlab.diagnose.subsets import (
    Column,
    Draws,
    Range,
    Sums,
    active,
    exact,
    exact_sizes,
    extrapolate,
    extrapolate_rising,
    missed,
    mixed_without,
    not_all_right,
    ratio,
    reached,
)
from simlab.diagnose.unseen import (
    SolutionCounts,
    UnseenMass,
    count_solutions,
    estimate_sum,
    estimate_unseen_mass,
    mass_drawn_once,
    share_change,
)

FEW = 0.1  # share of the prompts that may be left out for having fewer rollouts than the others
STEP = 1e-5  # of each sum, between which slopes are taken
EXACT, BOUNDED = "bootstrap over prompts", "bounds beyond the rollouts of a prompt, bootstrap over prompts"
Columns = dict[Column, Float[np.ndarray, " P"]]


@dataclasses.dataclass(frozen=True)
class TailMissEstimates:
    """How often groups of several sizes miss a solution ``[f-grpo:lemma-3.1]``.

    From N, the rollouts of a prompt, on, an interval holds all that moments allow, and the value is the power law of
    the last two sizes.

    Attributes:
        solution: its name.
        mass: its probability.
        solve_rate: the solve rate of the prompts that have it.
        group_sizes: G.
        missed: probability that a group teaches without having drawn it: that it teaches against it.
        against: the same, of the groups that teach.
    """

    solution: str
    mass: IntervalEstimate
    solve_rate: IntervalEstimate
    group_sizes: tuple[int, ...]
    missed: tuple[IntervalEstimate, ...]
    against: tuple[IntervalEstimate, ...]


@dataclasses.dataclass(frozen=True)
class UnseenSolutions:
    """Undrawn mass by window, and tail misses of two solutions.

    Attributes:
        windows: from the first steps to the last.
        change: share of the last window less that of the first; None where there is one window.
        typical: the solution that a random correct rollout gives.
        rarest: a solution that was drawn once.
    """

    windows: tuple[UnseenMass, ...]
    change: IntervalEstimate | None
    typical: TailMissEstimates
    rarest: TailMissEstimates


def estimate_unseen(
    windows: list[Log], level: float, seed: int, group_sizes: tuple[int, ...] = SIZES
) -> UnseenSolutions | None:
    """Estimate the undrawn solutions of the windows of a log; None where the log has no answers."""
    counts = [count for window in windows if (count := count_solutions(window)) is not None]
    if not counts:
        return None
    masses = tuple(
        estimate_unseen_mass(count, level, (int(log.step[0]), int(log.step[-1])))
        for log, count in zip(windows, counts, strict=True)
    )
    change = share_change(masses[0].share, masses[-1].share, level) if len(masses) > 1 else None
    kinds = (find(counts[-1], level, seed, group_sizes) for find in (typical_solution, rarest_solution))
    return UnseenSolutions(masses, change, *(estimate_tail_misses(kind, group_sizes) for kind in kinds))


class SolutionKind(NamedTuple):
    """A kind of solution in a log, with resampled sums.

    Attributes:
        name: of the solution.
        kind: how to read the sums.
        rows: (P, C) what each prompt adds to the sums.
        sums: of the log and of its resamples.
        events: (draws,) 0 for the log and Exp(1) for each resample: so many more prompts of a kind that may have come
            too seldom.
        level: of intervals.
        smooth: true if the prompts differ; if not, resamples are those of an event that could have come and did not.
    """

    name: str
    kind: "Typical | Rarest"
    rows: Float[np.ndarray, "P C"]
    sums: Sums
    events: Draws
    level: float
    smooth: bool = True

    def estimate(self, name: str, read: Callable[[Sums], Range], value: float | None = None) -> IntervalEstimate:
        """Estimate a smooth function of the sums; ``value`` replaces its own value."""
        result = read(self.sums)
        centre = float(result.value[0]) if value is None else value
        is_exact = np.array_equal(result.low, result.high, equal_nan=True)
        method = EXACT if is_exact else BOUNDED
        if not math.isfinite(centre):
            return missing(name, self.level, method)
        first = self._interval(name, method, result.low, lambda sums: read(sums).low)
        last = first if is_exact else self._interval(name, method, result.high, lambda sums: read(sums).high)
        low, high = min(centre, first.low), max(centre, last.high)
        return IntervalEstimate(name, centre, low, high, self.level, first.method)

    def _interval(self, name: str, method: str, draws: Draws, read: Callable[[Sums], Draws]) -> IntervalEstimate:
        value = float(draws[0])
        if not self.smooth:
            return percentile_interval(name, value, draws[1:], self.level, method)
        influence = self._influence(read)
        lower, higher = (read(self.add_events(self.rows[at]))[1:] for at in (influence.argmin(), influence.argmax()))
        return accelerated_bootstrap(
            name, value, draws[1:], influence, with_more=(lower, higher), level=self.level, method=method
        )

    def add_events(self, row: Float[np.ndarray, " C"]) -> Sums:
        """Return the sums with ``events`` prompts more that add this row each."""
        return self.sums._replace(values=self.sums.values + self.events[:, None] * row)

    def _influence(self, read: Callable[[Sums], Draws]) -> Float[np.ndarray, " P"]:
        """Return what each prompt adds to the error of a function of the sums, to first order."""
        totals = self.sums.values[0]
        moves = np.diag(STEP * totals)
        above, below = (np.nan_to_num(read(Sums(self.sums.columns, totals + sign * moves))) for sign in (1, -1))
        slopes = np.where(totals != 0, (above - below) / np.where(totals != 0, 2 * STEP * totals, 1.0), 0.0)
        influence: Float[np.ndarray, " P"] = self.rows @ slopes
        return influence


def estimate_tail_misses(solution: SolutionKind, group_sizes: tuple[int, ...]) -> TailMissEstimates:
    """Estimate how often groups of several sizes miss a solution."""

    def by_size(name: str, read: Callable[..., Range]) -> tuple[IntervalEstimate, ...]:
        return tuple(solution.estimate(f"{name} at G = {size}", partial(read, size=size)) for size in group_sizes)

    return TailMissEstimates(
        solution.name,
        solution.estimate(f"mass of the solution {solution.name}", solution.kind.mass),
        solution.estimate(f"solve rate of prompts with the solution {solution.name}", solution.kind.solve_rate),
        group_sizes,
        by_size("tail miss", solution.kind.missed),
        by_size("teaching groups against it", solution.kind.against),
    )


def _drop_short_prompts(counts: SolutionCounts) -> SolutionCounts:
    """Leave out prompts of fewer rollouts than nine in ten have."""
    return counts.drop_short(int(np.quantile(counts.trials, FEW, method="lower")))


def _resample(name: str, kind: "Typical | Rarest", columns: Columns, level: float, seed: int) -> SolutionKind:
    rows = np.stack(list(columns.values()), axis=1)
    sums = resample_sums(rows, seed)
    events = np.random.default_rng((seed, 1)).standard_exponential(len(sums) - 1)
    return SolutionKind(name, kind, rows, Sums(tuple(columns), sums), np.append(0.0, events), level)


# The solution of a random correct rollout


class Typical:
    """Quantities of the solution of a random correct rollout, from the sums of ``_typical_columns``."""

    @staticmethod
    def mass(sums: Sums) -> Range:
        """Return sum pi^2 / sum p, from pairs of rollouts that give one solution."""
        return exact(ratio(np.clip(sums.column("alike"), 0, sums.column("both")), sums.column("correct")))

    @staticmethod
    def solve_rate(sums: Sums) -> Range:
        """Return sum p^2 / sum p, from pairs that are both correct."""
        return exact(ratio(sums.column("both"), sums.column("correct")))

    @staticmethod
    def missed(sums: Sums, size: int) -> Range:
        """Return sum pi [(1 - pi)^G - (p - pi)^G - (1 - p)^G] / sum p."""
        return Range(*(ratio(end, sums.column("correct")) for end in _missed_range(sums, size)))

    @staticmethod
    def against(sums: Sums, size: int) -> Range:
        """Return the same over sum p (1 - p^G - (1 - p)^G): of groups that teach, prompts weighted by solve rate."""
        miss, reach = _missed_range(sums, size), _reached_range(sums, size)
        low = ratio(miss.low, reach.high)
        most = np.fmin(ratio(miss.high, reach.low), 1 - ratio(_least_holding(sums, size), reach.high))
        high = np.clip(most, low, None)
        return Range(low, np.clip(ratio(miss.value, reach.value), low, high), high)

    @staticmethod
    def holding(sums: Sums, size: int) -> Range:
        """Return 1 - ``against``."""
        return exact(np.ones(len(sums.values))).subtract(Typical.against(sums, size))

    @staticmethod
    def teaching_against(sums: Sums, size: int) -> Range:
        """Return the share of groups that teach, all prompts weighted alike, times ``against``."""
        return _teaching_range(sums, size).multiply(Typical.against(sums, size))

    @staticmethod
    def teaching_holding(sums: Sums, size: int) -> Range:
        """Return the share of groups that teach, all prompts weighted alike, times ``holding``."""
        return _teaching_range(sums, size).multiply(Typical.holding(sums, size))


def _teaching_range(sums: Sums, size: int) -> Range:
    prompts = sums.column("prompts")
    return Range(*(ratio(end, prompts) for end in extrapolate_rising(sums, "active", size, prompts)))


def _reached_range(sums: Sums, size: int) -> Range:
    return extrapolate_rising(sums, "reached", size, sums.column("correct"))


def _least_holding(sums: Sums, size: int) -> Draws:
    """Return the least that groups reach and do not miss: a group that holds a solution still does when it grows."""
    last = min(size, sums.largest("missed"))
    if not last:
        return np.zeros(len(sums.values))
    most = sums.column("reached", last)
    holding: Draws = np.clip(most - sums.column("missed", last), 0, most)  # events, which are added, may be too many
    return holding


def _missed_range(sums: Sums, size: int) -> Range:
    """Return the mass that groups miss, no more than what they reach leaves."""
    most = _reached_range(sums, size).high - _least_holding(sums, size)
    return Range(*(np.clip(end, 0, most) for end in extrapolate(sums, "missed", size)))


def typical_solution(counts: SolutionCounts, level: float, seed: int, group_sizes: tuple[int, ...]) -> SolutionKind:
    """Return the solution of a random correct rollout, to be read at groups of these sizes.

    Where no two correct rollouts of a prompt agree, or no two differ, intervals are those of an event that could have
    come and did not: a number of events that is 0 has the confidence distribution Exp(1). Where no prompt has two of
    them, all estimates are NaN.
    """
    counts = _drop_short_prompts(counts)
    solution = _resample("of a random correct rollout", Typical(), _typical_columns(counts, group_sizes), level, seed)
    answered = counts.answered()
    several = answered > 1
    if not several.any():
        return solution._replace(sums=solution.sums._replace(values=np.full_like(solution.sums.values, np.nan)))
    if (counts.times == 1).all():
        return _add_unseen_event(solution, _agreeing(counts), answered * (answered - 1), group_sizes)
    if (counts.drawn() <= 1).all():
        return _add_unseen_event(solution, _dissenting(counts), answered * several, group_sizes)
    return solution


def _typical_columns(counts: SolutionCounts, group_sizes: tuple[int, ...]) -> Columns:
    fewest = int(counts.trials.min())
    pairs = np.maximum(counts.trials * (counts.trials - 1.0), 1)
    answered = counts.answered()
    columns = {
        ("prompts", 0): np.ones(len(counts.trials)),
        ("correct", 0): answered / counts.trials,
        ("alike", 0): counts.sum_by_prompt(counts.times * (counts.times - 1.0)) / pairs,
        ("both", 0): answered * np.maximum(counts.successes - 1, 0) / pairs,
    }
    for name, share, largest in (
        ("active", active, fewest),
        ("reached", reached, fewest - 1),
        ("missed", missed, fewest - 1),
    ):
        columns |= {(name, size): share(counts, size) for size in exact_sizes(group_sizes, largest)}
    return columns


def _add_unseen_event(
    solution: SolutionKind, event: SolutionCounts, weight: Float[np.ndarray, " P"], group_sizes: tuple[int, ...]
) -> SolutionKind:
    """Add Exp(1) events to the resamples, each of a prompt by its weight and as large as it would be there."""
    rows = np.stack(list(_typical_columns(event, group_sizes).values()), axis=1)
    added = weight @ (rows - solution.rows) / weight.sum()
    return solution._replace(sums=solution.add_events(added), smooth=False)


def _dissenting(counts: SolutionCounts) -> SolutionCounts:
    """Let one correct rollout of each prompt that has several give another solution than the others."""
    several = counts.times > 1
    prompt = np.concatenate([counts.prompt, counts.prompt[several]])
    times = np.concatenate([counts.times - several, np.ones(several.sum(), dtype=int)])
    return counts._replace(prompt=prompt, times=times)


def _agreeing(counts: SolutionCounts) -> SolutionCounts:
    """Let two correct rollouts of each prompt that has several give one solution."""
    prompt = np.sort(counts.prompt, kind="stable")
    number = np.arange(len(prompt)) - np.searchsorted(prompt, prompt)  # of the solution within its prompt
    several = counts.drawn()[prompt] > 1
    mask = ~(several & (number == 1))
    return counts._replace(prompt=prompt[mask], times=(1 + (several & (number == 0)))[mask])


# A solution that was drawn once


class Rarest:
    """Quantities of a solution that was drawn once, from the sums of ``_rarest_columns``, of prompts with N rollouts.

    The other rollouts of its prompt are like a group that misses it, so they show how likely such a group teaches. The
    mean mass m alone bounds how likely a group misses it, for masses differ: (1 - m)^G is the least (Jensen), 1 - m the
    most, and the value is (1 + G / N)^(-m N), the power law of the same slope.
    """

    def __init__(self, trials: int) -> None:
        self.trials = trials

    def mass(self, sums: Sums) -> Range:
        """Return sum N pi^2 (1 - pi)^(N - 1) / sum N pi (1 - pi)^(N - 1); below 1 / N, for a single draw is lucky.

        No estimate from N rollouts is without a bias, for that takes N + 1; it ranges over what the bias may be.
        """
        once, mass, bias = (sums.column(name) for name in ("once", "mass of once", "bias of once"))
        return Range(*(np.clip(ratio(mass + sign * bias, once), 0, 1) for sign in (-1, 0, 1)))

    def solve_rate(self, sums: Sums) -> Range:
        """Return the share of correct ones of the other rollouts."""
        return exact(ratio(sums.column("others correct"), sums.column("once")))

    def missed(self, sums: Sums, size: int) -> Range:
        """Return Pr(it is missed) Pr(the group teaches, if it is missed)."""
        return _once_range(sums, "mixed", size, 2).multiply(self._missed_chance(sums, size))

    def against(self, sums: Sums, size: int) -> Range:
        """Return ``missed`` over itself and Pr(it is drawn and the others of the group are not all right)."""
        gone, wrong = self._missed_chance(sums, size), _once_range(sums, "wrong", size - 1, 1)
        holding = ((1 - gone.low) * wrong.high, (1 - gone.value) * wrong.value, (1 - gone.high) * wrong.low)
        return Range(*(ratio(miss, miss + hold) for miss, hold in zip(self.missed(sums, size), holding, strict=True)))

    def _missed_chance(self, sums: Sums, size: int) -> Range:
        mass = self.mass(sums)
        value = (1 + size / self.trials) ** (-mass.value * self.trials)
        return Range((1 - mass.high) ** size, value, 1 - mass.low)


def _once_range(sums: Sums, name: str, size: int, order: int) -> Range:
    once = sums.column("once")
    return Range(*(ratio(end, once) for end in extrapolate_rising(sums, name, size, once, order)))


def rarest_solution(counts: SolutionCounts, level: float, seed: int, group_sizes: tuple[int, ...]) -> SolutionKind:
    """Return a solution that was drawn once, to be read at groups of these sizes."""
    counts = _drop_short_prompts(counts)
    kind = Rarest(int(counts.trials.min()))
    return _resample("drawn once", kind, _rarest_columns(counts, group_sizes), level, seed)


def _rarest_columns(counts: SolutionCounts, group_sizes: tuple[int, ...]) -> Columns:
    once = counts.sum_by_prompt((counts.times == 1).astype(float))
    others = np.maximum(counts.successes - 1, 0) / np.maximum(counts.trials - 1, 1)
    mass = estimate_sum(counts, mass_drawn_once)
    sizes = exact_sizes(group_sizes, int(counts.trials.min()) - 1)
    columns = {
        ("once", 0): once,
        ("mass of once", 0): mass.per_prompt,
        ("bias of once", 0): mass.bias,
        ("others correct", 0): once * others,
    }
    columns |= {("mixed", size): mixed_without(counts, size) for size in sizes}
    return columns | {
        ("wrong", size): not_all_right(counts, size) for size in sorted({*sizes, *(size - 1 for size in sizes)})
    }
