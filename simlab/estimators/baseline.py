"""Links that subtract a baseline from the reward."""

from array_api_compat import array_namespace

from simlab.errors import check_choice
from simlab.estimators.base import Link, stateless
from simlab.rollouts import Array, Rollouts, batch_mean, group_count, group_mean, is_uniform

BASELINES = ("mean", "leave_one_out", "batch_mean")


def baseline_mean(values: Array, rollouts: Rollouts, baseline: str) -> Array:
    """The mean over each group, (P, 1), or over the whole batch, (1, 1), for ``"batch_mean"``."""
    return (batch_mean if baseline == "batch_mean" else group_mean)(values, rollouts)


def center(baseline: str = "mean") -> Link:
    """Subtract the mean of the group, of its other rollouts (``"leave_one_out"``), or of the batch.

    A_i = r_i - mean(r), times G / (G - 1) for leave-one-out. Groups of equal rewards, a single rollout included,
    get exactly 0, except under ``"batch_mean"``, which compares them with the other groups. The mean is subtracted
    twice: its rounding error times G would otherwise make the advantages of a large, nearly uniform group sum to
    something other than 0.

    Raises:
        InputError: for an unknown ``baseline``.
    """
    check_choice("baseline", baseline, BASELINES)

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

    return stateless(subtract)
