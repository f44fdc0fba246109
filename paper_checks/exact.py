"""The exact laboratory: small policies whose groups are all enumerated, in fractions or 50 digits.

A policy is a tuple of probabilities (``Fraction`` for exact answers). A group of G i.i.d. rollouts is known by its
counts, how often each action was drawn; there are C(G + N - 1, N - 1) of them.
"""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import comb, factorial, prod
from typing import Any

from mpmath import mp, mpf

from paper_checks.evidence import number

Policy = Sequence[Any]
Counts = tuple[int, ...]

# Small policies of no special symmetry, and whether each action is correct; the smallest first.
POLICIES: tuple[tuple[tuple[Fraction, ...], tuple[bool, ...]], ...] = (
    ((Fraction(2, 5), Fraction(3, 5)), (True, False)),
    ((Fraction(1, 2), Fraction(1, 6), Fraction(1, 3)), (True, True, False)),
    ((Fraction(3, 7), Fraction(1, 14), Fraction(2, 7), Fraction(3, 14)), (True, True, False, False)),
    (
        (Fraction(5, 12), Fraction(1, 12), Fraction(1, 8), Fraction(1, 4), Fraction(1, 8)),
        (True, True, True, False, False),
    ),
)


def groups(policy: Policy, group_size: int) -> Iterator[tuple[Any, Counts]]:
    """Each group's probability and counts.

    >>> [(str(chance), counts) for chance, counts in groups((Fraction(1, 3), Fraction(2, 3)), 2)]
    [('4/9', (0, 2)), ('4/9', (1, 1)), ('1/9', (2, 0))]
    """
    for counts in compositions(group_size, len(policy)):
        ways = factorial(group_size) // prod(factorial(count) for count in counts)
        yield ways * prod(p**count for p, count in zip(policy, counts, strict=True)), counts


def compositions(total: int, size: int) -> Iterator[Counts]:
    """All tuples of ``size`` counts that sum to ``total``."""
    if size == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, size - 1):
            yield (first, *rest)


def expectation(policy: Policy, group_size: int, value: Callable[[Counts], Any]) -> Any:
    """The expectation of a function of a group's counts: every group, weighed by its probability."""
    return sum(chance * value(counts) for chance, counts in groups(policy, group_size))


def binomial(group_size: int, p: Any) -> list[Any]:
    """(G + 1,) probability of s successes among G rollouts, s from 0 up."""
    return [comb(group_size, s) * p**s * (1 - p) ** (group_size - s) for s in range(group_size + 1)]


def mass(policy: Policy, members: Sequence[Any]) -> Any:
    """The probability of the actions whose entry in ``members`` is true."""
    return sum((p for p, member in zip(policy, members, strict=True) if member), start=Fraction(0))


def logits(policy: Policy) -> list[mpf]:
    """Logits of a policy, log p."""
    return [mp.log(number(p)) for p in policy]


def softmax(scores: Sequence[mpf]) -> list[mpf]:
    """The policy of these logits."""
    weights = [mp.exp(score) for score in scores]
    total = mp.fsum(weights)
    return [weight / total for weight in weights]


def stepped(policy: Policy, direction: Sequence[Any], step: mpf) -> list[mpf]:
    """The policy, exactly, after its logits moved by ``step`` times a direction."""
    return softmax([score + step * number(d) for score, d in zip(logits(policy), direction, strict=True)])


def entropy(policy: Policy) -> mpf:
    """Shannon entropy in nats."""
    return -mp.fsum(number(p) * mp.log(number(p)) for p in policy)


def score_gradient(policy: Policy, weights: Sequence[Any]) -> list[Any]:
    """sum over actions of weight_a grad log pi(a) with respect to the logits: weight_j - p_j sum of weights."""
    total = sum(weights)
    return [weight - p * total for weight, p in zip(weights, policy, strict=True)]
