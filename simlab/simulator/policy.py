"""A softmax policy over the slots of a storage: probabilities, draws, and the gradients of its log-probabilities.

``SoftmaxPolicy`` is what a rollout of one token is drawn from. A problem whose rollouts have more tokens has a policy
of its own with the same methods, as ``simlab.problems.tree`` has.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from simlab.simulator.groups import Counted, Group, Listed
from simlab.simulator.lumped import Lumped, relative_scores
from simlab.simulator.multinomial import multinomial
from simlab.simulator.primitives import barrier
from simlab.simulator.storage import DENSE, EMPTY, Dense, Slots
from simlab.simulator.sum_tree import ROW, row_sums
from simlab.simulator.sums import tree_sum


class SoftmaxPolicy(NamedTuple):
    """softmax(logits / temperature), unnormalised, over S slots.

    Each slot is one action, or none where the logit is ``EMPTY``; but the first C slots, if there are ``counts``, are
    classes of that many equal actions.

    Attributes:
        scores: (S,) logits / temperature less their maximum.
        weights: (S,) exp(scores), the weight of each action of the slot.
        total: sum of the weights of all actions.
        counts: (C,) how many actions each of the first C slots stands for, 0 or more; None if all slots are actions.
        rows: the sums of the masses of 32 slots each, where there are counts.
        chunks: the sums of 32 rows each, likewise.
        storage: how the actions are kept.
    """

    scores: Float[Array, " S"]
    weights: Float[Array, " S"]
    total: Float[Array, ""]
    counts: Float[Array, " C"] | None = None
    rows: Float[Array, " S/32"] | None = None
    chunks: Float[Array, " S/1024"] | None = None
    storage: Dense = DENSE

    # Probabilities

    @property
    def masses(self) -> Float[Array, " S"]:
        """Unnormalised probability of all actions of each slot together."""
        return self._multiply(self.weights)

    @property
    def p(self) -> Float[Array, " S"]:
        """Probability of each action of a slot."""
        return self.storage.divide(self.weights, self.total)

    @property
    def shares(self) -> Float[Array, " S"]:
        """Probability of all actions of each slot together."""
        return self._multiply(self.p)

    def _multiply(self, values: Float[Array, " S"]) -> Float[Array, " S"]:
        """Multiply the values of classes by how many actions they have."""
        return values if self.counts is None else values.at[: len(self.counts)].multiply(self.counts)

    @property
    def members(self) -> Float[Array, " S"] | float:
        """The number of actions that each slot stands for."""
        if self.counts is None:
            return 1.0
        return self._multiply((self.scores > EMPTY / 2).astype(self.scores.dtype))

    @property
    def logp(self) -> Float[Array, " S"]:
        """Log-probabilities of each action of a slot, finite however small the probability."""
        return self.scores - jnp.log(self.total)

    @property
    def entropy(self) -> Float[Array, ""]:
        """Entropy in nats."""
        return jnp.log(self.total) - self.sum(self.masses * self.scores) / self.total

    def sum(self, values: Float[Array, " S"]) -> Float[Array, ""]:
        """Return the sum over all slots."""
        return self.storage.sum(values)

    def top(self, count: int) -> tuple[Float[Array, " C"], Int[Array, " C"]]:
        """Return the ``count`` largest log-probabilities, the largest first, and the slots of these actions."""
        scores, slots = self.storage.top(self.scores, count)
        if self.counts is not None and count:
            # A slot comes as often as it has members.
            ends = jnp.cumsum(jnp.minimum(jnp.asarray(self.members)[slots], count))
            nth = jnp.searchsorted(ends, jnp.arange(count, dtype=ends.dtype), side="right")
            scores, slots = scores[nth], slots[nth]
        return scores - jnp.log(self.total), slots

    # Rollouts

    def draw(self, key: PRNGKeyArray, group_size: int, correct: Bool[Array, " N"] | None = None) -> Group:
        """Draw a group of rollouts; only how often it holds each action if ``correct`` says which are."""
        if correct is not None:
            return Counted(multinomial(key, self.weights, self.total, group_size), correct)
        return Listed(self.storage.draw(key, self.weights, group_size))

    def token_logp(self, group: Listed) -> Float[Array, "G 1"]:
        """Return the log-probability of each token of a group."""
        return (self.storage.at(self.scores, group.slots) - jnp.log(self.total))[:, None]

    def group_logp(self, group: Group) -> Float[Array, "..."]:
        """Return the log-probability of each token of a group, or of each action if the group is known by counts."""
        return self.token_logp(group) if isinstance(group, Listed) else self.logp

    def token_entropy(self, group: Group) -> Float[Array, ""]:
        """Return the entropy at the tokens of a group."""
        return self.entropy

    def candidates(self, group: Group | None, count: int) -> tuple[Float[Array, " C"], Int[Array, " C"]]:
        """Return the likeliest actions at the tokens of a group: their log-probabilities, and their slots."""
        return self.top(count)

    def outcomes(self) -> "SoftmaxPolicy":
        """Return the policy over outcomes, which are correct or not."""
        return self

    def greedy_is_correct(self, correct: Bool[Array, " S"]) -> Bool[Array, ""]:
        """Return True if the likeliest action is correct; of equally likely ones, if any is."""
        best = self.storage.largest(jnp.where(correct, self.scores, EMPTY))
        return best >= self.storage.largest(self.scores)

    def condition(self, correct: Bool[Array, " S"]) -> "SoftmaxPolicy":
        """Return the policy given that the action is correct, however small the probability of that."""
        scores = jnp.where(correct, self.scores, EMPTY)
        scores -= self.storage.largest(scores)
        weights = self.storage.compute_once(jnp.exp(scores))
        return SoftmaxPolicy(scores, weights, self.sum(self._multiply(weights)), self.counts, storage=self.storage)

    def at_slots(self, slots: Slots) -> "SoftmaxPolicy":
        """Return this policy of the start, slot by slot of a later step."""
        scores, weights = (self.storage.at_slots(values, slots) for values in (self.scores, self.weights))
        return SoftmaxPolicy(scores, weights, self.total, storage=self.storage)

    def logp_at_slots(self, slots: Slots) -> Float[Array, " S"]:
        """Return the log-probabilities of the start, slot by slot of a later step."""
        return self.storage.at_slots(self.logp, slots)

    def score_change(self, change: Float[Array, " S"]) -> Float[Array, " S"]:
        """Return the first-order change of the outcomes' scores for a change of logits / temperature."""
        return change

    # Gradients with respect to the logits, times the temperature

    def score_gradient(
        self, coefficients: Float[Array, "G 1 D"], group: Group, candidates: Int[Array, " C"], rule: str
    ) -> Float[Array, " S"]:
        """Return sum_i c_i grad log pi(a_i), of each rollout's action and then of the candidates.

        For action j that is (sum of c_i with a_i = j) - p_j (sum of all c_i). The p_j term is what moves actions that
        were not sampled. It vanishes exactly, in every dtype, for coefficients that sum to zero: automatic
        differentiation would leave rounding noise there, which Adam enlarges.
        """
        policy: Any = {"weights": self.weights, "total": self.total, "storage": self.storage}
        sums, total = group.score_sums(coefficients[:, 0], candidates, rule, **policy)
        return sums - self.p * total

    def entropy_gradient(self, group: Group | None, weights: Float[Array, "G 1"] | None) -> Float[Array, " S"]:
        """Return the gradient of the entropy: -p_j (log p_j + H)."""
        return -self.p * (self.logp + self.entropy)

    def kl_gradient(
        self, initial_logp: Float[Array, " S"], group: Group | None, weights: Float[Array, "G 1"] | None
    ) -> Float[Array, " S"]:
        """Return the gradient of KL(pi || pi_0): p_j (log p_j - log p0_j - KL)."""
        gap = self.logp - initial_logp
        return self.p * (gap - self.sum(self.shares * gap))

    def likelihood_gradient(self, answers: Float[Array, " S"]) -> Float[Array, " S"]:
        """Return the gradient of the mean log-probability of answers with these probabilities."""
        return answers - self.p


def softmax(
    logits: Float[Array, " S"], temperature: Float[Array, ""], storage: Dense = DENSE, slots: Slots = None
) -> SoftmaxPolicy:
    """Return softmax(logits / temperature) over the slots of a storage."""
    if isinstance(storage, Lumped):
        return _lumped_softmax(logits, temperature, storage, slots)
    centred = logits - storage.largest(logits)
    # On a CPU the choice keeps quotient and exponential out of XLA's kernel of the maximum, which is slow at them.
    chosen = jnp.where(temperature == 1, centred, storage.divide(centred, temperature))
    scores = storage.fill_empty(chosen, EMPTY, slots)
    weights = storage.compute_once(jnp.exp(scores))
    return SoftmaxPolicy(scores, weights, storage.sum(weights), storage=storage)


def _lumped_softmax(
    logits: Float[Array, " S"], temperature: Float[Array, ""], storage: Lumped, slots: Any
) -> SoftmaxPolicy:
    counts, highest = slots.remaining(logits.dtype), jnp.max(storage.fill_empty(logits, -jnp.inf, slots))
    scores = storage.fill_empty(relative_scores(logits, temperature, highest), EMPTY, slots)
    weights = barrier(jnp.exp(scores))  # or XLA computes them again for each of their uses
    # Adding what the counts add to a row, instead of multiplying in place, spares a copy of all weights.
    more = weights[: len(counts)] * (counts - 1)
    more = row_sums(jnp.pad(more, (0, -len(more) % ROW)))
    rows = row_sums(weights)
    rows += jnp.pad(more, (0, len(rows) - len(more)))
    return SoftmaxPolicy(scores, weights, tree_sum(rows), counts, rows, row_sums(rows), storage)
