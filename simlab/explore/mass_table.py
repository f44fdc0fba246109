"""Tell the masses of an estimator in groups of one size: by its closed form, or as it computes them itself."""

import functools
from typing import Any

import numpy as np
from jaxtyping import Float

from simlab.errors import InputError
from simlab.estimators import Estimator, advantages, estimator
from simlab.theory import CLOSED_FORMS
from simlab.theory.closed_forms import closed_form

Masses = tuple[Float[np.ndarray, " counts"], Float[np.ndarray, " counts"]]
MOST_KEPT = 64  # tables


def is_of_rewards(weight: Estimator) -> bool:
    """Whether advantages follow from rewards alone, and from nothing that came before."""
    return weight.needs == {"rewards"} and not _has_leaves(weight.init())


def _has_leaves(state: Any) -> bool:
    return any(map(_has_leaves, state)) if isinstance(state, tuple) else True


def has_table(name: str) -> bool:
    """Whether a registered estimator without a closed form tells its masses itself, as it is built by default."""
    return name not in CLOSED_FORMS and is_of_rewards(estimator(name))


def group_masses(name: str, group_size: int, parameters: dict[str, Any]) -> Masses:
    """(G + 1,) m_S and m_F of an estimator at 0 to G successes.

    Raises:
        InputError: for an estimator that reads more than rewards, or the order of the rollouts.
    """
    if name in CLOSED_FORMS:
        success, failure = closed_form(name, np.arange(group_size + 1) / group_size, group_size, **parameters)
        return np.asarray(success), np.asarray(failure)
    return _kept_masses(name, tuple(parameters.items()), group_size)


@functools.lru_cache(MOST_KEPT)
def _kept_masses(name: str, parameters: tuple[tuple[str, Any], ...], group_size: int) -> Masses:
    return computed_masses(name, estimator(name, **dict(parameters)), group_size)


def computed_masses(name: str, weight: Estimator, group_size: int) -> Masses:
    """(G + 1,) m_S and m_F, the sums of A over correct and of -A over incorrect rollouts / G, each group by itself.

    Raises:
        InputError: as ``group_masses``.
    """
    if not is_of_rewards(weight):
        raise InputError(f"{name} reads more than the rewards of one step, and so has no masses at a solve rate alone")
    found = np.zeros((2, group_size + 1))
    for successes in range(group_size + 1):
        rewards = (np.arange(group_size) < successes).astype(float)
        there, back = (_sums(weight, order) for order in (rewards, rewards[::-1]))
        if not np.allclose(there, back, rtol=1e-9, atol=1e-12):
            raise InputError(f"{name} reads the order of the rollouts, and so has no masses at a solve rate alone")
        found[:, successes] = there
    return found[0], found[1]


def _sums(weight: Estimator, rewards: Float[np.ndarray, " G"]) -> Float[np.ndarray, " 2"]:
    own = np.asarray(advantages(weight, rewards[None]))
    own = own.reshape(len(rewards), -1)[:, 0]  # without lengths, all tokens of a rollout have one advantage
    return np.array([own[rewards > 0].sum(), -own[rewards == 0].sum()]) / len(rewards)
