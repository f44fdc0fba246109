"""The policies of a tree's nodes, and what they make of its leaves, exactly.

The policies of all nodes are one ``Policy`` whose arrays have a first axis of nodes, in the order of
``simlab.problems.tree_paths``.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from simlab.problems.tree_paths import path_sums, prefix_sums
from simlab.simulate.policy import Policy, softmax


def node_policies(logits: Float[Array, "nodes B"], temperature: Float[Array, ""]) -> Policy:
    """The softmax policy of each node."""
    policies: Policy = jax.vmap(lambda own: softmax(own, temperature))(logits)
    return policies


def at_nodes(policy: Policy, nodes: Int[Array, " n"]) -> Policy:
    """The policies of some nodes."""
    policies: Policy = jax.tree.map(lambda values: values[nodes], policy)
    return policies


def node_logp(policy: Policy) -> Float[Array, "nodes B"]:
    """log pi of each action at each node."""
    logp: Float[Array, "nodes B"] = jax.vmap(lambda own: own.logp)(policy)
    return logp


def leaf_policy(policy: Policy) -> Policy:
    """The policy over leaves: the log-probability of one adds up along its path ``[casp:app-a-chain-rule]``."""
    logp = path_sums(node_logp(policy))
    return softmax(logp, jnp.ones((), logp.dtype))


def visits(policy: Policy) -> Float[Array, " nodes"]:
    """The probability that a rollout passes through each node."""
    arrivals = prefix_sums(node_logp(policy))[:-1]
    root = jnp.ones(1, policy.total.dtype)
    return jnp.concatenate([root, *(jnp.exp(logp) for logp in arrivals)])


def leaf_change(policy: Policy, change: Float[Array, "nodes B"]) -> Float[Array, " leaves"]:
    """By how much the log-probabilities of leaves change, to first order in a change of logits / temperature.

    The sum along each path of dz_a - sum_b p_b dz_b.
    """
    centre = jnp.sum(policy.weights * change, axis=1, keepdims=True) / policy.total[:, None]
    leaves: Float[Array, " leaves"] = path_sums(change - centre)
    return leaves
