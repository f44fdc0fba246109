"""Allocate the P G rollouts of a step: how many each prompt gets, which prompts are drawn, and which groups are kept.

- ``even``: G for each prompt.
- ``knapsack`` (Knapsack RL, arXiv 2509.25849): group sizes n_i that maximise the sum of the task values
  (1 - p^n - (1 - p)^n) p (1 - p)^2, the chance of a group with both outcomes times the paper's information gain.
  Prompts of p = 1 get the smallest group, and what nobody else can use goes to those of p = 0.
- ``variance`` (VIP, arXiv 2602.01601; github.com/HieuNT91/VIP, src/vip/allocation): group sizes that minimise the sum
  of p (1 - p) / (n - 1), the variance of RLOO's gradient if grad log pi is as large for all prompts and rollouts.
- ``learnable`` (LILO, arXiv 2502.12272), a curriculum: groups of G for the P prompts of the largest p (1 - p).
- ``dynamic`` (DAPO, arXiv 2503.14476; verl, recipe/dapo): each step samples a round of P groups and keeps those with
  both outcomes. A gradient step is taken once P are kept; groups beyond P are dropped.
- ``sequential`` (Reinforce-Ada, arXiv 2510.04996; its ``verl/trainer/ppo/ray_trainer.py``): groups grow by rounds of n
  = ``smallest_group`` rollouts, up to ``largest_group``, until a prompt has n // 2 successes and n // 2 failures.
- ``until_solved`` (NGU, never give up, arXiv 2609.13443): the same, until a prompt has one success.

The papers estimate p by the last epoch (Knapsack RL), by a Gaussian process over embeddings of prompts (VIP), or by
rollouts of their own (LILO); here p is exact, or the solve rate of the prompt's last group, 1/2 before the first. Sizes
are the best whole numbers; VIP rounds the best real ones, and its code adds a term in log p. LILO draws a pool of
candidates first. Reinforce-Ada's step costs what its rounds cost, and learns from n rollouts of each prompt, as
balanced as they can be, with the mean of all as their baseline; here a step ends after P G rollouts and learns from
all. NGU goes on with a chance after each round, here up to ``largest_group``; it fills its batch with other prompts for
those whose first round is all right, and leaves out old rollouts, of which there are none here. Its authors' blog was
read (mnoukhov.github.io/posts/ngu, September 2026), not the paper. In all three, the mean reward of a group that grew
until it succeeded is a biased estimate of the solve rate.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

SIZED = ("knapsack", "variance")  # by solve rates, before a step
BY_ROUNDS = ("sequential", "until_solved")
RAGGED = (*SIZED, *BY_ROUNDS)  # groups of different sizes
INFORMED = (*SIZED, "learnable")  # by solve rates
ALLOCATIONS = ("even", *INFORMED, "dynamic", *BY_ROUNDS)
RATE_SOURCES = ("estimate", "exact")
USUAL_ROOM = 4  # times G, as much as VIP's code gives: up to 32 for a mean of 8
UNSEEN = 0.5  # what is believed of a prompt before its first group


def group_sizes(rule: str, rates: Float[Array, " P"], group_size: int, smallest: int, largest: int) -> Int[Array, " P"]:
    """Return how many rollouts each prompt gets: from ``smallest`` to ``largest``, and P ``group_size`` together.

    What one rollout more is worth to a group falls with its size: those worth most, of all prompts, make the best sum.
    """
    more, p = len(rates) * (group_size - smallest), rates[None]
    n = jnp.arange(smallest, largest, dtype=jnp.int32)[:, None].astype(rates.dtype)
    if rule == "variance":
        worth = p * (1 - p) / (n * (n - 1))
    else:
        worth = p * (1 - p) ** 2 * (p**n * (1 - p) + (1 - p) ** n * p)
        worth = jnp.where(p < 1, worth, -1)  # so that p = 0 comes before p = 1
    # Of equal gains those of the smaller size come first, so that prompts that are alike get alike groups.
    _, chosen = jax.lax.top_k(worth.reshape(-1), more)
    return jnp.full(len(rates), smallest, jnp.int32).at[chosen % len(rates)].add(1)


def sizes_by_rounds(rule: str, accepted: Bool[Array, "P room"], group_size: int, round_size: int) -> Int[Array, " P"]:
    """Return how many rollouts each prompt gets by rounds, of the ``room`` it could get: P ``group_size`` together.

    ``rule`` is of ``BY_ROUNDS``; what nobody asks for goes to all that have room. ``accepted`` holds the verdicts in
    the order in which rollouts are drawn. Two prompts with 8 rollouts and rounds of 2: outcomes 1 0 ... are done after
    a round, outcomes 0 0 0 0 1 0 go on and get the 6 rollouts that are left.
    """
    prompts, room = accepted.shape
    enough, order = round_size // 2, jnp.arange(room, dtype=jnp.int32)

    def another(carry: tuple[Int[Array, " P"], Int[Array, ""]]) -> tuple[Int[Array, " P"], Int[Array, ""]]:
        sizes, budget = carry
        right = jnp.sum(accepted & (order < sizes[:, None]), axis=1, dtype=jnp.int32)
        has_room = sizes < room
        asks = has_room & (right == 0 if rule == "until_solved" else jnp.minimum(right, sizes - right) < enough)
        asks = jnp.where(jnp.any(asks), asks, has_room)
        more = jnp.where(asks, jnp.minimum(round_size, room - sizes), 0)
        before = jnp.cumsum(more, dtype=jnp.int32) - more
        more = jnp.clip(budget - before, 0, more)
        return sizes + more, budget - jnp.sum(more, dtype=jnp.int32)

    first = jnp.full(prompts, round_size, jnp.int32), jnp.int32(prompts * (group_size - round_size))
    sizes, _ = jax.lax.while_loop(lambda carry: carry[1] > 0, another, first)
    return sizes


def most_learnable(rates: Float[Array, " M"], randoms: Shaped[Array, " M"], count: int) -> Int[Array, " P"]:
    """Return the ``count`` prompts of the largest p (1 - p), those of equal ones by the smaller random number.

    Values within a thousandth are equal: rounding alone must not decide between solve rates of p and 1 - p.
    """
    levels = jnp.floor(jnp.log(rates * (1 - rates)) * 1000)
    return jnp.lexsort((randoms, -levels))[:count].astype(jnp.int32)


def first_active(active: Bool[Array, " P"], count: Int[Array, ""]) -> Bool[Array, " P"]:
    """Mark the first ``count`` active groups, or as many as there are."""
    return active & (jnp.cumsum(active) <= count)
