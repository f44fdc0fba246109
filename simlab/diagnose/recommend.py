"""How to split a budget of rollouts a step into prompts x G: what teaches more, and what teaches against a solution.

For every split, groups that teach a step are (R / G) Pr(active), and of these the share Pr(missed | active) teaches
against the typical solution ``[f-grpo:lemma-3.1]``. What remains, the groups that teach and hold the solution, is what
a recommendation goes by: more groups that only teach against it are no gain.

It is advice for pass@1. Where it was tested by training, the recommended split raised pass@1 and lowered pass@64:
what prompts share is not in a log (``benchmarks/results/diagnose_recommendation.md``).
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

from simlab.diagnose.estimate import Estimate
from simlab.diagnose.groups import dead_share
from simlab.diagnose.solve_rates import Population
from simlab.diagnose.subsets import Range, Sums, exactly
from simlab.diagnose.tail_misses import Solution
from simlab.diagnose.typical import Typical
from simlab.errors import check_whole

SMALLEST, LARGEST = 2, 256  # group sizes of the splits


@dataclasses.dataclass(frozen=True)
class Split:
    """One way to spend the rollouts of a step, beside the group size in use at the same cost.

    Attributes:
        prompts, group_size: their product is the budget, or just below it.
        teaching: groups of a step that teach, and ``gain``, how many more than at the size in use.
        against: groups of a step that teach against the typical solution, and ``loss``, how many more.
        holding: groups that teach and hold it, and ``net``, how many more.
        The last four are None where the log has no answers.
    """

    prompts: int
    group_size: int
    teaching: Estimate
    gain: Estimate
    against: Estimate | None
    loss: Estimate | None
    holding: Estimate | None
    net: Estimate | None


@dataclasses.dataclass(frozen=True)
class Recommendation:
    """The splits of a budget, and which one is recommended.

    Attributes:
        rollouts: the rollouts of a step.
        group_size: in use.
        splits: by group size.
        recommended: None where the intervals leave open whether any split is better, or what they say disagrees.
        reason: in one line.
    """

    rollouts: int
    group_size: int
    splits: tuple[Split, ...]
    recommended: Split | None
    reason: str


def recommend(now: Population, solution: Solution | None, group_size: int, rollouts: int) -> Recommendation:
    """Compare the splits of a budget.

    Args:
        now: the prompts.
        solution: the typical one; None where the log has no answers.
        group_size: in use.
        rollouts: the rollouts of a step.

    Raises:
        InputError: for fewer than two rollouts.
    """
    check_whole("rollouts", rollouts, SMALLEST)
    powers = [2**power for power in range(1, LARGEST.bit_length())]
    sizes = sorted({size for size in (*powers, group_size) if 2 <= size <= rollouts})
    splits = tuple(split_at(now, solution, size, group_size, rollouts) for size in sizes)
    chosen, reason = _chosen(splits, group_size)
    return Recommendation(rollouts, group_size, splits, chosen, reason)


def split_at(now: Population, solution: Solution | None, size: int, in_use: int, rollouts: int) -> Split:
    """The rollouts in groups of one size, beside the size in use.

    Groups that hold the solution are those that teach, times 1 - ``Typical.against``: never more than those that teach.
    Values are those of the fitted population, intervals those of the resampled prompts.
    """
    groups, base = rollouts / size, rollouts / in_use
    teaching, usual = groups * (1 - dead_share(size)), base * (1 - dead_share(in_use))
    teach = now.estimate(f"groups that teach at G = {size}", teaching)
    gain = now.estimate(f"more groups that teach at G = {size}", teaching - usual)
    of_solution: tuple[Estimate | None, ...] = (None,) * 4
    if solution is not None:
        sizes = _Size(size, groups, teach.value), _Size(in_use, base, float(usual @ now.mixture.weights))
        of_solution = (*_beside(solution, AGAINST, *sizes), *_beside(solution, HOLDING, *sizes))
    return Split(int(groups), size, teach, gain, *of_solution)


class _Size(NamedTuple):
    """A group size, its groups a step, and how many of them teach."""

    size: int
    groups: float
    teaching: float


class _Share(NamedTuple):
    """Groups of a kind: their share of all groups, and of those that teach."""

    name: str
    of_groups: Callable[[Sums, int], Range]
    of_teaching: Callable[[Sums, int], Range]


AGAINST = _Share("groups against", Typical.teaching_against, Typical.against)
HOLDING = _Share("groups holding it", Typical.teaching_holding, Typical.holding)


def _beside(solution: Solution, own: _Share, here: _Size, in_use: _Size) -> tuple[Estimate, Estimate]:
    """Groups of a kind, and how many more than at the size in use."""

    def value(at: _Size) -> float:
        return at.teaching * float(own.of_teaching(solution.sums, at.size).value[0])

    def groups(sums: Sums, at: _Size) -> Range:
        return own.of_groups(sums, at.size).scaled(at.groups)

    def more(sums: Sums) -> Range:
        found = groups(sums, here)
        return exactly(found.value - found.value) if here.size == in_use.size else found.less(groups(sums, in_use))

    name = f"{own.name} at G = {here.size}"
    return (
        solution.estimate(name, lambda sums: groups(sums, here), value(here)),
        solution.estimate(f"more {name}", more, value(here) - value(in_use)),
    )


def _chosen(splits: tuple[Split, ...], in_use: int) -> tuple[Split | None, str]:
    others = [split for split in splits if split.group_size != in_use]
    if any(split.net is None for split in others):
        return (
            None,
            "without answers the log does not tell which groups teach against a solution: only curves are given",
        )
    better = [split for split in others if split.net is not None and split.net.sign > 0]
    agreed = [split for split in better if split.gain.sign > 0]
    if agreed:
        best = max(agreed, key=lambda split: split.net.low if split.net else 0.0)
        why = "more groups teach, and more of them hold the typical solution"
        return best, f"G = {best.group_size}, for pass@1 alone: {why}"
    if better:
        sizes = ", ".join(str(split.group_size) for split in better)
        return None, f"G = {sizes}: more groups would hold the typical solution, but not surely more would teach"
    return None, f"no split has surely more groups that teach and hold the typical solution than G = {in_use}"
