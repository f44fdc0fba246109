"""The distribution that a token is drawn from: the model's at a temperature, of the likeliest tokens if truncated."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from simlab.simulator.sampling import ROWS, draw


class Truncation(NamedTuple):
    """Limits on the tokens that may be drawn; tokens as likely as the last one that may be drawn may be too."""

    top_k: Int[Array, ""]  # the k likeliest; 0 for all
    top_p: Float[Array, ""]  # of these, the likeliest whose probabilities together reach this share; 1 for all
    min_p: Float[Array, ""]  # of these, those with at least this share of the likeliest one's probability; 0 for all

    def cut(self, logp: Float[Array, "*B V"]) -> Float[Array, "*B V"]:
        """Renormalise over the tokens that are left; minus infinity for the others."""
        of_k = _if(self.top_k > 0, lambda p: most_likely(p, self.top_k), logp)
        of_p = _if(self.top_p < 1, lambda p: nucleus(p, self.top_p), of_k)
        return _if(self.min_p > 0, lambda p: p >= self.min_p * jnp.max(p, axis=-1, keepdims=True), of_p)


def log_distribution(
    logits: Float[Array, "*B V"], temperature: Float[Array, ""], truncation: Truncation
) -> Float[Array, "*B V"]:
    """Return log softmax(logits / temperature), truncated; minus infinity for tokens that are never drawn."""
    best = jnp.argmax(logits, axis=-1, keepdims=True) == jnp.arange(logits.shape[-1])
    # From the largest logit down, so that a small temperature overflows to minus infinity at most.
    below = logits - jnp.max(logits, axis=-1, keepdims=True)
    safe = jnp.where(temperature > 0, temperature, 1).astype(logits.dtype)
    logp = jnp.where(temperature > 0, jax.nn.log_softmax(below / safe, axis=-1), jnp.where(best, 0.0, -jnp.inf))
    return truncation.cut(logp)


def entropy(logp: Float[Array, "*B V"]) -> Float[Array, "*B"]:
    """-sum p log p, in nats; a token of probability 0 adds nothing."""
    return -jnp.sum(jnp.where(logp > -jnp.inf, jnp.exp(logp) * logp, 0), axis=-1)


def collision(logp: Float[Array, "*B V"]) -> Float[Array, "*B"]:
    """sum p^2, the chance that two draws are the same token."""
    return jnp.sum(jnp.exp(logp) ** 2, axis=-1)


def draw_token(key: PRNGKeyArray, logp: Float[Array, " V"]) -> Int[Array, ""]:
    """Draw a token with these log-probabilities; never one of probability 0."""
    rows = min(ROWS, max(2, math.isqrt(logp.shape[-1])))
    return draw(key, jnp.exp(logp), 1, rows)[0].astype(jnp.int32)


def _if(condition: Array, mask: Callable[[Array], Array], logp: Float[Array, "*B V"]) -> Float[Array, "*B V"]:
    def cut(logp: Array) -> Array:
        return jax.nn.log_softmax(jnp.where(mask(jnp.exp(logp)), logp, -jnp.inf), axis=-1)

    result: Array = jax.lax.cond(condition, cut, lambda logp: logp, logp)
    return result


def most_likely(p: Float[Array, "*B V"], k: Int[Array, ""]) -> Bool[Array, "*B V"]:
    """Mark the k likeliest tokens, and those as likely as the last of them."""
    return _likeliest(p, lambda mask: jnp.sum(mask, axis=-1, keepdims=True) >= k)


def nucleus(p: Float[Array, "*B V"], top_p: Float[Array, ""]) -> Bool[Array, "*B V"]:
    """Mark the likeliest tokens whose probabilities reach ``top_p``, and those as likely as the last of them."""
    reached = top_p.astype(p.dtype)
    return _likeliest(p, lambda mask: jnp.sum(jnp.where(mask, p, 0), axis=-1, keepdims=True) >= reached)


def _likeliest(p: Float[Array, "*B V"], enough: Callable[[Array], Bool[Array, "*B 1"]]) -> Bool[Array, "*B V"]:
    """Mark the fewest of the likeliest tokens that are enough.

    The last one's probability is found by halving: positive floats are ordered as the integers of their bits are.
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
