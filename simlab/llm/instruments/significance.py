"""Test whether two models differ in pass@k, by the m-out-of-n subsampling test of F-GRPO's Appendix Q."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from simlab.errors import InputError, check_range, check_whole
from simlab.llm.instruments.pass_at_k import check_counts, unbiased_pass_at_k

LEVEL = 0.05
ITERATIONS = 50_000  # as in the paper
ROUNDING = 1e-12  # a smaller difference is none: sums of the same numbers in another order


class Difference(NamedTuple):
    """How much higher the second model's pass@k is, averaged over problems.

    Attributes:
        difference: the difference of the estimates from all n samples.
        low: lower end of the 95 % interval.
        high: its upper end.
        p: two-sided p-value.
        significant: whether 0 lies outside the interval; then, and only then, p is below .05.
    """

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
    subsample: int | None = None,
    rescale: bool = True,
    iterations: int = ITERATIONS,
) -> Difference:
    """The paired m-out-of-n subsampling test ``[f-grpo:app-q-mean]``.

    Each iteration draws m of the n samples of every problem without replacement, for both models, and takes the
    difference of their pass@k by the formula, averaged over problems. The 95 % interval is the middle of these
    differences; p = 2 (1 + how many lie on the rarer side of 0, or on it) / (1 + iterations). Where many are
    exactly 0, as with few problems and samples at m = n / 2, that makes the test a little careful.

    What is random here: the samples of the two models as they are. Not the problems, which are taken as given (on
    others the difference may be another; for that see ``pass_at_k.interval``), and not the training: two runs of one
    method with two seeds differ "significantly" as soon as n is large. It compares two checkpoints, not two methods.

    What the paper does not mention: without a rescaling the width depends on m, which the experimenter chooses
    ``[f-grpo:app-q-spread]``. The differences vary as 1/m - 1/n, the estimate from n samples as 1/n. So here the
    deviations from the estimate are multiplied by sqrt(m / (n - m)), and the interval is that of the estimate from all
    n samples. For pass@1 its variance is then right in expectation, whatever m is; for k above 1 it is too large, never
    too small, and the test too careful, the more so the nearer k is to m. At m = n / 2, the default, the factor is 1
    and this is the paper's test. Without it a smaller m hides differences, and a larger one finds them where there are
    none.

    Args:
        first_correct: how many of the first model's samples of each problem are correct.
        second_correct: the second model's, for the same problems.
        samples: n, of each problem and model, from 2 up.
        k: from 1 to m.
        seed: the seed of the subsamples.
        subsample: m, from 1 to n - 1; n / 2 by default, or k if that is more.
        rescale: whether to multiply deviations by sqrt(m / (n - m)); the paper does not.
        iterations: from 1000 up.

    Raises:
        InputError: for counts outside 0 to n, different numbers of problems, or numbers outside their ranges.
    """
    m = _checked(first_correct, second_correct, samples, k, subsample)
    check_whole("seed", seed, 0)
    check_whole("iterations", iterations, 1000)
    random, whole, drawn = np.random.default_rng(seed), 0.0, np.zeros(iterations)
    for correct, sign in ((second_correct, 1.0), (first_correct, -1.0)):
        whole += sign * float(np.mean(unbiased_pass_at_k(correct, samples, k)))
        of_counts = unbiased_pass_at_k(np.arange(m + 1), m, k)
        drawn += sign * _subsampled(correct, samples, of_counts, random.random, iterations)
    return _judged(whole, whole + (math.sqrt(m / (samples - m)) if rescale else 1.0) * (drawn - whole))


def _checked(
    first: Int[np.ndarray, " P"], second: Int[np.ndarray, " Q"], samples: int, k: int, subsample: int | None
) -> int:
    """m, if everything is allowed."""
    check_whole("samples", samples, 2)
    check_whole("k", k, 1)
    m = max(samples // 2, k) if subsample is None else subsample
    check_whole("subsample", m, 1)
    if m >= samples:
        raise InputError(f"subsample = {m} leaves no sample out; allowed: up to {samples - 1}, and from k up")
    check_range("k", k, 1, m)
    check_counts("first_correct", first, samples)
    check_counts("second_correct", second, samples)
    if len(first) != len(second):
        raise InputError(f"second_correct has {len(second)} problems; allowed: {len(first)}, as first_correct has")
    return m


def _subsampled(
    correct: Int[np.ndarray, " P"],
    samples: int,
    of_counts: Float[np.ndarray, " counts"],
    uniform: Callable[[int], Float[np.ndarray, " iterations"]],
    iterations: int,
) -> Float[np.ndarray, " iterations"]:
    """The mean over problems of what each subsample's count gives; a problem at a time, so that memory stays small."""
    total = np.zeros(iterations)
    for count in correct:
        cumulative = np.cumsum(hypergeometric(samples, int(count), len(of_counts) - 1))
        cumulative[-1] = 1.0  # rounding may have left it below
        total += of_counts[np.searchsorted(cumulative, uniform(iterations), side="right")]
    return total / len(correct)


def hypergeometric(samples: int, correct: int, m: int) -> Float[np.ndarray, " hits"]:
    """The probabilities of 0 to min(c, m) correct ones among m of n samples drawn without replacement."""
    hits = np.arange(max(0, m - (samples - correct)), min(correct, m) + 1)
    before = hits[:-1]
    ratios = (correct - before) * (m - before) / ((before + 1.0) * (samples - correct - m + before + 1))
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    shares = np.exp(logs - logs.max())
    return np.concatenate([np.zeros(hits[0]), shares / shares.sum()])


def _judged(whole: float, drawn: Float[np.ndarray, " iterations"]) -> Difference:
    """The interval between the places where p passes the level."""
    ordered, more = np.sort(np.where(np.abs(drawn) < ROUNDING, 0.0, drawn)), len(drawn) + 1
    below, above = int(np.sum(ordered <= 0)), int(np.sum(ordered >= 0))
    p = min(1.0, 2 * (1 + min(below, above)) / more)
    edge = math.ceil(more * LEVEL / 2) - 2
    low, high = float(ordered[edge]), float(ordered[-1 - edge])
    return Difference(whole, low, high, p, not low <= 0 <= high)
