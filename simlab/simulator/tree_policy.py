"""The policies of a tree's nodes: draw rollouts, weigh their tokens, and compute the leaves' probabilities exactly.

A group is known by the leaves that it reached; coefficients, candidates, entropies and ratios are those of tokens, each
at its node, in the order of ``simlab.problems.tree_paths``.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from simlab.problems.tree_paths import path_sums, paths, prefix_sums
from simlab.simulator.policy import Listed, SoftmaxPolicy, softmax
from simlab.simulator.sampling import draw, draw_columns
from simlab.simulator.storage import Slots
from simlab.simulator.sums import exact_segment_sums

LEVEL_STREAM = 4  # folded, and then the level, into the key of a step, which itself draws the first actions


class TreePolicy(NamedTuple):
    """The policies of all nodes of a tree of depth T: one ``SoftmaxPolicy`` whose arrays have a first axis of nodes."""

    nodes: SoftmaxPolicy
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
        logp: Float[Array, "nodes B"] = jax.vmap(lambda node: node.logp)(self.nodes)
        return logp

    def passed(self, group: Listed) -> tuple[Int[Array, "G T"], Int[Array, "G T"]]:
        """Return the nodes that the rollouts of a group pass, and the actions that they take there."""
        return paths(group.slots, self.depth, self.branching)

    def draw(self, key: PRNGKeyArray, group_size: int, correct: None = None) -> Listed:
        """Draw the leaves that a group reaches: the root as a single policy does, then each at its node."""
        stream, branching, weights = jax.random.fold_in(key, LEVEL_STREAM), self.branching, self.nodes.weights

        def down(level: Int[Array, ""], node: Int[Array, " G"]) -> Int[Array, " G"]:
            return node * branching + 1 + draw_columns(jax.random.fold_in(stream, level), weights[node].T)

        first = 1 + draw(key, weights[0], group_size)
        return Listed(jax.lax.fori_loop(1, self.depth, down, first) - len(weights))

    def token_logp(self, group: Listed) -> Float[Array, "G T"]:
        """Return the log-probability of each token of a group."""
        nodes, actions = self.passed(group)
        return self.nodes.scores[nodes, actions] - jnp.log(self.nodes.total[nodes])

    group_logp = token_logp

    def token_entropy(self, group: Listed) -> Float[Array, "G T"]:
        """Return the entropy of the node at which each token was drawn."""
        nodes, _ = self.passed(group)
        entropies: Float[Array, " G_T"] = jax.vmap(lambda node: node.entropy)(self.at(nodes.reshape(-1)))
        return entropies.reshape(nodes.shape)

    def candidates(self, group: Listed, count: int) -> tuple[Float[Array, "G T C"], Int[Array, "G T C"]]:
        """Return the likeliest actions at the node of each token: their log-probabilities, and the actions."""
        nodes, _ = self.passed(group)
        top = jax.vmap(lambda node: node.top(count))(self.at(nodes.reshape(-1)))
        logp, candidates = (values.reshape(*nodes.shape, -1) for values in top)
        return logp, candidates

    def at(self, nodes: Int[Array, " n"]) -> SoftmaxPolicy:
        """Look up the policies of some nodes."""
        policies: SoftmaxPolicy = jax.tree.map(lambda values: values[nodes], self.nodes)
        return policies

    # Leaves

    def outcomes(self) -> SoftmaxPolicy:
        """Return the policy over leaves, whose log-probabilities add up along paths ``[casp:app-a-chain-rule]``."""
        logp = path_sums(self.logp)
        return softmax(logp, jnp.ones((), logp.dtype))

    def greedy_is_correct(self, correct: Bool[Array, " leaves"]) -> Bool[Array, ""]:
        """Return True if the leaf of the likeliest tokens is correct; of equally likely ones, if any is."""
        scores = self.nodes.scores
        misses = path_sums((scores < jnp.max(scores, axis=1, keepdims=True)).astype(scores.dtype))
        return jnp.any(correct & (misses == 0))

    def score_change(self, change: Float[Array, "nodes B"]) -> Float[Array, " leaves"]:
        """Return the first-order change of the leaves' log-probabilities: sums along paths of dz_a - sum_b p_b dz_b."""
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
        """Return at each node the sum of c (e_a - p) over the tokens drawn there and their candidates.

        The p term is exactly 0 where the coefficients of a node sum to 0.
        """
        nodes, actions = self.passed(group)
        moved = jnp.concatenate([actions[..., None], candidates], axis=-1)
        owners = jnp.broadcast_to(nodes[..., None], moved.shape)
        # All sampled actions and then all candidates, as a single policy adds them up.
        owner, action, each = (
            jnp.concatenate([entries[:, 0], entries[:, 1:].reshape(-1)])
            for entries in (values.reshape(-1, moved.shape[-1]) for values in (owners, moved, coefficients))
        )
        sums = jnp.zeros_like(self.nodes.weights).at[owner, action].add(each)
        total = exact_segment_sums(each, owner, len(sums))
        gradient: Float[Array, "nodes B"] = jax.vmap(lambda sums, total, node: sums - node.p * total)(
            sums, total, self.nodes
        )
        return gradient

    def entropy_gradient(self, group: Listed, weights: Float[Array, "G T"]) -> Float[Array, "nodes B"]:
        """Return the gradient of the entropies at the nodes passed, weighed as the loss weighs their tokens.

        How often a node is passed is held fixed, as trainers do: the entropy of the sequence has another gradient.
        """
        gradients: Array = jax.vmap(lambda node: node.entropy_gradient(None, None))(self.nodes)
        return self._passes(group, weights) * gradients

    def kl_gradient(
        self, initial_logp: Float[Array, "nodes B"], group: Listed, weights: Float[Array, "G T"]
    ) -> Float[Array, "nodes B"]:
        """Return the gradient of the divergences from the initial policies at the nodes passed, likewise."""
        gradient: Any = jax.vmap(lambda node, initial: node.kl_gradient(initial, None, None))
        gradients: Array = gradient(self.nodes, initial_logp)
        return self._passes(group, weights) * gradients

    def logp_at_slots(self, slots: Slots) -> Float[Array, "nodes B"]:
        """Return log pi of each action at each node."""
        return self.logp

    def _passes(self, group: Listed, weights: Float[Array, "G T"]) -> Float[Array, "nodes 1"]:
        """Return the summed weight in the loss of the tokens drawn at each node."""
        nodes, _ = self.passed(group)
        zeros = jnp.zeros((len(self.nodes.scores), 1), weights.dtype)
        return zeros.at[nodes.reshape(-1), 0].add(weights.reshape(-1))


def tree_policy(logits: Float[Array, "nodes B"], temperature: Float[Array, ""], depth: int) -> TreePolicy:
    """Return the softmax policies of all nodes."""
    nodes: SoftmaxPolicy = jax.vmap(lambda node_logits: softmax(node_logits, temperature))(logits)
    return TreePolicy(nodes, jnp.zeros((depth, 0), logits.dtype))
