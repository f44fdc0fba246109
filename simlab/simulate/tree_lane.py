"""A lane of a tree: a rollout takes T actions, one a node, and learns at every node that it passes.

Its group is known by the leaves reached. What is said of outcomes, correct or not, is said of leaves; coefficients,
candidates, entropies and ratios are those of tokens, each at its node. The gradient of a node's logits is the closed
form of a single policy, summed over the tokens drawn there.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from simlab.problems.tree_paths import depth_of, paths
from simlab.simulate.lane import Drawn, Group, Lane, State
from simlab.simulate.metrics import Row
from simlab.simulate.policy import Policy
from simlab.simulate.sampling import draw, draw_each
from simlab.simulate.tree_metrics import covariance_metrics, group_metrics, tree_metrics
from simlab.simulate.tree_policy import at_nodes, leaf_change, leaf_policy, node_logp, node_policies
from simlab.simulate.update import entropy_gradient, exact_sums, gradient_from_sums, kl_gradient

LEVEL_STREAM = 4  # folded, and then the level, into the key of a step, which itself draws the first actions


class TreeLane(Lane):
    """A lane whose logits are (nodes, B), and whose ``actions``, drawn, of a group and of a state, are leaves (G,)."""

    @property
    def branching(self) -> int:
        """B."""
        return int(self.place.logits.shape[1])

    @property
    def tokens(self) -> int:
        """T."""
        return depth_of(len(self.place.correct), self.branching)

    def paths(self, leaves: Int[Array, " G"]) -> tuple[Int[Array, "G T"], Int[Array, "G T"]]:
        """The nodes that rollouts to some leaves pass, and the actions that they take there."""
        return paths(leaves, self.tokens, self.branching)

    def policies(self, logits: Float[Array, "nodes B"]) -> Policy:
        """The policies of all nodes."""
        return node_policies(logits, self.numbers.temperature)

    def initial_policy(self) -> Policy:
        """The policies of all nodes before the first step."""
        return self.policies(self.place.logits)

    def policy(self, state: State) -> Policy:
        """The policies of all nodes that draw the next group."""
        return self.policies(state.logits)

    def start(self) -> State:
        """The state before the first step."""
        shape = (1, self.program.group_size, self.tokens)
        return super().start()._replace(advantages=jnp.zeros(shape, self.place.logits.dtype))

    def drawn(self, key: PRNGKeyArray, policy: Policy) -> Drawn:
        """A group of rollouts from the root to a leaf each."""
        leaves = self.walk(key, policy)
        nodes, _ = self.paths(leaves)
        passed = at_nodes(policy, nodes.reshape(-1))
        top = jax.vmap(lambda own: own.top(self.surrogate.candidates))(passed)
        top_logp, candidates = (values.reshape(*nodes.shape, -1) for values in top)
        return Drawn(policy, leaves, top_logp, candidates)

    def walk(self, key: PRNGKeyArray, policy: Policy) -> Int[Array, " G"]:
        """The leaves that a group of rollouts reach: the root draws as a single policy does, then each its own node."""
        own, branching = jax.random.fold_in(key, LEVEL_STREAM), self.branching

        def down(level: Int[Array, ""], node: Int[Array, " G"]) -> Int[Array, " G"]:
            return node * branching + 1 + draw_each(jax.random.fold_in(own, level), policy.weights[node].T)

        first = 1 + draw(key, policy.weights[0], self.program.group_size)
        leaves: Int[Array, " G"] = jax.lax.fori_loop(1, self.tokens, down, first) - len(policy.weights)
        return leaves

    def token_logp(self, policy: Policy, actions: Int[Array, " G"]) -> Float[Array, "G T"]:
        """The log-probability of each action on the way to some leaves."""
        nodes, taken = self.paths(actions)
        return policy.scores[nodes, taken] - jnp.log(policy.total[nodes])

    def token_entropy(self, drawn: Drawn) -> Float[Array, "G T"]:
        """The entropy of the node at which each token was drawn."""
        nodes, _ = self.paths(drawn.actions)
        passed = at_nodes(drawn.policy, nodes.reshape(-1))
        entropies: Float[Array, " G_T"] = jax.vmap(lambda own: own.entropy)(passed)
        return entropies.reshape(nodes.shape)

    def initial_logp(self, state: State) -> Float[Array, "nodes B"]:
        """The log-probabilities of the initial policies."""
        return node_logp(self.initial)

    def token_record(self, group: Group) -> Float[Array, "1 G T"]:
        """The advantage of each token."""
        return jnp.broadcast_to(group.advantages, (1, self.program.group_size, self.tokens))

    def drawn_logits(self, state: State, group: Group) -> Float[Array, "G T"]:
        """The logits of the actions on the way to the leaves of a group."""
        nodes, taken = self.paths(group.actions)
        return state.logits[nodes, taken]

    def gradient(self, coefficients: Float[Array, "G_T M"], group: Group, policy: Policy) -> Float[Array, "nodes B"]:
        """The gradient of the logits: at each node sum of c (e_a - p) over the tokens drawn there and their candidates.

        The p term is exactly 0 where the coefficients of a node sum to 0.
        """
        nodes, taken = self.paths(group.actions)
        moved = jnp.concatenate([taken[..., None], group.candidates], axis=-1)
        owners = jnp.broadcast_to(nodes[..., None], moved.shape)
        # All sampled actions and then all candidates, as a single policy adds them up.
        owner, action, each = (
            jnp.concatenate([entries[:, 0], entries[:, 1:].reshape(-1)])
            for entries in (values.reshape(coefficients.shape) for values in (owners, moved, coefficients))
        )
        sums = jnp.zeros_like(policy.weights).at[owner, action].add(each)
        total = exact_sums(each, owner, len(sums))
        by_node = jax.vmap(gradient_from_sums, (0, 0, 0, None))
        gradient: Float[Array, "nodes B"] = by_node(sums, total, policy, self.numbers.temperature)
        return gradient

    def passes(self, group: Group) -> Float[Array, "nodes 1"]:
        """The weight in the loss of the tokens drawn at each node, summed."""
        nodes, _ = self.paths(group.actions)
        weights = self.averaging(self.place.logits.dtype)
        return jnp.zeros((len(self.place.logits), 1), weights.dtype).at[nodes.reshape(-1), 0].add(weights)

    def entropy_gradient(self, group: Group, policy: Policy) -> Float[Array, "nodes B"]:
        """The gradient of the entropies at the nodes passed, weighed as the loss weighs their tokens.

        How often a node is passed is held fixed, as the usual trainers do. That is not the gradient of the entropy of
        the sequence, which also turns towards nodes of large entropy.
        """
        gradient = jax.vmap(entropy_gradient, (0, None))(policy, self.numbers.temperature)
        return self.passes(group) * gradient

    def kl_gradient(
        self, group: Group, policy: Policy, initial_logp: Float[Array, "nodes B"]
    ) -> Float[Array, "nodes B"]:
        """The gradient of the divergences from the initial policies at the nodes passed; likewise."""
        gradient = jax.vmap(kl_gradient, (0, 0, None))(policy, initial_logp, self.numbers.temperature)
        return self.passes(group) * gradient

    def outcomes(self, logits: Float[Array, "nodes B"], state: State) -> Policy:
        """The policy over leaves."""
        return leaf_policy(self.policies(logits))

    def initial_outcomes(self, state: State) -> Policy:
        """The initial policy over leaves."""
        return leaf_policy(self.initial)

    def change(self, before: Float[Array, "nodes B"], state: State) -> Float[Array, " leaves"]:
        """By how much the log-probabilities of leaves moved, to first order in the logits."""
        return leaf_change(self.policies(before), super().change(before, state))

    def times(self, state: State) -> Float[Array, " leaves"]:
        """How often the last group reached each leaf."""
        return jnp.zeros(len(self.place.correct), state.logits.dtype).at[state.actions].add(1)

    def policy_metrics(self, state: State) -> Row:
        """The records of the policies."""
        assert self.place.modes is not None
        own = tree_metrics(self.policy(state), self.place.correct, self.place.modes, self.program.top_n)
        return super().policy_metrics(state) | own

    def record(self, before: Float[Array, "nodes B"], state: State, length: Int[Array, ""]) -> Row:
        """The records after a window of ``length`` steps, the last of which started at logits ``before``."""
        assert state.advantages is not None
        sampler = self.policies(before)
        nodes, _ = self.paths(state.actions)
        logp = self.token_logp(sampler, state.actions)
        rows = group_metrics(at_nodes(sampler, nodes.reshape(-1)), logp, self.times(state), self.program.top_n)
        return super().record(before, state, length) | rows | covariance_metrics(state.advantages, logp[None])
