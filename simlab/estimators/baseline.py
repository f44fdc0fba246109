"""Links that subtract a baseline from the reward. No baseline is no link: REINFORCE is the empty chain."""

from typing import NamedTuple

from array_api_compat import array_namespace

from simlab.errors import check_choice, check_range
from simlab.estimators.base import Link, stateless
from simlab.order_statistics import lower_quantile
from simlab.rollouts import Array, Rollouts, Scalar, batch_mean, group_count, group_mean, is_uniform, needed

BASELINES = ("mean", "leave_one_out", "batch_mean", "median")


def baseline_mean(values: Array, rollouts: Rollouts, baseline: str) -> Array:
    """The mean over each group, (P, 1), or over the whole batch, (1, 1), for ``"batch_mean"``."""
    return (batch_mean if baseline == "batch_mean" else group_mean)(values, rollouts)


def center(baseline: str = "mean") -> Link:
    """Subtract the mean of the group, of its other rollouts (``"leave_one_out"``), of the batch, or the median.

    A_i = r_i - mean(r), times G / (G - 1) for leave-one-out. Groups of equal rewards, a single rollout included,
    get exactly 0, except under ``"batch_mean"``, which compares them with the other groups. The mean is subtracted
    twice: its rounding error times G would otherwise make the advantages of a large, nearly uniform group sum to
    something other than 0. The median is the lower one, ``center_quantile(1 / 2)``.

    Raises:
        InputError: for an unknown ``baseline``.
    """
    check_choice("baseline", baseline, BASELINES)
    if baseline == "median":
        return center_quantile(0.5)

    def subtract(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        centered = advantages - baseline_mean(advantages, rollouts, baseline)
        centered = centered - baseline_mean(centered, rollouts, baseline)
        uniform = is_uniform(rollouts, axis=None if baseline == "batch_mean" else -1)
        if baseline == "leave_one_out":
            count = group_count(rollouts)
            others = xp.where(count > 1, count - 1, xp.ones_like(count))
            centered = centered * (count / others)
        return xp.where(uniform, xp.zeros_like(centered), centered)

    return stateless(subtract, exchangeable=True)


def center_quantile(tau: Scalar = 0.5) -> Link:
    """Subtract the tau-quantile of the group, the smallest reward that a share tau of the group does not exceed.

    The quantile is one of the rewards, so that groups of equal rewards get exactly 0; at ``tau`` 0 it is the least.

    Raises:
        InputError: for ``tau`` outside [0, 1].
    """
    check_range("tau", tau, 0, 1)

    def subtract(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        least_share = 1 / group_count(rollouts)
        share = xp.where(tau > least_share, tau * xp.ones_like(least_share), least_share)
        return advantages - lower_quantile(advantages, share, rollouts.mask)

    return stateless(subtract, exchangeable=True)


def center_greedy() -> Link:
    """Subtract the reward of the greedy answer, ``Rollouts.greedy_reward``, in groups of equal rewards too.

    ``[arxiv:2310.10505]``
    """

    def subtract(advantages: Array, rollouts: Rollouts) -> Array:
        return advantages - needed(rollouts, "greedy_reward")

    return stateless(subtract, needs=frozenset({"greedy_reward"}), exchangeable=True)


def shift(delta: Scalar = 0.01) -> Link:
    """Subtract a constant ``delta`` from every advantage, groups of equal rewards included.

    Raises:
        InputError: for a ``delta`` that is not a number.
    """
    check_range("delta", delta)
    return stateless(lambda advantages, rollouts: advantages - delta, exchangeable=True)


class RunningMean(NamedTuple):
    """An average over the batches so far."""

    value: Scalar


def center_running(decay: Scalar = 0.9, initial: Scalar = 0.0) -> Link:
    """Subtract a running mean b of the batches before this one: b <- decay b + (1 - decay) (mean of the batch).

    Raises:
        InputError: for ``decay`` outside [0, 1] or an ``initial`` that is not a number.
    """
    check_range("decay", decay, 0, 1)
    check_range("initial", initial)

    def subtract(advantages: Array, rollouts: Rollouts, state: RunningMean) -> tuple[Array, RunningMean]:
        baseline = RunningMean(*state).value
        following = decay * baseline + (1 - decay) * batch_mean(advantages, rollouts)[0, 0]
        return advantages - baseline, RunningMean(following)

    return Link(subtract, lambda: RunningMean(initial), exchangeable=True)
