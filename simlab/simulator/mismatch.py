"""Correct for a sampler that is not the policy: older by some steps, of another precision, or truncated.

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

Sources: decoupled PPO, arXiv 2110.00641 and, for language models, AReaL, arXiv 2505.24298; truncation, the blog
"Your Efficient RL Framework Secretly Brings You Off-Policy RL Training" (Yao et al., 2025); masks, IcePop (Ring-1T) and
verl's ``docs/algo/rollout_corr.md``, whose bounds are 1 / bound and bound too. verl takes what is masked out of the
denominator of the loss as well; here, and in slime before its pull request 657, it stays in.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from simlab.simulator.storage import EMPTY

CORRECTIONS = ("none", "ratio", "decoupled", "truncated", "masked")
UNITS = ("token", "sequence")
PRECISIONS = ("bfloat16", "float16")
TRUNCATIONS = ("top_p", "top_k")
SAMPLERS = ("exact", *PRECISIONS, *TRUNCATIONS)


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


def seen_by(
    sampler: str, logits: Float[Array, "... A"], temperature: Any = 1.0, top_p: Any = 1.0, top_k: int = 0
) -> Float[Array, "... A"]:
    """The logits as a sampler has them: in its precision, or ``EMPTY`` where it never draws.

    ``top_k`` keeps so many of the likeliest actions, 0 for all; ``top_p`` the fewest likeliest ones whose probabilities
    at the temperature add up to at least that share (nucleus sampling, arXiv 1904.09751). Of equal actions the first
    come first.
    """
    if sampler in PRECISIONS:
        return logits.astype(sampler).astype(logits.dtype)
    if sampler == "exact" or (sampler == "top_k" and top_k == 0):
        return logits
    order = jnp.argsort(-logits, axis=-1, stable=True)
    rank = jnp.argsort(order, axis=-1)
    if sampler == "top_k":
        return jnp.where(rank < top_k, logits, EMPTY)
    p = jnp.take_along_axis(jax.nn.softmax(logits / temperature, axis=-1), order, axis=-1)
    before = jnp.cumsum(p, axis=-1) - p
    kept = (before < top_p) | (top_p >= 1)  # whatever rounding adds to the sum
    return jnp.where(jnp.take_along_axis(kept, rank, axis=-1), logits, EMPTY)
