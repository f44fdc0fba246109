"""Sums that no free slot changes, sums that are exactly 0 where only rounding is left, and draws from a tree of sums.

A draw from a tree chooses first 1024 slots, then 32 of these, then one, each by its sum of weights.

A draw does not depend on how many free slots follow the ones in use: free ones weigh 0, sums over all slots are taken
by halves (``tree_sum``), and below them everything is counted in whole grains. Where runs are batched a gather of one
number costs as much as one of 32 in a row, so a level is a row of 32, searched by comparing with all of it. Of 2048
slots, 3, 70 and 1030 have the weights 1, 2 and 5, and the others 0; the random numbers are 0.25, 0.5 and 0.9::

    chunks of 1024    3 and 5                        0.25 x 8 = 2 is first exceeded by 3: chunk 0
    rows of 32        1, 0, 2, 0, 0, ...             0.5 x 3 = 1.5 is first exceeded by 1 + 0 + 2: row 2
    slots 64 to 95    0, but for a 2 at slot 70      0.9 x 2 = 1.8 is first exceeded there: slot 70
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped, UInt32

from simlab.simulator.sampling import fraction, to_grains

ROW = 32
CHUNK = ROW * ROW


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
    even = jnp.pad(values, (0, values.shape[0] % 2))
    half = even.shape[0] // 2
    return even[:half] + even[half:]


def row_sums(values: Float[Array, " n"]) -> Float[Array, " n/32"]:
    """Return the sums of 32 values in a row each."""
    return jnp.sum(values.reshape(-1, ROW), axis=1)


def descend(
    words: UInt32[Array, "3 G"],
    weights: Float[Array, " S"],
    counts: Float[Array, " C"],
    rows: Float[Array, " S/32"],
    chunks: Float[Array, " S/1024"],
) -> Int[Array, " G"]:
    """Draw slots in proportion to their masses: count times weight for the first C, weight for the others.

    ``rows`` are the sums of the masses of 32 slots each, ``chunks`` those of 32 rows each; each draw has a random word
    a level, whose shares are off by up to 2^-31.
    """
    sums, shift = to_grains(chunks[:, None], tree_sum(chunks)[None])[:, 0], 1
    while shift < len(sums):
        sums, shift = sums + jnp.pad(sums[:-shift], (shift, 0)), 2 * shift
    threshold = fraction(sums[-1], words[0])
    chunk = jnp.sum((sums <= threshold[:, None])[:, :-1], axis=1, dtype=jnp.int32)
    row = ROW * chunk + _draw_in_row(rows.reshape(-1, ROW)[chunk], words[1])
    return ROW * row + _draw_in_row(row_masses(row, weights, counts), words[2])


def row_masses(row: Int[Array, " G"], weights: Float[Array, " S"], counts: Float[Array, " C"]) -> Float[Array, "G 32"]:
    """Return the masses of the slots of some rows."""
    several = jnp.pad(counts, (0, -len(counts) % ROW), constant_values=1).reshape(-1, ROW)
    multiplicity = jnp.where((row < len(several))[:, None], several[jnp.minimum(row, len(several) - 1)], 1)
    return weights.reshape(-1, ROW)[row] * multiplicity


def _draw_in_row(masses: Float[Array, "G 32"], words: UInt32[Array, " G"]) -> Int[Array, " G"]:
    """Draw an index of each row of masses by its random word, in proportion to them."""
    columns = to_grains(masses.T, jnp.sum(masses, axis=1))
    sums = [columns[0]]
    for column in columns[1:]:
        sums.append(sums[-1] + column)
    threshold = fraction(sums[-1], words)
    index = jnp.zeros(len(masses), jnp.int32)
    for reached in sums[:-1]:
        index += reached <= threshold
    return index
