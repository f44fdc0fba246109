"""The masses m_S and m_F of the named estimators in closed form, for rewards 0 and 1.

``CLOSED_FORMS`` lists them by estimator. The forms of estimators that put equal masses on successes and failures stand
in ``balanced``, the others in ``biased``.
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from simlab.errors import InputError, check_range
from simlab.estimators.registry import REGISTRY, estimator
from simlab.theory.closed_forms import balanced, biased
from simlab.theory.closed_forms.base import CLOSED_FORMS, ClosedForm, Group, find_form

__all__ = ["CLOSED_FORMS", "ClosedForm", "Group", "balanced", "biased", "closed_form"]

Numbers = int | float | np.number | Shaped[np.ndarray, "*#shape"]
MassOfEach = np.float64 | Float[np.ndarray, "*shape"]


def closed_form(
    name: str, p: Numbers, group_size: float = math.inf, **parameters: Any
) -> tuple[MassOfEach, MassOfEach]:
    """Masses m_S and m_F of a named estimator as functions of the solve rate ``[fade:masses]``.

    They are those of ``masses``: a fresh state, a batch of one group, log-probabilities and entropies of 0, and
    rollouts of equal length. ``p`` is a multiple of 1 / G in a finite group; G = infinity is the population limit.

    Raises:
        InputError: for an estimator (or base) without a closed form, a parameter, ``p`` or ``group_size`` outside its
            range.

    >>> closed_form("asym_grpo", np.array([0.0, 0.25, 0.5]), delta=0.5)
    (array([0.    , 0.1875, 0.25  ]), array([0.   , 0.375, 0.5  ]))
    """
    estimator(name, **parameters)
    form = find_form(name)
    rates = np.asarray(p, dtype=np.float64)
    success, failure = form.masses(_group(rates, group_size), **(REGISTRY[name].parameters | parameters))
    # + 0.0 turns a -0. into 0.
    return (success.reshape(rates.shape) + 0.0)[()], (failure.reshape(rates.shape) + 0.0)[()]


def _group(rates: Float[np.ndarray, "..."], group_size: float) -> Group:
    """Check rates and make the groups that have them; a rate of a finite group becomes exactly s / G."""
    if group_size != math.inf:
        check_range("group_size", group_size, 1)
    inside = (rates >= 0) & (rates <= 1)
    if not inside.all():
        raise InputError(f"p = {rates[~inside][0]} is outside its range [0, 1]")
    if math.isinf(group_size):
        return Group(rates.ravel(), math.inf)
    if group_size != math.floor(group_size):
        raise InputError(f"group_size = {group_size} is not allowed; allowed: whole numbers from 1 up, infinity")
    successes = np.rint(rates * group_size)
    apart = np.abs(rates * group_size - successes) > 1e-9 * group_size
    if apart.any():
        raise InputError(f"p = {rates[apart][0]} is no share of {group_size} rollouts; allowed: s / {group_size}")
    return Group(successes.ravel() / group_size, float(group_size))
