"""Measure how unevenly tokens share the covariance of log-probabilities and advantages; for NumPy and for JAX."""

from array_api_compat import array_namespace
from jaxtyping import Float

from simlab.order_statistics import lower_quantile
from simlab.rollouts import Array

TOP_PERCENT = (0.01, 1.0, 20.0, 40.0, 100.0)  # the rows of CW-GRPO's Table 1


def covariance_thresholds(terms: Float[Array, " n"]) -> tuple[Float[Array, " percent"], Float[Array, " percent"]]:
    """Thresholds that 0.01 to 100 % of the tokens of either sign reach or pass ``[cw-grpo:table-1-dominance]``.

    ``terms`` are ``simlab.estimators.tokens.covariance_terms``. Returns those of the positive terms and of the
    negative ones, the most extreme first; NaN where no token has the sign.

    >>> import numpy as np
    >>> positive, negative = covariance_thresholds(np.array([1.0, 2.0, 3.0, 4.0, 5.0, -1.0]))
    >>> positive.tolist()
    [5.0, 5.0, 5.0, 4.0, 1.0]
    """
    return -_thresholds(-terms), _thresholds(terms)


def _thresholds(terms: Float[Array, " n"]) -> Float[Array, " percent"]:
    """Thresholds of the negative terms."""
    xp = array_namespace(terms)
    negative = terms < 0
    thresholds = xp.concat([lower_quantile(terms, percent / 100, negative) for percent in TOP_PERCENT])
    return xp.where(xp.any(negative), thresholds, xp.full_like(thresholds, float("nan")))
