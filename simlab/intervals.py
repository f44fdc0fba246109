"""Estimate a mean over seeds with its 95 % interval, which stays inside of what the quantity can be."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import expit, logit, stdtrit

COVERAGE = 0.95
ANY, POSITIVE, SHARE, CHANGE = (-np.inf, np.inf), (0.0, np.inf), (0.0, 1.0), (-1.0, 1.0)
BAND_SEEDS = 4  # fewer seeds are drawn themselves, and no cell of theirs is called higher than another
Bounds = tuple[float, float]
Values = Float[np.ndarray, "..."] | float
SHARES = {
    *("q_pos", "q_pos_by_kind", "pass_at_k", "pass_at_k_by_kind", "solve_rate_histogram"),
    *("target_mass", "retained_mass", "share_correct_kept", "unsampled_correct_mass"),
    *("accepted_rate", "active_rate", "tail_miss_rate", "unsolved_rate"),
    *("clipped_share", "clipped_correct", "clipped_wrong", "drawn_correct", "drawn_wrong"),
}
NOT_NEGATIVE = {
    *("entropy", "level_entropy", "target_nll_by_kind", "ratio_drift", "success_mass", "failure_mass"),
    *("effective_prompts", "effective_rollouts", "effective_modes", "modes_held", "mode_coverage", "unsolved_prompts"),
    *("distinct_correct", "distinct"),
}


def bounds_of(metric: str) -> Bounds:
    """Return what a metric can be, by its name, which may be ``pass@K`` or followed by labels; ANY for one of yours."""
    name = metric.partition(" ")[0]
    if name in SHARES or name.startswith("pass@"):
        return SHARE
    return POSITIVE if name in NOT_NEGATIVE else ANY


def change_of(bounds: Bounds) -> Bounds:
    """Return what the difference of two numbers within ``bounds`` can be.

    >>> change_of(SHARE) == CHANGE
    True
    """
    low, high = bounds
    return low - high, high - low


class Interval(NamedTuple):
    """A mean with its 95 % interval, NaN where there is none."""

    mean: float
    low: float
    high: float


class Estimate(NamedTuple):
    """Means, their standard errors over seeds and their 95 % intervals; NaN where that is not known."""

    mean: Float[np.ndarray, "..."]
    error: Float[np.ndarray, "..."]
    low: Float[np.ndarray, "..."]
    high: Float[np.ndarray, "..."]


def within(mean: Values, half: Values, bounds: Bounds) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """Return the ends of the interval mean +- half after it is carried inside of ``bounds``, by the delta method.

    Between two bounds, the interval is symmetric for logit u, where u = (mean - low) / (high - low) and half becomes
    half / ((high - low) u (1 - u)); above a lower bound alone for log (mean - low), where half becomes
    half / (mean - low); and for the mean itself where there is no bound. So the ends lie inside, a narrow interval
    stays what it was, and a mean near a bound has the longer side away from it, as its distribution has. Cutting
    mean +- half at the bounds would cover no more than mean +- half does. NaN where half is 0: values that are all
    equal do not tell how they vary. Coverage for 2 to 32 seeds: ``benchmarks/results/interval_coverage.md``.
    """
    mean, half, (low, high) = np.asarray(mean, float), np.asarray(half, float), bounds
    half = np.where(half > 0, half, np.nan)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if np.isfinite(high):
            width, share = high - low, (mean - low) / (high - low)
            step = half / (width * share * (1 - share))
            ends = [low + width * expit(logit(share) + sign * step) for sign in (-1, 1)]
        elif np.isfinite(low):
            ends = [low + (mean - low) * np.exp(sign * half / (mean - low)) for sign in (-1, 1)]
        else:
            ends = [mean - half, mean + half]
    return np.asarray(ends[0]), np.asarray(ends[1])


def half_width(error: Values, seeds: int | Int[np.ndarray, "..."], coverage: float = COVERAGE) -> Values:
    """Return half of Student's interval of a mean over S seeds, or other units: t(S - 1) times its standard error."""
    half: Values = stdtrit(np.asarray(seeds) - 1, (1 + coverage) / 2) * error
    return half


def student(
    mean: Values, error: Values, seeds: int | Int[np.ndarray, "..."], bounds: Bounds
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """Return the ends of Student's 95 % interval of a mean with a standard error over seeds, as ``within`` does."""
    return within(mean, half_width(error, seeds), bounds)


def over_seeds(values: Float[np.ndarray, "S ..."], bounds: Bounds = ANY) -> Estimate:
    """Return mean, standard error and Student's 95 % interval over S seeds, inside of ``bounds`` (see ``within``).

    Each is an array of the other dimensions of ``values``. Error and interval are NaN for one seed.
    """
    seeds, mean = len(values), np.asarray(np.mean(values, axis=0))
    if seeds < 2:
        unknown = np.full_like(mean, np.nan)
        return Estimate(mean, unknown, unknown, unknown)
    equal = np.all(values == values[0], axis=0)  # whose standard deviation may round to more than 0
    error = np.where(equal, 0.0, np.std(values, axis=0, ddof=1) / np.sqrt(seeds))
    return Estimate(mean, error, *student(mean, error, seeds, bounds))


def sign_of(differences: Float[np.ndarray, " S"], bounds: Bounds = ANY) -> int:
    """Return 1 or -1 where Student's 95 % interval of a mean difference over seeds lies above or below 0, else 0.

    Differences that are all equal have no interval, and their own sign. Fewer than ``BAND_SEEDS`` tell nothing: 0.
    """
    if len(differences) < BAND_SEEDS:
        return 0
    estimate = over_seeds(differences, bounds)
    low, high = (estimate.mean if np.isnan(end) else end for end in (estimate.low, estimate.high))
    return int(low > 0) - int(high < 0)


def too_few(seeds: int, what: str) -> str:
    """Say that so many seeds do not tell something.

    >>> too_few(3, "how a differs")
    '3 seeds are too few to say how a differs; 4 or more may tell'
    """
    number = "1 seed is" if seeds == 1 else f"{seeds} seeds are"
    return f"{number} too few to say {what}; {BAND_SEEDS} or more may tell"
