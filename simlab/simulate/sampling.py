"""Drawing a group of actions from unnormalised weights, without G x N noise.

A block of actions is drawn by its mass, then a member of the block by its own: two random numbers a draw. With 10^5
actions most probabilities are near 1e-7 and a likely neighbour may be 10^8 times likelier, which float32 sums cannot
resolve: in float32 the masses are counted in whole grains of 2^-31 of their sum, and a random number has 32 bits.
Small groups add up only the blocks they drew; large ones add up every block once and search it.
"""

import jax
import jax.numpy as jnp
from jax.extend.random import threefry_2x32
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped, UInt32

BLOCK = 128
GRAINS = 2.0**31
Sums = Shaped[Array, "R M"]  # float64, or uint32 grains
Randoms = Shaped[Array, " G"]  # float64 in [0, 1), or uint32, to be read as a fraction of 2^32


def draw(key: PRNGKeyArray, weights: Float[Array, " N"], group_size: int) -> Int[Array, " G"]:
    """``group_size`` i.i.d. actions with probabilities proportional to ``weights``.

    An action of weight 0 is never drawn. In float32 a probability is off by up to 2^-31 of the mass of its block,
    and the mass of a block by up to 2^-31.
    """
    blocks = _in_blocks(weights)
    first, second = _random_pairs(key, group_size, weights.dtype)
    totals = jnp.sum(blocks, axis=1)[None, :]
    block = _search(_cumulative(totals), jnp.zeros(group_size, dtype=jnp.int32), first)
    if group_size < blocks.shape[0]:
        member = _search(_cumulative(blocks[block]), jnp.arange(group_size, dtype=jnp.int32), second)
    else:
        member = _search(_cumulative(blocks), block, second)
    return block * BLOCK + member


def _in_blocks(weights: Float[Array, " N"]) -> Float[Array, "B M"]:
    padding = -weights.shape[0] % BLOCK
    return jnp.pad(weights, (0, padding)).reshape(-1, BLOCK)


def _random_pairs(key: PRNGKeyArray, count: int, dtype: jnp.dtype) -> tuple[Randoms, Randoms]:
    """Two independent random numbers a draw; for float32 both come from one hash of the counter."""
    if dtype == jnp.float64:
        pairs = jax.random.uniform(key, (2, count), dtype)
        return pairs[0], pairs[1]
    words: UInt32[Array, " H"] = threefry_2x32(jax.random.key_data(key), jnp.arange(2 * count, dtype=jnp.uint32))
    return words[:count], words[count:]


def _cumulative(masses: Float[Array, "R M"]) -> Sums:
    """Cumulative sums along each row, of whole grains unless in float64."""
    if masses.dtype == jnp.float64:
        return jnp.cumsum(masses, axis=1)
    total = jnp.sum(masses, axis=1, keepdims=True)
    shares = masses / jnp.where(total > 0, total, jnp.ones_like(total))
    return jnp.cumsum(jnp.round(shares * GRAINS).astype(jnp.uint32), axis=1)


def _search(cumulative: Sums, row: Int[Array, " G"], randoms: Randoms) -> Int[Array, " G"]:
    """First column of ``cumulative[row]`` that exceeds the random fraction of the row's total.

    A branch-free binary search: log2(M) gathers a draw, where ``jnp.searchsorted`` costs three times as much. It is
    a loop because XLA, given the probes unrolled, repeats the earlier ones inside each later one.
    """
    rows, columns = cumulative.shape
    width = 1 << (columns - 1).bit_length()
    # Never-reached padding, so that every probe of the search stays inside the row.
    padded = jnp.pad(cumulative, ((0, 0), (0, width - columns)), mode="edge")
    flat, start = padded.reshape(-1), row * width
    total = cumulative[:, -1][row] if rows > 1 else cumulative[0, -1]
    threshold = _fraction(total, randoms)

    def probe(level: Int[Array, ""], position: Int[Array, " G"]) -> Int[Array, " G"]:
        step = (width // 2) >> level
        return jnp.where(flat[position + step - 1] <= threshold, position + step, position)

    found: Int[Array, " G"] = jax.lax.fori_loop(0, width.bit_length() - 1, probe, start)
    return found - start


def _fraction(total: Shaped[Array, "..."], randoms: Randoms) -> Randoms:
    """``randoms`` times ``total``, below ``total``, where rounding could lift it to ``total`` too."""
    if randoms.dtype == jnp.float64:
        return jnp.minimum(randoms * total, jnp.nextafter(total, jnp.zeros_like(total)))
    return jax.lax.mulhi(randoms, jnp.broadcast_to(total, randoms.shape))
