"""Compute the masses of estimators for the page: in groups of one size, and in the limit of large groups."""

import functools
import math
from typing import Any

import numpy as np
from jaxtyping import Float

from simlab import theory
from simlab.errors import InputError
from simlab.estimators import REGISTRY, Estimator, estimator
from simlab.explore import formula
from simlab.theory import CLOSED_FORMS, closed_form
from simlab.theory.closed_forms import Group

GroupMasses = tuple[Float[np.ndarray, " counts"], Float[np.ndarray, " counts"]]
RATES = np.linspace(0, 1, 161)  # of a curve in the limit of large groups
JUMP = 1e-3  # of a mass between neighbouring rates; a larger one is drawn as a gap


def is_of_rewards(weight: Estimator) -> bool:
    """Return True if advantages follow from rewards alone, and from nothing that came before."""
    return weight.needs == {"rewards"} and not _has_leaves(weight.init())


def _has_leaves(state: Any) -> bool:
    return any(map(_has_leaves, state)) if isinstance(state, tuple) else True


def has_table(name: str) -> bool:
    """Return True if a registered estimator without a closed form computes its masses from a group's rewards."""
    return name not in CLOSED_FORMS and is_of_rewards(estimator(name))


def has_masses(name: str) -> bool:
    """Return True if a registered estimator has masses, in closed form or as it computes them."""
    return name in CLOSED_FORMS or has_table(name)


def group_masses(name: str, group_size: int, parameters: dict[str, Any]) -> GroupMasses:
    """Return (G + 1,) m_S and m_F of an estimator at 0 to G successes.

    Raises:
        InputError: for an estimator that reads more than rewards, or the order of the rollouts.
    """
    if name in CLOSED_FORMS:
        success, failure = closed_form(name, np.arange(group_size + 1) / group_size, group_size, **parameters)
        return np.asarray(success), np.asarray(failure)
    return _computed_masses(name, tuple(parameters.items()), group_size)


@functools.lru_cache(64)
def _computed_masses(name: str, parameters: tuple[tuple[str, Any], ...], group_size: int) -> GroupMasses:
    weight = estimator(name, **dict(parameters))
    if not is_of_rewards(weight):
        raise InputError(f"{name} reads more than the rewards of one step, and so has no masses at a solve rate alone")
    computed = theory.masses(weight, group_size)
    return computed.success, computed.failure


# Answers to the page


def mass_curves(name: str, parameters: dict[str, Any], group_size: int, formula_text: str = "") -> dict[str, Any]:
    """Return what the page draws of an estimator.

    Returns:
        ``success`` and ``failure`` (G + 1,), ``limit`` with ``rates``, ``success`` and ``failure`` (None at a jump),
        or None where large groups have no limit but 0, and ``push`` as of ``push_of``, along the limit or the group.
    """
    success, failure = group_masses(name, group_size, REGISTRY[name].parameters | parameters)
    limit = limit_curve(name, parameters, formula_text)
    line = limit or (np.arange(group_size + 1) / group_size, success, failure)
    return {
        "success": success,
        "failure": failure,
        "limit": dict(zip(("rates", "success", "failure"), limit, strict=True)) if limit else None,
        "push": push_of(*line),
    }


def limit_curve(name: str, parameters: dict[str, Any], formula_text: str = "") -> tuple[np.ndarray, ...] | None:
    """Return rates, m_S and m_F in the limit of large groups, with NaN within a jump; None where there is no limit."""
    return _cached_limit_curve(name, tuple(parameters.items()), formula_text)


@functools.lru_cache(64)  # while the group size is dragged, limits stay
def _cached_limit_curve(
    name: str, parameter_pairs: tuple[tuple[str, Any], ...], formula_text: str
) -> tuple[np.ndarray, ...] | None:
    """Compute ``limit_curve``.

    A jump lies between two neighbouring rates of ``RATES``. The interval is halved, each time keeping the half with
    the larger difference, until that difference is below ``JUMP`` (no jump) or the interval has no width:

        maxrl at p = 0 and 1/160: masses 0 and 0.994 -> rates 0, 1e-14, with a gap between them
    """
    parameters = dict(parameter_pairs)
    if not formula_text and name not in CLOSED_FORMS:
        return None

    def masses_at(rates: np.ndarray) -> np.ndarray:
        if formula_text:
            return np.stack(formula.formula_masses(formula_text, parameters.get("g", 1.0), rates, math.inf))
        group = Group(rates, math.inf)
        return np.stack(CLOSED_FORMS[name].masses(group, **(REGISTRY[name].parameters | parameters))) + 0.0

    try:
        values = masses_at(RATES)
    except InputError:  # such as pass_at_k_tang, whose k is the group size
        return None
    if not values.any():  # such as softmax, whose masses vanish as groups grow
        return None
    low, high = RATES[:-1].copy(), RATES[1:].copy()
    at_low, at_high = values[:, :-1].copy(), values[:, 1:].copy()
    for _ in range(40):
        wide = np.flatnonzero(np.abs(at_high - at_low).max(axis=0) > JUMP)
        if not wide.size:
            break
        middle = (low[wide] + high[wide]) / 2
        at_middle = masses_at(middle)
        below, above = np.abs(at_middle - at_low[:, wide]), np.abs(at_high[:, wide] - at_middle)
        is_below = below.max(axis=0) > above.max(axis=0)  # the larger difference, and so the jump
        low[wide], at_low[:, wide] = (
            np.where(is_below, low[wide], middle),
            np.where(is_below, at_low[:, wide], at_middle),
        )
        high[wide], at_high[:, wide] = (
            np.where(is_below, middle, high[wide]),
            np.where(is_below, at_middle, at_high[:, wide]),
        )
    (jumps_at,) = np.nonzero(np.abs(at_high - at_low).max(axis=0) > JUMP)
    rates = RATES
    for index in jumps_at[::-1]:
        gap = np.full((2, 1), np.nan)
        sides = np.array([low[index], low[index], high[index]])
        rates = np.insert(rates, index + 1, sides)
        inside = np.concatenate([at_low[:, [index]], gap, at_high[:, [index]]], axis=1)
        values = np.concatenate([values[:, : index + 1], inside, values[:, index + 1 :]], axis=1)
    return rates, values[0], values[1]


def push_of(rates: np.ndarray, success: np.ndarray, failure: np.ndarray) -> dict[str, float] | None:
    """Return where a weight pushes, |m_S| + |m_F| over solve rates that are equally frequent; None if nowhere.

    Returns:
        ``half``, the rate below which half of the push lies, and ``peak``, the rate where it is largest. Between two
        rates the push is linear, so that what lies below a rate is quadratic.
    """
    push = np.abs(success) + np.abs(failure)
    rates, push = rates[np.isfinite(push)], push[np.isfinite(push)]
    areas = np.diff(rates) * (push[1:] + push[:-1]) / 2
    below = np.concatenate([[0.0], np.cumsum(areas)])
    if not below[-1] > 0:
        return None
    index = int(np.searchsorted(below[1:], below[-1] / 2))
    width, start = rates[index + 1] - rates[index], push[index]
    remaining, slope = below[-1] / 2 - below[index], (push[index + 1] - push[index]) / width
    flat = abs(slope) < 1e-12
    along = remaining / start if flat else (math.sqrt(start**2 + 2 * slope * remaining) - start) / slope
    return {"half": float(rates[index] + along), "peak": float(rates[push.argmax()])}
