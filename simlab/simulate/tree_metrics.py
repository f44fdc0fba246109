"""What is recorded of a tree beside what is recorded of its leaves as one policy: modes, nodes, tokens of a group."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from simlab.estimators.tokens import covariance_terms
from simlab.problems.categorical import pass_at_k
from simlab.problems.tree_paths import first_node
from simlab.simulate.metrics import DESCRIPTIONS, Row
from simlab.simulate.policy import Policy
from simlab.simulate.tree_policy import leaf_policy, visits
from simlab.theory.covariance import covariance_thresholds

RESPONSES = 1000  # in which CaSP's Figure 5(e) looks for modes
HELD = 0.01  # the probability from which on a mode counts as held

_EXACT = "; exact expectation over rollouts of the policy"
_OF_GROUP = "; mean over the tokens of the last group, under the policy that drew it"
_TAIL = "that this percentage of the tokens of the last group with a {} covariance reach or pass (CW-GRPO Table 1)"

TREE_DESCRIPTIONS = {name: text.replace("action", "leaf") for name, text in DESCRIPTIONS.items()} | {
    "entropy": "entropy of the leaf reached in nats, the sum of level_entropy",
    "mode_probability": "probability of the rewarded leaf",
    "mode_coverage": f"rewarded leaves that {RESPONSES} responses are expected to reach (CaSP Figure 5(e))",
    "modes_held": f"rewarded leaves with a probability of {HELD} or more",
    "effective_modes": "exp of the entropy of the rewarded leaf reached, given that one is",
    "largest_probability": "probability of the likeliest leaf",
    "level_entropy": f"entropy in nats at the node of the level{_EXACT}",
    "rank_logp": f"log-probability of the n likeliest action at a node (CaSP Eq. 2), mean over levels{_EXACT}",
    "group_rank_logp": f"log-probability of the n likeliest action at a node (CaSP Eq. 2){_OF_GROUP}",
    "group_sample_logp": f"log-probability of the sampled action at a node (CaSP Eq. 2){_OF_GROUP}",
    "distinct_rollouts": "distinct leaves that the last group reached",
    "positive_covariance": f"covariance {_TAIL.format('positive')}",
    "negative_covariance": f"covariance {_TAIL.format('negative')}",
}


def tree_metrics(policy: Policy, correct: Bool[Array, " leaves"], modes: Int[Array, " modes"], top_n: int) -> Row:
    """Quantities of the policies of all nodes alone."""
    p, seen = leaf_policy(policy).p, visits(policy)
    row = mode_metrics(p, correct) | {"mode_probability": p[modes], "largest_probability": jnp.max(p)}
    row["level_entropy"] = jnp.stack(by_level(seen * jax.vmap(lambda own: own.entropy)(policy), policy))
    if top_n:
        levels = len(row["level_entropy"])
        row["rank_logp"] = jnp.sum(seen[:, None] * ranks(policy, top_n), axis=0) / levels
    return row


def mode_metrics(p: Float[Array, " leaves"], correct: Bool[Array, " leaves"]) -> Row:
    """How many rewarded leaves are left, counted in three ways; the effective number is NaN without any."""
    rewarded = jnp.where(correct, p, 0)
    mass = jnp.sum(rewarded)
    share = jnp.where(rewarded > 0, rewarded, 1) / jnp.where(mass > 0, mass, 1)
    entropy = -jnp.sum(jnp.where(rewarded > 0, share * jnp.log(share), 0))
    return {
        "mode_coverage": jnp.sum(pass_at_k(rewarded, RESPONSES)),
        "modes_held": jnp.sum(rewarded >= HELD, dtype=p.dtype),
        "effective_modes": jnp.where(mass > 0, jnp.exp(entropy), jnp.nan),
    }


def by_level(values: Float[Array, " nodes"], policy: Policy) -> list[Float[Array, ""]]:
    """The sum of a value of each node over the nodes of each level."""
    branching, sums, level = policy.scores.shape[1], [], 0
    while (first := first_node(level, branching)) < len(values):
        sums.append(jnp.sum(values[first : first_node(level + 1, branching)]))
        level += 1
    return sums


def ranks(policy: Policy, top_n: int) -> Float[Array, "nodes top_n"]:
    """The log-probabilities of the likeliest actions of some nodes, NaN beyond the number of actions."""
    top = jax.vmap(lambda own: own.top(top_n)[0])(policy)
    return jnp.pad(top, ((0, 0), (0, top_n - top.shape[1])), constant_values=jnp.nan)


def group_metrics(passed: Policy, logp: Float[Array, "G T"], times: Float[Array, " leaves"], top_n: int) -> Row:
    """Quantities of a group, from the policies at its tokens, their log-probabilities, and how often leaves occur.

    Lambda(n) is the mean over rollouts and tokens of log pi of the rank-n candidate, Lambda(sample) that of the sampled
    token ``[casp:eq-2-sample]``.
    """
    row = {"distinct_rollouts": jnp.sum(times > 0, dtype=logp.dtype), "group_sample_logp": jnp.mean(logp)}
    if top_n:
        row["group_rank_logp"] = jnp.mean(ranks(passed, top_n), axis=0)
    return row


def covariance_metrics(advantages: Float[Array, "1 G T"], logp: Float[Array, "1 G T"]) -> Row:
    """Thresholds of the covariance among the tokens of either sign ``[cw-grpo:table-1-dominance]``.

    c = (log pi - its mean)(A - its mean) over the tokens of the group; NaN where no token has the sign.
    """
    c = covariance_terms(advantages, logp, jnp.ones_like(logp), "group").reshape(-1)
    positive, negative = covariance_thresholds(c)
    return {"positive_covariance": positive, "negative_covariance": negative}
