"""Allocate the rollouts of a step: how many each prompt gets, which prompts are drawn, and which groups are kept.

Every rule costs the same: P G rollouts a step.

- ``even``: G for each prompt.
- ``knapsack`` (Knapsack RL, arXiv 2509.25849): group sizes n_i that maximise the sum of the task values
  (1 - p^n - (1 - p)^n) p (1 - p)^2, the chance of a group with both outcomes times the paper's information gain.
  Prompts of p = 1 get the smallest group, and what nobody else can use goes to those of p = 0.
- ``variance`` (VIP, arXiv 2602.01601; github.com/HieuNT91/VIP, src/vip/allocation): group sizes that minimise the sum
  of p (1 - p) / (n - 1), the variance of RLOO's gradient if grad log pi is as large for all prompts and rollouts.
- ``learnable`` (LILO, arXiv 2502.12272), a curriculum: groups of G for the P prompts of the largest p (1 - p).
- ``dynamic`` (dynamic sampling, DAPO, arXiv 2503.14476; verl, recipe/dapo): each step samples a round of P groups and
  keeps those with both outcomes. A gradient step is taken once P are kept, over as many rounds as that needs; groups
  beyond P are dropped.

What differs from the papers. They estimate p by the last epoch (Knapsack RL), by a Gaussian process over embeddings of
prompts (VIP), or by rollouts of their own, which cost extra (LILO). Here p is exact, or the solve rate of the prompt's
last group; but for clipping that is what VIP believes where no two prompts are alike. A prompt that has not been
sampled counts as p = 1/2. Sizes are the best whole numbers; VIP rounds the best real ones, and its code adds a term in
log p. LILO draws a pool of candidates first. A round of ``dynamic`` may hold a prompt that an earlier round has kept.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

ALLOCATIONS = ("even", "knapsack", "variance", "learnable", "dynamic")
RAGGED = ("knapsack", "variance")  # groups of different sizes
KNOWN = ("estimate", "exact")
USUAL_ROOM = 4  # times G, as much as VIP's code gives: up to 32 for a mean of 8
UNSEEN = 0.5  # what is believed of a prompt before its first group


def gains(rule: str, rates: Float[Array, " P"], sizes: Int[Array, " n"]) -> Float[Array, "n P"]:
    """What one rollout more is worth to a group of each size, by the prompt's solve rate; it falls with the size."""
    p, n = rates[None], sizes[:, None].astype(rates.dtype)
    if rule == "variance":
        return p * (1 - p) / (n * (n - 1))
    worth = p * (1 - p) ** 2 * (p**n * (1 - p) + (1 - p) ** n * p)
    return jnp.where(p < 1, worth, -1)  # so that p = 0 comes before p = 1


def group_sizes(rule: str, rates: Float[Array, " P"], group_size: int, smallest: int, largest: int) -> Int[Array, " P"]:
    """How many rollouts each prompt gets: from ``smallest`` to ``largest``, and P ``group_size`` together.

    Gains fall with the size, so that the rollouts with the largest gains of all prompts make the best sum.
    """
    more = len(rates) * (group_size - smallest)
    worth = gains(rule, rates, jnp.arange(smallest, largest, dtype=jnp.int32))
    # Of equal gains those of the smaller size come first, so that prompts that are alike get alike groups.
    _, chosen = jax.lax.top_k(worth.reshape(-1), more)
    return jnp.full(len(rates), smallest, jnp.int32).at[chosen % len(rates)].add(1)


def most_learnable(rates: Float[Array, " M"], randoms: Shaped[Array, " M"], count: int) -> Int[Array, " P"]:
    """The ``count`` prompts of the largest p (1 - p), those of equal ones by the smaller random number."""
    return jnp.lexsort((randoms, -rates * (1 - rates)))[:count].astype(jnp.int32)


def first_active(active: Bool[Array, " P"], wanted: Int[Array, ""]) -> Bool[Array, " P"]:
    """The first ``wanted`` active groups, or as many as there are."""
    return active & (jnp.cumsum(active) <= wanted)
