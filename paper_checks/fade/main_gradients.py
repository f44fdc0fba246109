"""Gradients of small softmax policies, exact and derived, for the checks of FADE's main text."""

import functools
from fractions import Fraction

import sympy
from mpmath import mp

from paper_checks.evidence import number
from paper_checks.exact import POLICIES, entropy, groups, mass, score_gradient

POINTS = [{"policy": policy, "correct": correct} for policy, correct in POLICIES]
GROUPS = [point | {"counts": counts} for point in POINTS[1:3] for _, counts in groups(point["policy"], 3)]

# The caveat of every claim about runs that is decided on one policy.
ONE_PROMPT = (
    "Decided for the expected update at one prompt of a tabular softmax, to first order: a run on many prompts with "
    "shared parameters may differ."
)

# Weights of a success and of a failure (to be subtracted) at solve rate p.
WEIGHTS = {
    "REINFORCE": lambda p: (Fraction(1), Fraction(0)),
    "NSR": lambda p: (Fraction(0), Fraction(1)),
    "mean GRPO": lambda p: (1 - p, p),
    "AsymGRPO, delta 1/2": lambda p: (1 - p, 2 * p),
    "AsymGRPO, delta 2": lambda p: (1 - p, p / 2),
    "Power-2": lambda p: ((1 - p) ** 2, p * (1 - p)),
}


def solve_rate(policy, correct):
    """p, the probability of success."""
    return mass(policy, correct)


def wrong(correct):
    """Mark the failed actions."""
    return tuple(not right for right in correct)


def mean_score(policy, counts, members):
    """The mean of grad log pi over the rollouts among ``members``; 0 where there is none."""
    chosen = [Fraction(count) if member else Fraction(0) for count, member in zip(counts, members, strict=True)]
    size = sum(chosen)
    return score_gradient(policy, [count / size for count in chosen]) if size else [Fraction(0)] * len(policy)


def conditional_score(policy, members):
    """E[grad log pi | the action is among ``members``]."""
    share = mass(policy, members)
    return score_gradient(policy, [p / share if member else 0 for p, member in zip(policy, members, strict=True)])


def successes(counts, correct):
    """Count the correct rollouts of a group."""
    return sum(count for count, right in zip(counts, correct, strict=True) if right)


def group_update(policy, correct, counts, success, failure):
    """(1/G) sum over rollouts of W grad log pi, by its definition."""
    size = sum(counts)
    summed = [
        Fraction(count, size) * (success if right else -failure) for count, right in zip(counts, correct, strict=True)
    ]
    return score_gradient(policy, summed)


def expected_update(policy, correct, group_size, weights):
    """The expectation of ``group_update`` over all groups, ``weights(p)`` being taken at the group's own solve rate."""
    total = [Fraction(0)] * len(policy)
    for chance, counts in groups(policy, group_size):
        success, failure = weights(Fraction(successes(counts, correct), group_size))
        update = group_update(policy, correct, counts, success, failure)
        total = [entry + chance * change for entry, change in zip(total, update, strict=True)]
    return tuple(total)


def derived_update(policy, correct, success, failure):
    """The derivative of E[W] by the logits, W held fixed, by sympy."""
    weights = [success if right else -failure for right in correct]
    columns = zip(*derived_jacobian(tuple(policy)), strict=True)
    return tuple(sum(w * entry for w, entry in zip(weights, column, strict=True)) for column in columns)


@functools.cache
def derived_jacobian(policy):
    """The derivatives of each action's probability by the logits, by sympy."""
    return [
        tuple(Fraction(int(entry.p), int(entry.q)) for entry in derivative(policy, lambda actions, a=a: actions[a]))
        for a in range(len(policy))
    ]


def derivative(policy, value):
    """The derivative by the logits of ``value`` of the softmax probabilities, by sympy."""
    scores = sympy.symbols(f"z:{len(policy)}")
    exponentials = [sympy.exp(score) for score in scores]
    objective = value([each / sum(exponentials) for each in exponentials])
    here = {score: sympy.log(sympy.nsimplify(p)) for score, p in zip(scores, policy, strict=True)}
    return tuple(sympy.diff(objective, score).subs(here) for score in scores)


def entropy_slope(policy, direction):
    """The derivative of the entropy along a direction of the logits: -sum pi (log pi + H) direction."""
    level = entropy(policy)
    return -mp.fsum(number(p) * (mp.log(number(p)) + level) * number(d) for p, d in zip(policy, direction, strict=True))


@functools.cache
def derived_entropy_gradient(policy):
    """The derivative of the entropy by the logits, by sympy."""
    gradient = derivative(policy, lambda actions: -sum(p * sympy.log(p) for p in actions))
    return [number(entry) for entry in gradient]


def derived_entropy_slope(policy, direction):
    """The derivative of the entropy along a direction of the logits, from the entropy's derivative."""
    return mp.fsum(slope * number(d) for slope, d in zip(derived_entropy_gradient(policy), direction, strict=True))
