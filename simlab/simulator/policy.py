"""A softmax policy over the places of a storage: probabilities, draws, and the gradients of its log-probabilities.

``Policy`` is what a rollout of one token is drawn from. A problem whose rollouts have more tokens has a policy of its
own with the same methods, as ``simlab.problems.tree`` has.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from simlab.simulator.gradients import entropy_gradient, kl_gradient
from simlab.simulator.groups import Counted, Group, Listed
from simlab.simulator.multinomial import multinomial
from simlab.simulator.storage import DENSE, EMPTY, Dense, Places


class Policy(NamedTuple):
    """softmax(logits / temperature), unnormalised, over S places.

    Each place is one action, or none where the logit is ``EMPTY``; but the first C places, if there are ``counts``, are
    classes of that many equal actions.

    Attributes:
        scores: (S,) logits / temperature less their maximum.
        weights: (S,) exp(scores), the weight of each action of the place.
        total: sum of the weights of all actions.
        counts: (C,) how many actions each of the first C places stands for, 0 or more; None if all places are actions.
        rows: the sums of the masses of 32 places each, where there are counts.
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
        """Unnormalised probability of each place as a whole."""
        return self._of_places(self.weights)

    @property
    def p(self) -> Float[Array, " S"]:
        """Probability of each action of a place."""
        return self.storage.divided(self.weights, self.total)

    @property
    def shares(self) -> Float[Array, " S"]:
        """Probability of each place as a whole."""
        return self._of_places(self.p)

    def _of_places(self, values: Float[Array, " S"]) -> Float[Array, " S"]:
        return values if self.counts is None else values.at[: len(self.counts)].multiply(self.counts)

    @property
    def members(self) -> Float[Array, " S"] | float:
        """How many actions each place stands for."""
        if self.counts is None:
            return 1.0
        return self._of_places((self.scores > EMPTY / 2).astype(self.scores.dtype))

    @property
    def logp(self) -> Float[Array, " S"]:
        """Log-probabilities of each action of a place, finite however small the probability."""
        return self.scores - jnp.log(self.total)

    @property
    def entropy(self) -> Float[Array, ""]:
        """Entropy in nats."""
        return jnp.log(self.total) - self.sum(self.masses * self.scores) / self.total

    def sum(self, values: Float[Array, " S"]) -> Float[Array, ""]:
        """The sum over all places."""
        return self.storage.sum(values)

    def top(self, count: int) -> tuple[Float[Array, " C"], Int[Array, " C"]]:
        """The ``count`` largest log-probabilities, the largest first, and the places of these actions."""
        scores, places = self.storage.top(self.scores, count)
        if self.counts is not None and count:
            # A place comes as often as it has members.
            ends = jnp.cumsum(jnp.minimum(jnp.asarray(self.members)[places], count))
            nth = jnp.searchsorted(ends, jnp.arange(count, dtype=ends.dtype), side="right")
            scores, places = scores[nth], places[nth]
        return scores - jnp.log(self.total), places

    # What a rollout of it is

    def draw(self, key: PRNGKeyArray, group_size: int, correct: Bool[Array, " N"] | None = None) -> Group:
        """A group of rollouts; how often it holds each action, if it is told which ones are ``correct``."""
        if correct is not None:
            return Counted(multinomial(key, self.weights, self.total, group_size), correct)
        return Listed(self.storage.draw(key, self.weights, group_size))

    def token_logp(self, group: Listed) -> Float[Array, "G 1"]:
        """The log-probability of each token of a group."""
        return (self.storage.at(self.scores, group.places) - jnp.log(self.total))[:, None]

    def token_entropy(self, group: Group) -> Float[Array, ""]:
        """The entropy at the tokens of a group."""
        return self.entropy

    def candidates(self, group: Group | None, count: int) -> tuple[Float[Array, " C"], Int[Array, " C"]]:
        """The likeliest actions at the tokens of a group: their log-probabilities, and their places."""
        return self.top(count)

    def outcomes(self) -> "Policy":
        """The policy over what is correct or not."""
        return self

    def greedy(self, correct: Bool[Array, " S"]) -> Bool[Array, ""]:
        """Whether the likeliest action is correct; of equally likely ones, whether any is."""
        best = self.storage.largest(jnp.where(correct, self.scores, EMPTY))
        return best >= self.storage.largest(self.scores)

    def given(self, correct: Bool[Array, " S"]) -> "Policy":
        """The policy given that the action is correct, however small the probability of that."""
        scores = jnp.where(correct, self.scores, EMPTY)
        scores -= self.storage.largest(scores)
        weights = self.storage.once(jnp.exp(scores))
        return Policy(scores, weights, self.sum(self._of_places(weights)), self.counts, storage=self.storage)

    def everywhere(self, places: Places) -> "Policy":
        """The policy of the start, place by place of a later step."""
        scores, weights = (self.storage.everywhere(values, places) for values in (self.scores, self.weights))
        return Policy(scores, weights, self.total, storage=self.storage)

    def logp_everywhere(self, places: Places) -> Float[Array, " S"]:
        """The log-probabilities of the start, place by place of a later step."""
        return self.storage.everywhere(self.logp, places)

    def moved_scores(self, change: Float[Array, " S"]) -> Float[Array, " S"]:
        """By how much the scores of the outcomes move, to first order in a change of logits / temperature."""
        return change

    # Gradients with respect to the logits

    def score_gradient(
        self, coefficients: Float[Array, "G 1 D"], group: Group, candidates: Int[Array, " C"], rule: str
    ) -> Float[Array, " S"]:
        """sum_i c_i grad log pi(a_i), of each rollout's action and then of the candidates, times the temperature.

        For action j that is (sum of c_i with a_i = j) - p_j (sum of all c_i). The p_j term is what moves actions that
        were not sampled. It vanishes exactly, in every dtype, for coefficients that sum to zero: automatic
        differentiation would leave rounding noise there, which Adam enlarges.
        """
        sums, total = group.score_sums(coefficients[:, 0], candidates, rule, self)
        return sums - self.p * total

    def entropy_gradient(self, group: Group, weights: Float[Array, "G 1"]) -> Float[Array, " S"]:
        """The gradient of the entropy, times the temperature."""
        return entropy_gradient(self)

    def kl_gradient(
        self, initial_logp: Float[Array, " S"], group: Group, weights: Float[Array, "G 1"]
    ) -> Float[Array, " S"]:
        """The gradient of KL(pi || pi_0), times the temperature."""
        return kl_gradient(self, initial_logp)

    def likelihood_gradient(self, answers: Float[Array, " S"]) -> Float[Array, " S"]:
        """The gradient of the mean log-probability of answers with these probabilities, times the temperature."""
        return answers - self.p
