"""The policies of a tree's nodes: draw rollouts, weigh their tokens, and say what they make of the leaves, exactly.

A group is known by the leaves that it reached; coefficients, candidates, entropies and ratios are those of tokens, each
at its node, in the order of ``simlab.problems.tree_paths``.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from simlab.problems.tree_paths import path_sums, paths, prefix_sums
from simlab.simulator.gradients import entropy_gradient, exact_sums, kl_gradient
from simlab.simulator.groups import Listed
from simlab.simulator.policy import Policy
from simlab.simulator.sampling import draw, draw_each
from simlab.simulator.storage import DENSE, Places

LEVEL_STREAM = 4  # folded, and then the level, into the key of a step, which itself draws the first actions


class TreePolicy(NamedTuple):
    """The policies of all nodes of a tree of depth T: one ``Policy`` whose arrays have a first axis of nodes.

    Its methods are those of ``Policy``, for rollouts of T tokens.
    """

    nodes: Policy
    levels: Float[Array, "T 0"]  # empty, but as long as the tree is deep: a pytree holds no plain numbers

    @property
    def depth(self) -> int:
        """T."""
        return int(self.levels.shape[-2])

    @property
    def branching(self) -> int:
        """B."""
        return int(self.nodes.scores.shape[-1])

    @property
    def logp(self) -> Float[Array, "nodes B"]:
        """log pi of each action at each node."""
        return node_logp(self.nodes)

    def passed(self, group: Listed) -> tuple[Int[Array, "G T"], Int[Array, "G T"]]:
        """The nodes that the rollouts of a group pass, and the actions that they take there."""
        return paths(group.places, self.depth, self.branching)

    # What a rollout of it is

    def draw(self, key: PRNGKeyArray, group_size: int, correct: None = None) -> Listed:
        """The leaves that a group reaches: the root draws as a single policy does, then each its own node."""
        own, branching, weights = jax.random.fold_in(key, LEVEL_STREAM), self.branching, self.nodes.weights

        def down(level: Int[Array, ""], node: Int[Array, " G"]) -> Int[Array, " G"]:
            return node * branching + 1 + draw_each(jax.random.fold_in(own, level), weights[node].T)

        first = 1 + draw(key, weights[0], group_size)
        return Listed(jax.lax.fori_loop(1, self.depth, down, first) - len(weights))

    def token_logp(self, group: Listed) -> Float[Array, "G T"]:
        """The log-probability of each token of a group."""
        nodes, taken = self.passed(group)
        return self.nodes.scores[nodes, taken] - jnp.log(self.nodes.total[nodes])

    def token_entropy(self, group: Listed) -> Float[Array, "G T"]:
        """The entropy of the node at which each token was drawn."""
        nodes, _ = self.passed(group)
        entropies: Float[Array, " G_T"] = jax.vmap(lambda own: own.entropy)(self.at(nodes.reshape(-1)))
        return entropies.reshape(nodes.shape)

    def candidates(self, group: Listed, count: int) -> tuple[Float[Array, "G T C"], Int[Array, "G T C"]]:
        """The likeliest actions at the node of each token: their log-probabilities, and the actions."""
        nodes, _ = self.passed(group)
        top = jax.vmap(lambda own: own.top(count))(self.at(nodes.reshape(-1)))
        logp, candidates = (values.reshape(*nodes.shape, -1) for values in top)
        return logp, candidates

    def at(self, nodes: Int[Array, " n"]) -> Policy:
        """The policies of some nodes."""
        found: Policy = jax.tree.map(lambda values: values[nodes], self.nodes)
        return found

    # What it makes of the leaves

    def outcomes(self) -> Policy:
        """The policy over leaves: the log-probability of one adds up along its path ``[casp:app-a-chain-rule]``."""
        logp = path_sums(self.logp)
        return DENSE.softmax(logp, jnp.ones((), logp.dtype), None)

    def greedy(self, correct: Bool[Array, " leaves"]) -> Bool[Array, ""]:
        """Whether the leaf at the end of the likeliest tokens is correct; of equally likely ones, whether any is."""
        scores = self.nodes.scores
        misses = path_sums((scores < jnp.max(scores, axis=1, keepdims=True)).astype(scores.dtype))
        return jnp.any(correct & (misses == 0))

    def moved_scores(self, change: Float[Array, "nodes B"]) -> Float[Array, " leaves"]:
        """By how much the log-probabilities of leaves move, to first order in a change of logits / temperature.

        The sum along each path of dz_a - sum_b p_b dz_b.
        """
        weights, total = self.nodes.weights, self.nodes.total
        centre = jnp.sum(weights * change, axis=1, keepdims=True) / total[:, None]
        leaves: Float[Array, " leaves"] = path_sums(change - centre)
        return leaves

    @property
    def visits(self) -> Float[Array, " nodes"]:
        """The probability that a rollout passes through each node."""
        arrivals = prefix_sums(self.logp)[:-1]
        root = jnp.ones(1, self.nodes.total.dtype)
        return jnp.concatenate([root, *(jnp.exp(logp) for logp in arrivals)])

    # Gradients with respect to the logits, times the temperature

    def score_gradient(
        self, coefficients: Float[Array, "G T D"], group: Listed, candidates: Int[Array, "G T C"], rule: str
    ) -> Float[Array, "nodes B"]:
        """At each node the sum of c (e_a - p) over the tokens drawn there and their candidates.

        The p term is exactly 0 where the coefficients of a node sum to 0.
        """
        nodes, taken = self.passed(group)
        moved = jnp.concatenate([taken[..., None], candidates], axis=-1)
        owners = jnp.broadcast_to(nodes[..., None], moved.shape)
        # All sampled actions and then all candidates, as a single policy adds them up.
        owner, action, each = (
            jnp.concatenate([entries[:, 0], entries[:, 1:].reshape(-1)])
            for entries in (values.reshape(-1, moved.shape[-1]) for values in (owners, moved, coefficients))
        )
        sums = jnp.zeros_like(self.nodes.weights).at[owner, action].add(each)
        total = exact_sums(each, owner, len(sums))
        gradient: Float[Array, "nodes B"] = jax.vmap(lambda sums, total, own: sums - own.p * total)(
            sums, total, self.nodes
        )
        return gradient

    def entropy_gradient(self, group: Listed, weights: Float[Array, "G T"]) -> Float[Array, "nodes B"]:
        """The gradient of the entropies at the nodes passed, weighed as the loss weighs their tokens.

        How often a node is passed is held fixed, as the usual trainers do. That is not the gradient of the entropy of
        the sequence, which also turns towards nodes of large entropy.
        """
        return self._passes(group, weights) * jax.vmap(entropy_gradient)(self.nodes)

    def kl_gradient(
        self, initial_logp: Float[Array, "nodes B"], group: Listed, weights: Float[Array, "G T"]
    ) -> Float[Array, "nodes B"]:
        """The gradient of the divergences from the initial policies at the nodes passed; likewise."""
        return self._passes(group, weights) * jax.vmap(kl_gradient)(self.nodes, initial_logp)

    def logp_everywhere(self, places: Places) -> Float[Array, "nodes B"]:
        """log pi of each action at each node."""
        return self.logp

    def _passes(self, group: Listed, weights: Float[Array, "G T"]) -> Float[Array, "nodes 1"]:
        """The weight in the loss of the tokens drawn at each node, summed."""
        nodes, _ = self.passed(group)
        nothing = jnp.zeros((len(self.nodes.scores), 1), weights.dtype)
        return nothing.at[nodes.reshape(-1), 0].add(weights.reshape(-1))


def tree_policy(logits: Float[Array, "nodes B"], temperature: Float[Array, ""], depth: int) -> TreePolicy:
    """The softmax policies of all nodes."""
    nodes: Policy = jax.vmap(lambda own: DENSE.softmax(own, temperature, None))(logits)
    return TreePolicy(nodes, jnp.zeros((depth, 0), logits.dtype))


def node_logp(nodes: Policy) -> Float[Array, "nodes B"]:
    """log pi of each action at each node."""
    logp: Float[Array, "nodes B"] = jax.vmap(lambda own: own.logp)(nodes)
    return logp
