"""Compute estimators' masses for the page, and the expected steps that follow from them, from the expected policy."""

import functools
import math
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import xlogy

from simlab import theory
from simlab.errors import InputError
from simlab.estimators import REGISTRY, Estimator, estimator
from simlab.explore import formula
from simlab.problems import Categorical
from simlab.problems.exact import pass_at_k
from simlab.theory import CLOSED_FORMS, closed_form
from simlab.theory.closed_forms import Group
from simlab.theory.interference import binomial_chances

GroupMasses = tuple[Float[np.ndarray, " counts"], Float[np.ndarray, " counts"]]
RATES = np.linspace(0, 1, 161)  # of a curve in the limit of large groups
JUMP = 1e-3  # of a mass between neighbouring rates; a larger one is drawn as a gap


def is_of_rewards(weight: Estimator) -> bool:
    """Return True if advantages follow from rewards alone, and from nothing that came before."""
    return weight.needs == {"rewards"} and not weight.remembers


def has_masses(name: str) -> bool:
    """Return True if a registered estimator has masses, in closed form or as it computes them."""
    return name in CLOSED_FORMS or is_of_rewards(estimator(name))


def group_masses(name: str, group_size: int, parameters: dict[str, Any]) -> GroupMasses:
    """Return (G + 1,) m_S and m_F of an estimator at 0 to G successes."""
    if name in CLOSED_FORMS:
        success, failure = closed_form(name, np.arange(group_size + 1) / group_size, group_size, **parameters)
        return np.asarray(success), np.asarray(failure)
    weight = estimator(name, **parameters)
    if not is_of_rewards(weight):
        raise InputError(f"{name} reads more than the rewards of one step, and so has no masses at a solve rate alone")
    computed = theory.masses(weight, group_size)
    return computed.success, computed.failure


# Curves


def mass_curves(name: str, parameters: dict[str, Any], group_size: int, formula_text: str = "") -> dict[str, Any]:
    """Return the page's curves: ``success`` and ``failure`` (G + 1,), their ``limit``, and where the weight pushes."""
    success, failure = group_masses(name, group_size, REGISTRY[name].parameters | parameters)
    limit = limit_curve(name, tuple(parameters.items()), formula_text)
    line = limit or (np.arange(group_size + 1) / group_size, success, failure)
    return {
        "success": success,
        "failure": failure,
        "limit": dict(zip(("rates", "success", "failure"), limit, strict=True)) if limit else None,
        "push": push_of(*line),
    }


@functools.lru_cache(64)  # while the group size is dragged, limits stay
def limit_curve(
    name: str, parameters: tuple[tuple[str, Any], ...], formula_text: str = ""
) -> tuple[np.ndarray, ...] | None:
    """Return rates, m_S and m_F in the limit of large groups, with NaN within a jump; None where there is no limit.

    A jump lies between two neighbouring rates of ``RATES``. The interval is halved, each time keeping the half with
    the larger difference, until that difference is below ``JUMP`` (no jump) or the interval has no width:

        maxrl at p = 0 and 1/160: masses 0 and 0.994 -> rates 0, 1e-14, with a gap between them
    """
    values = dict(parameters)
    if not formula_text and name not in CLOSED_FORMS:
        return None

    def masses_at(rates: np.ndarray) -> np.ndarray:
        if formula_text:
            return np.stack(formula.formula_masses(formula_text, values.get("g", 1.0), rates, math.inf))
        group = Group(rates, math.inf)
        return np.stack(CLOSED_FORMS[name].masses(group, **(REGISTRY[name].parameters | values))) + 0.0

    try:
        curve = masses_at(RATES)
    except InputError:  # such as pass_at_k_tang, whose k is the group size
        return None
    if not curve.any():  # such as softmax, whose masses vanish as groups grow
        return None
    ends = np.stack([RATES[:-1], RATES[1:]])  # (low and high, intervals)
    at_ends = np.stack([curve[:, :-1], curve[:, 1:]])  # (low and high, m_S and m_F, intervals)
    for _ in range(40):
        wide = np.flatnonzero(np.abs(at_ends[1] - at_ends[0]).max(axis=0) > JUMP)
        if not wide.size:
            break
        middle = ends[:, wide].mean(axis=0)
        at_middle = masses_at(middle)
        differences = np.abs(at_ends[:, :, wide] - at_middle).max(axis=1)
        moved = np.where(differences[0] > differences[1], 1, 0)  # the end beyond the smaller difference
        ends[moved, wide] = middle
        at_ends[moved, :, wide] = at_middle.T
    rates = RATES
    for index in np.flatnonzero(np.abs(at_ends[1] - at_ends[0]).max(axis=0) > JUMP)[::-1]:
        low, high = at_ends[:, :, index]
        rates = np.insert(rates, index + 1, ends[[0, 0, 1], index])
        inside = np.stack([low, np.full(2, np.nan), high], axis=1)
        curve = np.concatenate([curve[:, : index + 1], inside, curve[:, index + 1 :]], axis=1)
    return rates, curve[0], curve[1]


def push_of(rates: np.ndarray, success: np.ndarray, failure: np.ndarray) -> dict[str, float] | None:
    """Return the rate below which ``half`` of a push lies, and that of its ``peak``; None if a weight pushes nowhere.

    The push is |m_S| + |m_F|, over solve rates that are equally frequent; it is linear between two rates.
    """
    push = np.abs(success) + np.abs(failure)
    rates, push = rates[np.isfinite(push)], push[np.isfinite(push)]
    below = np.concatenate([[0.0], np.cumsum(np.diff(rates) * (push[1:] + push[:-1]) / 2)])
    if not below[-1] > 0:
        return None
    index = int(np.searchsorted(below[1:], below[-1] / 2))
    start, slope = push[index], (push[index + 1] - push[index]) / (rates[index + 1] - rates[index])
    remaining = below[-1] / 2 - below[index]
    flat = abs(slope) < 1e-12
    along = remaining / start if flat else (math.sqrt(start**2 + 2 * slope * remaining) - start) / slope
    return {"half": float(rates[index] + along), "peak": float(rates[push.argmax()])}


# Expected steps

OPTIMIZERS = ("sgd", "adam")  # whose steps are expected
POLICY_KS = (16, 256)  # of pass@k
BETAS, EPS = (0.9, 0.999), 1e-8  # of simlab.simulator.optimizers.adam


def expected_path(
    problem: Categorical, masses: GroupMasses, optimizer: str, learning_rate: float, recorded: Int[np.ndarray, " R"]
) -> dict[str, Float[np.ndarray, " R+1"]]:
    """Return correct mass, retained mass and entropy along the expected steps, at step 0 and those in ``recorded``.

    With m_S and m_F averaged over the binomial number of correct rollouts, the expected gradient of the logit of an
    action of probability p is p (m_S / mu - (m_S - m_F)) if it is correct, and -p (m_F / (1 - mu) + (m_S - m_F)) if it
    is not. Such steps climb a transform of Q_pos (Davis and Recht, arXiv:2510.13651).
    """
    problem = problem.by_classes()
    logits, counts, correct = problem.logits.copy(), np.asarray(problem.counts, float), problem.correct
    group_size = len(masses[0]) - 1
    path: dict[str, list[float]] = {"q_pos": [], "retained_mass": [], "entropy": []}
    recorded_steps, first = {0, *recorded.tolist()}, None
    mean, square = np.zeros_like(logits), np.zeros_like(logits)
    for step in range(int(recorded[-1]) + 1):
        weights = np.exp(logits - logits.max())
        p = weights / (weights @ counts)  # of an action of each class
        first = p if first is None else first
        mass, wrong = (float(p[which] @ counts[which]) for which in (correct, ~correct))
        if step in recorded_steps:
            retained = np.minimum(p, first)[correct] @ counts[correct]
            path["q_pos"].append(mass)
            path["retained_mass"].append(float(retained / (first[correct] @ counts[correct])))
            path["entropy"].append(float(-xlogy(p, p) @ counts))
        chance = binomial_chances(group_size, np.array(min(mass, 1.0)))
        success, failure = float(chance @ masses[0]), float(chance @ masses[1])
        reward = np.where(correct, success / max(mass, 1e-300), -failure / max(wrong, 1e-300))
        gradient = p * (reward - (success - failure))
        if optimizer == "adam":
            mean = BETAS[0] * mean + (1 - BETAS[0]) * gradient
            square = BETAS[1] * square + (1 - BETAS[1]) * gradient**2
            scale = np.sqrt(square / (1 - BETAS[1] ** (step + 1))) + EPS
            gradient = mean / (1 - BETAS[0] ** (step + 1)) / scale
        logits = logits + learning_rate * gradient
    return {name: np.array(values) for name, values in path.items()}


def with_pass_at_k(path: dict[str, list[float]]) -> dict[str, list[float]]:
    """Add pass@k of the correct mass along expected steps."""
    return path | {f"pass_at_{k}": pass_at_k(np.array(path["q_pos"]), k).tolist() for k in POLICY_KS}
