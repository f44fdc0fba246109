"""Weights with all the freedom that a class of information has, as numbers that a search may choose.

A weight that ignores the order of a group of rewards 0 and 1, and sums to 0 in each, is r - mean(r) times one number a
group, its speed. By class that may depend on the number of successes in the group, on the prompt's earlier groups too,
or on the prompt's true solve rate. Groups of 8, and all 32 prompts in each step.
"""

from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from simlab.estimators import Estimator, Link, center, chain, stateless
from simlab.estimators.base import weigh
from simlab.rollouts import Array, Rollouts, Scalar, group_sum, is_correct, sequence_mean_logp, solve_rate

PROMPTS, LEAST = 32, 1e-3  # the least solve rate whose power is taken


def by_successes(rollouts: Rollouts, logs: tuple[Scalar, ...]) -> Array:
    """Return (P, 1) exp(logs[s - 1]) for groups of s successes, 1 for groups of none or of them alone."""
    rewards = rollouts.rewards
    xp = array_namespace(rewards)
    number = group_sum(xp.astype(is_correct(rollouts), rewards.dtype), rollouts)
    chosen = xp.zeros_like(number)
    for successes, log in enumerate(logs, 1):
        chosen = chosen + log * xp.astype(number == successes, rewards.dtype)
    return xp.exp(chosen)


def gate(rates: Array, power: Scalar, threshold: Scalar, steep: Scalar) -> Array:
    """Return rate^-power / (1 + exp(steep (rate - threshold))), which lets hard prompts through."""
    xp = array_namespace(rates)
    return (rates + LEAST) ** (-power) / (1 + xp.exp(steep * (rates - threshold)))


def group_only(
    *,
    c1: Scalar = 0.0, c2: Scalar = 0.0, c3: Scalar = 0.0, c4: Scalar = 0.0, c5: Scalar = 0.0, c6: Scalar = 0.0,
    c7: Scalar = 0.0,
) -> Estimator:  # fmt: skip
    """Weigh a group by its number of successes alone: the logarithms of its speed."""
    logs = (c1, c2, c3, c4, c5, c6, c7)
    return chain(
        center("mean"),
        stateless(lambda centred, rollouts: weigh(centred, by_successes(rollouts, logs)), exchangeable=True),
    )


class History(NamedTuple):
    """A running mean of each prompt's solve rates."""

    rates: Array


def with_history(
    *,
    c1: Scalar = 0.0, c2: Scalar = 0.0, c3: Scalar = 0.0, c4: Scalar = 0.0, c5: Scalar = 0.0, c6: Scalar = 0.0,
    c7: Scalar = 0.0, power: Scalar = 0.0, threshold: Scalar = 0.5, steep: Scalar = 0.0, decay: Scalar = 0.8,
) -> Estimator:  # fmt: skip
    """Weigh a group by its number of successes and by a running mean of its prompt's solve rates, its own included."""
    logs = (c1, c2, c3, c4, c5, c6, c7)

    def update(centred: Array, rollouts: Rollouts, state: History) -> tuple[Array, History]:
        rates = decay * History(*state).rates + (1 - decay) * solve_rate(rollouts)[:, 0]
        weight = by_successes(rollouts, logs) * gate(rates, power, threshold, steep)[:, None]
        return weigh(centred, weight), History(rates)

    return chain(center("mean"), Link(update, lambda: History(np.full(PROMPTS, 0.1)), exchangeable=True))


def with_rates(
    *,
    c1: Scalar = 0.0, c2: Scalar = 0.0, c3: Scalar = 0.0, c4: Scalar = 0.0, c5: Scalar = 0.0, c6: Scalar = 0.0,
    c7: Scalar = 0.0, power: Scalar = 0.0, threshold: Scalar = 0.5, steep: Scalar = 0.0,
) -> Estimator:  # fmt: skip
    """Weigh a group by its number of successes and its prompt's true solve rate: the probability of its one answer.

    Read off a correct rollout; a group without one teaches nothing under any weight of this class.
    """
    logs = (c1, c2, c3, c4, c5, c6, c7)

    def weighed(centred: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(centred)
        chances = xp.exp(sequence_mean_logp(rollouts))
        rates = xp.max(xp.where(is_correct(rollouts), chances, xp.zeros_like(chances)), axis=-1, keepdims=True)
        return weigh(centred, by_successes(rollouts, logs) * gate(rates, power, threshold, steep))

    return chain(center("mean"), stateless(weighed, needs=frozenset({"old_logp"}), exchangeable=True))
