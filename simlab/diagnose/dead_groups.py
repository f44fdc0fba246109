"""Estimate which groups are dead (all right or all wrong: of rewards 0 and 1, no signal), and whence the gradient."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import betainc, gammaln

from simlab.arms import parse
from simlab.diagnose.estimate import IntervalEstimate, in_order
from simlab.diagnose.log import Log
from simlab.diagnose.mixture import Weights, components
from simlab.diagnose.solve_rates import Population
from simlab.theory import masses

SIZES = (2, 4, 8, 16, 32, 64, 128, 256)
EDGES = (0.0, 0.25, 0.75, 1.0)  # of the solve rates by which gradient masses are reported
RANGES = tuple(itertools.pairwise(EDGES))
OTHERS = ("dr_grpo", "maxrl", "f_grpo(gamma=1)", "power_alpha(alpha=2)")


class ObservedGroups(NamedTuple):
    """Counts and shares of the groups of a window; ``groups_per_step`` and ``group_size`` are medians.

    Attributes:
        all_right, all_wrong: share of groups of which every rollout, or none, is correct.
        no_signal: share of those whose rewards are all equal, so that they teach nothing. Of graded rewards a group
            that is all wrong may teach.
    """

    groups: int
    groups_per_step: float
    group_size: int
    sizes: tuple[int, ...]
    all_right: float
    all_wrong: float
    no_signal: float

    @property
    def is_graded(self) -> bool:
        """True where groups that are all right or all wrong have a signal."""
        return self.groups * (self.all_right + self.all_wrong - self.no_signal) > 0.5


class PredictedGroups(NamedTuple):
    """Shares of groups of one size, predicted; effective prompts are the groups of a step that are not dead."""

    group_size: int
    all_right: IntervalEstimate
    all_wrong: IntervalEstimate
    dead: IntervalEstimate
    effective_prompts: IntervalEstimate


class GradientMasses(NamedTuple):
    """Shares of the gradient of an estimator by solve rate.

    Attributes:
        of_prompts: shares of the expected mass m_S + m_F ``[fade:masses]`` of a group, by the prompt's solve rate,
            between ``EDGES``: few rollouts a prompt determine them badly.
        of_groups: the same by the share of correct rollouts of the group itself.
    """

    estimator: str
    of_prompts: tuple[IntervalEstimate, ...]
    of_groups: tuple[IntervalEstimate, ...]


class GroupEstimates(NamedTuple):
    """Dead groups, observed in the last window and predicted by size, and masses, those in use first."""

    observed: ObservedGroups
    at_sizes: tuple[PredictedGroups, ...]
    gradient_masses: tuple[GradientMasses, ...]


def estimate_groups(
    observed: ObservedGroups, now: Population, estimator: str, others: tuple[str, ...] = OTHERS
) -> GroupEstimates:
    """Estimate dead groups of a window, and the masses of estimators: those of one group from a fresh state."""
    sizes = sorted({*SIZES, observed.group_size})
    of_estimators = (gradient_masses(now, name, observed.group_size) for name in dict.fromkeys((estimator, *others)))
    return GroupEstimates(observed, predict_groups(now, sizes, observed.groups_per_step), tuple(of_estimators))


def observe_groups(log: Log) -> ObservedGroups:
    """Count the groups of a window, and those that are all right, all wrong, or without signal."""
    right, wrong = log.correct == log.group_size, log.correct == 0
    _, per_step = np.unique(log.step, return_counts=True)
    return ObservedGroups(
        len(log.prompt),
        float(np.median(per_step)),
        int(np.quantile(log.group_size, 0.5, method="inverted_cdf")),
        tuple(np.unique(log.group_size).tolist()),
        float(right.mean()),
        float(wrong.mean()),
        float((right | wrong if log.equal is None else log.equal).mean()),
    )


def dead_share(group_size: int) -> Weights:
    """Return the probability of a dead group under each component; 1 for groups of one."""
    return np.asarray(np.minimum(_all_right(group_size) + _all_wrong(group_size), 1))


def predict_groups(now: Population, sizes: Sequence[int], groups_per_step: float) -> tuple[PredictedGroups, ...]:
    """Predict groups of other sizes, in rising order; no share rises with the size."""
    shares = [
        in_order([now.estimate(f"{name} at G = {size}", chance(size)) for size in sizes], np.minimum)
        for name, chance in (("all right", _all_right), ("all wrong", _all_wrong), ("dead", dead_share))
    ]
    effective = [
        dead.linear(f"effective prompts at G = {size}", groups_per_step, -groups_per_step)
        for size, dead in zip(sizes, shares[-1], strict=True)
    ]
    return tuple(map(PredictedGroups, sizes, *shares, effective))


def _all_right(group_size: int) -> Weights:
    return components().moment(group_size, 0)


def _all_wrong(group_size: int) -> Weights:
    return components().moment(0, group_size)


def gradient_masses(now: Population, estimator: str, group_size: int) -> GradientMasses:
    """Estimate the shares of an estimator's gradient by solve rate, in groups of one size."""
    by_prompt, by_group, total = expected_masses(estimator, group_size)
    return GradientMasses(
        estimator,
        tuple(now.ratio(f"gradient from prompts with p in {name}", mass, total) for name, mass in by_prompt.items()),
        tuple(now.ratio(f"gradient from groups with X / G in {name}", mass, total) for name, mass in by_group.items()),
    )


def expected_masses(estimator: str, group_size: int) -> tuple[dict[str, Weights], dict[str, Weights], Weights]:
    """Return the expected mass under each component: by the prompt's range, by the group's own range, and in all."""
    mass, rates = total_mass(estimator, group_size), np.arange(group_size + 1) / group_size
    anywhere = _count_chances(group_size, 0, 1)
    by_prompt, by_group = {}, {}
    for low, high in RANGES:
        name = f"{'[' if low == 0 else '('}{low:g}, {high:g}]"
        inside = ((rates > low) | ((rates == 0) & (low == 0))) & (rates <= high)
        by_prompt[name] = mass @ _count_chances(group_size, low, high)
        by_group[name] = (mass * inside) @ anywhere
    return by_prompt, by_group, mass @ anywhere


def total_mass(estimator: str, group_size: int) -> Float[np.ndarray, " counts"]:
    """Return m_S + m_F for x = 0 to G correct rollouts, each without its sign."""
    both = masses(parse(estimator).build().estimator, group_size)
    return np.asarray(np.abs(both.success) + np.abs(both.failure))


def _count_chances(group_size: int, low: float, high: float) -> Float[np.ndarray, "counts K"]:
    """Return Pr(X = x and low < p <= high) for x = 0 to G under each component; p = 0 is in the lowest range.

    The Beta's density times the binomial's probability is that of Beta(a + x, b + G - x), times E p^x (1 - p)^(G - x).
    """
    betas, x = components(), np.arange(group_size + 1)
    choose = np.exp(gammaln(group_size + 1) - gammaln(x + 1) - gammaln(group_size - x + 1))[:, None]
    a, b = betas.a + x[:, None], betas.b + (group_size - x)[:, None]
    inside = betainc(a, b, high) - betainc(a, b, low)
    at_ends = np.broadcast_to([float(low == 0), float(high == 1)], (group_size + 1, 2))
    return np.asarray(choose * betas.moment(x, group_size - x) * np.concatenate([inside, at_ends], axis=1))
