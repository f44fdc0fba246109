"""Metrics of a tree beside those of its leaves as one policy: of its modes, its nodes, and the tokens of a group."""

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from simlab.estimators.tokens import covariance_terms
from simlab.problems.exact import pass_at_k
from simlab.problems.tree_paths import first_node
from simlab.simulator.metrics import POLICY, UPDATE, USUAL_METRICS, Metric, PolicyView, UpdateView, described, table
from simlab.simulator.policy import SoftmaxPolicy
from simlab.simulator.state import Records
from simlab.simulator.tree_policy import TreePolicy
from simlab.theory.covariance import covariance_thresholds

RESPONSES = 1000  # in which CaSP's Figure 5(e) looks for modes
HELD = 0.01  # a mode of at least this probability counts as held


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
_TAIL = (
    "covariance that this percentage of the tokens of the last group with a {} covariance reach or pass "
    "(CW-GRPO Table 1)"
)
_RANKED = "log-probability of the n likeliest action at a node (CaSP Eq. 2)"


def tree_metrics(modes: Any) -> tuple[Metric, ...]:
    """Return the metrics of a tree with these modes, (modes,) leaves."""
    usual = (metric for metric in USUAL_METRICS if metric.name != "entropy")
    reached = "entropy of the leaf reached in nats, the sum of level_entropy", lambda view: view.policy.entropy
    sampled = (
        f"log-probability of the sampled action at a node (CaSP Eq. 2){_OF_GROUP}",
        lambda view: jnp.mean(view.sampler.token_logp(view.group)),
    )
    level = f"entropy in nats at the node of the level{_EXACT}", level_entropy
    of_mode = "probability of the rewarded leaf", lambda view: view.policy.p[modes]
    counts = {
        "mode_coverage": (
            f"rewarded leaves that {RESPONSES} responses are expected to reach (CaSP Figure 5(e))",
            _mode("mode_coverage"),
        ),
        "modes_held": (f"rewarded leaves with a probability of {HELD} or more", _mode("modes_held")),
        "effective_modes": (
            "exp of the entropy of the rewarded leaf reached, given that one is",
            _mode("effective_modes"),
        ),
        "largest_probability": ("probability of the likeliest leaf", lambda view: jnp.max(view.policy.p)),
    }
    distinct = (
        "distinct leaves that the last group reached",
        lambda view: jnp.sum(view.times > 0, dtype=view.change.dtype),
    )
    tails = {
        "positive_covariance": (_TAIL.format("positive"), lambda view: covariances(view)[0]),
        "negative_covariance": (_TAIL.format("negative"), lambda view: covariances(view)[1]),
    }
    return (
        *described(usual, lambda text: text.replace("actions", "leaves").replace("action", "leaf")),
        *table(POLICY, {"entropy": reached}, units="nat"),
        *table(POLICY, {"mode_probability": of_mode}, ("mode",)),
        *table(POLICY, counts),
        *table(POLICY, {"level_entropy": level}, ("level",), units="nat"),
        *table(POLICY, {"rank_logp": (f"{_RANKED}, mean over levels{_EXACT}", rank_logp)}, ("rank",), units="nat"),
        *table(UPDATE, {"group_rank_logp": (f"{_RANKED}{_OF_GROUP}", group_rank_logp)}, ("rank",), units="nat"),
        *table(UPDATE, {"group_sample_logp": sampled}, units="nat"),
        *table(UPDATE, {"distinct_rollouts": distinct}),
        *table(UPDATE, tails, ("percent",)),
    )
