"""Lower bounds on the rollouts that a hard prompt needs before it can be kept, whatever the weight knows.

Take plain steps, or steps of a bounded norm, and weights that are silent on groups of equal rewards, as all that sum to
0 in each group are. A group without a success then teaches nothing, and a prompt's own rollouts raise its log-odds in a
step only if its group holds a success; call ``most`` the largest such rise. If what other prompts do to it does not
raise it, its solve rate after i successful groups is at most that of the log-odds l_0 + i ``most``. So the number of
successful groups grows no faster than a pure birth process, and a rise by R needs n = ceil(R / most) of them, which
take a sum of n geometric waiting times at least ``[simlab:rollout-floor]``. Group size, weight, history and knowledge
of the true solve rates do not enter: they choose which prompt gets which part of a step, and not how often a rare
answer is drawn.
"""

import math

import numpy as np
from jaxtyping import Float

from simlab.errors import check_range, check_whole


def chance_of_rise(
    solve_rate: float, group_size: int, rise: float, most: float, groups: int
) -> Float[np.ndarray, " groups_and_one"]:
    """Bound the chance that a prompt's own rollouts have raised its log-odds by ``rise`` within 0 to ``groups`` groups.

    Args:
        solve_rate: Q at first, above 0 and below 1.
        group_size: G.
        rise: R, such as what other prompts take from it.
        most: the largest rise in a step; infinite if nothing bounds it, so that one success is enough.
        groups: N.

    Returns:
        (N + 1,) the chance that n = ceil(R / most) geometric waiting times, whose i-th has the chance 1 - (1 - Q_i)^G
        with Q_i of the log-odds logit(Q) + i most, sum to no more than each number of groups.

    Raises: InputError: for a number outside its range.

    >>> chance_of_rise(0.5, 1, 0.1, 1.0, 2)
    array([0.  , 0.5 , 0.75])
    """
    stages = _stages(solve_rate, group_size, rise, most)
    check_whole("groups", groups, 0)
    waiting, reached = np.zeros(len(stages) + 1), np.zeros(groups + 1)
    waiting[0] = 1.0
    reached[0] = waiting[-1]
    for number in range(1, groups + 1):
        moved = waiting[:-1] * stages
        waiting[:-1] -= moved
        waiting[1:] += moved
        reached[number] = waiting[-1]
    return reached


def groups_to_rise(solve_rate: float, group_size: int, rise: float, most: float) -> float:
    """Bound from below the mean number of a prompt's groups until its rollouts have raised its log-odds by ``rise``.

    The sum of 1 / (1 - (1 - Q_i)^G); about (1 - exp(-R)) / (G Q most) where Q and ``most`` are small, so that times G
    it is a number of rollouts in which no G is left. Arguments and errors are those of ``chance_of_rise``.

    >>> round(8 * groups_to_rise(0.001, 8, 0.5, 0.01)), round(64 * groups_to_rise(0.001, 64, 0.5, 0.01))
    (39730, 41151)
    """
    return float(np.sum(1 / _stages(solve_rate, group_size, rise, most)))


def unsolved_chance(solve_rate: float, rollouts: int) -> float:
    """(1 - Q)^n: the chance that a prompt whose solve rate has not risen is not solved once in n rollouts.

    >>> unsolved_chance(0.5, 2)
    0.25
    """
    check_range("solve_rate", solve_rate, 0, 1)
    check_whole("rollouts", rollouts, 0)
    return float((1 - solve_rate) ** rollouts)


def pull_on_hard(overlap: float, easy_prompts: int, margin: float, gain: float, likeliest: float = 1.0) -> float:
    """Bound what a hard prompt loses in log-odds while no hard prompt is solved, from below ``[simlab:unseen-falls]``.

    c n m / ((1 + l) (1 + c (n - 1))) times the mean gain of n easy prompts in log-odds, all of which one answer solves,
    on a linear head under weights that are silent on groups of equal rewards and give failures together no more than
    successes.

    Args:
        overlap: c, from 0 to 1, of the features of any two prompts.
        easy_prompts: n.
        margin: m, the share of the shared answer in the hard prompt's errors at first, less that of the next likely.
        gain: the mean rise of the log-odds of easy prompts.
        likeliest: l, the largest share of any error in those of an easy prompt, on all the way.

    >>> round(pull_on_hard(0.3, 16, 0.29, 3.0), 3)
    0.38
    """
    check_range("overlap", overlap, 0, 1)
    check_whole("easy_prompts", easy_prompts, 1)
    for name, share in (("margin", margin), ("likeliest", likeliest)):
        check_range(name, share, 0, 1)
    check_range("gain", gain, 0)
    return overlap * easy_prompts * margin * gain / ((1 + likeliest) * (1 + overlap * (easy_prompts - 1)))


def _stages(solve_rate: float, group_size: int, rise: float, most: float) -> Float[np.ndarray, " n"]:
    """Return the chances that a group holds a success after 0 to n - 1 successful groups."""
    check_range("solve_rate", solve_rate, 0, 1, open_low=True)
    check_whole("group_size", group_size, 1)
    check_range("rise", rise, 0)
    if most != math.inf:
        check_range("most", most, 0, open_low=True)
    number = math.ceil(rise / most) if most != math.inf else int(rise > 0)
    odds = solve_rate / (1 - solve_rate) if solve_rate < 1 else math.inf
    grown = odds * np.exp(np.arange(number) * (most if number > 1 else 0.0))
    return np.asarray(-np.expm1(-group_size * np.log1p(grown)))
