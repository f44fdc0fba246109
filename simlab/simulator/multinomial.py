"""Draw how often each action occurs in a group, without drawing the group.

The counts of Poisson many draws are independent Poisson numbers. So all counts are drawn at once, of a number of draws
that is a little below the group size; the few draws that the group still lacks are made one by one. A group of 16 from
actions of probability 3/4 and 1/4::

    mean number of draws   8 = 16 - min(3 sqrt(16), 16 / 2)
    means of the actions   6 and 2
    means of the cells     3, 2 and 3    the first action has two cells, since 6 exceeds 4; its second one is in a slot
    counts of the cells    2, 3 and 3    for example: 8 draws, at most 16 and not too few, so they are kept
    counts of the actions  2 + 3 = 5 and 3, and of the 8 draws that lack, made one by one, perhaps 6 and 2: 11 and 5
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from simlab.simulator.sampling import barrier, draw_few, first_above, look_up, running_sums, threefry, to_blocks

# Timed by benchmarks/constants.py beside half and twice the mean, and one deviation less and more.
SPREAD = 3.0  # standard deviations from the mean of T to G: one group in 400 is drawn again
LARGEST_MEAN = 4.0  # of a cell: the smaller, the more cells; the larger, the more terms of the distribution of each
SHIFT = 16  # a pair of counts shares a word
Cells = Float[Array, "2 H"]
Attempt = tuple[Int[Array, ""], Int[Array, ""], Int[Array, " H"]]  # how many before it, the sum and pairs of counts
Cumulate = Callable[[Array], Array]


def multinomial(
    key: PRNGKeyArray, weights: Float[Array, " N"], total: Float[Array, ""], group_size: int
) -> Int[Array, " N"]:
    """Draw how often each action occurs among ``group_size`` i.i.d. ones: multinomial(group_size, weights / total).

    T, the sum of independent Poisson(lambda w_i / total), is kept if at most G and not too far below it, and drawn
    again if not. Given T the counts are multinomial(T, p), and G - T further draws complete them: the law is exact for
    every lambda and every bound on T. Rounding is a relative error of some 2^-24 of each probability in float32; cells
    leave out counts that together have one below 2^-31.
    """
    missing = min(SPREAD * math.sqrt(group_size), group_size / 2)
    slots = min(group_size, math.ceil(2 * missing))
    actions = weights.shape[0]
    means, owners = split_means(weights * ((group_size - missing) / total), math.ceil(group_size / LARGEST_MEAN))

    def must_repeat(carry: Attempt) -> Bool[Array, ""]:
        unfit = (carry[1] > group_size) | (carry[1] < group_size - slots)
        return unfit & (jnp.isfinite(total) | (carry[0] == 0))  # a policy that is not finite takes any counts

    def attempt(carry: Attempt) -> Attempt:
        # Or XLA makes every power of the means, which no attempt changes, before the loop.
        index, cell_means = barrier((carry[0], means))
        pairs = poisson_pairs(key, index, cell_means)
        low, high = _unpack(pairs)
        return carry[0] + 1, jnp.sum(low + high, dtype=jnp.int32), pairs

    zero = jnp.zeros((), jnp.int32)
    _, drawn, pairs = jax.lax.while_loop(must_repeat, attempt, (zero, zero - 1, jnp.zeros(means.shape[1], jnp.int32)))
    counts = jnp.concatenate(_unpack(pairs))
    lacking = jnp.arange(slots, dtype=jnp.int32) < group_size - drawn
    extra = jnp.where(lacking, draw_few(key, weights, slots), actions)
    more = jnp.concatenate([counts[actions : actions + len(owners)], jnp.ones_like(extra)])
    return counts[:actions].at[jnp.concatenate([owners, extra])].add(more, mode="drop")


def split_means(means: Float[Array, " N"], slots: int) -> tuple[Cells, Int[Array, " V"]]:
    """Split means into cells no larger than ``LARGEST_MEAN``, whose Poisson counts add up to counts with ``means``.

    The first N cells belong to the actions; a larger mean is divided evenly among its cell and some of the ``slots``
    after those. Returns the means of the cells, in two rows read one after the other, and the action of each slot, N
    for none.
    """
    others = jnp.floor(means / LARGEST_MEAN)
    each = means / (others + 1)
    owners = _slot_owners(others.astype(jnp.int32), slots)
    shared = jnp.where(owners < len(means), look_up(each, jnp.minimum(owners, len(means) - 1)), 0)
    every = jnp.concatenate([each, shared])
    return jnp.pad(every, (0, len(every) % 2)).reshape(2, -1), owners


def _slot_owners(sizes: Int[Array, " N"], slots: int) -> Int[Array, " V"]:
    """Lay intervals of these sizes end to end in some order, and return the one that holds each slot, N for none."""
    sums = running_sums(to_blocks(sizes, 8))
    ends = _running(jnp.add, jax.lax.cumsum, sums[-1])
    starts, numbers = ends - sums[-1], jnp.arange(len(ends), dtype=jnp.int32)
    marks = jnp.zeros(slots, jnp.int32).at[jnp.where(sums[-1] > 0, starts, slots)].set(numbers, mode="drop")
    block, slot = _running(jnp.maximum, jax.lax.cummax, marks), jnp.arange(slots, dtype=jnp.int32)
    owner = first_above(sums, block, slot - look_up(starts, block))
    return jnp.where(slot < ends[-1], owner, len(sizes))


def _running(add: Callable[[Array, Array], Array], cumulate: Cumulate, values: Int[Array, " n"]) -> Int[Array, " n"]:
    on_cpu = functools.partial(side_by_side, add, cumulate)
    running: Int[Array, " n"] = jax.lax.platform_dependent(values, cpu=on_cpu, default=cumulate)
    return running


def side_by_side(
    add: Callable[[Array, Array], Array], cumulate: Cumulate, values: Int[Array, " n"]
) -> Int[Array, " n"]:
    """Return ``cumulate(values)``, by many stretches side by side: on a CPU this uses the vector unit."""
    stretches = to_blocks(values, -(-len(values) // 16)).T

    def row(above: Array, values: Array) -> tuple[Array, Array]:
        return add(above, values), add(above, values)

    sums = jax.lax.scan(row, jnp.zeros_like(stretches[0]), stretches)[1]
    before = jnp.pad(cumulate(sums[-1])[:-1], (1, 0))
    return add(sums, before).T.reshape(-1)[: len(values)]


def poisson_pairs(key: PRNGKeyArray, attempt: Int[Array, ""], means: Cells) -> Int[Array, " H"]:
    """Draw Poisson counts of two rows in one output, low + 2^16 high: XLA would hash the counter once for each."""
    low, high = map(_poisson, means, _uniform_rows(key, attempt, means))
    return low + (high << SHIFT)


def _unpack(pairs: Int[Array, " H"]) -> tuple[Int[Array, " H"], Int[Array, " H"]]:
    return pairs & ((1 << SHIFT) - 1), pairs >> SHIFT


def _uniform_rows(
    key: PRNGKeyArray, attempt: Int[Array, ""], means: Cells
) -> tuple[Float[Array, " H"], Float[Array, " H"]]:
    """Draw uniform numbers in (0, 1): multiples of a grain, plus one uniform fraction of a grain for all of them."""
    half, dtype = means.shape[1], means.dtype
    counter = jnp.arange(half, dtype=jnp.uint32)
    # Counters that ``draw_few`` does not use, so that one key serves both.
    stream = jnp.uint32(2**31) + 4 * attempt.astype(jnp.uint32)
    fraction = ((threefry(key, jnp.zeros_like(stream), stream)[0] >> 8).astype(dtype) + 0.5) * 2.0**-24
    first, second = threefry(key, counter, jnp.broadcast_to(stream + 1, counter.shape))
    if dtype == jnp.float64:
        third, fourth = threefry(key, counter, jnp.broadcast_to(stream + 2, counter.shape))
        low, high = ((words.astype(dtype) + fraction) * 2.0**-32 for words in (second, fourth))
        return (first.astype(dtype) + low) * 2.0**-32, (third.astype(dtype) + high) * 2.0**-32
    # 31 bits, because the conversion of signed words is one instruction.
    low, high = ((words >> 1).astype(jnp.int32).astype(dtype) + fraction for words in (first, second))
    return low * 2.0**-31, high * 2.0**-31


def _poisson(mean: Float[Array, " H"], uniform: Float[Array, " H"]) -> Int[Array, " H"]:
    """Draw Poisson counts by inversion: how many k >= 1 have P(count >= k) above a uniform number, 0 for a mean of 0.

    exp(mean) P(count >= k) = sum_{j >= k} mean^j / j!, added up from its smallest term, in one pass over the cells.
    """
    threshold = uniform * jnp.exp(mean)
    power, terms = jnp.ones_like(mean), []
    for k in range(1, last_count(31 if mean.dtype == jnp.float32 else 63) + 1):
        power = power * mean
        terms.append(power * (1 / math.factorial(k)))
    survival, counts = jnp.zeros_like(mean), jnp.zeros(mean.shape, jnp.int32)
    for term in reversed(terms):
        survival = survival + term
        counts = counts + (threshold < survival).astype(jnp.int32)
    return counts


def last_count(bits: int) -> int:
    """Return the count that a cell exceeds with a probability below 2^-bits."""
    count, term = 0, math.exp(-LARGEST_MEAN)
    while True:
        count, term = count + 1, term * LARGEST_MEAN / (count + 1)
        following = LARGEST_MEAN / (count + 1)
        if following < 1 and term * following / (1 - following) < 2.0**-bits:
            return count
