"""What is recorded: quantities of the policy, and of the last group that updated it."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from simlab.problems.categorical import correct_mass, pass_at_k, retained_mass, share_kept
from simlab.simulate.policy import Policy

Row = dict[str, Array]

DESCRIPTIONS = {
    "q_pos": "probability of a correct action, Q_pos",
    "retained_mass": "retained positive mass, M_ret (F-GRPO Eq. 26)",
    "share_correct_kept": "share of correct actions at or above their initial probability",
    "entropy": "entropy of the policy in nats",
    "pass_at_k": "probability that k samples hold a correct one, 1 - (1 - Q_pos)^k",
    "top_logp": "log-probability of the n likeliest actions",
    "unsampled_correct_mass": "mass, before the last update, of correct actions its group missed, Q_upos",
    "distinct_correct": "distinct correct actions in the group of the last update",
    "d_q_pos": "change of Q_pos in the last update",
    "d_q_pos_predicted": "first-order prediction of d_q_pos from the logit change (F-GRPO Eq. 19)",
    "d_q_upos": "change, in the last update, of the mass of the correct actions its group missed",
    "d_q_upos_predicted": "first-order prediction of d_q_upos from the logit change (F-GRPO Eq. 19)",
    "active_rate": "share of groups since the last record with both outcomes",
    "tail_miss_rate": "share of groups since the last record with both outcomes and none of the target set",
}


def policy_metrics(policy: Policy, initial: Policy, correct: Bool[Array, " N"], ks: tuple[int, ...], top_n: int) -> Row:
    """Quantities of the policy alone. ``initial`` has the places of ``policy``, at their first logits."""
    q_pos = correct_mass(policy.shares, correct, policy.sum)
    members = 1.0 if policy.counts is None else policy.members
    row = {
        "q_pos": q_pos,
        "retained_mass": retained_mass(policy.p, initial.p, correct, members, policy.sum),
        "share_correct_kept": share_kept(policy.p, initial.p, correct, members, policy.sum),
        "entropy": policy.entropy,
    }
    if ks:
        row["pass_at_k"] = jnp.stack([pass_at_k(q_pos, k) for k in ks])
    if top_n:
        row["top_logp"] = policy.top(top_n)[0]
    return row


def update_metrics(
    old: Policy, new: Policy, change: Float[Array, " N"], times: Float[Array, " N"], correct: Bool[Array, " N"]
) -> Row:
    """Quantities of one update: the policies before and after it, by how much the scores moved, and its group.

    ``change`` is that of logits / temperature; ``times`` is how often the group holds the action of each place.
    """
    missed = correct & (times == 0)
    # dp_i = p_i (dz_i - sum_j p_j dz_j)  [f-grpo:eq-18]
    predicted = old.shares * (change - old.sum(old.shares * change))
    return {
        "unsampled_correct_mass": correct_mass(old.shares, missed, old.sum),
        "distinct_correct": old.axis.sum(correct & (times > 0)).astype(change.dtype),
        "d_q_pos": correct_mass(new.shares - old.shares, correct, old.sum),
        "d_q_pos_predicted": correct_mass(predicted, correct, old.sum),
        "d_q_upos": correct_mass(new.shares - old.shares, missed, old.sum),
        "d_q_upos_predicted": correct_mass(predicted, missed, old.sum),
    }


def join(first: Row, rows: Row) -> Row:
    """Prepend the row of step 0, where quantities of an update do not exist yet and read NaN."""
    start = {name: jnp.full_like(values[0], jnp.nan) for name, values in rows.items()} | first
    return {name: jnp.concatenate([start[name][None], values]) for name, values in rows.items()}
