"""Drawing a group of actions from unnormalised weights, without G x N noise.

A block of actions is drawn by its mass, then a member of the block by its own: two uniforms a draw. One uniform of 24
bits could not resolve probabilities below 6e-8, and with 10^5 actions most are near that. Small groups add up only the
blocks they drew; large ones add up every block once and search it.
"""

import jax
import jax.numpy as jnp
from jax.extend.random import threefry_2x32
from jaxtyping import Array, Float, Int, PRNGKeyArray

BLOCK = 128


def draw(key: PRNGKeyArray, weights: Float[Array, " N"], group_size: int) -> Int[Array, " G"]:
    """``group_size`` i.i.d. actions with probabilities proportional to ``weights``.

    An action of weight 0 is never drawn.
    """
    blocks = _in_blocks(weights)
    first, second = _uniform_pairs(key, group_size, weights.dtype)
    if group_size < blocks.shape[0]:
        totals = jnp.sum(blocks, axis=1)
        block = _search(jnp.cumsum(totals)[None, :], jnp.zeros_like(first, dtype=jnp.int32), first)
        within = jnp.cumsum(blocks[block], axis=1)
        member = _search(within, jnp.arange(group_size, dtype=jnp.int32), second)
    else:
        within = jnp.cumsum(blocks, axis=1)
        block = _search(jnp.cumsum(within[:, -1])[None, :], jnp.zeros_like(first, dtype=jnp.int32), first)
        member = _search(within, block, second)
    return block * BLOCK + member


def _in_blocks(weights: Float[Array, " N"]) -> Float[Array, "B M"]:
    padding = -weights.shape[0] % BLOCK
    return jnp.pad(weights, (0, padding)).reshape(-1, BLOCK)


def _uniform_pairs(key: PRNGKeyArray, count: int, dtype: jnp.dtype) -> tuple[Float[Array, " G"], Float[Array, " G"]]:
    """Two independent uniforms in [0, 1) a draw; in float32 both come from one hash of the counter."""
    if dtype == jnp.float64:
        pairs = jax.random.uniform(key, (2, count), dtype)
        return pairs[0], pairs[1]
    words = threefry_2x32(jax.random.key_data(key), jnp.arange(2 * count, dtype=jnp.uint32))
    uniforms = (words >> 8).astype(dtype) * 2.0**-24
    return uniforms[:count], uniforms[count:]


def _search(cumulative: Float[Array, "R M"], row: Int[Array, " G"], uniform: Float[Array, " G"]) -> Int[Array, " G"]:
    """First column of ``cumulative[row]`` that exceeds ``uniform`` times the row's total.

    A branch-free binary search: log2(M) gathers a draw, where ``jnp.searchsorted`` costs three times as much. It is
    a loop because XLA, given the probes unrolled, repeats the earlier ones inside each later one.
    """
    rows, columns = cumulative.shape
    width = 1 << (columns - 1).bit_length()
    # Never-reached padding, so that every probe of the search stays inside the row.
    padded = jnp.pad(cumulative, ((0, 0), (0, width - columns)), constant_values=jnp.inf)
    flat, start = padded.reshape(-1), row * width
    total = cumulative[:, -1][row] if rows > 1 else cumulative[0, -1]
    # Rounding can lift uniform * total to total, where no column exceeds it.
    threshold = jnp.minimum(uniform * total, jnp.nextafter(total, jnp.zeros_like(total)))

    def probe(level: Int[Array, ""], position: Int[Array, " G"]) -> Int[Array, " G"]:
        step = (width // 2) >> level
        return jnp.where(flat[position + step - 1] <= threshold, position + step, position)

    found: Int[Array, " G"] = jax.lax.fori_loop(0, width.bit_length() - 1, probe, start)
    return found - start
