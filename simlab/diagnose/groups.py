"""Groups that teach nothing, now and at other sizes, and which prompts the gradient comes from.

A group whose rollouts are all right or all wrong has no advantage under any centred estimator; it is *dead*. Under a
solve rate p a group of G is all wrong with probability (1 - p)^G and all right with p^G.
"""

import dataclasses
import itertools

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import betainc, gammaln

from simlab.arms import parse
from simlab.diagnose.estimate import Estimate
from simlab.diagnose.interior_point import Weights
from simlab.diagnose.log import Log
from simlab.diagnose.mixture import components
from simlab.diagnose.solve_rates import Population
from simlab.theory import masses

SIZES = (2, 4, 8, 16, 32, 64, 128, 256)
EDGES = (0.0, 0.25, 0.75, 1.0)  # of the solve rates by which gradient masses are told
RANGES = tuple(itertools.pairwise(EDGES))
OTHERS = ("dr_grpo", "maxrl", "f_grpo(gamma=1)", "power_alpha(alpha=2)")


@dataclasses.dataclass(frozen=True)
class Observed:
    """The groups of the last window as they are.

    Attributes:
        groups: how many.
        groups_per_step: median.
        group_size: G, the median; ``sizes`` are all that occur.
        all_right, all_wrong: shares of the groups.
    """

    groups: int
    groups_per_step: float
    group_size: int
    sizes: tuple[int, ...]
    all_right: float
    all_wrong: float


@dataclasses.dataclass(frozen=True)
class AtSize:
    """What groups of one size would be.

    Attributes:
        group_size: G.
        all_right, all_wrong, dead: shares of the groups.
        effective_prompts: groups of a step that are not dead, at as many groups a step as the log has.
    """

    group_size: int
    all_right: Estimate
    all_wrong: Estimate
    dead: Estimate
    effective_prompts: Estimate


@dataclasses.dataclass(frozen=True)
class GradientMasses:
    """Which solve rates the gradient comes from under an estimator.

    Attributes:
        estimator: as it is written on the command line.
        of_prompts: shares of the expected mass m_S + m_F ``[fade:masses]`` of a group, by the prompt's solve rate,
            between ``EDGES``: few rollouts a prompt tell them badly.
        of_groups: the same by the share of correct rollouts of the group itself.
    """

    estimator: str
    of_prompts: tuple[Estimate, ...]
    of_groups: tuple[Estimate, ...]


@dataclasses.dataclass(frozen=True)
class Groups:
    """Dead groups and gradient masses.

    Attributes:
        observed: in the last window.
        at_sizes: predicted, by size; the size in use is among them.
        gradient_masses: the gradient masses of the estimator in use, which comes first, and of others.
    """

    observed: Observed
    at_sizes: tuple[AtSize, ...]
    gradient_masses: tuple[GradientMasses, ...]


def groups(log: Log, now: Population, estimator: str, others: tuple[str, ...] = OTHERS) -> Groups:
    """What a window of a log tells of groups.

    Args:
        log: the last window.
        now: its population.
        estimator: in use, such as ``"grpo"``; its masses are those of one group seen from a fresh state.
        others: to compare it with.

    Raises:
        InputError: for an estimator that is unknown, or whose masses depend on more than rewards.
    """
    seen = observed(log)
    sizes = sorted({*SIZES, seen.group_size})
    names = dict.fromkeys((estimator, *others))
    return Groups(
        seen,
        tuple(at_size(now, size, seen.groups_per_step) for size in sizes),
        tuple(gradient_masses(now, name, seen.group_size) for name in names),
    )


def observed(log: Log) -> Observed:
    """Count the dead groups of a window."""
    sizes, times = np.unique(log.group_size, return_counts=True)
    _, per_step = np.unique(log.step, return_counts=True)
    usual = int(sizes[np.searchsorted(np.cumsum(times), times.sum() / 2)])
    return Observed(
        len(log.prompt),
        float(np.median(per_step)),
        usual,
        tuple(sizes.tolist()),
        float((log.correct == log.group_size).mean()),
        float((log.correct == 0).mean()),
    )


def dead_share(group_size: int) -> Weights:
    """The probability of a dead group under each component; 1 for groups of one."""
    size, none = np.array(group_size), np.array(0)
    share: Weights = components().moment(size, none) + components().moment(none, size)
    return share


def at_size(now: Population, group_size: int, groups_per_step: float) -> AtSize:
    """What groups of a size would be."""
    size, none = np.array(group_size), np.array(0)
    dead = dead_share(group_size)
    return AtSize(
        group_size,
        now.estimate(f"all right at G = {group_size}", components().moment(size, none)),
        now.estimate(f"all wrong at G = {group_size}", components().moment(none, size)),
        now.estimate(f"dead at G = {group_size}", dead),
        now.estimate(f"effective prompts at G = {group_size}", groups_per_step * (1 - dead)),
    )


def gradient_masses(now: Population, estimator: str, group_size: int) -> GradientMasses:
    """Where the gradient of an estimator comes from, in groups of one size.

    Raises:
        InputError: for an estimator that is unknown, or whose masses depend on more than rewards.
    """
    of_prompts, of_groups, whole = gradient_parts(estimator, group_size)
    return GradientMasses(
        estimator,
        tuple(now.ratio(f"gradient from prompts with p in {where}", part, whole) for where, part in of_prompts.items()),
        tuple(
            now.ratio(f"gradient from groups with X / G in {where}", part, whole) for where, part in of_groups.items()
        ),
    )


def gradient_parts(estimator: str, group_size: int) -> tuple[dict[str, Weights], dict[str, Weights], Weights]:
    """The expected mass under each component: by the prompt's range, by the group's own range, and in all."""
    mass, rates = total_mass(estimator, group_size), np.arange(group_size + 1) / group_size
    anywhere = _chances(group_size, 0, 1)
    of_prompts = {_range(own): mass @ _chances(group_size, *own) for own in RANGES}
    of_groups = {_range(own): (mass * _within(rates, own)) @ anywhere for own in RANGES}
    return of_prompts, of_groups, mass @ anywhere


def total_mass(estimator: str, group_size: int) -> Float[np.ndarray, " counts"]:
    """m_S + m_F for x = 0 to G correct rollouts, each without its sign."""
    found = masses(parse(estimator).build().estimator, group_size)
    mass: Float[np.ndarray, " counts"] = np.abs(found.success) + np.abs(found.failure)
    return mass


def _within(rates: Float[np.ndarray, " counts"], own: tuple[float, float]) -> Bool[np.ndarray, " counts"]:
    low, high = own
    inside: Bool[np.ndarray, " counts"] = ((rates > low) | ((rates == 0) & (low == 0))) & (rates <= high)
    return inside


def _range(own: tuple[float, float]) -> str:
    low, high = own
    return f"{'[' if low == 0 else '('}{low:g}, {high:g}]"


def _chances(group_size: int, low: float, high: float) -> Float[np.ndarray, "counts K"]:
    """Pr(X = x and low < p <= high) for x = 0 to G under each component, 0 being in the lowest range.

    The Beta's density times the binomial's probability is that of Beta(a + x, b + G - x), times E p^x (1 - p)^(G - x).
    """
    own, x = components(), np.arange(group_size + 1)
    choose = np.exp(gammaln(group_size + 1) - gammaln(x + 1) - gammaln(group_size - x + 1))[:, None]
    a, b = own.a + x[:, None], own.b + (group_size - x)[:, None]
    inside = betainc(a, b, high) - betainc(a, b, low)
    masses = np.broadcast_to([float(low == 0), float(high == 1)], (group_size + 1, 2))
    chances: Float[np.ndarray, "counts K"] = (
        choose * own.moment(x, group_size - x) * np.concatenate([inside, masses], axis=1)
    )
    return chances
