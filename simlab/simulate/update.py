"""From the coefficients of a group to the gradient of the logits."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from simlab.simulate.axis import WHOLE, Axis
from simlab.simulate.policy import Policy

UPDATE_RULES = ("simulator", "simulator_literal", "theorem")


def rule_factor(
    rule: str, policy: Policy, actions: Int[Array, " G"], times: Float[Array, " G"] | float = 1.0
) -> Float[Array, " G"]:
    """What an update rule multiplies the coefficient of each rollout with; a rollout stands for ``times`` equal ones.

    ``simulator``: 1, the ratio form (1/G) sum A_i pi_i / sg(pi_i), whose gradient is A grad log pi.
    ``simulator_literal``: p_i, the objective as printed, (1/G) sum A_i p_i ``[f-grpo:app-j]``.
    ``theorem``: p_i over its multiplicity, so that each distinct action counts once ``[f-grpo:eq-5]``.
    """
    axis = policy.axis
    p = axis.at(policy.weights, actions) / policy.total
    counts = axis.add(jnp.zeros_like(policy.weights), actions, times)
    return rule_share(rule, p, axis.at(counts, actions))


def rule_share(rule: str, p: Float[Array, " G"], counts: Float[Array, " G"]) -> Float[Array, " G"]:
    """``rule_factor`` of actions with probabilities ``p`` that a group holds ``counts`` times."""
    if rule == "simulator":
        return jnp.ones_like(p)
    return p / jnp.maximum(counts, 1) if rule == "theorem" else p


def logit_gradient(
    coefficients: Float[Array, " G"], actions: Int[Array, " G"], policy: Policy, temperature: Float[Array, ""]
) -> Float[Array, " N"]:
    """sum_i c_i grad log pi(a_i): for action j, (sum of c_i with a_i = j) - p_j (sum of all c_i), over temperature.

    The p_j term is what moves actions that were not sampled. It vanishes exactly, in every dtype, for coefficients
    that sum to zero: automatic differentiation would leave rounding noise there, which Adam enlarges.
    """
    sums = policy.axis.add(jnp.zeros_like(policy.weights), actions, coefficients)
    return gradient_from_sums(sums, exact_sum(coefficients), policy, temperature)


def gradient_from_sums(
    sums: Float[Array, " N"], total: Float[Array, ""], policy: Policy, temperature: Float[Array, ""]
) -> Float[Array, " N"]:
    """``logit_gradient``, from the sum of the coefficients of each action and that of all."""
    return (sums - policy.p * total) / temperature


def exact_sum(values: Float[Array, " G"]) -> Float[Array, ""]:
    """The sum of ``values``, and exactly 0 where it is no more than rounding.

    Adding pairwise, log2(G) levels deep, errs by at most log2(G) eps sum |v|, and each value arrives with a few eps of
    its own; a sum below that bound carries no digit that means anything.
    """
    levels = (values.shape[0] - 1).bit_length()
    total, size = values, jnp.abs(values)
    for _ in range(levels):
        total, size = _fold(total), _fold(size)
    return _unless_rounding(total[0], size[0], levels)


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


def entropy_gradient(policy: Policy, temperature: Float[Array, ""]) -> Float[Array, " N"]:
    """Gradient of the entropy: -p_j (log p_j + H) / temperature."""
    return -policy.p * (policy.logp + policy.entropy) / temperature


def kl_gradient(policy: Policy, initial_logp: Float[Array, " N"], temperature: Float[Array, ""]) -> Float[Array, " N"]:
    """Gradient of KL(pi || pi_0): p_j (log p_j - log p0_j - KL) / temperature."""
    gap = policy.logp - initial_logp
    return policy.p * (gap - policy.sum(policy.shares * gap)) / temperature


def with_norm(change: Float[Array, "..."], norm: Float[Array, ""], axis: Axis = WHOLE) -> Float[Array, "..."]:
    """The change scaled to a Euclidean norm; a change of 0 stays 0.

    The largest entry is divided out first, for the squares of small entries to keep their digits.
    """
    largest = axis.largest(jnp.abs(change))
    direction = change / jnp.where(largest > 0, largest, 1)
    return direction * jnp.where(largest > 0, norm / jnp.sqrt(jnp.maximum(axis.sum(direction**2), 1)), 0)
