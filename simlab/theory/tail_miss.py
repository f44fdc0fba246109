"""How often a group updates the policy without having drawn a rare correct target.

G rollouts are drawn i.i.d.; mu is the probability that one is correct, tau <= mu that it lies in the target, a subset
of the correct. A group is *active* when it holds both a correct and an incorrect rollout. Arguments broadcast.
"""

import numpy as np
from jaxtyping import Float, Shaped

from simlab.errors import InputError

Numbers = int | float | np.number | Shaped[np.ndarray, "*#shape"]
Probabilities = np.float64 | Float[np.ndarray, "..."]


def active(group_size: Numbers, correct_mass: Numbers) -> Probabilities:
    """Pr(active) = 1 - mu^G - (1 - mu)^G ``[f-grpo:eq-7]``.

    Args:
        group_size: (...) G, whole numbers from 1 up.
        correct_mass: (...) mu, in [0, 1].

    Returns:
        (...) float64, exactly 0 for groups of one and where mu is 0 or 1.

    Raises:
        InputError: for arguments outside their ranges, or shapes that do not broadcast.

    >>> active(np.array([1, 2, 4]), 0.5)
    array([0.   , 0.5  , 0.875])
    """
    size, correct, _ = _checked(group_size, correct_mass, 0.0)
    return _active(size, correct, 1 - correct)


def tail_miss(group_size: Numbers, correct_mass: Numbers, target_mass: Numbers) -> Probabilities:
    """Pr(active and target missed) = (1 - tau)^G - (mu - tau)^G - (1 - mu)^G ``[f-grpo:lemma-3.1]``.

    Computed without cancellation as (1 - tau)^G Pr(active | target missed): outside the target a rollout is correct
    with probability (mu - tau) / (1 - tau). The relative error stays below 1e-15 (1 - G log(1 - tau)).

    Args:
        group_size: (...) G, whole numbers from 1 up.
        correct_mass: (...) mu, in [0, 1].
        target_mass: (...) tau, in [0, mu].

    Returns:
        (...) float64.

    Raises:
        InputError: for arguments outside their ranges, or shapes that do not broadcast.

    >>> tail_miss(np.array([1, 2, 4]), 0.5, 0.25)
    array([0.  , 0.25, 0.25])
    """
    size, correct, target = _checked(group_size, correct_mass, target_mass)
    missable = np.where(target < 1, target, 0.0)  # a target of mass 1 is never missed: both shares below are 0
    missed: Probabilities = np.exp(size * np.log1p(-missable))
    return missed * _active(size, (correct - target) / (1 - missable), (1 - correct) / (1 - missable))


def conditional_tail_miss(group_size: Numbers, correct_mass: Numbers, target_mass: Numbers) -> Probabilities:
    """Pr(target missed | active), ``tail_miss`` / ``active`` ``[f-grpo:lemma-3.1]``.

    Args:
        group_size: (...) G, whole numbers from 1 up.
        correct_mass: (...) mu, in [0, 1].
        target_mass: (...) tau, in [0, mu].

    Returns:
        (...) float64; NaN where no group is ever active: groups of one, mu 0 or 1.

    Raises:
        InputError: for arguments outside their ranges, or shapes that do not broadcast.

    >>> conditional_tail_miss(np.array([1, 2, 4]), 0.5, 0.25)
    array([       nan, 0.5       , 0.28571429])
    """
    missed, possible = tail_miss(group_size, correct_mass, target_mass), active(group_size, correct_mass)
    defined = possible > 0
    return np.where(defined, missed / np.where(defined, possible, 1.0), np.nan)[()]


def _active(size: Probabilities, correct: Probabilities, incorrect: Probabilities) -> Probabilities:
    """1 - correct^G - incorrect^G for two masses that sum to 1, both given so that the smaller keeps its digits."""
    rarer = np.minimum(correct, incorrect)
    return np.where(size > 1, -np.expm1(size * np.log1p(-rarer)) - rarer**size, 0.0)[()]


def _checked(group_size: Numbers, correct_mass: Numbers, target_mass: Numbers) -> list[Float[np.ndarray, "..."]]:
    """The three arguments as float64 arrays of one shape."""
    given = [np.asarray(argument, dtype=np.float64) for argument in (group_size, correct_mass, target_mass)]
    try:
        size, correct, target = arrays = list(np.broadcast_arrays(*given))
    except ValueError:
        shapes = ", ".join(str(argument.shape) for argument in given)
        raise InputError(
            f"group_size, correct_mass, target_mass have shapes {shapes}, which do not broadcast"
        ) from None
    whole = np.isfinite(size) & (size >= 1) & (size == np.floor(size))
    if not whole.all():
        raise InputError(f"group_size = {size[~whole][0]} is not allowed; allowed: whole numbers from 1 up")
    inside = (correct >= 0) & (correct <= 1)
    if not inside.all():
        raise InputError(f"correct_mass = {correct[~inside][0]} is outside its range [0, 1]")
    inside = (target >= 0) & (target <= correct)
    if not inside.all():
        low, high = target[~inside][0], correct[~inside][0]
        raise InputError(f"target_mass = {low} is outside its range [0, correct_mass = {high}]")
    return arrays
