"""Candidate distributions ranked from the likeliest down, and their change by an update of the logits.

Logits are differentiated twice over: symbolically, and numerically in 50 digits. An update is a direction of the
logits; to first order it changes p_v by p_v (direction_v - sum_u p_u direction_u).
"""

from fractions import Fraction as F

import sympy
from mpmath import mp

from paper_checks.evidence import grid, number
from paper_checks.exact import stepped

# The smallest first; then nearly flat, peaked, and with a rank-1 candidate below 1/3.
RANKED = (
    (F(3, 5), F(2, 5)),
    (F(1, 2), F(1, 3), F(1, 6)),
    (F(19, 50), F(18, 50), F(13, 50)),
    (F(9, 10), F(3, 50), F(1, 25)),
    (F(9, 10), F(3, 50), F(3, 100), F(1, 100)),
    (F(3, 10), F(1, 4), F(1, 5), F(3, 20), F(1, 10)),
)
SAMPLED = grid(lambda p, y: y < len(p), p=RANKED, y=range(5))  # each policy with each sampled token, rank 1 being 0


def one_hot(p, y):
    """e_y."""
    return [F(int(v == y)) for v in range(len(p))]


def score(p, y):
    """e_y - p, the logit gradient of log p_y."""
    return [e - q for e, q in zip(one_hot(p, y), p, strict=True)]


def penalty(p, y):
    """The logit update of a negative sample of advantage -1, on policy."""
    return [-entry for entry in score(p, y)]


def smoothed_target(p, y, alpha, n):
    """Eq. 4's target of the sampled token y."""
    return [(1 - alpha) * e + (alpha / n if v < n else 0) for v, e in enumerate(one_hot(p, y))]


def average(p, values):
    """The expectation of a quantity of the candidate."""
    return sum(q * value for q, value in zip(p, values, strict=True))


def mass_change(p, direction):
    """The first-order change of the probabilities per unit step along a direction of the logits."""
    mean = average(p, direction)
    return [q * (d - mean) for q, d in zip(p, direction, strict=True)]


def collision(p):
    """sum p^2, the probability that two samples agree."""
    return average(p, p)


def entropy_slope(p, direction):
    """The first-order change of the entropy per unit step, 50 digits."""
    change = mass_change(p, direction)
    return -mp.fsum(number(d) * mp.log(number(q)) for q, d in zip(p, change, strict=True))


def numerical_gradient(function, p):
    """(N,) derivative of ``function(probabilities, log)`` with respect to the logits, by differences in 50 digits."""
    return tuple(mp.diff(lambda step, u=u: function(stepped(p, one_hot(p, u), step), mp.log), 0) for u in range(len(p)))


def symbolic_gradient(function, p):
    """(N,) the same derivative by sympy, through the softmax."""
    logits = sympy.symbols(f"z:{len(p)}", real=True)
    total = sum(sympy.exp(z) for z in logits)
    value = function([sympy.exp(z) / total for z in logits], sympy.log)
    point = {z: sympy.log(sympy.Rational(q.numerator, q.denominator)) for z, q in zip(logits, p, strict=True)}
    return tuple(sympy.diff(value, z).subs(point) for z in logits)
