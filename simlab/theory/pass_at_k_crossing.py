"""From which k on pass@k falls in a step that raises pass@1.

pass@k is the mean over prompts of 1 - (1 - Q)^k. To first order a step dQ changes it by the mean of
k (1 - Q)^(k - 1) dQ, an exponential sum in k. By Descartes' rule of signs it changes its sign at most as often as dQ
does from the hardest prompt to the easiest: one change makes the crossing unique ``[simlab:interference-descartes]``.
"""

import itertools
from typing import cast

import numpy as np
from jaxtyping import Float

from simlab.errors import InputError, check_shares

PerPrompt = Float[np.ndarray, " M"]
Numbers = np.float64 | Float[np.ndarray, "..."]


def pass_at_k_change(solve_rates: PerPrompt, changes: PerPrompt, k: float | Float[np.ndarray, "..."]) -> Numbers:
    """The mean over prompts of k (1 - Q)^(k - 1) dQ, the first-order change of pass@k, for real k from 1 up.

    >>> pass_at_k_change(np.array([0.5, 0.01]), np.array([0.1, -0.01]), np.array([1.0, 4.0, 8.0])).round(4)
    array([ 0.045 ,  0.0056, -0.0342])
    """
    _check(solve_rates, changes)
    sizes = np.asarray(k, dtype=float)
    if not (np.isfinite(sizes) & (sizes >= 1)).all():
        raise InputError(f"k = {k} is not allowed; allowed: finite numbers from 1 up")
    return cast(Numbers, (sizes * ((1 - solve_rates) ** (sizes[..., None] - 1) @ changes) / len(solve_rates))[()])


def crossing_k(solve_rates: PerPrompt, changes: PerPrompt) -> float:
    """The k, a real number from 1 up, beyond which pass@k falls although pass@1 rises, to first order.

    It is the last root of the sum of (1 - Q)^(k - 1) dQ. For n_e easy prompts that gain and n_h hard ones that lose it
    is 1 + log(n_e dQ_e / (n_h |dQ_h|)) / log((1 - Q_h) / (1 - Q_e)) ``[simlab:interference-crossing]``. NaN where
    pass@1 does not rise or the hardest of the prompts that move gain; 1 where only certain prompts hold pass@1 up.

    >>> round(crossing_k(np.array([0.5, 0.01]), np.array([0.1, -0.01])), 3)
    4.371
    """
    _check(solve_rates, changes)
    failing = solve_rates < 1  # a certain prompt counts at k = 1 alone
    with np.errstate(divide="ignore"):
        decays = -np.log1p(-solve_rates[failing])
    distinct, kind = np.unique(decays, return_inverse=True)
    sums = np.bincount(kind, changes[failing], minlength=len(distinct))
    moving = sums[sums != 0]
    if changes.sum() <= 0 or not len(moving) or moving[0] > 0:
        return float("nan")
    return 1.0 + max(_crossings(distinct, sums), default=0.0)


def _crossings(decays: PerPrompt, coefficients: PerPrompt) -> list[float]:
    """List the x > 0 at which sum_j c_j exp(-d_j x) changes its sign, in order; d increases.

    Between two neighbouring d at which c changes its sign lies a shift with which exp(shift x) times the sum has a
    derivative of one change of sign less. Between the zeros of that derivative there is at most one zero of the sum:
    this proves Descartes' rule, and says where to look.
    """
    decays, coefficients = decays[coefficients != 0], coefficients[coefficients != 0]
    flips = np.flatnonzero(np.diff(np.sign(coefficients)))
    if not len(flips):
        return []
    if len(decays) == 2:
        logs = np.log(np.abs(coefficients))
        turn = float((logs[1] - logs[0]) / (decays[1] - decays[0]))
        return [turn] if turn > 0 else []
    shift = decays[flips[0] : flips[0] + 2].mean()
    turns = _crossings(decays, coefficients * (shift - decays))
    pairs = [pair for pair in itertools.pairwise([0.0, *turns, _settled(decays, coefficients)]) if pair[0] < pair[1]]
    differing = [pair for pair in pairs if len({_above(decays, coefficients, edge) for edge in pair}) == 2]
    return [_bisect(decays, coefficients, *pair) for pair in differing]


def _settled(decays: PerPrompt, coefficients: PerPrompt) -> float:
    """Return an x beyond which the slowest term outweighs all others."""
    head = np.log(np.abs(coefficients[1:]).sum()) - np.log(abs(coefficients[0]))
    return float(max(1.0, 1.0 + head) / (decays[1] - decays[0]))


def _above(decays: PerPrompt, coefficients: PerPrompt, x: float) -> bool:
    """Return True if the sum is above 0 at x."""
    return bool(coefficients @ np.exp(-(decays - decays[0]) * x) > 0)


def _bisect(decays: PerPrompt, coefficients: PerPrompt, low: float, high: float) -> float:
    """Find the x between ``low`` and ``high`` at which the sign changes, to the last bit."""
    start = _above(decays, coefficients, low)
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _above(decays, coefficients, middle) == start else (low, middle)
    return middle


def _check(solve_rates: PerPrompt, changes: PerPrompt) -> None:
    if solve_rates.ndim != 1 or not len(solve_rates) or changes.shape != solve_rates.shape:
        shapes = f"solve_rates {solve_rates.shape} and changes {changes.shape}"
        raise InputError(f"the shapes are {shapes}; allowed: one axis of one or more prompts each")
    check_shares("solve_rates", solve_rates)
    if not np.isfinite(changes).all():
        raise InputError("changes holds NaN or infinity; allowed: finite numbers")
