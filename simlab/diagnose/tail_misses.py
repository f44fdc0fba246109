"""Estimate how often groups teach without having drawn a solution: they teach against it ``[f-grpo:lemma-3.1]``.

Lemma 3.1 is of one prompt and one solution. Over prompts that differ, the mean of the lemma is not the lemma at mean
masses and solve rates, so that it is estimated prompt by prompt, from all groups that the rollouts of a prompt contain.
Prompts of fewer rollouts than three in four prompts have are left out: N is the same for all others.

Of a prompt with N rollouts, one rollout and G of the N - 1 others are a draw of a solution and of a group. The mean
over all such choices is an unbiased estimate of what a group of G does, prompt by prompt, for every G below N
(Hoeffding 1948, Annals of Mathematical Statistics 19): with X correct rollouts and x_s of solution s,

    sum_s x_s [C(N - x_s, G) - C(X - x_s, G) - C(N - X, G)] / (N C(N - 1, G))

has the mean sum_s pi_s [(1 - pi_s)^G - (p - pi_s)^G - (1 - p)^G].

Example: N = 4 rollouts answered a, a, b and wrong, so that X = 3, x_a = 2, x_b = 1; groups of G = 2. Draw the b
(x_b = 1 of 4): of the C(3, 2) = 3 groups of the others, aa, aw and aw, none has b, and the two with a wrong one teach.
The formula counts the same: 1 [C(3, 2) - C(2, 2) - C(1, 2)] = 3 - 1 - 0 = 2. Draw an a (2 of 4): only groups of b and
wrong miss a, and there is one: 2 [C(2, 2) - C(1, 2) - C(1, 2)] = 2. Together 4 / (4 x 3) = 1/3.

Beyond N nothing is unbiased. Then there are bounds: ``missed`` and the like, divided by G (G - 1), are moments of a
measure on [0, 1], which fall with G and whose logarithm is convex (Hausdorff 1921, Mathematische Zeitschrift 9).

The solution of interest is the typical one, that of a random correct rollout.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from simlab.diagnose import estimate, unseen
from simlab.diagnose.dead_groups import SIZES
from simlab.diagnose.estimate import IntervalEstimate, difference, ratio
from simlab.diagnose.log import Log
from simlab.diagnose.solve_rates import all_within
from simlab.diagnose.unseen import SolutionCounts, UnseenMass

FEW = 0.25  # share of the prompts that may be left out for having fewer rollouts than the others
STEP = 1e-5  # of each sum, between which slopes are taken
EXACT, BOUNDED = "bootstrap over prompts", "bounds beyond the rollouts of a prompt, bootstrap over prompts"

Column = tuple[str, int]  # the name of a sum over prompts, and the group size
ByPrompt = Float[np.ndarray, " P"]
Draws = Float[np.ndarray, " draws"]
# A number within bounds: the least, the value, the most; all three are equal where the data determine it without bias.
Range = Float[np.ndarray, "3 draws"]


class TailMissEstimates(NamedTuple):
    """Rates at which groups of several sizes miss a solution ``[f-grpo:lemma-3.1]``.

    Attributes:
        mass, solve_rate: its probability, and the solve rate of the prompts that have it.
        missed, against: probability that a group teaches without it, of all groups and of those that teach; from N, the
            rollouts of a prompt, on, the power law of the last two sizes, in an interval of all that moments allow.
    """

    mass: IntervalEstimate
    solve_rate: IntervalEstimate
    group_sizes: tuple[int, ...]
    missed: tuple[IntervalEstimate, ...]
    against: tuple[IntervalEstimate, ...]


class UnseenSolutions(NamedTuple):
    """Undrawn mass by window with its change, and tail misses of a typical solution."""

    windows: tuple[UnseenMass, ...]
    change: IntervalEstimate | None
    typical: TailMissEstimates


def estimate_unseen(
    windows: list[Log], level: float, seed: int, group_sizes: tuple[int, ...] = SIZES
) -> UnseenSolutions | None:
    """Estimate the undrawn solutions of the windows of a log; None where the log has no answers."""
    counts = [count for window in windows if (count := unseen.count_solutions(window)) is not None]
    if not counts:
        return None
    masses = tuple(
        unseen.estimate_unseen_mass(count, level, (int(log.step[0]), int(log.step[-1])))
        for log, count in zip(windows, counts, strict=True)
    )
    change = difference("change of the undrawn share", masses[0].share, masses[-1].share) if len(masses) > 1 else None
    solution = typical_solution(counts[-1], level, seed, group_sizes)
    return UnseenSolutions(masses, change, estimate_tail_misses(solution, group_sizes))


# Counts of groups within the rollouts of each prompt, unbiased


def active(counts: SolutionCounts, size: int) -> ByPrompt:
    """Estimate 1 - p^G - (1 - p)^G, for G up to N."""
    right, wrong = counts.successes, counts.trials - counts.successes
    return np.asarray(1 - all_within(right, counts.trials, size) - all_within(wrong, counts.trials, size))


def reached(counts: SolutionCounts, size: int) -> ByPrompt:
    """Estimate p (1 - p^G - (1 - p)^G): a rollout is correct, and a group of G others teaches; for G below N."""
    right, others = np.maximum(counts.successes - 1, 0), counts.trials - 1  # beside a correct rollout
    mixed = 1 - all_within(right, others, size) - all_within(counts.trials - counts.successes, others, size)
    return np.asarray(counts.answered() / counts.trials * mixed)


def missed(counts: SolutionCounts, size: int) -> ByPrompt:
    """Estimate sum_s pi_s [(1 - pi_s)^G - (p - pi_s)^G - (1 - p)^G]: and the group lacks its solution; G below N."""
    right, trials = counts.successes[counts.prompt], counts.trials[counts.prompt]
    groups = (
        all_within(trials - counts.times, trials - 1, size)
        - all_within(right - counts.times, trials - 1, size)
        - all_within(trials - right, trials - 1, size)
    )
    return np.asarray(counts.sum_by_prompt(counts.times * groups) / counts.trials)


# Sums of them over prompts, continued beyond N


class Sums(NamedTuple):
    """Sums over prompts by column, those of the log first and then those of its resamples."""

    columns: tuple[Column, ...]
    values: Float[np.ndarray, "draws C"]

    def column(self, name: str, size: int = 0) -> Draws:
        """Return one column."""
        return np.asarray(self.values[:, self.columns.index((name, size))])

    def largest(self, name: str) -> int:
        """Return the largest group size of a column; 0 for none."""
        return max((size for column, size in self.columns if column == name), default=0)


def exact(value: Draws) -> Range:
    """Return a range without width."""
    return np.stack([value] * 3)


def extrapolate(sums: Sums, name: str, size: int, most: Draws | None = None) -> Range:
    """Return a column at a size: exact as far as the data go, and what moments can be beyond.

    With n the largest exact size and m_G the column over G (G - 1): m_n (m_n / m_(n-1))^(G-n)
    is the least that log-convexity allows, and m_n the most, for moments fall. The value continues as the power of G
    through the last two sizes; it is NaN where they are fewer. With ``most``, the column never falls with G and stays
    below that. Groups of one are 0.
    """
    last = sums.largest(name)
    zeros = np.zeros(len(sums.values))
    if size < 2:
        return exact(zeros)
    if size <= last:
        return exact(sums.column(name, size))
    least, low, value, high = zeros, zeros, np.full_like(zeros, np.nan), np.full_like(zeros, np.inf)
    if last:
        least = sums.column(name, last)
        high = least * (math.perm(size, 2) / math.perm(last, 2))
    if (name, last - 1) in sums.columns:
        before = sums.column(name, last - 1) * (math.perm(last, 2) / math.perm(last - 1, 2))
        falling = np.clip(np.where(before > 0, least / np.where(before > 0, before, 1), 1.0), 0, 1)
        power = math.log(size / last) / math.log(last / (last - 1))
        low, value = high * falling ** (size - last), high * falling**power
    if most is not None:
        low, high = np.clip(low, least, most), np.minimum(high, most)
        value = np.clip(value, low, high)
    return np.stack([low, value, high])


class TypicalSolution(NamedTuple):
    """The typical solution of a log, with resampled sums.

    Attributes:
        rows: what each prompt adds to the sums.
        events: 0 for the log and Exp(1) for each resample: so many more prompts of a kind that came too seldom.
        smooth: true if the prompts differ; if not, resamples are those of an event that could have come and did not.
    """

    rows: Float[np.ndarray, "P C"]
    sums: Sums
    events: Draws
    level: float
    smooth: bool = True

    def estimate(self, name: str, read: Callable[[Sums], Range], value: float | None = None) -> IntervalEstimate:
        """Estimate a smooth function of the sums; ``value`` replaces its own value."""
        low, middle, high = read(self.sums)
        centre = float(middle[0]) if value is None else value
        is_exact = np.array_equal(low, high, equal_nan=True)
        method = EXACT if is_exact else BOUNDED
        if not math.isfinite(centre):
            return estimate.missing(name, self.level, method)
        first = self._interval(name, method, low, lambda sums: read(sums)[0])
        last = first if is_exact else self._interval(name, method, high, lambda sums: read(sums)[2])
        low_end, high_end = min(centre, first.low), max(centre, last.high)
        return IntervalEstimate(name, centre, low_end, high_end, self.level, first.method)

    def _interval(self, name: str, method: str, draws: Draws, read: Callable[[Sums], Draws]) -> IntervalEstimate:
        value = float(draws[0])
        if not self.smooth:
            return estimate.percentile_interval(name, value, draws[1:], self.level, method)
        # What each prompt adds to the error, to first order.
        totals = self.sums.values[0]
        moves = np.diag(STEP * totals)
        above, below = (np.nan_to_num(read(self.sums._replace(values=totals + sign * moves))) for sign in (1, -1))
        slopes = np.where(totals != 0, (above - below) / np.where(totals != 0, 2 * STEP * totals, 1.0), 0.0)
        influence = self.rows @ slopes
        lower, higher = (read(self.add_events(self.rows[at]))[1:] for at in (influence.argmin(), influence.argmax()))
        return estimate.accelerated_bootstrap(
            name, value, draws[1:], influence, with_more=(lower, higher), level=self.level, method=method
        )

    def add_events(self, row: Float[np.ndarray, " C"]) -> Sums:
        """Return the sums with ``events`` prompts more that add this row each."""
        return self.sums._replace(values=self.sums.values + self.events[:, None] * row)


def estimate_tail_misses(solution: TypicalSolution, group_sizes: tuple[int, ...]) -> TailMissEstimates:
    """Estimate how often groups of several sizes miss a solution."""

    def by_size(name: str, read: Callable[..., Range]) -> tuple[IntervalEstimate, ...]:
        return tuple(solution.estimate(f"{name} at G = {size}", partial(read, size=size)) for size in group_sizes)

    return TailMissEstimates(
        solution.estimate("mass of a typical solution", Typical.mass),
        solution.estimate("solve rate of prompts with a typical solution", Typical.solve_rate),
        group_sizes,
        by_size("tail miss", Typical.missed),
        by_size("teaching groups against it", Typical.against),
    )


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
        return _over(_missed_range(sums, size), sums.column("correct"))

    @staticmethod
    def against(sums: Sums, size: int) -> Range:
        """Return the same over sum p (1 - p^G - (1 - p)^G): of groups that teach, prompts weighted by solve rate."""
        miss, reach = _missed_range(sums, size), _reached_range(sums, size)
        low = ratio(miss[0], reach[2])
        most = np.fmin(ratio(miss[2], reach[0]), 1 - ratio(_least_holding(sums, size), reach[2]))
        high = np.clip(most, low, None)
        return np.stack([low, np.clip(ratio(miss[1], reach[1]), low, high), high])

    @staticmethod
    def holding(sums: Sums, size: int) -> Range:
        """Return 1 - ``against``."""
        return np.asarray(1 - Typical.against(sums, size)[::-1])

    @staticmethod
    def teaching(sums: Sums, size: int) -> Range:
        """Return the share of groups that teach, all prompts weighted alike."""
        prompts = sums.column("prompts")
        return _over(extrapolate(sums, "active", size, most=prompts), prompts)


def _over(above: Range, below: Draws) -> Range:
    return ratio(above, np.broadcast_to(below, above.shape))


def _reached_range(sums: Sums, size: int) -> Range:
    return extrapolate(sums, "reached", size, most=sums.column("correct"))


def _least_holding(sums: Sums, size: int) -> Draws:
    """Return the least that groups reach and do not miss: a group that holds a solution still does when it grows."""
    last = min(size, sums.largest("missed"))
    if last < 2:
        return np.zeros(len(sums.values))
    most = sums.column("reached", last)
    return np.asarray(np.clip(most - sums.column("missed", last), 0, most))  # events, which are added, may be too many


def _missed_range(sums: Sums, size: int) -> Range:
    most = _reached_range(sums, size)[2] - _least_holding(sums, size)
    return np.asarray(np.clip(extrapolate(sums, "missed", size), 0, most))


def typical_solution(counts: SolutionCounts, level: float, seed: int, group_sizes: tuple[int, ...]) -> TypicalSolution:
    """Return a random correct rollout's solution; without agreement or difference, 0 events count as Exp(1)."""
    counts = counts.drop_short(FEW)
    columns = _typical_columns(counts, group_sizes)
    rows = np.stack(list(columns.values()), axis=1)
    sums = estimate.resample_sums(rows, seed)
    events = np.random.default_rng((seed, 1)).standard_exponential(len(sums) - 1)
    solution = TypicalSolution(rows, Sums(tuple(columns), sums), np.append(0.0, events), level)
    answered = counts.answered()
    several = answered > 1
    if not several.any():
        return solution._replace(sums=solution.sums._replace(values=np.full_like(solution.sums.values, np.nan)))
    if (counts.times == 1).all():
        event, weight = _agreeing(counts), answered * (answered - 1)
    elif (counts.drawn() <= 1).all():
        event, weight = _dissenting(counts), answered * several
    else:
        return solution
    # Exp(1) events are added to the resamples, each of a prompt by its weight and as large as it would be there.
    moved = np.stack(list(_typical_columns(event, group_sizes).values()), axis=1)
    added = weight @ (moved - rows) / weight.sum()
    return solution._replace(sums=solution.add_events(added), smooth=False)


def _typical_columns(counts: SolutionCounts, group_sizes: tuple[int, ...]) -> dict[Column, ByPrompt]:
    fewest = int(counts.trials.min())
    pairs = np.maximum(counts.trials * (counts.trials - 1.0), 1)
    answered = counts.answered()
    columns = {
        ("prompts", 0): np.ones(len(counts.trials)),
        ("correct", 0): answered / counts.trials,
        ("alike", 0): counts.sum_by_prompt(counts.times * (counts.times - 1.0)) / pairs,
        ("both", 0): answered * np.maximum(counts.successes - 1, 0) / pairs,
    }
    for share, largest in ((active, fewest), (reached, fewest - 1), (missed, fewest - 1)):  # bounds need the last two
        sizes = {size for size in (*group_sizes, largest, largest - 1) if 2 <= size <= largest}
        columns |= {(share.__name__, size): share(counts, size) for size in sorted(sizes)}
    return columns


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
