"""Measure how unevenly tokens share the covariance of log-probabilities and advantages; for NumPy and for JAX."""

from array_api_compat import array_namespace
from jaxtyping import Float

from simlab.order_statistics import lower_quantile
from simlab.rollouts import Array

TOP_PERCENT = (0.01, 1.0, 20.0, 40.0, 100.0)  # the rows of CW-GRPO's Table 1


def covariance_thresholds(terms: Float[Array, " n"]) -> tuple[Float[Array, " percent"], Float[Array, " percent"]]:
    """Thresholds that a percentage of the tokens of either sign reaches or passes ``[cw-grpo:table-1-dominance]``.

    Args:
        terms: (n,) the covariance term of each token, ``simlab.estimators.tokens.covariance_terms``.

    Returns:
        of the tokens with a positive term and of those with a negative one, (5,) each, the most extreme first; NaN
        where no token has the sign.

    >>> import numpy as np
    >>> positive, negative = covariance_thresholds(np.array([1.0, 2.0, 3.0, 4.0, 5.0, -1.0]))
    >>> positive.tolist()
    [5.0, 5.0, 5.0, 4.0, 1.0]
    >>> negative.tolist()
    [-1.0, -1.0, -1.0, -1.0, -1.0]
    """
    return -_thresholds(-terms), _thresholds(terms)


def _thresholds(terms: Float[Array, " n"]) -> Float[Array, " percent"]:
    """Thresholds of the negative terms."""
    xp = array_namespace(terms)
    negative = terms < 0
    thresholds = xp.concat([lower_quantile(terms, percent / 100, negative) for percent in TOP_PERCENT])
    return xp.where(xp.any(negative), thresholds, xp.full_like(thresholds, float("nan")))
