"""The softmax policy as the simulator carries it: logits in, stable weights out."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from simlab.simulate.axis import WHOLE, Axis
from simlab.simulate.barrier import barrier
from simlab.simulate.descent import ROW, row_sums, total

# The logit of a place that stands for no action. Its weight is exactly 0, without a mask in the hot loop.
EMPTY = -1e30


class Policy(NamedTuple):
    """softmax(logits / temperature), unnormalised, over N places.

    Each place is one action, or none where the logit is ``EMPTY``; but the first C places, if there are ``counts``, are
    classes of that many equal actions.

    Attributes:
        scores: (N,) logits / temperature less their maximum.
        weights: (N,) exp(scores), the weight of each action of the place.
        total: sum of the weights of all actions.
        counts: (C,) how many actions each of the first C places stands for, 0 or more; None if all places are actions.
        rows: the sums of the masses of 32 places each, where there are counts.
        chunks: the sums of 32 rows each, likewise.
        axis: where the actions lie.
    """

    scores: Float[Array, " N"]
    weights: Float[Array, " N"]
    total: Float[Array, ""]
    counts: Float[Array, " C"] | None = None
    rows: Float[Array, " N/32"] | None = None
    chunks: Float[Array, " N/1024"] | None = None
    axis: Axis = WHOLE

    @property
    def masses(self) -> Float[Array, " N"]:
        """Unnormalised probability of each place as a whole."""
        return self._of_places(self.weights)

    @property
    def p(self) -> Float[Array, " N"]:
        """Probability of each action of a place."""
        return self.axis.divided(self.weights, self.total)

    @property
    def shares(self) -> Float[Array, " N"]:
        """Probability of each place as a whole."""
        return self._of_places(self.p)

    def _of_places(self, values: Float[Array, " N"]) -> Float[Array, " N"]:
        return values if self.counts is None else values.at[: len(self.counts)].multiply(self.counts)

    @property
    def members(self) -> Float[Array, " N"]:
        """How many actions each place stands for."""
        return self._of_places((self.scores > EMPTY / 2).astype(self.scores.dtype))

    @property
    def logp(self) -> Float[Array, " N"]:
        """Log-probabilities of each action of a place, finite however small the probability."""
        return self.scores - jnp.log(self.total)

    def logp_of(self, actions: Int[Array, " G"]) -> Float[Array, " G"]:
        """Log-probabilities of some actions, without those of all others."""
        return self.axis.at(self.scores, actions) - jnp.log(self.total)

    def top(self, count: int) -> tuple[Float[Array, " C"], Int[Array, " C"]]:
        """The ``count`` largest log-probabilities, the largest first, and the places of these actions."""
        scores, places = self.axis.top(self.scores, count)
        if self.counts is not None and count:
            # A place comes as often as it has members.
            ends = jnp.cumsum(jnp.minimum(self.members[places], count))
            nth = jnp.searchsorted(ends, jnp.arange(count, dtype=ends.dtype), side="right")
            scores, places = scores[nth], places[nth]
        return scores - jnp.log(self.total), places

    @property
    def entropy(self) -> Float[Array, ""]:
        """Entropy in nats."""
        return jnp.log(self.total) - self.sum(self.masses * self.scores) / self.total

    def sum(self, values: Float[Array, " N"]) -> Float[Array, ""]:
        """The sum over all places; where there are counts, whatever the number of free places at the end."""
        return self.axis.sum(values) if self.counts is None else total(row_sums(values))


def softmax(
    logits: Float[Array, " N"],
    temperature: Float[Array, ""],
    counts: Float[Array, " C"] | None = None,
    axis: Axis = WHOLE,
) -> Policy:
    """The policy of some logits; the first places stand for ``counts`` equal actions each, if given."""
    if counts is None:
        scaled = logits / temperature
        scores = axis.filled(scaled - axis.largest(scaled), EMPTY)
        weights = axis.once(jnp.exp(scores))
        return Policy(scores, weights, axis.sum(weights), axis=axis)
    scores = relative_scores(logits, temperature, jnp.max(logits))
    weights = barrier(jnp.exp(scores))  # or XLA computes them again for each of their uses
    # Adding what the counts add to a row, instead of multiplying in place, spares a copy of all weights.
    more = weights[: len(counts)] * (counts - 1)
    more = row_sums(jnp.pad(more, (0, -len(more) % ROW)))
    rows = row_sums(weights)
    rows += jnp.pad(more, (0, len(rows) - len(more)))
    return Policy(scores, weights, total(rows), counts, rows, row_sums(rows))


def relative_scores(
    logits: Float[Array, " n"], temperature: Float[Array, ""], reference: Float[Array, ""]
) -> Float[Array, " n"]:
    """(logits - reference) / temperature, exactly 0 at the reference; finite where there is no action."""
    return jnp.maximum((logits - reference) / temperature, EMPTY)
