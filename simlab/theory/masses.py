"""Policy-gradient weights as the mass they put on successes and on failures."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from simlab.errors import InputError, check_whole
from simlab.estimators import Estimator, advantages
from simlab.estimators.registry import built


class Masses(NamedTuple):
    """At each s from 0 to G: m_S = (1/G) sum of A over the s successes, m_F = -(1/G) sum over the failures."""

    successes: Int[np.ndarray, " counts"]
    success: Float[np.ndarray, " counts"]
    failure: Float[np.ndarray, " counts"]


def masses(
    name: str | Estimator,
    group_size: int,
    *,
    old_logp: Float[np.ndarray, "G 1"] | None = None,
    entropy: Float[np.ndarray, "G 1"] | None = None,
    greedy_reward: float | None = None,
    **parameters: Any,
) -> Masses:
    """Masses m_S and m_F of an estimator, computed from the estimator itself ``[fade:masses]``.

    A weight W = w_S on success and -w_F on failure moves the policy by m_S grad_S - m_F grad_F, with m_S = w_S p and
    m_F = w_F (1 - p), p = s / G. Each s is a batch of its own, seen from a fresh state, so estimators that average over
    the batch see this one group. Rollouts are one token long. ``closed_form`` gives the formulas.

    Args:
        name: a registered estimator's name, or an estimator.
        group_size: G, at least 1.
        old_logp: log-probability of each rollout, the s successes first; by default 0, a policy of zero entropy, at
            which FADE's delta is 1 unless a target entropy is set.
        entropy: entropy of the policy at each rollout, likewise.
        greedy_reward: the reward of the prompt's greedy answer, for estimators that compare with it.
        parameters: the parameters of the named estimator.

    Raises: InputError: for a group size below 1, another shape, an unknown name or parameter, an estimator that needs
    other fields of the rollouts, or one whose masses depend on the order of the rollouts.

    >>> masses("dr_grpo", 4).failure
    array([0.    , 0.1875, 0.25  , 0.1875, 0.    ])
    """
    check_whole("group_size", group_size, 1)
    fields = {
        "old_logp": _one_token("old_logp", old_logp, group_size),
        "entropy": _one_token("entropy", entropy, group_size),
    }
    if greedy_reward is not None:
        fields["greedy_reward"] = np.full(group_size, float(greedy_reward))
    chosen = built(name, **parameters)
    computed = _in_order(chosen, fields, np.arange(group_size))
    if not chosen.exchangeable:
        shuffled = np.random.default_rng(0).permutation(group_size)
        for order in (np.arange(group_size)[::-1], shuffled):
            for values, others in zip(computed, _in_order(chosen, fields, order), strict=True):
                if not np.allclose(values, others, rtol=1e-9, atol=1e-12, equal_nan=True):
                    said = f"the masses of {chosen.name} depend on the order of the rollouts"
                    raise InputError(f"{said}; allowed: those that do not")
    return computed


def _in_order(chosen: Estimator, fields: dict[str, Float[np.ndarray, "G ..."]], order: Int[np.ndarray, " G"]) -> Masses:
    """Compute the masses of groups whose rollouts stand in this order, 0 to s - 1 being the successes."""
    successes = np.arange(len(order) + 1)
    correct = order < successes[:, None]
    listed = {name: values[order] for name, values in fields.items()}
    weight = np.stack([advantages(chosen, rewards, **listed).reshape(len(order)) for rewards in correct.astype(float)])
    success = np.where(correct, weight, 0).mean(axis=1)
    failure = 0 - np.where(correct, 0, weight).mean(axis=1)  # 0 - x, for -x would print -0.
    return Masses(successes, success, failure)


def _one_token(name: str, values: Float[np.ndarray, "..."] | None, group_size: int) -> Float[np.ndarray, "G 1"]:
    """One number a rollout, by default 0."""
    column = np.zeros((group_size, 1)) if values is None else np.asarray(values, dtype=float)
    if column.shape != (group_size, 1):
        raise InputError(f"{name} has shape {column.shape}; allowed: {(group_size, 1)}")
    return column
