"""Plain and natural gradient steps of a tabular softmax, and the entropy they change, derived by sympy."""

import functools
from collections.abc import Sequence
from typing import Any

import sympy

from paper_checks.exact import Policy, score_gradient

UPDATES = ("natural", "plain")


def plain(policy: Policy, advantages: Sequence[Any]) -> list[Any]:
    """The gradient of E[A] at the logits."""
    return score_gradient(policy, [p * a for p, a in zip(policy, advantages, strict=True)])


def natural(policy: Policy, gradient: Sequence[Any]) -> list[Any]:
    """The Fisher matrix's inverse times a gradient; of its solutions, which differ by a constant, the one of sum 0."""
    size = len(policy)
    fisher = sympy.Matrix(size, size, lambda i, j: policy[i] * (int(i == j) - policy[j]))
    return list((fisher + sympy.ones(size)).LUsolve(sympy.Matrix(gradient)))


def direction(update: str, policy: Policy, advantages: Sequence[Any]) -> list[Any]:
    """The direction of an expected update, plain or natural."""
    exact = [sympy.sympify(p) for p in policy]
    gradient = plain(exact, [sympy.sympify(a) for a in advantages])
    return gradient if update == "plain" else natural(exact, gradient)


def entropy_rate(policy: Policy, step: Sequence[Any]) -> Any:
    """The derivative of the entropy along a direction of the logits."""
    exact = [sympy.sympify(p) for p in policy]
    symbols, slopes = _entropy_slopes(len(exact))
    at = dict(zip(symbols, exact, strict=True))
    return sum(slope.subs(at) * sympy.sympify(d) for slope, d in zip(slopes, step, strict=True))


@functools.cache
def _entropy_slopes(size: int) -> tuple[list[sympy.Symbol], list[sympy.Expr]]:
    """dH/dz_j of softmax(z), written in e_j = exp(z_j), of which the probabilities are a choice."""
    weights = sympy.symbols(f"e:{size}", positive=True)
    total = sum(weights)
    entropy = -sum(e / total * sympy.log(e / total) for e in weights)
    return list(weights), [e * sympy.diff(entropy, e) for e in weights]
