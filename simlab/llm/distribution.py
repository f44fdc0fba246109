"""The distribution that a token is drawn from: the model's at a temperature, perhaps truncated."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from simlab.llm.truncation import Truncation
from simlab.simulator.sampling import ROWS, draw


def log_distribution(
    logits: Float[Array, "*B V"], temperature: Float[Array, ""], truncation: Truncation
) -> Float[Array, "*B V"]:
    """The log-probabilities that tokens are drawn with; minus infinity for those that never are.

    softmax(logits / temperature), or all on the first of the likeliest tokens at temperature 0, truncated and
    renormalised.
    """
    best = jnp.argmax(logits, axis=-1, keepdims=True) == jnp.arange(logits.shape[-1])
    # From the largest logit down, so that a small temperature overflows to minus infinity at most.
    below = logits - jnp.max(logits, axis=-1, keepdims=True)
    safe = jnp.where(temperature > 0, temperature, 1).astype(logits.dtype)
    logp = jnp.where(temperature > 0, jax.nn.log_softmax(below / safe, axis=-1), jnp.where(best, 0.0, -jnp.inf))
    return truncation.cut(logp)


def entropy(logp: Float[Array, "*B V"]) -> Float[Array, "*B"]:
    """-sum p log p, in nats; a token of probability 0 adds nothing."""
    return -jnp.sum(jnp.where(logp > -jnp.inf, jnp.exp(logp) * logp, 0), axis=-1)


def draw_token(key: PRNGKeyArray, logp: Float[Array, " V"]) -> Int[Array, ""]:
    """A token with these log-probabilities; one of probability 0 is never drawn."""
    rows = min(ROWS, max(2, math.isqrt(logp.shape[-1])))
    return draw(key, jnp.exp(logp), 1, rows)[0].astype(jnp.int32)
