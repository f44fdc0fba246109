"""Pass@k as far as the rollouts of a prompt carry it, and beyond."""

import dataclasses

import numpy as np
from jaxtyping import Float

from simlab.diagnose.estimate import Estimate
from simlab.diagnose.mixture import components
from simlab.diagnose.solve_rates import Population, Prompts
from simlab.errors import InputError
from simlab.llm.instruments.pass_at_k import powers, unbiased_pass_at_k
from simlab.theory.power_law import ShiftedPowerLaw, fit_shifted_power_law

BEYOND = 16  # times the largest k that is carried: how far pass@k is extrapolated


@dataclasses.dataclass(frozen=True)
class PassAtK:
    """Pass@k of the prompts of a window.

    Attributes:
        k: that every prompt's rollouts carry.
        carried: the unbiased estimate at each, with the interval of the mixtures that explain the data as well: the
            bootstrap over prompts has no width where all are solved.
        beyond_k: larger ones.
        beyond: what the mixtures of solve rates that explain the data as well give: wide where the data do not tell.
        power_law: G(k) = exp(-a (k + c)^-b) at ``beyond_k``, fitted to ``carried`` ``[fade:fig-6]``; None where those
            are fewer than four, or do not rise. It has no interval: that its form holds on is not in the data.
        power_law_within: whether it stays within the intervals of ``beyond``.
        scale, exponent, shift: a, b and c.
    """

    k: tuple[int, ...]
    carried: tuple[Estimate, ...]
    beyond_k: tuple[int, ...]
    beyond: tuple[Estimate, ...]
    power_law: tuple[float, ...] | None
    power_law_within: bool | None
    scale: float | None
    exponent: float | None
    shift: float | None


def pass_at_k(own: Prompts, now: Population) -> PassAtK:
    """Pass@k of a window's prompts, whose population is ``now``."""
    within_reach = powers(int(own.trials.min()))
    values = [carried(own, now, k) for k in within_reach]
    beyond = [k for k in powers(BEYOND * within_reach[-1]) if k > within_reach[-1]]
    extrapolated = tuple(of_population(now, k) for k in beyond)
    law = _power_law(within_reach, values)
    line = tuple(law(np.array(beyond)).tolist()) if law else None
    within = all(own.low <= value <= own.high for own, value in zip(extrapolated, line, strict=True)) if line else None
    return PassAtK(
        tuple(within_reach),
        tuple(values),
        tuple(beyond),
        extrapolated,
        line,
        within,
        *((law.scale, law.exponent, law.shift) if law else (None, None, None)),
    )


def carried(own: Prompts, now: Population, k: int) -> Estimate:
    """The unbiased estimate at a k that every prompt carries; the interval is the population's, made to hold it."""
    value, found = float(unbiased(own, k).mean()), of_population(now, k)
    return dataclasses.replace(found, value=value, low=min(found.low, value), high=max(found.high, value))


def unbiased(own: Prompts, k: int) -> Float[np.ndarray, " P"]:
    """The unbiased pass@k of each prompt; NaN for those of fewer than k rollouts."""
    found = np.full(len(own.trials), np.nan)
    for trials in np.unique(own.trials[own.trials >= k]).tolist():
        here = own.trials == trials
        found[here] = unbiased_pass_at_k(own.successes[here], trials, k)
    return found


def of_population(now: Population, k: int) -> Estimate:
    """1 - E (1 - p)^k."""
    return now.estimate(f"pass@{k}", 1 - components().moment(np.array(0), np.array(k)))


def _power_law(k: list[int], curve: list[Estimate]) -> ShiftedPowerLaw | None:
    if len(k) < 4:
        return None
    try:
        return fit_shifted_power_law(np.array(k), np.array([own.value for own in curve]))
    except InputError:
        return None
