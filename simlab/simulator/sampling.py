"""Draw a group of actions from unnormalised weights, by two random numbers a draw.

A block of actions is drawn by its mass, then a member of the block by its own mass. With 10^5 actions most
probabilities are near 1e-7 and a likely neighbour may be 10^8 times likelier, which float32 sums cannot resolve: in
float32 the masses are counted in whole grains of 2^-31 of their sum, and a random number has 32 bits. Small groups add
up only the blocks they drew; large ones add up every block once and search it. Of B blocks, block b holds the actions
b, B + b, 2 B + b, ...: a column, so that summing a row at a time uses the vector unit. Ten actions in blocks of four,
so that B = 3, where actions 0, 4, 8 and 9 have the weights 4, 2, 1 and 1::

    block     0  1  2    its masses are 5, 2 and 1, their running sums 5, 7 and 8
    row 0     4  0  0    random numbers 0.7 and 0.2: 0.7 x 8 = 5.6, first exceeded by the 7 of block 1;
    row 1     0  2  0    0.2 x 2 = 0.4, first exceeded in the running sums 0, 2, 2, 2 of that block by row 1;
    row 2     0  0  1    the action is 1 x 3 + 1 = 4
    row 3     1  0  0    random numbers 0.5 and 0.9: 4.0, so block 0; 4.5 of 4, 4, 4, 5, so row 3: action 3 x 3 + 0 = 9

A draw from a tree of sums chooses first 1024 slots, then 32 of these, then one, each by its sum of weights. It does not
depend on how many free slots follow the ones in use: free ones weigh 0, sums over all slots are taken by halves
(``tree_sum``), and below them everything is counted in whole grains. Where runs are batched a gather of one number
costs as much as one of 32 in a row, so a level is a row of 32, searched by comparing with all of it. Of 2048 slots, 3,
70 and 1030 have the weights 1, 2 and 5, and the others 0; the random numbers are 0.25, 0.5 and 0.9::

    chunks of 1024    3 and 5                        0.25 x 8 = 2 is first exceeded by 3: chunk 0
    rows of 32        1, 0, 2, 0, 0, ...             0.5 x 3 = 1.5 is first exceeded by 1 + 0 + 2: row 2
    slots 64 to 95    0, but for a 2 at slot 70      0.9 x 2 = 1.8 is first exceeded there: slot 70
"""

import functools
import operator
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import threefry_2x32
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped, UInt32

# Timed by benchmarks/constants.py: blocks of 32 to 512 rows take about as long, and so do few of 8 to 32; few of 4 take
# five times as long.
ROWS = 128
FEW = 8
MEMBER_STREAM = 3  # folded into a key that itself draws blocks
GRAINS = 2.0**31
ROW = 32
CHUNK = ROW * ROW
Sums = Shaped[Array, "M B"]  # float64, or uint32 grains
Randoms = Shaped[Array, " G"]  # float64 in [0, 1), or uint32, to be read as a fraction of 2^32
Values = TypeVar("Values")
Words = UInt32[Array, "..."]
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


def barrier(values: Values) -> Values:
    """Return the same values, computed once and here: XLA moves or repeats no computation across this point."""
    computed: Values = jax.lax.optimization_barrier(values)  # type: ignore[no-untyped-call]
    return computed


def threefry(key: PRNGKeyArray, first: Words, second: Words) -> tuple[Words, Words]:
    """Return two random words for each two words of a counter: Threefry-2x32 (Salmon et al. 2011), as JAX has it."""
    words: UInt32[Array, " 2"] = jax.random.key_data(key)
    schedule = (words[0], words[1], words[0] ^ words[1] ^ PARITY)
    first, second = first + schedule[0], second + schedule[1]
    for block in range(5):
        for distance in ROTATIONS[block % 2]:
            first = first + second
            second = ((second << distance) | (second >> (32 - distance))) ^ first
        first = first + schedule[(block + 1) % 3]
        second = second + schedule[(block + 2) % 3] + (block + 1)
    return first, second


def draw(key: PRNGKeyArray, weights: Float[Array, " N"], group_size: int, rows: int = ROWS) -> Int[Array, " G"]:
    """Draw ``group_size`` i.i.d. actions in proportion to ``weights``, off by up to 2^-31 of a block and of all."""
    blocks = to_blocks(weights, rows)
    first, second = random_pairs(key, group_size, weights.dtype)
    return draw_member(blocks, draw_block(jnp.sum(blocks, axis=0), first), second)


def draw_few(key: PRNGKeyArray, weights: Float[Array, " N"], group_size: int) -> Int[Array, " G"]:
    """Draw as ``draw`` does, in a third of the time if N is some 50 times ``group_size``: blocks by blocks."""
    blocks = to_blocks(weights, FEW)
    # As jnp.sum, whose kernel on a CPU adds in the same order, and for so few rows takes four times as long.
    low, high = (functools.reduce(operator.add, four) for four in jnp.split(blocks, 2))
    block = draw(key, low + high, group_size, rows=2 * FEW)
    randoms, _ = random_pairs(jax.random.fold_in(key, MEMBER_STREAM), group_size, weights.dtype)
    return draw_member(blocks, block, randoms)


def draw_columns(key: PRNGKeyArray, weights: Float[Array, "N G"]) -> Int[Array, " G"]:
    """Draw an action of each of G policies, each a column of weights; a probability is off by up to 2^-31."""
    randoms, _ = random_pairs(key, weights.shape[1], weights.dtype)
    return _draw_rows(weights, randoms)


def draw_block(masses: Float[Array, " B"], randoms: Randoms) -> Int[Array, " G"]:
    """Draw a block for each random number, by its mass."""
    totals = _to_countable(masses[:, None])
    return _search(jnp.cumsum(totals, axis=0), jnp.zeros(len(randoms), dtype=jnp.int32), randoms)


def draw_member(blocks: Float[Array, "M B"], block: Int[Array, " G"], randoms: Randoms) -> Int[Array, " G"]:
    """Draw a member of each of some blocks, by its weight: row r of block b is action r B + b."""
    if 4 * len(block) < blocks.shape[1]:
        return _draw_rows(blocks[:, block], randoms) * blocks.shape[1] + block
    return _search(running_sums(_to_countable(blocks)), block, randoms)


def _draw_rows(weights: Float[Array, "M G"], randoms: Randoms) -> Int[Array, " G"]:
    index = _search(running_sums(_to_countable(weights)), jnp.arange(len(randoms), dtype=jnp.int32), randoms)
    return jax.lax.div(index, jnp.int32(len(randoms)))


def to_blocks(weights: Shaped[Array, " N"], rows: int) -> Shaped[Array, "M B"]:
    """Pad the weights with 0 and lay them in blocks of ``rows``: block b is column b."""
    padding = -weights.shape[0] % rows
    return jnp.pad(weights, (0, padding)).reshape(rows, -1)


def random_pairs(key: PRNGKeyArray, count: int, dtype: jnp.dtype) -> tuple[Randoms, Randoms]:
    """Make two independent random numbers a draw."""
    if dtype == jnp.float64:
        pairs = jax.random.uniform(key, (2, count), dtype)
        return pairs[0], pairs[1]
    counter = jnp.arange(count, dtype=jnp.uint32)
    return threefry(key, counter, counter + count)


def random_words(key: PRNGKeyArray, rows: int, count: int) -> UInt32[Array, "rows count"]:
    """Make independent random words, from one hash of the counter."""
    words: UInt32[Array, " H"] = threefry_2x32(jax.random.key_data(key), jnp.arange(rows * count, dtype=jnp.uint32))
    return words.reshape(rows, count)


def _to_countable(masses: Float[Array, "M B"]) -> Sums:
    return masses if masses.dtype == jnp.float64 else to_grains(masses, jnp.sum(masses, axis=0))


def to_grains(masses: Float[Array, "M B"], total: Float[Array, " B"]) -> UInt32[Array, "M B"]:
    """Convert the masses of each column, which sum to ``total``, to whole grains."""
    shares = masses / jnp.where(total > 0, total, jnp.ones_like(total))
    return jnp.round(shares * GRAINS).astype(jnp.uint32)


def running_sums(masses: Sums) -> Sums:
    """Return cumulative sums down each column, by the way that suits the device the program is lowered for."""
    sums: Sums = jax.lax.platform_dependent(masses, cpu=sums_by_rows, default=sums_at_once)
    return sums


def sums_by_rows(masses: Sums) -> Sums:
    """Return cumulative sums down each column, a row at a time: on a CPU eight times as fast as ``jnp.cumsum``."""

    def add(above: Array, row: Array) -> tuple[Array, Array]:
        return above + row, above + row

    sums: Sums = jax.lax.scan(add, jnp.zeros_like(masses[0]), masses)[1]
    return sums


sums_at_once = functools.partial(jnp.cumsum, axis=0)  # in the logarithm of the number of rows


def _search(cumulative: Sums, column: Int[Array, " G"], randoms: Randoms) -> Int[Array, " G"]:
    """Find the first row of each ``column`` that exceeds the random fraction of the column's total."""
    total = look_up(cumulative[-1], column) if cumulative.shape[1] > 1 else cumulative[-1, 0]
    if randoms.dtype == jnp.float64:  # rounding could lift the fraction to the total itself
        threshold = jnp.minimum(randoms * total, jnp.nextafter(total, jnp.zeros_like(total)))
    else:
        threshold = _partitioned_fraction(total, randoms)
    return first_above(cumulative, column, threshold)


def first_above(cumulative: Sums, column: Int[Array, " G"], threshold: Shaped[Array, " G"]) -> Int[Array, " G"]:
    """Find the first row of each ``column`` that exceeds a threshold below the column's total, as r B + b.

    A branch-free binary search: ``jnp.searchsorted`` costs three times as much, and XLA repeats unrolled probes.
    """
    rows, columns = cumulative.shape
    height = 1 << (rows - 1).bit_length()
    # Never-reached padding, so that every probe of the search stays inside the column.
    flat = jnp.pad(cumulative, ((0, height - rows), (0, 0)), mode="edge").reshape(-1)

    def probe(level: Int[Array, ""], position: Int[Array, " G"]) -> Int[Array, " G"]:
        step = ((height // 2) >> level) * columns
        return jnp.where(look_up(flat, position + step - columns) <= threshold, position + step, position)

    index: Int[Array, " G"] = jax.lax.fori_loop(0, height.bit_length() - 1, probe, column)
    return jnp.minimum(index, (rows - 1) * columns + column)  # inside the column for weights that are not finite too


def look_up(values: Shaped[Array, " n"], index: Int[Array, " G"]) -> Shaped[Array, " G"]:
    """Return ``values[index]``, unchecked, which took a fifth of a draw's time; past the end it is the last one."""
    return values.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def fraction(total: UInt32[Array, "..."], words: UInt32[Array, " G"]) -> UInt32[Array, " G"]:
    """Return ``words`` 2^-32 times ``total``, rounded down: below ``total``."""
    return jax.lax.mulhi(words, jnp.broadcast_to(total, words.shape))


def _partitioned_fraction(total: UInt32[Array, "..."], words: UInt32[Array, " G"]) -> UInt32[Array, " G"]:
    """Return ``fraction`` by halves of words: XLA does not compile ``mulhi``, which is quicker, for several devices."""
    high, low = total >> 16, total & 0xFFFF
    words_high, words_low = words >> 16, words & 0xFFFF
    middle = high * words_low + (low * words_low >> 16)
    return high * words_high + (middle >> 16) + ((middle & 0xFFFF) + low * words_high >> 16)


# Sums


def tree_sum(values: Shaped[Array, "n ..."]) -> Shaped[Array, "..."]:
    """Return the sum of a power of two of values, by halves: zeros that double their number change no bit of it."""
    while len(values) > 1:
        half = len(values) // 2
        values = values[:half] + values[half:]
    return values[0]


def exact_sum(values: Float[Array, " n"], group_size: int | None = None) -> Float[Array, ""]:
    """Return the sum of ``values``, and exactly 0 where it is no more than rounding.

    Adding pairwise, log2(G) levels deep, errs by at most log2(G) eps sum |v|; G is ``group_size`` where each value is
    itself a sum of equal numbers. In float32, .1 + .2 - .3 is set to 0 up to 10 eps (.1 + .2 + .3) = 7e-7.
    """
    total, size = values, jnp.abs(values)
    for _ in range((len(values) - 1).bit_length()):
        total, size = _fold(total), _fold(size)
    return _drop_rounding(total[0], size[0], ((group_size or len(values)) - 1).bit_length())


def exact_segment_sums(values: Float[Array, " n"], segments: Int[Array, " n"], count: int) -> Float[Array, " count"]:
    """Return ``exact_sum`` of each of the segments 0 to ``count`` - 1: pairwise too, of values sorted side by side."""
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
    """Draw slots in proportion to their masses (count times weight for the first C), by sums of rows and of chunks."""
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
