"""Estimate pass@k from counts of correct samples, and an interval of its mean over problems."""

import numpy as np
from jaxtyping import Float, Int

from simlab.errors import InputError, check_whole
from simlab.intervals import Interval

RESAMPLES = 10_000
COVERAGE = 0.95
AT_ONCE = 2**22  # values of a resample's problems held in memory at a time


def unbiased_pass_at_k(correct: Int[np.ndarray, " P"], samples: int, k: int) -> Float[np.ndarray, " P"]:
    """Return 1 - C(n - c, k) / C(n, k) of each problem ``[f-grpo:eq-27]``: unbiased for 1 - (1 - p)^k.

    It is the share of the k-subsets of the n samples that hold one of the c ``correct`` ones. The relative error is
    about n times that of a float at most, also where pass@k is tiny.

    Raises: InputError: unless 1 <= k <= n, and 0 <= c <= n for every problem.

    >>> unbiased_pass_at_k(np.array([0, 1, 2, 4]), 4, 2)
    array([0.        , 0.5       , 0.83333333, 1.        ])
    """
    check_whole("k", k, 1, samples)
    outside = (correct < 0) | (correct > samples)
    if outside.any():
        raise InputError(f"correct holds {correct[outside][0]}; allowed: 0 to {samples}, the samples of a problem")
    values: np.ndarray = 0 - np.expm1(log_missed(samples, k)[correct])  # 0 - x, for -x would print -0.
    return values


def log_missed(samples: int, k: int) -> Float[np.ndarray, " counts"]:
    """Return log C(n - h, k) / C(n, k) for h = 0 to n: k of n samples, drawn without replacement, miss all h hits.

    From one h to the next it falls by log(1 - k / (n - h)), so that a sum of logarithms of one sign gives them all.
    """
    missed = np.full(samples + 1, -np.inf)
    missed[0] = 0
    hits = np.arange(samples - k)
    missed[1 : samples - k + 1] = np.cumsum(np.log1p(-k / (samples - hits)))
    return missed


def powers(samples: int, base: int = 2) -> list[int]:
    """Return the k to report: 1, ``base``, ``base``^2, ... up to ``samples``."""
    return [base**power for power in range(samples.bit_length()) if base**power <= samples]


def interval(values: Float[np.ndarray, " P"], seed: int, resamples: int = RESAMPLES) -> Interval:
    """Return the mean over problems and its 95 % interval: the percentile bootstrap over problems.

    It says how the mean would vary had other problems been drawn, and other samples with them; nothing about other
    training runs, which differ by more. For few problems (below about 20), and for values that are nearly all 0 or all
    1, it is too narrow; for one problem, or equal values, it has no width.
    """
    random, rows = np.random.default_rng(seed), max(1, AT_ONCE // len(values))
    sizes = [min(rows, resamples - done) for done in range(0, resamples, rows)]
    means = np.concatenate(
        [values[random.integers(len(values), size=(size, len(values)))].mean(axis=1) for size in sizes]
    )
    low, high = np.quantile(means, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    return Interval(float(values.mean()), float(low), float(high))
