"""Intervals over seeds and problems, and F-GRPO's test of a difference of pass@k between two models."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from simlab.errors import InputError, check_whole
from simlab.intervals import Interval, half_width
from simlab.llm.instruments.pass_at_k import unbiased_pass_at_k

LEVEL = 0.05
ITERATIONS = 50_000  # as in the paper
ROUNDING = 1e-12  # a smaller difference is none: sums of the same numbers in another order


class PassAtKDifference(NamedTuple):
    """The second model's mean pass@k less the first's, 95 % interval, two-sided p; ``significant``: 0 lies outside."""

    difference: float
    low: float
    high: float
    p: float
    significant: bool


def subsampling_test(
    first_correct: Int[np.ndarray, " P"],
    second_correct: Int[np.ndarray, " Q"],
    samples: int,
    k: int,
    seed: int,
    *,
    iterations: int = ITERATIONS,
) -> PassAtKDifference:
    """Run the paired m-out-of-n subsampling test ``[f-grpo:app-q-mean]``.

    Each iteration draws m of the n samples of every problem without replacement, for both models, and takes the
    difference of their pass@k by the formula, averaged over problems; m is n / 2, or k if that is more. The 95 %
    interval is the middle of these differences; p = 2 (1 + how many lie on the rarer side of 0, or on it) /
    (1 + iterations).

    Only the samples are random here, neither problems nor training: it compares two checkpoints, not two methods.

    The paper does not mention that without a rescaling the width depends on m ``[f-grpo:app-q-spread]``: the
    differences vary as 1/m - 1/n, the estimate from n samples as 1/n. So here the deviations from the estimate are
    multiplied by sqrt(m / (n - m)). For pass@1 the variance is then right in expectation, whatever m is; for k above 1
    it is too large, the more so the nearer k is to m. At m = n / 2 this is the paper's test.

    Args:
        first_correct, second_correct: the correct samples of each problem, of both models.
        samples: n, of each problem and model, from 2 up.
        k: from 1 to n - 1.
        iterations: 1000 or more.

    Raises: InputError: for counts outside 0 to n, different numbers of problems, or a k outside its range.
    """
    check_whole("k", k, 1, samples - 1)
    if len(first_correct) != len(second_correct):
        numbers = len(first_correct), len(second_correct)
        raise InputError(f"the models have {numbers[0]} and {numbers[1]} problems; allowed: the same problems")
    m = max(samples // 2, k)
    random, difference, draws = np.random.default_rng(seed), 0.0, np.zeros(iterations)
    by_count = unbiased_pass_at_k(np.arange(m + 1), m, k)
    for correct, sign in ((second_correct, 1.0), (first_correct, -1.0)):
        difference += sign * float(np.mean(unbiased_pass_at_k(correct, samples, k)))
        for count in correct:  # a problem at a time, to keep memory small
            hits = random.hypergeometric(count, samples - count, m, size=iterations)
            draws += sign / len(correct) * by_count[hits]
    draws = difference + math.sqrt(m / (samples - m)) * (draws - difference)
    # p, and the interval whose ends are the draws at which p passes the level
    ordered, more = np.sort(np.where(np.abs(draws) < ROUNDING, 0.0, draws)), iterations + 1
    below, above = int(np.sum(ordered <= 0)), int(np.sum(ordered >= 0))
    edge = math.ceil(more * LEVEL / 2) - 2
    low, high = float(ordered[edge]), float(ordered[-1 - edge])
    return PassAtKDifference(difference, low, high, min(1.0, 2 * (1 + min(below, above)) / more), not low <= 0 <= high)


def crossed_interval(values: Float[np.ndarray, "S P"]) -> Interval:
    """Return the mean and its 95 % interval over seeds and problems: how it would vary if both were drawn again.

    Every seed met every problem, two or more of each: y[s, p] = mu + a[s] + b[p] + e[s, p], a crossed random-effects
    model. A seed and a problem each add something, and e is the noise of samples and of a seed on one problem. The
    variance of problems is estimated from mean squares (Searle, Casella and McCulloch, Variance Components, 1992),
    without bias, so that it may come out negative.

    The half-width squared is t(S-1)^2 var(means of seeds) / S + t(P-1)^2 max(0, variance of problems) / P: the
    t-interval over seeds, which has the noise of samples in it, and the part that the choice of problems adds. Each
    part takes its own t, as in Banerjee's interval for a sum of independent means (Sankhya 22, 1960, 357-358), which
    covers at least 95 %. That the noise is not counted a second time among the problems has no such proof; the coverage
    is simulated in ``tests/test_instruments.py``. It is never narrower than that over seeds.
    """
    seeds, problems = values.shape
    by_seed, by_problem, mean = values.mean(axis=1), values.mean(axis=0), float(values.mean())
    residuals = values - by_seed[:, None] - by_problem + values.mean()
    noise = float((residuals**2).sum()) / ((seeds - 1) * (problems - 1))
    of_problems = max(0.0, float(by_problem.var(ddof=1)) - noise / seeds)
    halves = (
        float(half_width(np.sqrt(variance / count), count))
        for variance, count in ((by_seed.var(ddof=1), seeds), (of_problems, problems))
    )
    half = math.hypot(*halves)
    return Interval(mean, mean - half, mean + half)
