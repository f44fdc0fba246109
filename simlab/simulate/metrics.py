"""What is recorded: quantities of the policy, and of the last group that updated it."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from simlab.problems.categorical import correct_mass, pass_at_k, retained_mass, share_kept
from simlab.simulate.policy import Policy, softmax

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
    """Quantities of the policy alone."""
    p, initial_p = policy.p, initial.p
    q_pos = correct_mass(p, correct)
    row = {
        "q_pos": q_pos,
        "retained_mass": retained_mass(p, initial_p, correct),
        "share_correct_kept": share_kept(p, initial_p, correct),
        "entropy": policy.entropy,
    }
    if ks:
        row["pass_at_k"] = jnp.stack([pass_at_k(q_pos, k) for k in ks])
    if top_n:
        row["top_logp"] = jax.lax.top_k(policy.scores, top_n)[0] - jnp.log(policy.total)
    return row


def update_metrics(
    before: Float[Array, " N"],
    after: Float[Array, " N"],
    actions: Int[Array, " G"],
    correct: Bool[Array, " N"],
    temperature: Float[Array, ""],
) -> Row:
    """Quantities of one update: logits ``before`` and ``after`` it, and the group that made it."""
    old, new = softmax(before, temperature), softmax(after, temperature)
    missed = correct & (jnp.zeros_like(correct, dtype=jnp.int32).at[actions].add(1) == 0)
    change = (after - before) / temperature
    # dp_i = p_i (dz_i - sum_j p_j dz_j)  [f-grpo:eq-18]
    predicted = old.p * (change - jnp.sum(old.p * change))
    distinct = jnp.sum(correct) - jnp.sum(missed)
    return {
        "unsampled_correct_mass": correct_mass(old.p, missed),
        "distinct_correct": distinct.astype(before.dtype),
        "d_q_pos": correct_mass(new.p - old.p, correct),
        "d_q_pos_predicted": correct_mass(predicted, correct),
        "d_q_upos": correct_mass(new.p - old.p, missed),
        "d_q_upos_predicted": correct_mass(predicted, missed),
    }


def join(first: Row, rows: Row) -> Row:
    """Prepend the row of step 0, where quantities of an update do not exist yet and read NaN."""
    start = {name: jnp.full_like(values[0], jnp.nan) for name, values in rows.items()} | first
    return {name: jnp.concatenate([start[name][None], values]) for name, values in rows.items()}
