"""Measures of how near to rank 1 a matrix is, and how alike directions are (NumPy, JAX); undefined ones are NaN."""

import math

from array_api_compat import array_namespace
from jaxtyping import Float

from simlab.errors import check_range
from simlab.rollouts import Array, or_one

KUMAR_DELTA = 0.01  # Kumar et al. 2020; FADE leaves delta open
Values = Float[Array, "*batch R"]


def leading_share(singular_values: Values) -> Float[Array, "*batch"]:
    """r1 = s_1^2 / sum of s_i^2, the share of the squared Frobenius norm in the leading direction ``[fade:prop-15.1]``.

    Its inverse is the stable rank.

    >>> float(leading_share(np.array([2.0, 2.0, 0.0])))
    0.5
    """
    xp = array_namespace(singular_values)
    largest = singular_values[..., :1]
    shares = singular_values / or_one(largest)  # so that no square underflows
    return _quotient(shares[..., 0] ** 2, xp.sum(shares**2, axis=-1))


def singular_gap(singular_values: Values) -> Float[Array, "*batch"]:
    """s_1 / s_2, as in FADE's Figure 5; infinite for rank 1, NaN for rank 0 or a single singular value."""
    xp = array_namespace(singular_values)
    first = singular_values[..., 0]
    second = singular_values[..., 1] if singular_values.shape[-1] > 1 else xp.full_like(first, math.nan)
    infinite = xp.where(first > 0, xp.full_like(first, math.inf), xp.full_like(first, math.nan))
    none = second <= first / xp.finfo(first.dtype).max  # the quotient overflows
    return xp.where(none, infinite, first / xp.where(none, xp.ones_like(second), second))


def effective_rank(singular_values: Values, delta: float = KUMAR_DELTA) -> Float[Array, "*batch"]:
    """srank = min{k: s_1 + ... + s_k >= (1 - delta) (s_1 + ... + s_R)}, FADE's Figure 5 after Kumar et al. 2020.

    >>> float(effective_rank(np.array([3.0, 2.0, 0.001])))
    2.0
    """
    xp = array_namespace(singular_values)
    check_range("delta", delta, 0, 1)
    sums = xp.cumulative_sum(singular_values, axis=-1)
    short = xp.astype(sums < (1 - delta) * sums[..., -1:], singular_values.dtype)
    rank = 1 + xp.sum(short, axis=-1)
    return xp.where(sums[..., -1] > 0, rank, xp.full_like(rank, math.nan))


def alignment(first: Float[Array, "*shape"], second: Float[Array, "*shape"]) -> Float[Array, ""]:
    """The absolute cosine of the angle between two vectors, or matrices; NaN where either is 0.

    >>> round(float(alignment(np.array([1.0, 0.0]), np.array([-3.0, 4.0]))), 12)
    0.6
    """
    xp = array_namespace(first)
    first, second = _scaled(first), _scaled(second)
    return xp.abs(_quotient(xp.sum(first * second), xp.sqrt(xp.sum(first**2) * xp.sum(second**2))))


def mean_pairwise_cosine(vectors: Float[Array, "n d"], times: Float[Array, " n"]) -> Float[Array, ""]:
    """The mean cosine of pairs of N rollouts, (|sum x_i|^2 - N) / (N (N - 1)), ``times`` each; NaN without one."""
    xp = array_namespace(vectors)
    lengths = xp.linalg.vector_norm(vectors, axis=-1)
    times = xp.where(lengths > 0, times, xp.zeros_like(times))
    directions = vectors / or_one(lengths)[:, None]
    total, count = xp.sum(times[:, None] * directions, axis=0), xp.sum(times)
    pairs = count * (count - 1)
    return _quotient(xp.sum(total**2) - count, pairs)


def _scaled(values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The values over the largest of their sizes, for the squares of small ones to keep their digits."""
    xp = array_namespace(values)
    largest = xp.max(xp.abs(values))
    return values / or_one(largest)


def _quotient(above: Float[Array, "*batch"], below: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """above / below, NaN where that is 0."""
    xp = array_namespace(below)
    there = below > 0
    return xp.where(there, above / xp.where(there, below, xp.ones_like(below)), xp.full_like(below, math.nan))
