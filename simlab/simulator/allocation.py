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
- ``sequential`` (Reinforce-Ada, arXiv 2510.04996; its ``verl/trainer/ppo/ray_trainer.py``): groups grow by rounds of n
  = ``smallest_group`` rollouts. A prompt is left alone once it has n // 2 successes and n // 2 failures; the others go
  on, up to ``largest_group``. It goes by no solve rate but by what the verifier accepts in this step.

What differs from the papers. They estimate p by the last epoch (Knapsack RL), by a Gaussian process over embeddings of
prompts (VIP), or by rollouts of their own, which cost extra (LILO). Here p is exact, or the solve rate of the prompt's
last group; but for clipping that is what VIP believes where no two prompts are alike. A prompt that has not been
sampled counts as p = 1/2. Sizes are the best whole numbers; VIP rounds the best real ones, and its code adds a term in
log p. LILO draws a pool of candidates first. A round of ``dynamic`` may hold a prompt that an earlier round has kept.
Reinforce-Ada's step costs what its rounds cost, and learns from n rollouts of each prompt, as balanced as they can be,
with the mean of all as their baseline. Here a step ends after P G rollouts: the first of the batch come first where few
are left, and all prompts get more rounds where none asks for one. It learns from all rollouts. In both, the mean reward
of a group that grew until it succeeded is a biased estimate of the solve rate.
"""

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

if TYPE_CHECKING:
    from simlab.simulator.learner import Learner
    from simlab.simulator.state import Batch, State

SIZED = ("knapsack", "variance")  # by solve rates, before a step
RAGGED = (*SIZED, "sequential")  # groups of different sizes
INFORMED = (*SIZED, "learnable")  # by solve rates
ALLOCATIONS = ("even", *INFORMED, "dynamic", "sequential")
KNOWN = ("estimate", "exact")
USUAL_ROOM = 4  # times G, as much as VIP's code gives: up to 32 for a mean of 8
UNSEEN = 0.5  # what is believed of a prompt before its first group


def first_rates(learner: "Learner") -> Float[Array, " M"] | None:
    """What is believed of the solve rates before the first step; None where no allocation goes by earlier groups."""
    if not learner.settings.remembers_solve_rates:
        return None
    return jnp.full(learner.problem.prompts, UNSEEN, learner.settings.dtype)


def believed(batch: "Batch", solved: Float[Array, " M"] | None) -> Float[Array, " M"] | None:
    """What is believed after a batch: of its prompts the shares of rollouts that the verifier accepts."""
    if solved is None:
        return None
    return solved.at[batch.prompts].set(batch.accepted_share)


def known_rates(learner: "Learner", state: "State", prompts: Int[Array, " P"]) -> Float[Array, " P"]:
    """The solve rates that an allocation goes by."""
    if state.solved is not None:
        return state.solved[prompts]
    places, policies = learner.rows(state.places, prompts), learner.policies(state, prompts)
    rates: Array = learner.each(learner.solve_rate)(places, policies, learner.of_batch(learner.correct, prompts))
    return rates


def sizes(learner: "Learner", state: "State", prompts: Int[Array, " P"]) -> Int[Array, " P"] | None:
    """How many rollouts each prompt of a batch gets; None where all get as many, or a step decides as it goes."""
    settings = learner.settings
    if settings.allocation not in SIZED:
        return None
    rates = known_rates(learner, state, prompts)
    return group_sizes(settings.allocation, rates, settings.group_size, settings.smallest_group, settings.room)


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


def stopped(accepted: Bool[Array, "P room"], group_size: int, round_size: int) -> Int[Array, " P"]:
    """How many rollouts each prompt gets by rounds, of those that it could get: P ``group_size`` together.

    ``accepted`` is what the verifier says of each, in the order in which they are drawn.
    """
    prompts, room = accepted.shape
    wanted, place = round_size // 2, jnp.arange(room, dtype=jnp.int32)

    def another(carry: tuple[Int[Array, " P"], Int[Array, ""]]) -> tuple[Int[Array, " P"], Int[Array, ""]]:
        sizes, left = carry
        right = jnp.sum(accepted & (place < sizes[:, None]), axis=1, dtype=jnp.int32)
        can = sizes < room
        asks = can & (jnp.minimum(right, sizes - right) < wanted)
        asks = jnp.where(jnp.any(asks), asks, can)
        more = jnp.where(asks, jnp.minimum(round_size, room - sizes), 0)
        before = jnp.cumsum(more, dtype=jnp.int32) - more
        more = jnp.clip(left - before, 0, more)
        return sizes + more, left - jnp.sum(more, dtype=jnp.int32)

    first = jnp.full(prompts, round_size, jnp.int32), jnp.int32(prompts * (group_size - round_size))
    sizes, _ = jax.lax.while_loop(lambda carry: carry[1] > 0, another, first)
    return sizes


def most_learnable(rates: Float[Array, " M"], randoms: Shaped[Array, " M"], count: int) -> Int[Array, " P"]:
    """The ``count`` prompts of the largest p (1 - p), those of equal ones by the smaller random number."""
    return jnp.lexsort((randoms, -rates * (1 - rates)))[:count].astype(jnp.int32)
