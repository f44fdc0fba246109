"""Closed forms of the gradients of a softmax policy, and sums that are exactly 0 where only rounding is left."""

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from simlab.simulator.storage import Dense

if TYPE_CHECKING:
    from simlab.simulator.policy import Policy

UPDATE_RULES = ("simulator", "simulator_literal", "theorem")


def rule_factor(
    rule: str, policy: "Policy", drawn: Int[Array, " G"], times: Float[Array, " G"] | float = 1.0
) -> Float[Array, " G"]:
    """What an update rule multiplies the coefficient of each rollout with; a rollout stands for ``times`` equal ones.

    ``simulator``: 1, the ratio form (1/G) sum A_i pi_i / sg(pi_i), whose gradient is A grad log pi.
    ``simulator_literal``: p_i, the objective as printed, (1/G) sum A_i p_i ``[f-grpo:app-j]``.
    ``theorem``: p_i over its multiplicity, so that each distinct action counts once ``[f-grpo:eq-5]``.
    """
    storage = policy.storage
    p = storage.at(policy.weights, drawn) / policy.total
    counts = storage.add(jnp.zeros_like(policy.weights), drawn, times)
    return rule_share(rule, p, storage.at(counts, drawn))


def rule_share(rule: str, p: Float[Array, " G"], counts: Float[Array, " G"]) -> Float[Array, " G"]:
    """``rule_factor`` of actions with probabilities ``p`` that a group holds ``counts`` times."""
    if rule == "simulator":
        return jnp.ones_like(p)
    return p / jnp.maximum(counts, 1) if rule == "theorem" else p


def exact_sum(values: Float[Array, " n"], group_size: int | None = None) -> Float[Array, ""]:
    """The sum of ``values``, and exactly 0 where it is no more than rounding.

    Adding pairwise, log2(G) levels deep, errs by at most log2(G) eps sum |v|, and each value arrives with a few eps of
    its own; a sum below that bound carries no digit that means anything. G is ``group_size`` where each value is itself
    a sum, of equal numbers, and otherwise n.
    """
    total, size = values, jnp.abs(values)
    for _ in range((len(values) - 1).bit_length()):
        total, size = _fold(total), _fold(size)
    return _unless_rounding(total[0], size[0], ((group_size or len(values)) - 1).bit_length())


def exact_sums(values: Float[Array, " n"], segments: Int[Array, " n"], count: int) -> Float[Array, " count"]:
    """``exact_sum`` of the values of each of the segments 0 to ``count`` - 1, which ``segments`` names value by value.

    The values of a segment, side by side, are added to those 1, 2, 4, ... places before them: pairwise too.
    """
    if count == 1:
        return exact_sum(values)[None]
    order = jnp.argsort(segments, stable=True)
    owner, place = segments[order], jnp.arange(len(segments), dtype=jnp.int32)
    levels = (len(segments) - 1).bit_length()

    def add(level: Int[Array, ""], sums: Float[Array, " n"]) -> Float[Array, " n"]:
        before = place - (1 << level)
        return sums + jnp.where((before >= 0) & (owner[before] == owner), sums[before], 0)

    sums = jax.lax.fori_loop(0, levels, add, values[order])
    last = jnp.concatenate([owner[1:] != owner[:-1], jnp.ones(1, bool)])
    total = jnp.zeros(count, values.dtype).at[jnp.where(last, owner, count)].set(sums, mode="drop")
    size = jnp.zeros(count, values.dtype).at[segments].add(jnp.abs(values))
    return _unless_rounding(total, size, levels)


def _unless_rounding(total: Float[Array, "*n"], size: Float[Array, "*n"], levels: int) -> Float[Array, "*n"]:
    """A sum of values of total ``size``, added so many levels deep, and 0 where it is no more than rounding."""
    bound = (levels + 8) * float(np.finfo(total.dtype).eps) * size
    return jnp.where(jnp.abs(total) <= bound, jnp.zeros_like(total), total)


def _fold(values: Float[Array, " n"]) -> Float[Array, " m"]:
    """Sums of the first half and the second."""
    even = jnp.pad(values, (0, values.shape[0] % 2))
    half = even.shape[0] // 2
    return even[:half] + even[half:]


def entropy_gradient(policy: "Policy") -> Float[Array, " S"]:
    """Gradient of the entropy with respect to the scores: -p_j (log p_j + H)."""
    return -policy.p * (policy.logp + policy.entropy)


def kl_gradient(policy: "Policy", initial_logp: Float[Array, " S"]) -> Float[Array, " S"]:
    """Gradient of KL(pi || pi_0) with respect to the scores: p_j (log p_j - log p0_j - KL)."""
    gap = policy.logp - initial_logp
    return policy.p * (gap - policy.sum(policy.shares * gap))


def with_norm(
    change: Float[Array, "..."], norm: Float[Array, ""], members: Float[Array, "..."] | float, storage: Dense
) -> Float[Array, "..."]:
    """The change of the parameters scaled to a Euclidean norm; a change of 0 stays 0.

    Each entry counts as often as it has ``members``. The largest entry is divided out first, for the squares of small
    entries to keep their digits.
    """
    largest = storage.largest_size(change)
    direction = change / jnp.where(largest > 0, largest, 1)
    length = jnp.sqrt(jnp.maximum(storage.sum_of_all(members * direction**2), 1))
    return direction * jnp.where(largest > 0, norm / length, 0)
