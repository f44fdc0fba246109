"""Weigh tokens by who drew them: a sampler that is older, less precise or truncated, and turns of isolated tokens.

Three policies meet in a gradient step: the sampler that drew the group, the policy at the start of the step
(proximal), and the policy that each gradient step moves. A correction says against which of them the ratio is taken,
and which weight a token has besides:

- ``none``: the ratio is against the proximal policy, as if that had drawn the group;
- ``ratio``: the ratio is against the sampler, so that a surrogate's clip bounds both differences at once;
- ``decoupled``: the ratio is against the proximal policy, and each token weighs proximal / sampler (decoupled PPO);
- ``truncated``: the same, but at most ``correction_bound`` (truncated importance sampling, TIS);
- ``masked``: the same, but 0 where it is not between 1 / bound and bound (masked importance sampling).

A token of probability .3 now, and .1 for the sampler, weighs 3 (decoupled); with a bound of 2, 2 (truncated) or 0.

Sources: decoupled PPO, arXiv 2110.00641 and, for language models, AReaL, arXiv 2505.24298; truncation, the blog
"Your Efficient RL Framework Secretly Brings You Off-Policy RL Training" (Yao et al., 2025); masks, IcePop (Ring-1T) and
verl's ``docs/algo/rollout_corr.md``, whose bounds are 1 / bound and bound too. verl takes what is masked out of the
denominator of the loss as well; here, and in slime before its pull request 657, it stays in.
"""

from typing import Any

import jax
import jax.numpy as jnp
from array_api_compat import array_namespace
from jaxtyping import Array, Float

from simlab.simulator.storage import EMPTY

CORRECTIONS = ("none", "ratio", "decoupled", "truncated", "masked")
UNITS = ("token", "sequence")
PRECISIONS = ("bfloat16", "float16")
TRUNCATIONS = ("top_p", "top_k")
SAMPLERS = ("exact", *PRECISIONS, *TRUNCATIONS)
TIE = 1e-6  # nats, the rounding of a log-probability that was computed twice


def importance_weights(
    log_ratio: Float[Array, "P G T"], correction: str, unit: str, bound: Any
) -> Float[Array, "P G #T"] | None:
    """Return the importance weight of each token, from its log(proximal / sampler); None where it is 1."""
    if correction in ("none", "ratio"):
        return None
    weight = jnp.exp(jnp.sum(log_ratio, axis=2, keepdims=True) if unit == "sequence" else log_ratio)
    if correction == "truncated":
        return jnp.minimum(weight, bound)
    return jnp.where((weight <= bound) & (weight * bound >= 1), weight, 0) if correction == "masked" else weight


def sampler_logits(
    sampler: str, logits: Float[Array, "... A"], temperature: Any = 1.0, top_p: Any = 1.0, top_k: int = 0
) -> Float[Array, "... A"]:
    """Return the logits of a sampler: in its precision, or ``EMPTY`` where it never draws.

    ``top_k`` keeps the likeliest actions, 0 for all; ``top_p`` the fewest likeliest ones whose probabilities at the
    temperature add up to at least that share (nucleus sampling, arXiv 1904.09751). Of equal actions the first come
    first.
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
    nucleus = (before < top_p) | (top_p >= 1)  # whatever rounding adds to the sum
    return jnp.where(jnp.take_along_axis(nucleus, rank, axis=-1), logits, EMPTY)


def takes_part(logp: Any, isolation: Any, is_first_turn: Any) -> Any:
    """Return True for the tokens that a gradient step of one of the two turns of Lopti learns from.

    Lopti (low-probability token isolation, arXiv 2505.12929; ``seperate_prob``, by default .5, in
    ``verl/trainer/ppo/ray_trainer.py`` of zhyang2226/AR-Lopti) goes through a batch twice: first all gradient steps on
    the tokens whose probability on record is below the threshold (by more than rounding), then all on the others.
    Advantages, denominators and divisors are those of the whole batch in both; ``kl``, ``entropy_bonus`` and
    ``supervised`` of a run act in every gradient step, penalties of the arm go with their tokens. The code's other
    threshold, a quantile, is left out.
    """
    return (array_namespace(logp).exp(logp + TIE) < isolation) == is_first_turn
