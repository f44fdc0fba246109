"""How sure a mean over seeds and problems is, where every seed met every problem: a crossed random-effects model.

y[s, p] = mu + a[s] + b[p] + e[s, p]: a seed and a problem each add something of their own, and the rest is the noise of
samples and what a seed makes of a problem. Mean squares and variance components as in Searle, Casella and McCulloch,
*Variance Components* (1992).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from simlab.errors import InputError
from simlab.llm.instruments.pass_at_k import COVERAGE, Interval


class Components(NamedTuple):
    """Estimates of the variances of a, b and e; unbiased, so that one of a small variance may be negative.

    Attributes:
        seeds: variance of what a seed adds to all problems.
        problems: variance of what a problem adds to all seeds.
        rest: variance of what is left of a seed and problem.
    """

    seeds: float
    problems: float
    rest: float

    def of_mean(self, seeds: int, problems: int) -> float:
        """The variance of a mean over so many seeds and problems, if all were drawn again."""
        return self.seeds / seeds + self.problems / problems + self.rest / (seeds * problems)


def components(values: Float[np.ndarray, "S P"]) -> Components:
    """The variance components of S seeds and P problems, from their mean squares.

    Args:
        values: such as the pass@k of each problem after each seed's training, or the difference of two methods there.

    Raises:
        InputError: for fewer than two seeds or problems, and values that are not finite.
    """
    if min(values.shape) < 2:
        found = f"{values.shape[0]} x {values.shape[1]} values"
        raise InputError(f"{found} have no variance components; allowed: two or more seeds and problems")
    if not np.isfinite(values).all():
        raise InputError("values hold NaN or infinity; allowed: finite numbers")
    seeds, problems = values.shape
    of_seeds, of_problems = values.mean(axis=1), values.mean(axis=0)
    rests = values - of_seeds[:, None] - of_problems + values.mean()
    rest = float((rests**2).sum()) / ((seeds - 1) * (problems - 1))
    return Components(
        float(of_seeds.var(ddof=1)) - rest / problems,
        float(of_problems.var(ddof=1)) - rest / seeds,
        rest,
    )


def crossed_interval(values: Float[np.ndarray, "S P"]) -> Interval:
    """The mean and its 95 % interval over seeds and problems: how it would vary if both were drawn again.

    The half-width squared is t(S-1)^2 var(means of seeds) / S + t(P-1)^2 max(0, variance of problems) / P: the
    t-interval over seeds, which has the noise of samples in it, and what the choice of problems adds. Each part takes
    its own t, as in Banerjee's interval for a sum of independent means (Sankhya 22, 1960, 357-358), which covers
    at least 95 %. That the noise is not counted a second time among the problems has no such proof; the coverage is
    simulated in ``tests/test_instruments.py``. With two or three seeds the interval is wide, since so few say little
    about seeds; it is never narrower than that over seeds.

    Raises:
        InputError: as ``components``.
    """
    variances = values.mean(axis=1).var(ddof=1), max(0.0, components(values).problems)
    halves = [
        stdtrit(count - 1, (1 + COVERAGE) / 2) * np.sqrt(variance / count)
        for count, variance in zip(values.shape, variances, strict=True)
    ]
    half = float(np.hypot(*halves))
    mean = float(values.mean())
    return Interval(mean, mean - half, mean + half)
