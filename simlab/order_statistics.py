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
    """``values`` with infinity where one is absent, so that sorting puts those last."""
    xp = array_namespace(values)
    return values if present is None else xp.where(present, values, xp.full_like(values, math.inf))


def count_present(values: Values, present: Present) -> Float[Array, "*batch 1"]:
    """How many values are present along the last axis."""
    xp = array_namespace(values)
    everywhere = xp.ones_like(values) if present is None else xp.astype(present, values.dtype)
    return xp.sum(everywhere, axis=-1, keepdims=True)


def slack_of(count: Float[Array, "*batch 1"]) -> Float[Array, "*batch 1"]:
    """By how much of a rollout a share of ``count`` may miss a whole number that it is meant to be."""
    xp = array_namespace(count)
    return xp.where(SLACK * count < MOST_SLACK, SLACK * count, MOST_SLACK * xp.ones_like(count))


def lower_quantile(values: Values, q: Scalar, present: Present = None) -> Float[Array, "*batch 1"]:
    """The smallest value v such that a share of at least ``q`` of the values is at most v.

    It is the inverse of the empirical distribution function and one of the values: at q = 1/2 the (lower) median, at
    0 minus infinity, the smallest number of which a share of 0 is trivially true; 0 where no value is present.
    """
    xp = array_namespace(values)
    count = count_present(values, present)
    ordered = xp.sort(infinite_where_absent(values, present), axis=-1)
    wanted = xp.ceil(q * count - slack_of(count))
    position = xp.cumulative_sum(xp.ones_like(values), axis=-1)
    found = xp.sum(xp.where(position == wanted, ordered, xp.zeros_like(ordered)), axis=-1, keepdims=True)
    return xp.where((wanted < 1) & (count > 0), xp.full_like(found, -math.inf), found)


def average_rank(values: Values, present: Present = None) -> Float[Array, "*batch n"]:
    """How many of the values present are smaller than each one; equal values share the mean of their ranks."""
    xp = array_namespace(values)
    filled = infinite_where_absent(values, present)
    forwards, backwards = ordinal_rank(filled), xp.flip(ordinal_rank(xp.flip(filled, axis=-1)), axis=-1)
    return xp.astype(forwards + backwards, values.dtype) / 2


def ordinal_rank(values: Values) -> Int[Array, "*batch n"]:
    """The position of each value in increasing order, from 0; of equal values the first comes first."""
    xp = array_namespace(values)
    first = xp.argsort(values, axis=-1, stable=True)
    return xp.argsort(first, axis=-1, stable=True)


def sort_with_ranks(values: Values, present: Present = None) -> tuple[Values, Array]:
    """The values in increasing order, absent ones last and read as 0, and the position of each value in that order."""
    xp = array_namespace(values)
    first = xp.argsort(infinite_where_absent(values, present), axis=-1, stable=True)
    kept = values if present is None else xp.where(present, values, xp.zeros_like(values))
    return xp.take_along_axis(kept, first, axis=-1), xp.argsort(first, axis=-1, stable=True)
