"""Groups of rollouts, and the softmax policies over the slots of a storage that they are drawn from.

A group lists the slots that its rollouts drew, or counts how often each action was drawn, where it is larger than the
set of actions and nothing reads more of a rollout than its reward. Estimators then see the correct rollouts first: of 4
actions, of which 0 and 2 are correct, the group 1 2 2 0 1 has the counts 1, 2, 2, 0, three correct and two wrong.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from simlab.simulator.lumped import Lumped, relative_scores
from simlab.simulator.multinomial import multinomial
from simlab.simulator.sampling import ROW, barrier, exact_sum, row_sums, tree_sum
from simlab.simulator.storage import DENSE, EMPTY, Dense, Slots

UPDATE_RULES = ("simulator", "simulator_literal", "theorem")


class Listed(NamedTuple):
    """The slot, or the leaf, that each rollout drew; ``present`` is false for rollouts that only pad a group."""

    slots: Int[Array, " G"]
    present: Bool[Array, " G"] | None = None

    def label(self, values: Shaped[Array, " C"], storage: Dense, slots: Slots, size: int) -> Shaped[Array, " G"]:
        """Look up, for each rollout, the value of the problem's entry that its action belongs to."""
        return storage.at_draws(values, self.slots, slots)

    def count_labels(self, labels: Bool[Array, " G"], values: Bool[Array, " C"]) -> Int[Array, ""]:
        """Count the rollouts that ``label`` has marked by ``values``."""
        return jnp.sum(labels, dtype=jnp.int32)

    def score_sums(
        self, coefficients: Float[Array, "G D"], candidates: Int[Array, " C"], rule: str, policy: "SoftmaxPolicy"
    ) -> tuple[Float[Array, " S"], Float[Array, ""]]:
        """Return the sum of the coefficients of each slot, and that of all: of rollouts first, then of candidates."""
        storage, weights = policy.storage, policy.weights
        times = 1.0 if self.present is None else self.present.astype(coefficients.dtype)
        p = storage.at(weights, self.slots) / policy.total
        counts = storage.add(jnp.zeros_like(weights), self.slots, times)
        coefficients = coefficients * rule_factor(rule, p, storage.at(counts, self.slots))[:, None]
        moved = jnp.concatenate([self.slots, jnp.tile(candidates, len(self.slots))])
        each = jnp.concatenate([coefficients[:, 0], coefficients[:, 1:].reshape(-1)])
        return storage.add(jnp.zeros_like(weights), moved, each), exact_sum(each)

    def total(self, values: Float[Array, "G T"]) -> Float[Array, ""]:
        """Return the sum of values of tokens."""
        return jnp.sum(values)

    def histogram(self, values: Float[Array, "G T"], in_bin: Bool[Array, "G T B"]) -> Float[Array, " B"]:
        """Return the sums of values of tokens over bins."""
        return jnp.einsum("gt,gtb->b", values, in_bin.astype(values.dtype))

    def slot_counts(self, zeros: Float[Array, " S"], storage: Dense) -> Float[Array, " S"]:
        """Return how often the group holds each slot; ``zeros`` has their shape."""
        return storage.add(zeros, self.slots, 1.0 if self.present is None else self.present.astype(zeros.dtype))

    def drawn_values(self, values: Float[Array, " S"], storage: Dense) -> Float[Array, " G"]:
        """Look up the values at the slots that were drawn, 0 for padding."""
        drawn = storage.at(values, self.slots)
        return drawn if self.present is None else jnp.where(self.present, drawn, 0)


class Counted(NamedTuple):
    """The number of times a group holds each action, and which actions are correct; methods as of ``Listed``."""

    counts: Int[Array, " N"]
    correct: Bool[Array, " N"]

    def label(self, values: Bool[Array, " N"], storage: Dense, slots: Slots, size: int) -> Bool[Array, " G"]:
        """Mark as many rollouts, from the first on, as have an action of ``values``."""
        return jnp.arange(size, dtype=jnp.int32) < self.count_labels(None, values)

    def count_labels(self, labels: Any, values: Bool[Array, " N"]) -> Int[Array, ""]:
        """Count the rollouts that have an action of ``values``."""
        return jnp.sum(jnp.where(values, self.counts, 0), dtype=jnp.int32)

    def _by_action(self, values: Float[Array, "G 1"]) -> Float[Array, " N"]:
        """Return the value that the rollouts of each action share: the correct ones are listed first."""
        return jnp.where(self.correct, values[0, 0], values[-1, 0])

    def _sums(self, values: Float[Array, "G 1"]) -> Float[Array, " 2"]:
        """Return the sum of the values of the correct rollouts, which are equal, and that of the others."""
        number = self.count_labels(None, self.correct)
        times = jnp.stack([number, len(values) - number]).astype(values.dtype)
        return times * jnp.stack([values[0, 0], values[-1, 0]])

    def score_sums(
        self, coefficients: Float[Array, "G 1"], candidates: Int[Array, " 0"], rule: str, policy: "SoftmaxPolicy"
    ) -> tuple[Float[Array, " N"], Float[Array, ""]]:
        """Return the sum of the coefficients of each action, and that of all."""
        times = self.counts.astype(coefficients.dtype)
        sums = times * self._by_action(coefficients) * rule_factor(rule, policy.p, times)
        if rule == "simulator":
            return sums, exact_sum(self._sums(coefficients), len(coefficients))
        return sums, exact_sum(sums)

    def total(self, values: Float[Array, "G 1"]) -> Float[Array, ""]:
        """Return the sum of values of rollouts, which those of equal rewards share."""
        return jnp.sum(self._sums(values))

    def histogram(self, values: Float[Array, "G 1"], in_bin: Bool[Array, "N B"]) -> Float[Array, " B"]:
        """Return the sums of values of rollouts, which those of equal rewards share, over bins of their actions."""
        by_action = self._by_action(values) * self.counts.astype(values.dtype)
        return by_action @ in_bin.astype(values.dtype)

    def slot_counts(self, zeros: Float[Array, " N"], storage: Dense) -> Float[Array, " N"]:
        """Return how often the group holds each action."""
        return self.counts.astype(zeros.dtype)

    def drawn_values(self, values: Float[Array, " N"], storage: Dense) -> Float[Array, " N"]:
        """Return the values of the actions that the group holds, 0 of the others."""
        return jnp.where(self.counts > 0, values, 0)


Group = Listed | Counted
LookUp = Callable[[Float[Array, "P ..."], Group], Float[Array, "P ..."]]  # drawn values of each prompt


def rule_factor(rule: str, p: Float[Array, " G"], counts: Float[Array, " G"]) -> Float[Array, " G"]:
    """Return the factor of a coefficient under an update rule, by its action's probability and count in the group.

    ``simulator``: 1, the ratio form (1/G) sum A_i pi_i / sg(pi_i), whose gradient is A grad log pi.
    ``simulator_literal``: p_i, the objective as printed, (1/G) sum A_i p_i ``[f-grpo:app-j]``.
    ``theorem``: p_i over its multiplicity, so that each distinct action counts once ``[f-grpo:eq-5]``.
    """
    if rule == "simulator":
        return jnp.ones_like(p)
    return p / jnp.maximum(counts, 1) if rule == "theorem" else p


def distinct_rollouts(groups: Group, values: Shaped[Array, "P G ..."]) -> Shaped[Array, "P K ..."]:
    """Select the values of rollouts that may differ: of groups known by their counts the first and the last."""
    return jnp.stack([values[:, 0], values[:, -1]], axis=1) if isinstance(groups, Counted) else values


class SoftmaxPolicy(NamedTuple):
    """softmax(logits / temperature), unnormalised, over S slots: actions, classes (the first C), or ``EMPTY``."""

    scores: Float[Array, " S"]  # logits / temperature less their maximum
    weights: Float[Array, " S"]  # exp(scores), of each action of the slot
    total: Float[Array, ""]  # the weights of all actions
    counts: Float[Array, " C"] | None = None
    rows: Float[Array, " S/32"] | None = None  # the masses of 32 slots each, where there are counts
    chunks: Float[Array, " S/1024"] | None = None  # the sums of 32 rows each
    storage: Dense = DENSE

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
        return jnp.log(self.total) - self.sum(self._multiply(self.weights) * self.scores) / self.total

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

    def draw(self, key: PRNGKeyArray, group_size: int, correct: Bool[Array, " N"] | None = None) -> Group:
        """Draw a group of rollouts; only how often it holds each action if ``correct`` says which are."""
        if correct is not None:
            return Counted(multinomial(key, self.weights, self.total, group_size), correct)
        return Listed(self.storage.draw(key, self._multiply(self.weights), group_size))

    def token_logp(self, group: Listed) -> Float[Array, "G 1"]:
        """Return the log-probability of each token of a group."""
        return (self.storage.at(self.scores, group.slots) - jnp.log(self.total))[:, None]

    def group_logp(self, group: Group) -> Float[Array, "..."]:
        """Return the log-probability of each token of a group, or of each action if the group is known by counts."""
        return self.token_logp(group) if isinstance(group, Listed) else self.logp

    def token_entropy(self, group: Group) -> Float[Array, ""]:
        """Return the entropy at the tokens of a group."""
        return self.entropy

    @property
    def collision(self) -> Float[Array, ""]:
        """The sum of the squared probabilities of all actions."""
        return self.sum(self._multiply(self.p**2))

    def token_collision(self, group: Group) -> Float[Array, ""]:
        """Return the same at the tokens of a group."""
        return self.collision

    def candidates(self, group: Group | None, count: int) -> tuple[Float[Array, " C"], Int[Array, " C"]]:
        """Return the likeliest actions at the tokens of a group: their log-probabilities, and their slots."""
        return self.top(count)

    def outcomes(self) -> "SoftmaxPolicy":
        """Return the policy over outcomes, which are correct or not."""
        return self

    def greedy_value(self, values: Float[Array, " S"]) -> Float[Array, ""]:
        """Return the value of the likeliest action; of equally likely ones, the highest."""
        likeliest = self.scores >= self.storage.largest(self.scores)
        return self.storage.largest(jnp.where(likeliest, values, -jnp.inf))

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

        For action j that is (sum of c_i with a_i = j) - p_j (sum of all c_i). The p_j term vanishes exactly for
        coefficients that sum to zero: automatic differentiation would leave rounding noise there, which Adam enlarges.
        """
        sums, total = group.score_sums(coefficients[:, 0], candidates, rule, self)
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
