"""Leave only the likeliest tokens of a distribution: top-k, top-p and min-p."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class Truncation(NamedTuple):
    """Limits on the tokens that may be drawn; tokens as likely as the last one that may be drawn may be too.

    Attributes:
        top_k: the k likeliest; 0 for all.
        top_p: of these, the likeliest ones whose probabilities together reach this share; 1 for all.
        min_p: of these, those with at least this share of the likeliest one's probability; 0 for all.
    """

    top_k: Int[Array, ""]
    top_p: Float[Array, ""]
    min_p: Float[Array, ""]

    def cut(self, logp: Float[Array, "*B V"]) -> Float[Array, "*B V"]:
        """The distribution of the tokens that are left; minus infinity for the others."""
        of_k = _if(self.top_k > 0, lambda p: most_likely(p, self.top_k), logp)
        of_p = _if(self.top_p < 1, lambda p: nucleus(p, self.top_p), of_k)
        return _if(self.min_p > 0, lambda p: p >= self.min_p * jnp.max(p, axis=-1, keepdims=True), of_p)


def _if(
    condition: Bool[Array, ""], mask: Callable[[Array], Bool[Array, "*B V"]], logp: Float[Array, "*B V"]
) -> Float[Array, "*B V"]:
    def cut(logp: Array) -> Array:
        return jax.nn.log_softmax(jnp.where(mask(jnp.exp(logp)), logp, -jnp.inf), axis=-1)

    result: Array = jax.lax.cond(condition, cut, lambda logp: logp, logp)
    return result


def most_likely(p: Float[Array, "*B V"], k: Int[Array, ""]) -> Bool[Array, "*B V"]:
    """The k likeliest tokens, and those as likely as the last of them."""
    return _likeliest(p, lambda mask: jnp.sum(mask, axis=-1, keepdims=True) >= k)


def nucleus(p: Float[Array, "*B V"], top_p: Float[Array, ""]) -> Bool[Array, "*B V"]:
    """The likeliest tokens whose probabilities reach ``top_p``, and those as likely as the last of them."""
    reached = top_p.astype(p.dtype)
    return _likeliest(p, lambda mask: jnp.sum(jnp.where(mask, p, 0), axis=-1, keepdims=True) >= reached)


def _likeliest(p: Float[Array, "*B V"], enough: Callable[[Array], Bool[Array, "*B 1"]]) -> Bool[Array, "*B V"]:
    """The fewest of the likeliest tokens that are enough.

    The last one's probability is found by halving: positive floats are ordered as the integers of their bits are. That
    takes a pass over the probabilities for each bit, and no sorting, which on a CPU is slower by far.
    """
    integer = jnp.int64 if p.dtype == jnp.float64 else jnp.int32
    order = jax.lax.bitcast_convert_type(p, integer)

    def halve(_: Any, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        reached, missed = bounds
        middle = reached + (missed - reached) // 2
        is_enough = enough(order >= middle)
        return jnp.where(is_enough, middle, reached), jnp.where(is_enough, missed, middle)

    missed = jnp.max(order, axis=-1, keepdims=True) + 1
    reached, _ = jax.lax.fori_loop(0, 8 * p.dtype.itemsize, halve, (jnp.zeros_like(missed), missed))
    mask: Array = order >= reached
    return mask
