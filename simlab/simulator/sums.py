"""Sums whose result does not depend on free slots or devices, or is exactly 0 where only rounding is left."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped


def tree_sum(values: Shaped[Array, "n ..."]) -> Shaped[Array, "..."]:
    """Return the sum of a power of two of values, by halves: zeros that double their number change no bit of it."""
    while len(values) > 1:
        half = len(values) // 2
        values = values[:half] + values[half:]
    return values[0]


def exact_sum(values: Float[Array, " n"], group_size: int | None = None) -> Float[Array, ""]:
    """Return the sum of ``values``, and exactly 0 where it is no more than rounding.

    Adding pairwise, log2(G) levels deep, errs by at most log2(G) eps sum |v|, and each value arrives with a few eps of
    rounding; a sum below that bound carries no digit that means anything. G is ``group_size`` where each value is
    itself a sum, of equal numbers, and otherwise n. In float32, whose eps is 1.2e-7, whatever .1 + .2 - .3 comes to is
    set to 0 up to a size of 10 eps (.1 + .2 + .3) = 7e-7.
    """
    total, size = values, jnp.abs(values)
    for _ in range((len(values) - 1).bit_length()):
        total, size = _fold(total), _fold(size)
    return _drop_rounding(total[0], size[0], ((group_size or len(values)) - 1).bit_length())


def exact_segment_sums(values: Float[Array, " n"], segments: Int[Array, " n"], count: int) -> Float[Array, " count"]:
    """Return ``exact_sum`` of each of the segments 0 to ``count`` - 1; ``segments`` names that of each value.

    The values of a segment, sorted side by side, are added to those 1, 2, 4, ... positions before them: pairwise too.
    """
    if count == 1:
        return exact_sum(values)[None]
    order = jnp.argsort(segments, stable=True)
    segment, position = segments[order], jnp.arange(len(segments), dtype=jnp.int32)
    levels = (len(segments) - 1).bit_length()

    def add(level: Int[Array, ""], sums: Float[Array, " n"]) -> Float[Array, " n"]:
        before = position - (1 << level)
        return sums + jnp.where((before >= 0) & (segment[before] == segment), sums[before], 0)

    sums = jax.lax.fori_loop(0, levels, add, values[order])
    last = jnp.concatenate([segment[1:] != segment[:-1], jnp.ones(1, bool)])
    total = jnp.zeros(count, values.dtype).at[jnp.where(last, segment, count)].set(sums, mode="drop")
    size = jnp.zeros(count, values.dtype).at[segments].add(jnp.abs(values))
    return _drop_rounding(total, size, levels)


def _drop_rounding(total: Float[Array, "*n"], size: Float[Array, "*n"], levels: int) -> Float[Array, "*n"]:
    bound = (levels + 8) * float(np.finfo(total.dtype).eps) * size
    return jnp.where(jnp.abs(total) <= bound, jnp.zeros_like(total), total)


def _fold(values: Float[Array, " n"]) -> Float[Array, " m"]:
    """Add the second half to the first."""
    even = jnp.pad(values, (0, values.shape[0] % 2))
    half = even.shape[0] // 2
    return even[:half] + even[half:]
