"""The tail-miss rate of tracked solutions: how often a group updates the policy without a rare solution in it.

Solutions are in canonical form: for each problem a list of n, one for each sample, with None for a wrong answer.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from simlab.errors import InputError, check_whole
from simlab.llm.instruments.groups import Solutions
from simlab.llm.instruments.pass_at_k import log_missed
from simlab.theory.tail_miss import tail_miss

FOUND = 2


class Tracked(NamedTuple):
    """The solutions to track, as lists that JSON holds: ``Tracked(**json.loads(...))`` reads them back.

    Attributes:
        problems: K indices of problems among all of them.
        solutions: the tracked solution of each.
        correct_mass: mu at the start, the share of samples that were correct.
        solution_mass: tau at the start, the share of samples that were the tracked solution.
    """

    problems: list[int]
    solutions: list[str]
    correct_mass: list[float]
    solution_mass: list[float]


def choose(solutions: Solutions) -> Tracked:
    """The rarest solution of each problem that the starting policy's samples hold at least twice.

    Twice, because a solution found once would be estimated to have tau = 1 / n whatever its probability is: most of
    those are far rarer, and were lucky. Still the choice favours solutions that were drawn too rarely or too often for
    what they are; so compare later masses with those in new samples of the starting policy, not with ``solution_mass``.
    Of equally rare ones the first found is taken. A problem without such a solution is left out, and so is one whose
    correct samples are all one solution: a group with a correct rollout cannot miss it.

    Raises:
        InputError: for a problem without samples.
    """
    tracked = Tracked([], [], [], [])
    for problem, samples in enumerate(solutions):
        if not len(samples):
            raise InputError(f"problem {problem} has no sample; allowed: one or more")
        counts = Counter(solution for solution in samples if solution is not None)
        often = {solution: count for solution, count in counts.items() if count >= FOUND}
        if len(counts) < 2 or not often:
            continue
        rarest = min(often, key=often.__getitem__)
        tracked.problems.append(problem)
        tracked.solutions.append(rarest)
        tracked.correct_mass.append(counts.total() / len(samples))
        tracked.solution_mass.append(often[rarest] / len(samples))
    return tracked


class TailMiss(NamedTuple):
    """The tail-miss rate of K tracked solutions in n samples of each problem.

    Attributes:
        active: (K,) share of the groups with both outcomes.
        missed: (K,) share of the groups with both outcomes and without the tracked solution.
        expected: (K,) the mean of ``missed`` over all orders of the samples.
        lemma: (K,) the lemma's value at ``correct_mass`` and ``solution_mass``.
        correct_mass: (K,) mu, the share of correct samples.
        solution_mass: (K,) tau, the share of samples that are the tracked solution.
    """

    active: Float[np.ndarray, " K"]
    missed: Float[np.ndarray, " K"]
    expected: Float[np.ndarray, " K"]
    lemma: Float[np.ndarray, " K"]
    correct_mass: Float[np.ndarray, " K"]
    solution_mass: Float[np.ndarray, " K"]


def tail_miss_of_tracked(tracked: Tracked, solutions: Solutions, group_size: int) -> TailMiss:
    """The rate at which groups are active and miss the tracked solution, and Lemma 3.1's ``[f-grpo:lemma-3.1]``.

    ``missed`` splits the n samples, in their order, into groups of G; what is left over is in none. ``expected`` is
    the share of all C(n, G) groups, from binomials: unbiased for the probability of the current policy, as ``missed``
    is, and with less noise. ``lemma`` puts the shares mu and tau of the n samples into the lemma: the probability for G
    draws *with* replacement from these samples. That is biased, of order G^2 / n and of either sign: (1 - tau)^G is too
    large on average, and so are the two terms taken off. Above all, for G near n it is not to be read. All three
    treat the samples of a problem as independent draws of one policy; that they agree says nothing on the policy.

    Args:
        tracked: from ``choose``.
        solutions: the new samples of all problems, the tracked ones among them.
        group_size: G, up to n.

    Raises:
        InputError: for a tracked problem that has no samples, or fewer than G.
    """
    check_whole("group_size", group_size, 1)
    rows = []
    for problem, solution in zip(tracked.problems, tracked.solutions, strict=True):
        if problem >= len(solutions):
            raise InputError(f"solutions are of {len(solutions)} problems; problem {problem} is tracked too")
        samples = solutions[problem]
        if len(samples) < group_size:
            raise InputError(
                f"problem {problem} has {len(samples)} samples; allowed: {group_size} or more, the group size"
            )
        rows.append(_of_problem(samples, solution, group_size))
    return TailMiss(*np.array(rows, float).reshape(len(rows), len(TailMiss._fields)).T)


def _of_problem(samples: Sequence[str | None], solution: str, group_size: int) -> tuple[float, ...]:
    count = len(samples)
    correct = np.array([sample is not None for sample in samples])
    target = np.array([sample == solution for sample in samples])
    kept = count - count % group_size
    found = correct[:kept].reshape(-1, group_size).sum(axis=1)
    active = (found > 0) & (found < group_size)
    missed = active & ~target[:kept].reshape(-1, group_size).any(axis=1)
    rights, targets = int(correct.sum()), int(target.sum())
    # As in the lemma: no target, less nothing but correct ones without it, less nothing but wrong ones.
    avoided = np.exp(log_missed(count, group_size))
    expected = avoided[targets] - avoided[count - rights + targets] - avoided[rights]
    mu, tau = rights / count, targets / count
    return (
        float(active.mean()),
        float(missed.mean()),
        max(0.0, float(expected)),
        float(tail_miss(group_size, mu, tau)),
        mu,
        tau,
    )


def tracked_metrics(tracked: Tracked, solutions: Solutions, group_size: int) -> dict[str, float]:
    """``tail_miss_of_tracked`` for the metrics of a step: means over the tracked problems, NaN if there are none.

    ``tracked_active``, ``tail_miss``, ``tail_miss_expected``, ``tail_miss_lemma``, ``tracked_correct_mass``,
    ``tracked_solution_mass``, and ``tracked_lost``, the share of tracked solutions that no sample holds any more.

    Raises:
        InputError: as there.
    """
    found = tail_miss_of_tracked(tracked, solutions, group_size)
    if not tracked.problems:
        found = TailMiss(*[np.array([np.nan])] * len(TailMiss._fields))
    lost = np.where(np.isnan(found.solution_mass), np.nan, found.solution_mass == 0)
    names = ("tracked_active", "tail_miss", "tail_miss_expected", "tail_miss_lemma", "tracked_correct_mass")
    named = dict(zip((*names, "tracked_solution_mass", "tracked_lost"), (*found, lost), strict=True))
    return {name: float(values.mean()) for name, values in named.items()}
