"""Metrics of a tree beside those of its leaves as one policy: of its modes, its nodes, and the tokens of a group."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from simlab.estimators.tokens import covariance_terms
from simlab.problems.base import AnyArray
from simlab.problems.exact import pass_at_k
from simlab.problems.tree_paths import first_node
from simlab.simulator.metrics import POLICY, UPDATE, USUAL, Metric, OnePolicy, OneUpdate, Row
from simlab.simulator.policy import Policy
from simlab.simulator.tree_policy import TreePolicy
from simlab.theory.covariance import covariance_thresholds

RESPONSES = 1000  # in which CaSP's Figure 5(e) looks for modes
HELD = 0.01  # the probability from which on a mode counts as held

_EXACT = "; exact expectation over rollouts of the policy"
_OF_GROUP = "; mean over the tokens of the last group, under the policy that drew it"
_TAIL = "that this percentage of the tokens of the last group with a {} covariance reach or pass (CW-GRPO Table 1)"


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


def level_entropy(own: TreePolicy) -> Float[Array, " T"]:
    """The expected entropy at the node of each level."""
    return jnp.stack(by_level(own.visits * jax.vmap(lambda node: node.entropy)(own.nodes), own.nodes))


def rank_logp(one: OnePolicy) -> Float[Array, " top_n"]:
    """Lambda(n), expected: log pi of the rank-n candidate, mean over levels."""
    own: TreePolicy = one.own
    return jnp.sum(own.visits[:, None] * ranks(own.nodes, one.top_n), axis=0) / own.depth


def group_rank_logp(one: OneUpdate) -> Float[Array, " top_n"]:
    """Lambda(n), the mean over rollouts and tokens of log pi of the rank-n candidate ``[casp:eq-2-sample]``."""
    nodes, _ = one.sampler.passed(one.group)
    return jnp.mean(ranks(one.sampler.at(nodes.reshape(-1)), one.top_n), axis=0)


def covariances(one: OneUpdate) -> tuple[Array, Array]:
    """Thresholds of the covariance among the tokens of either sign ``[cw-grpo:table-1-dominance]``.

    c = (log pi - its mean)(A - its mean) over the tokens of the group; NaN where no token has the sign.
    """
    logp = one.sampler.token_logp(one.group)[None]
    advantages = jnp.broadcast_to(one.advantages[None], logp.shape)
    positive, negative = covariance_thresholds(
        covariance_terms(advantages, logp, jnp.ones_like(logp), "group").reshape(-1)
    )
    return positive, negative


def _mode(name: str) -> Any:
    return lambda one: mode_metrics(one.policy.p, one.correct)[name]


def of_a_tree(modes: Int[AnyArray, " modes"]) -> tuple[Metric, ...]:
    """What is recorded of a tree with these modes."""
    usual = tuple(
        metric.described(lambda text: text.replace("actions", "leaves").replace("action", "leaf"))
        for metric in USUAL
        if metric.name != "entropy"
    )
    own = (
        Metric(
            "entropy",
            "entropy of the leaf reached in nats, the sum of level_entropy",
            POLICY,
            lambda one: one.policy.entropy,
            units="nat",
        ),
        Metric(
            "mode_probability", "probability of the rewarded leaf", POLICY, lambda one: one.policy.p[modes], ("mode",)
        ),
        Metric(
            "mode_coverage",
            f"rewarded leaves that {RESPONSES} responses are expected to reach (CaSP Figure 5(e))",
            POLICY,
            _mode("mode_coverage"),
        ),
        Metric("modes_held", f"rewarded leaves with a probability of {HELD} or more", POLICY, _mode("modes_held")),
        Metric(
            "effective_modes",
            "exp of the entropy of the rewarded leaf reached, given that one is",
            POLICY,
            _mode("effective_modes"),
        ),
        Metric("largest_probability", "probability of the likeliest leaf", POLICY, lambda one: jnp.max(one.policy.p)),
        Metric(
            "level_entropy",
            f"entropy in nats at the node of the level{_EXACT}",
            POLICY,
            lambda one: level_entropy(one.own),
            ("level",),
            "nat",
        ),
        Metric(
            "rank_logp",
            f"log-probability of the n likeliest action at a node (CaSP Eq. 2), mean over levels{_EXACT}",
            POLICY,
            rank_logp,
            ("rank",),
            "nat",
        ),
        Metric(
            "group_rank_logp",
            f"log-probability of the n likeliest action at a node (CaSP Eq. 2){_OF_GROUP}",
            UPDATE,
            group_rank_logp,
            ("rank",),
            "nat",
        ),
        Metric(
            "group_sample_logp",
            f"log-probability of the sampled action at a node (CaSP Eq. 2){_OF_GROUP}",
            UPDATE,
            lambda one: jnp.mean(one.sampler.token_logp(one.group)),
            units="nat",
        ),
        Metric(
            "distinct_rollouts",
            "distinct leaves that the last group reached",
            UPDATE,
            lambda one: jnp.sum(one.times > 0, dtype=one.change.dtype),
        ),
        Metric(
            "positive_covariance",
            f"covariance {_TAIL.format('positive')}",
            UPDATE,
            lambda one: covariances(one)[0],
            ("percent",),
        ),
        Metric(
            "negative_covariance",
            f"covariance {_TAIL.format('negative')}",
            UPDATE,
            lambda one: covariances(one)[1],
            ("percent",),
        ),
    )
    return usual + own
