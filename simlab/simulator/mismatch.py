"""Correct for a sampler that is not the policy: older by some steps, or computed another way.

Three policies meet in a gradient step: the sampler that drew the group, the policy at the start of the step
(proximal), and the policy that each gradient step moves. A correction says against which of them the ratio is taken,
and which weight a token has besides:

- ``none``: the ratio is against the proximal policy, as if that had drawn the group;
- ``ratio``: the ratio is against the sampler, so that a surrogate's clip bounds both differences at once;
- ``decoupled``: the ratio is against the proximal policy, and each token weighs proximal / sampler (decoupled PPO);
- ``truncated``: the same, but at most ``correction_bound`` (truncated importance sampling, TIS);
- ``masked``: the same, but 0 where it is not between 1 / bound and bound (masked importance sampling).

A token of probability .3 now, and .1 for the sampler, weighs 3 (decoupled), and with a bound of 2 it weighs 2
(truncated) or 0 (masked).
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

CORRECTIONS = ("none", "ratio", "decoupled", "truncated", "masked")
UNITS = ("token", "sequence")
SAMPLERS = ("exact", "bfloat16", "float16")


def importance(
    log_ratio: Float[Array, "P G T"], correction: str, unit: str, bound: Any
) -> Float[Array, "P G #T"] | None:
    """What a token weighs besides, from log(proximal / sampler) of each; None where it is 1."""
    if correction in ("none", "ratio"):
        return None
    weight = jnp.exp(jnp.sum(log_ratio, axis=2, keepdims=True) if unit == "sequence" else log_ratio)
    if correction == "truncated":
        return jnp.minimum(weight, bound)
    return jnp.where((weight <= bound) & (weight * bound >= 1), weight, 0) if correction == "masked" else weight


def seen_by(sampler: str, logits: Float[Array, "..."]) -> Float[Array, "..."]:
    """The logits as a sampler has them, in its precision."""
    return logits if sampler == "exact" else logits.astype(sampler).astype(logits.dtype)
