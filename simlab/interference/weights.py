"""Weights of rollouts in a method's loss, in their group and in the group without each of its members."""

import numpy as np
from jaxtyping import Float

from simlab.estimators.base import State
from simlab.methods import Method
from simlab.rollouts import Rollouts

Weights = Float[np.ndarray, "N R"]
Without = Float[np.ndarray, "N R R"]


def rollout_weights(
    method: Method, rollouts: Rollouts, state: State | None = None, *, groups: int = 1, prompts: int | None = None
) -> tuple[Weights, Without]:
    """Compute the coefficient of each rollout's log-probability at a ratio of 1, and those where one is left out.

    [i, l, k] of the second is the coefficient of rollout k in the group without l, a group of G - 1, whose mean over
    its members stands for that over G. Where a method weighs the tokens of a rollout differently, their mean is taken.

    Args:
        state: of the estimator, its first by default.
        groups: groups of each prompt, in succeeding rows: rollouts of a prompt then are R = groups x G.
        prompts: of the batch whose loss it is, by default the number here.

    >>> from simlab.methods import method
    >>> weights, without = rollout_weights(method("dr_grpo"), Rollouts(np.array([[1.0, 0.0, 0.0]])))
    >>> weights.round(3), without.round(3)[0, 1]
    (array([[ 0.222, -0.111, -0.111]]), array([ 0.25,  0.  , -0.25]))
    """
    state = method.estimator.init() if state is None else state
    size = rollouts.rewards.shape[1]
    scale = len(rollouts.rewards) / groups / (prompts or len(rollouts.rewards) / groups)
    whole = scale * _coefficients(method, rollouts, state)
    left = np.zeros((*whole.shape, size))
    for member in range(size):
        others = np.delete(np.arange(size), member)
        left[:, member, others] = scale * _coefficients(method, _members(rollouts, others), state)
    count = groups * size
    without = np.repeat(whole.reshape(-1, 1, count), count, axis=1)
    for group in range(groups):
        rows = slice(group * size, (group + 1) * size)
        without[:, rows, rows] = left[group::groups]
    return whole.reshape(-1, count), without


def _members(rollouts: Rollouts, rows: np.ndarray) -> Rollouts:
    return Rollouts(*(None if field is None else field[:, rows] for field in rollouts))


def _coefficients(method: Method, rollouts: Rollouts, state: State) -> Weights:
    """The mean coefficient of each rollout's tokens in a loss that is a mean over the batch."""
    advantages, _ = method.estimator.update(rollouts, state)
    tokens = rollouts.token_mask
    present = np.ones((*rollouts.rewards.shape, 1), bool) if tokens is None else np.asarray(tokens)
    ratio = np.ones(present.shape, np.asarray(rollouts.rewards).dtype)
    coefficients = np.asarray(method.from_advantages(ratio, advantages, rollouts), float)
    if coefficients.ndim == 4:
        coefficients = coefficients[..., 0]
    return np.asarray(np.where(present, coefficients, 0).sum(axis=-1) / np.maximum(present.sum(axis=-1), 1))
