"""Describe the groups of a batch: rewards, solve rates, solutions, and the gradient mass at each solve rate."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from simlab.errors import InputError
from simlab.rollouts import Rollouts, sequence_mean

MOST_BINS = 8
Values = dict[str, float | list[float]]
Solutions = Sequence[Sequence[str | None]]


def group_metrics(
    rewards: Num[np.ndarray, "P G"],
    advantages: Num[np.ndarray, "..."],
    mask: Bool[np.ndarray, "..."] | None = None,
    solutions: Solutions | None = None,
) -> Values:
    """The metrics of a batch of groups.

    - ``reward``, ``solve_rate``: means over all rollouts; a rollout is correct when its reward is above 0.
    - ``all_wrong``, ``all_right``: shares of groups. The others are active.
    - ``distinct_solutions``, ``distinct_solutions_active``: distinct correct solutions of a group, mean over all groups
      and over the active ones.
    - what ``masses_by_solve_rate`` gives.

    Args:
        rewards: (P, G).
        advantages: (P, G), or (P, G, T) for methods of tokens, of which a rollout counts with their mean.
        mask: (P, G, T) true where there is a token; None where all are. Advantages of rollouts do without it.
        solutions: P lists of G canonical solutions, None for a wrong answer; without them they are not counted.

    Raises:
        InputError: for arrays or solutions that do not fit together.
    """
    _check(rewards, advantages, mask, solutions)
    correct = rewards > 0
    found = correct.sum(axis=1)
    active = (found > 0) & (found < rewards.shape[1])
    values: Values = {
        "reward": float(rewards.mean(dtype=float)),
        "solve_rate": float(correct.mean()),
        "all_wrong": float((found == 0).mean()),
        "all_right": float((found == rewards.shape[1]).mean()),
    }
    if solutions is not None:
        distinct = np.array([len({solution for solution in group if solution is not None}) for group in solutions])
        values["distinct_solutions"] = float(distinct.mean())
        values["distinct_solutions_active"] = float(distinct[active].mean()) if active.any() else float("nan")
    of_rollouts = advantages.astype(float)
    if advantages.ndim == 3:
        of_rollouts = sequence_mean(of_rollouts, Rollouts(rewards, token_mask=mask))
    by_rate = masses_by_solve_rate(correct, of_rollouts)
    return values | {name: part.tolist() for name, part in by_rate._asdict().items()}


class MassesBySolveRate(NamedTuple):
    """The gradient masses of the groups of each bin of solve rates, B bins from all wrong to all right.

    Attributes:
        lowest_rate: (B,) the lowest solve rate of the bin.
        highest_rate: (B,) the highest.
        group_share: (B,) share of the groups that are in it.
        success_mass: (B,) m_S, mean over these groups; NaN without any.
        failure_mass: (B,) m_F, likewise.
    """

    lowest_rate: Float[np.ndarray, " B"]
    highest_rate: Float[np.ndarray, " B"]
    group_share: Float[np.ndarray, " B"]
    success_mass: Float[np.ndarray, " B"]
    failure_mass: Float[np.ndarray, " B"]


def masses_by_solve_rate(correct: Bool[np.ndarray, "P G"], advantages: Float[np.ndarray, "P G"]) -> MassesBySolveRate:
    """m_S = (1/G) sum of A over successes, m_F = -(1/G) sum of A over failures, by solve rate ``[fade:masses]``.

    The bins are those of ``bins``. What an estimator gives at each solve rate by itself is ``simlab.theory.masses``.
    """
    size = correct.shape[1]
    of_counts = bins(size)
    own_bins, rates = of_counts[correct.sum(axis=1)], np.arange(size + 1) / size
    starts = np.unique(of_counts, return_index=True)[1]
    groups = np.bincount(own_bins, minlength=len(starts))
    success = np.where(correct, advantages, 0).sum(axis=1) / size
    failure = 0 - np.where(correct, 0, advantages).sum(axis=1) / size  # 0 - x, for -x would print -0.

    def mean(mass: Float[np.ndarray, " P"]) -> Float[np.ndarray, " B"]:
        total = np.bincount(own_bins, weights=mass, minlength=len(starts))
        return np.where(groups > 0, total / np.maximum(groups, 1), np.nan)

    highest = rates[np.append(starts[1:] - 1, size)]
    return MassesBySolveRate(rates[starts], highest, groups / len(correct), mean(success), mean(failure))


def bins(group_size: int) -> Int[np.ndarray, " counts"]:
    """The bin of each number of successes x = 0 to G.

    Up to G = 7 each x has its own. In larger groups x = 0 and x = G have, and the others share six of equal widths:
    solve rates above i / 6 and up to (i + 1) / 6.
    """
    counts = np.arange(group_size + 1)
    if group_size < MOST_BINS:
        return counts
    inner = MOST_BINS - 2
    shared = (inner * counts + group_size - 1) // group_size  # ceil(6 x / G), in whole numbers
    return np.where(counts == group_size, MOST_BINS - 1, shared)


def _check(
    rewards: Num[np.ndarray, "P G"],
    advantages: Num[np.ndarray, "..."],
    mask: Bool[np.ndarray, "..."] | None,
    solutions: Solutions | None,
) -> None:
    if 0 in rewards.shape:
        raise InputError(f"rewards have shape {rewards.shape}; allowed: one group or more, of one rollout or more")
    if advantages.ndim not in (2, 3) or advantages.shape[:2] != rewards.shape:
        raise InputError(f"advantages have shape {advantages.shape}; allowed: {rewards.shape}, and tokens behind it")
    if advantages.ndim == 3 and mask is not None and mask.shape != advantages.shape:
        raise InputError(f"mask has shape {mask.shape}; allowed: {advantages.shape}, as the advantages have")
    if solutions is not None and [len(group) for group in solutions] != [rewards.shape[1]] * len(rewards):
        raise InputError(f"solutions are not those of {rewards.shape[0]} groups of {rewards.shape[1]} rollouts")
