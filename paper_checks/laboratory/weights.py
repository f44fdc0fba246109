"""Weights that know a group only by its number of successes, and what one plain gradient step of theirs does.

A rollout's advantage is success(s, G) if it is correct and -failure(s, G) if not, s of G being correct. The masses of
a group are m_S = (s / G) success and m_F = ((G - s) / G) failure; M_S and M_F are their expectations. A group's step is
dz = eta sum_i (A_i / G) grad log pi(a_i), so that action j has the coefficient c_j = (n_j / G) A_j and moves by
eta (c_j - p_j sum_k c_k).
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from paper_checks.evidence import grid
from paper_checks.exact import POLICIES, binomial, groups, mass, score_gradient


class Weight(NamedTuple):
    """The advantage of a success and minus that of a failure, as functions of s and G."""

    success: Callable[[int, int], Any]
    failure: Callable[[int, int], Any]


def rate(s, group_size):
    """The solve rate of a group."""
    return Fraction(s, group_size)


def balanced(scale):
    """(r - mean) times a function of the solve rate: equal masses on successes and failures."""
    return Weight(
        lambda s, G: scale(rate(s, G)) * (1 - rate(s, G)) if 0 < s < G else 0,
        lambda s, G: scale(rate(s, G)) * rate(s, G) if 0 < s < G else 0,
    )


def focal(gamma):
    """Dr. GRPO's advantage times (1 - s/G)^gamma, for whole gamma."""
    return balanced(lambda p: (1 - p) ** gamma)


# Named as the library names them, with the default parameters that it has, so that the simulator can run them.
WEIGHTS = {
    "psr": Weight(lambda s, G: 1, lambda s, G: 0),
    "nsr": Weight(lambda s, G: 0, lambda s, G: 1),
    "w_reinforce": Weight(lambda s, G: Fraction(1, 10), lambda s, G: 1),
    "dr_grpo": balanced(lambda p: 1),
    "maxrl": balanced(lambda p: 1 / p),
    "power_alpha": balanced(lambda p: 1 - p),
    "relu": Weight(lambda s, G: 1 - rate(s, G), lambda s, G: 0),
}


def as_weight(weight):
    """A weight by name, or as given."""
    return WEIGHTS[weight] if isinstance(weight, str) else weight


def cases(group_sizes=(1, 2, 3, 4), policies=POLICIES, weights=tuple(WEIGHTS)):
    """Points: a policy with its correct actions, a group size, a weight; the smallest first."""
    listed = grid(policy_and_correct=policies, G=group_sizes, weight=weights)
    return [
        {"policy": point["policy_and_correct"][0], "correct": point["policy_and_correct"][1]}
        | {"G": point["G"], "weight": point["weight"]}
        for point in listed
    ]


def masses(s, group_size, weight):
    """m_S and m_F of a group."""
    return (
        rate(s, group_size) * weight.success(s, group_size),
        (1 - rate(s, group_size)) * weight.failure(s, group_size),
    )


def expected_masses(p, group_size, weight):
    """M_S and M_F at the probability p of a success."""
    chances = binomial(group_size, p)
    pairs = [masses(s, group_size, weight) for s in range(group_size + 1)]
    return tuple(sum(chance * pair[axis] for chance, pair in zip(chances, pairs, strict=True)) for axis in (0, 1))


def pull(policy, correct, group_size, weight):
    """kappa = M_S / Q + M_F / (1 - Q), with Q the probability of a success."""
    q_pos = mass(policy, correct)
    success, failure = expected_masses(q_pos, group_size, weight)
    return success / q_pos + failure / (1 - q_pos)


def coefficients(counts, correct, weight):
    """c_j of a group, from how often it drew each action."""
    group_size, s = sum(counts), sum(n for n, right in zip(counts, correct, strict=True) if right)
    return [
        Fraction(n, group_size) * (weight.success(s, group_size) if right else -weight.failure(s, group_size))
        if n
        else 0
        for n, right in zip(counts, correct, strict=True)
    ]


def direction(counts, policy, correct, weight):
    """dz / eta of a group."""
    return score_gradient(policy, coefficients(counts, correct, weight))


def expected_direction(policy, correct, group_size, weight):
    """E[dz] / eta: the mean over all groups."""
    mean = [Fraction(0)] * len(policy)
    for chance, counts in groups(policy, group_size):
        mean = [total + chance * d for total, d in zip(mean, direction(counts, policy, correct, weight), strict=True)]
    return tuple(mean)


def mass_gradient(policy, correct):
    """Gradient of Q with respect to the logits: p_a (1[a correct] - Q)."""
    q_pos = mass(policy, correct)
    return tuple(p * (int(right) - q_pos) for p, right in zip(policy, correct, strict=True))
