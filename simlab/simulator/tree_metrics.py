"""Metrics of a tree beside those of its leaves as one policy: of its modes, its nodes, and the tokens of a group."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from simlab.estimators.tokens import covariance_terms
from simlab.problems.exact import pass_at_k
from simlab.problems.tree_paths import first_node
from simlab.simulator.metrics import POLICY, UPDATE, USUAL_METRICS, Metric, PolicyView, UpdateView
from simlab.simulator.policy import SoftmaxPolicy
from simlab.simulator.state import Records
from simlab.simulator.tree_policy import TreePolicy
from simlab.theory.covariance import covariance_thresholds

RESPONSES = 1000  # in which CaSP's Figure 5(e) looks for modes
HELD = 0.01  # a mode of at least this probability counts as held

_EXACT = "; exact expectation over rollouts of the policy"
_OF_GROUP = "; mean over the tokens of the last group, under the policy that drew it"
_TAIL = "that this percentage of the tokens of the last group with a {} covariance reach or pass (CW-GRPO Table 1)"


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


def by_level(values: Float[Array, " nodes"], policy: SoftmaxPolicy) -> list[Float[Array, ""]]:
    """Return the sum of a value of each node over the nodes of each level."""
    branching, sums, level = policy.scores.shape[1], [], 0
    while (first := first_node(level, branching)) < len(values):
        sums.append(jnp.sum(values[first : first_node(level + 1, branching)]))
        level += 1
    return sums


def top_logps(policy: SoftmaxPolicy, top_n: int) -> Float[Array, "nodes top_n"]:
    """Return the log-probabilities of the likeliest actions of some nodes, NaN beyond the number of actions."""
    top = jax.vmap(lambda node: node.top(top_n)[0])(policy)
    return jnp.pad(top, ((0, 0), (0, top_n - top.shape[1])), constant_values=jnp.nan)


def level_entropy(policy: TreePolicy) -> Float[Array, " T"]:
    """Return the expected entropy at the node of each level."""
    return jnp.stack(by_level(policy.visits * jax.vmap(lambda node: node.entropy)(policy.nodes), policy.nodes))


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
    positive, negative = covariance_thresholds(
        covariance_terms(advantages, logp, jnp.ones_like(logp), "group").reshape(-1)
    )
    return positive, negative


def _mode(name: str) -> Any:
    return lambda view: mode_metrics(view.policy.p, view.correct)[name]


def tree_metrics(modes: Any) -> tuple[Metric, ...]:
    """Return the metrics of a tree with these modes, (modes,) leaves."""
    usual = tuple(
        metric.described(lambda text: text.replace("actions", "leaves").replace("action", "leaf"))
        for metric in USUAL_METRICS
        if metric.name != "entropy"
    )
    others = (
        Metric(
            "entropy",
            "entropy of the leaf reached in nats, the sum of level_entropy",
            POLICY,
            lambda view: view.policy.entropy,
            units="nat",
        ),
        Metric(
            "mode_probability", "probability of the rewarded leaf", POLICY, lambda view: view.policy.p[modes], ("mode",)
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
        Metric("largest_probability", "probability of the likeliest leaf", POLICY, lambda view: jnp.max(view.policy.p)),
        Metric(
            "level_entropy",
            f"entropy in nats at the node of the level{_EXACT}",
            POLICY,
            lambda view: level_entropy(view.token_policy),
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
            lambda view: jnp.mean(view.sampler.token_logp(view.group)),
            units="nat",
        ),
        Metric(
            "distinct_rollouts",
            "distinct leaves that the last group reached",
            UPDATE,
            lambda view: jnp.sum(view.times > 0, dtype=view.change.dtype),
        ),
        Metric(
            "positive_covariance",
            f"covariance {_TAIL.format('positive')}",
            UPDATE,
            lambda view: covariances(view)[0],
            ("percent",),
        ),
        Metric(
            "negative_covariance",
            f"covariance {_TAIL.format('negative')}",
            UPDATE,
            lambda view: covariances(view)[1],
            ("percent",),
        ),
    )
    return usual + others
