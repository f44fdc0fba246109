"""Quantiles and ranks along the last axis, also where some values are absent; each sorts once, in O(n log n)."""

import math

from array_api_compat import array_namespace
from jaxtyping import Bool, Float, Int

from simlab.rollouts import Array, Scalar

Values = Float[Array, "*batch n"]
Present = Bool[Array, "*batch n"] | None

# By how much, relatively and at most, rounding may lift the rank of a quantile above a whole number.
SLACK, MOST_SLACK = 1e-6, 0.25


def infinite_where_absent(values: Values, present: Present) -> Values:
    """Replace absent values by infinity, so that sorting puts them last."""
    xp = array_namespace(values)
    return values if present is None else xp.where(present, values, xp.full_like(values, math.inf))


def rounding_slack(count: Float[Array, "*batch 1"]) -> Float[Array, "*batch 1"]:
    """Rounding that is allowed in a share of ``count`` that should be a whole number."""
    xp = array_namespace(count)
    return xp.where(SLACK * count < MOST_SLACK, SLACK * count, MOST_SLACK * xp.ones_like(count))


def lower_quantile(values: Values, q: Scalar, present: Present = None) -> Float[Array, "*batch 1"]:
    """Return the ceil(q n)-th of n sorted values; minus infinity at q = 0, and 0 where no value is present."""
    xp = array_namespace(values)
    there = xp.ones_like(values) if present is None else xp.astype(present, values.dtype)
    count = xp.sum(there, axis=-1, keepdims=True)
    ordered = xp.sort(infinite_where_absent(values, present), axis=-1)
    rank = xp.ceil(q * count - rounding_slack(count))
    position = xp.cumulative_sum(xp.ones_like(values), axis=-1)
    quantile = xp.sum(xp.where(position == rank, ordered, xp.zeros_like(ordered)), axis=-1, keepdims=True)
    return xp.where((rank < 1) & (count > 0), xp.full_like(quantile, -math.inf), quantile)


def average_rank(values: Values, present: Present = None) -> Float[Array, "*batch n"]:
    """Rank each value from 0 among those present; equal values share the mean of their ranks."""
    xp = array_namespace(values)
    filled = infinite_where_absent(values, present)
    forwards, backwards = ordinal_rank(filled), xp.flip(ordinal_rank(xp.flip(filled, axis=-1)), axis=-1)
    return xp.astype(forwards + backwards, values.dtype) / 2


def ordinal_rank(values: Values) -> Int[Array, "*batch n"]:
    """Position of each value in increasing order, of equal ones the first first: of 30, 10, 20 it is 2, 0, 1."""
    xp = array_namespace(values)
    first = xp.argsort(values, axis=-1, stable=True)
    return xp.argsort(first, axis=-1, stable=True)


def sort_with_ranks(values: Values, present: Present = None) -> tuple[Values, Array]:
    """Sort values, absent ones last and read as 0, and return the position of each value in that order."""
    xp = array_namespace(values)
    first = xp.argsort(infinite_where_absent(values, present), axis=-1, stable=True)
    filled = values if present is None else xp.where(present, values, xp.zeros_like(values))
    return xp.take_along_axis(filled, first, axis=-1), xp.argsort(first, axis=-1, stable=True)
