"""The softmax policy as the simulator carries it: logits in, stable weights out."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class Policy(NamedTuple):
    """softmax(logits / temperature), unnormalised.

    Attributes:
        scores: (N,) logits / temperature less their maximum.
        weights: (N,) exp(scores).
        total: sum of the weights.
    """

    scores: Float[Array, " N"]
    weights: Float[Array, " N"]
    total: Float[Array, ""]

    @property
    def p(self) -> Float[Array, " N"]:
        """Probabilities."""
        return self.weights / self.total

    @property
    def logp(self) -> Float[Array, " N"]:
        """Log-probabilities, finite however small the probability."""
        return self.scores - jnp.log(self.total)

    def logp_of(self, actions: Int[Array, " G"]) -> Float[Array, " G"]:
        """Log-probabilities of some actions, without those of all others."""
        return self.scores[actions] - jnp.log(self.total)

    def top(self, count: int) -> tuple[Float[Array, " C"], Int[Array, " C"]]:
        """The ``count`` largest log-probabilities, the largest first, and their actions."""
        scores, actions = jax.lax.top_k(self.scores, count)
        return scores - jnp.log(self.total), actions

    @property
    def entropy(self) -> Float[Array, ""]:
        """Entropy in nats."""
        return jnp.log(self.total) - jnp.sum(self.weights * self.scores) / self.total


def softmax(logits: Float[Array, " N"], temperature: Float[Array, ""]) -> Policy:
    """The policy of some logits."""
    scaled = logits / temperature
    scores = scaled - jnp.max(scaled)
    weights = jnp.exp(scores)
    return Policy(scores, weights, jnp.sum(weights))
