"""Order statistics along the last axis, where some values are absent: quantiles and ranks, in O(n log n)."""

import math

from array_api_compat import array_namespace
from jaxtyping import Bool, Float, Int

from simlab.rollouts import Array, Scalar

Values = Float[Array, "*batch n"]
Present = Bool[Array, "*batch n"] | None

# How far above a whole number of values, relatively and at most, rounding may lift a quantile's place.
SLACK, MOST_SLACK = 1e-6, 0.25


def absent_last(values: Values, present: Present) -> Values:
    """``values`` with infinity where one is absent, so that sorting puts those last."""
    xp = array_namespace(values)
    return values if present is None else xp.where(present, values, xp.full_like(values, math.inf))


def count_present(values: Values, present: Present) -> Float[Array, "*batch 1"]:
    """How many values are present along the last axis."""
    xp = array_namespace(values)
    everywhere = xp.ones_like(values) if present is None else xp.astype(present, values.dtype)
    return xp.sum(everywhere, axis=-1, keepdims=True)


def lower_quantile(values: Values, q: Scalar, present: Present = None) -> Float[Array, "*batch 1"]:
    """The smallest value v such that a share of at least ``q`` of the values is at most v.

    It is the inverse of the empirical distribution function and one of the values: at q = 1/2 the (lower) median, at
    0 minus infinity, the smallest number of which a share of 0 is trivially true; 0 where no value is present.
    """
    xp = array_namespace(values)
    count = count_present(values, present)
    order = xp.sort(absent_last(values, present), axis=-1)
    slack = xp.where(SLACK * count < MOST_SLACK, SLACK * count, MOST_SLACK * xp.ones_like(count))
    wanted = xp.ceil(q * count - slack)
    place = xp.cumulative_sum(xp.ones_like(values), axis=-1)
    found = xp.sum(xp.where(place == wanted, order, xp.zeros_like(order)), axis=-1, keepdims=True)
    return xp.where((wanted < 1) & (count > 0), xp.full_like(found, -math.inf), found)


def rank(values: Values, present: Present = None) -> Float[Array, "*batch n"]:
    """How many of the values present are smaller than each one; equal values share the mean of their places."""
    xp = array_namespace(values)
    order = absent_last(values, present)
    forwards, backwards = places(order), xp.flip(places(xp.flip(order, axis=-1)), axis=-1)
    return xp.astype(forwards + backwards, values.dtype) / 2


def places(values: Values) -> Int[Array, "*batch n"]:
    """The place of each value in increasing order, from 0; of equal values the first comes first."""
    xp = array_namespace(values)
    first = xp.argsort(values, axis=-1, stable=True)
    return xp.argsort(first, axis=-1, stable=True)


def sorted_with_places(values: Values, present: Present = None) -> tuple[Values, Array]:
    """The values in increasing order, absent ones last and read as 0, and for each value its place in that order."""
    xp = array_namespace(values)
    first = xp.argsort(absent_last(values, present), axis=-1, stable=True)
    kept = values if present is None else xp.where(present, values, xp.zeros_like(values))
    return xp.take_along_axis(kept, first, axis=-1), xp.argsort(first, axis=-1, stable=True)
