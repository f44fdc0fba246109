"""Measure arms: a number for each seed, or for each seed and problem, and means with their intervals."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from simlab.errors import InputError, check_whole
from simlab.llm.compare.run_arms import ShownArm
from simlab.llm.compare.runs import EvaluationResult, Training
from simlab.llm.instruments.pass_at_k import interval, powers, unbiased_pass_at_k
from simlab.llm.instruments.significance import crossed_interval

TRAINING_METRICS = ("reward", "entropy")
LAST_PART = 10  # they are averaged over the last of so many equal parts of the steps
SEED, RESAMPLES = 0, 2000  # of the intervals over problems: the same table every time, a figure in a moment


def measure_arm(arm: ShownArm, ks: Iterable[int]) -> dict[str, Float[np.ndarray, "S ..."]]:
    """Return by label (S,) metrics of training over its last tenth, and (S, P) pass@k and distinct solutions."""
    evaluations = arm.evaluations.values()
    values = {
        name: np.array(
            [last_mean(arm.trainings[seed], name, evaluation.step) for seed, evaluation in arm.evaluations.items()]
        )
        for name in TRAINING_METRICS
    }
    values |= {f"pass@{k}": np.stack([evaluation_pass_at_k(evaluation, k) for evaluation in evaluations]) for k in ks}
    return values | {"distinct": np.stack([evaluation.distinct for evaluation in evaluations])}


def evaluation_pass_at_k(evaluation: EvaluationResult, k: int) -> Float[np.ndarray, " P"]:
    """Return the unbiased pass@k of each problem."""
    return unbiased_pass_at_k(evaluation.correct, evaluation.samples, k)


def last_mean(training: Training, name: str, until: int) -> float:
    """Average a metric over the last tenth of the steps up to one; NaN if there are none."""
    if name not in training.metrics:
        return np.nan
    values = training.metrics[name][training.metrics["step"] <= until]
    count = -(-len(values) // LAST_PART)
    return float(values[-count:].mean()) if count else np.nan


def fewest_samples(arms: Iterable[ShownArm]) -> int:
    """Return the largest k at which all evaluations have a pass@k."""
    return min(evaluation.samples for arm in arms for evaluation in arm.evaluations.values())


def check_ks(ks: Sequence[int] | None, samples: int) -> list[int]:
    """Return the k of pass@k; by default the powers of 4 up to ``samples``.

    Raises:
        InputError: for a k that is no whole number from 1 to ``samples``.
    """
    if ks is None:
        return powers(samples, 4)
    for k in ks:
        check_whole("pass@k's k", k, 1)
        if k > samples:
            raise InputError(f"pass@{k} cannot be told of {samples} samples a problem; allowed: k from 1 to {samples}")
    return list(ks)


class MeanEstimate(NamedTuple):
    """A mean, its standard error over seeds and its 95 % interval; NaN where that is not known."""

    mean: float
    error: float
    low: float
    high: float


def estimate_mean(values: Float[np.ndarray, "S ..."]) -> MeanEstimate:
    """Estimate the mean over S seeds and P problems, if there are any.

    Of several seeds and problems the interval is over both (``simlab.llm.instruments.significance``). Of several seeds
    without problems it is the t-interval over seeds, and there is the standard error s / sqrt(S). One seed says nothing
    of other seeds: its interval is the bootstrap over problems.
    """
    each = values.reshape(len(values), -1).mean(axis=1)
    mean = float(each.mean())
    if np.isnan(mean) or values.shape == (1,):
        return MeanEstimate(mean, np.nan, np.nan, np.nan)
    if len(values) == 1 or values[0].size > 1:
        _, low, high = interval(values[0], SEED, RESAMPLES) if len(values) == 1 else crossed_interval(values)
        return MeanEstimate(mean, np.nan, low, high)
    error = float(each.std(ddof=1) / np.sqrt(len(each)))
    half = float(stdtrit(len(each) - 1, 0.975)) * error
    return MeanEstimate(mean, error, mean - half, mean + half)
