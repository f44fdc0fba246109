"""A tree: the policies of its nodes, and its metrics beside those of its leaves as one policy.

A group is known by the leaves that it reached; coefficients, entropies and ratios are those of tokens at their nodes.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from simlab.estimators.tokens import covariance_terms, covariance_thresholds
from simlab.problems.exact import pass_at_k
from simlab.problems.tree_paths import first_node, path_sums, paths, prefix_sums
from simlab.simulator.metrics import POLICY, UPDATE, USUAL_METRICS, Metric, PolicyView, UpdateView, described, table
from simlab.simulator.policy import Listed, SoftmaxPolicy, softmax
from simlab.simulator.sampling import draw, draw_columns, exact_segment_sums
from simlab.simulator.state import Records
from simlab.simulator.storage import Slots

LEVEL_STREAM = 4  # folded, and then the level, into the key of a step, which itself draws the first actions
RESPONSES = 1000  # in which CaSP's Figure 5(e) looks for modes
HELD = 0.01  # a mode of at least this probability counts as held


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

    def group_logp(self, group: Listed) -> Float[Array, "G T"]:
        """Return the same."""
        return self.token_logp(group)

    def token_entropy(self, group: Listed) -> Float[Array, "G T"]:
        """Return the entropy of the node at which each token was drawn."""
        nodes, _ = self.passed(group)
        entropies: Float[Array, " G_T"] = jax.vmap(lambda node: node.entropy)(self.at(nodes.reshape(-1)))
        return entropies.reshape(nodes.shape)

    def token_collision(self, group: Listed) -> Float[Array, "G T"]:
        """Return the sum of the squared probabilities at the node at which each token was drawn."""
        nodes, _ = self.passed(group)
        collisions: Float[Array, " G_T"] = jax.vmap(lambda node: node.collision)(self.at(nodes.reshape(-1)))
        return collisions.reshape(nodes.shape)

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

    def greedy_value(self, values: Float[Array, " leaves"]) -> Float[Array, ""]:
        """Return the value of the leaf of the likeliest tokens; of equally likely ones, the highest."""
        scores = self.nodes.scores
        misses = path_sums((scores < jnp.max(scores, axis=1, keepdims=True)).astype(scores.dtype))
        return jnp.max(jnp.where(misses == 0, values, -jnp.inf))

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
        """Return at each node the sum of c (e_a - p) over the tokens drawn there and their candidates."""
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
        """Return the gradient of the entropies at the nodes passed, whose weights in the loss are held fixed."""
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


# Metrics


def mode_metrics(p: Float[Array, " leaves"], correct: Bool[Array, " leaves"]) -> Records:
    """Count the rewarded leaves that are left in three ways; the effective number is NaN without any."""
    rewarded = jnp.where(correct, p, 0)
    mass = jnp.sum(rewarded)
    share = jnp.where(rewarded > 0, rewarded, 1) / jnp.where(mass > 0, mass, 1)
    entropy = -jnp.sum(jnp.where(rewarded > 0, share * jnp.log(share), 0))
    return {
        "mode_coverage": jnp.sum(pass_at_k(rewarded, RESPONSES)),
        "modes_held": jnp.sum(rewarded >= HELD, dtype=p.dtype),
        "effective_modes": jnp.where(mass > 0, jnp.exp(entropy), jnp.nan),
    }


def top_logps(policy: SoftmaxPolicy, top_n: int) -> Float[Array, "nodes top_n"]:
    """Return the log-probabilities of the likeliest actions of some nodes, NaN beyond the number of actions."""
    top = jax.vmap(lambda node: node.top(top_n)[0])(policy)
    return jnp.pad(top, ((0, 0), (0, top_n - top.shape[1])), constant_values=jnp.nan)


def level_entropy(view: PolicyView) -> Float[Array, " T"]:
    """Return the expected entropy at the node of each level."""
    policy: TreePolicy = view.token_policy
    values = policy.visits * jax.vmap(lambda node: node.entropy)(policy.nodes)
    ends = [first_node(level, policy.branching) for level in range(policy.depth + 1)]
    return jnp.stack([jnp.sum(values[first:end]) for first, end in pairwise(ends)])


def rank_logp(view: PolicyView) -> Float[Array, " top_n"]:
    """Return Lambda(n), expected: log pi of the rank-n candidate, mean over levels."""
    policy: TreePolicy = view.token_policy
    return jnp.sum(policy.visits[:, None] * top_logps(policy.nodes, view.top_n), axis=0) / policy.depth


def group_rank_logp(view: UpdateView) -> Float[Array, " top_n"]:
    """Return Lambda(n), the mean over rollouts and tokens of log pi of the rank-n candidate ``[casp:eq-2-sample]``."""
    nodes, _ = view.sampler.passed(view.group)
    return jnp.mean(top_logps(view.sampler.at(nodes.reshape(-1)), view.top_n), axis=0)


def covariances(view: UpdateView) -> tuple[Array, Array]:
    """Return thresholds of the covariance among the tokens of either sign ``[cw-grpo:table-1-dominance]``.

    c = (log pi - its mean)(A - its mean) over the tokens of the group; NaN where no token has the sign.
    """
    logp = view.sampler.token_logp(view.group)[None]
    advantages = jnp.broadcast_to(view.advantages[None], logp.shape)
    terms = covariance_terms(advantages, logp, jnp.ones_like(logp), "group")
    positive, negative = covariance_thresholds(terms.reshape(-1))
    return positive, negative


def _mode(name: str) -> Any:
    return lambda view: mode_metrics(view.policy.p, view.correct)[name]


_EXACT = "; exact expectation over rollouts of the policy"
_OF_GROUP = "; mean over the tokens of the last group, under the policy that drew it"
_TAIL = "covariance that this percentage of the tokens of the last group with a {} covariance reach or pass {}"
_RANKED = "log-probability of the n likeliest action at a node (CaSP Eq. 2)"
WORDS = {
    "entropy": "entropy of the leaf reached in nats, the sum of level_entropy",
    "mode_probability": "probability of the rewarded leaf",
    "mode_coverage": f"rewarded leaves that {RESPONSES} responses are expected to reach (CaSP Figure 5(e))",
    "modes_held": f"rewarded leaves with a probability of {HELD} or more",
    "effective_modes": "exp of the entropy of the rewarded leaf reached, given that one is",
    "largest_probability": "probability of the likeliest leaf",
    "level_entropy": f"entropy in nats at the node of the level{_EXACT}",
    "rank_logp": f"{_RANKED}, mean over levels{_EXACT}",
    "group_rank_logp": f"{_RANKED}{_OF_GROUP}",
    "group_sample_logp": f"log-probability of the sampled action at a node (CaSP Eq. 2){_OF_GROUP}",
    "distinct_rollouts": "distinct leaves that the last group reached",
    "positive_covariance": _TAIL.format("positive", "(CW-GRPO Table 1)"),
    "negative_covariance": _TAIL.format("negative", "(CW-GRPO Table 1)"),
}
_TAILS: dict[str, Any] = {
    "positive_covariance": lambda view: covariances(view)[0],
    "negative_covariance": lambda view: covariances(view)[1],
}


def tree_metrics(modes: Any) -> tuple[Metric, ...]:
    """Return the metrics of a tree with these modes, (modes,) leaves."""
    usual = (metric for metric in USUAL_METRICS if metric.name != "entropy")
    counts: dict[str, Any] = {name: _mode(name) for name in ("mode_coverage", "modes_held", "effective_modes")}
    counts["largest_probability"] = lambda view: jnp.max(view.policy.p)
    sampled: dict[str, Any] = {"group_sample_logp": lambda view: jnp.mean(view.sampler.token_logp(view.group))}
    distinct: dict[str, Any] = {"distinct_rollouts": lambda view: jnp.sum(view.times > 0, dtype=view.change.dtype)}
    return (
        *described(usual, lambda text: text.replace("actions", "leaves").replace("action", "leaf")),
        *table(WORDS, POLICY, {"entropy": lambda view: view.policy.entropy}, units="nat"),
        *table(WORDS, POLICY, {"mode_probability": lambda view: view.policy.p[modes]}, "mode"),
        *table(WORDS, POLICY, counts),
        *table(WORDS, POLICY, {"level_entropy": level_entropy}, "level", units="nat"),
        *table(WORDS, POLICY, {"rank_logp": rank_logp}, "rank", units="nat"),
        *table(WORDS, UPDATE, {"group_rank_logp": group_rank_logp}, "rank", units="nat"),
        *table(WORDS, UPDATE, sampled, units="nat"),
        *table(WORDS, UPDATE, distinct),
        *table(WORDS, UPDATE, _TAILS, "percent"),
    )
