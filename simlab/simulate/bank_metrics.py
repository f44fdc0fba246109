"""What is recorded of a bank of prompts: means over prompts, and what depends on how difficult a prompt is."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from simlab.problems.categorical import pass_at_k
from simlab.simulate.metrics import DESCRIPTIONS, Row

BINS = 10  # of the solve rate, each .1 wide
BIN_CENTRES = (np.arange(BINS) + 0.5) / BINS
UNSOLVED_AT = 2**20  # samples, the budget at which pass@k is read to tell whether a prompt is solved at all
BINNED = ("solve_rate_histogram", "success_mass", "failure_mass")

_OF_THE_POLICY = ("q_pos", "retained_mass", "share_correct_kept", "entropy", "pass_at_k", "top_logp")

BANK_DESCRIPTIONS = {
    name: f"{text}; mean over {'all prompts' if name in _OF_THE_POLICY else 'the prompts of a batch'}"
    for name, text in DESCRIPTIONS.items()
} | {
    "solve_rate_histogram": "share of the prompts whose Q_pos lies in the bin",
    "unsolved_prompts": f"prompts that {UNSOLVED_AT} samples solve with a chance below 1/2",
    "success_mass": "m_S (FADE) of the groups whose prompt's Q_pos lay in the bin, summed, over all groups of a batch; "
    "mean over the steps since the last record",
    "failure_mass": "m_F (FADE) of the groups whose prompt's Q_pos lay in the bin, summed, over all groups of a batch; "
    "mean over the steps since the last record",
    "effective_prompts": "Kish's effective number of a batch's prompts, each weighed by its mean |A|; mean over the "
    "steps since the last record",
    "effective_rollouts": "Kish's effective number of a batch's rollouts, each weighed by |A|; mean over the steps "
    "since the last record",
    "unsolved_rate": "share of groups since the last record without a correct rollout",
}


def effective_size(weights: Float[Array, "*shape"]) -> Float[Array, ""]:
    """Kish's effective sample size (sum w)^2 / sum w^2 of weights from 0 up ``[fade:sec-4-3-kish]``.

    It is how many equal weights would vary as little; 0 where all weights are 0. The largest is divided out first, for
    the squares of small weights to keep their digits.
    """
    largest = jnp.max(weights)
    shares = weights / jnp.where(largest > 0, largest, 1)
    square = jnp.sum(shares**2)
    return jnp.where(square > 0, jnp.sum(shares) ** 2 / jnp.where(square > 0, square, 1), 0)


def by_solve_rate(values: Float[Array, " P"], solve_rates: Float[Array, " P"]) -> Float[Array, " bins"]:
    """The sum over prompts of a value of each, by bins of the solve rate: [0, .1), ..., [.9, 1]."""
    bins = jnp.clip(jnp.floor(solve_rates * BINS).astype(jnp.int32), 0, BINS - 1)
    return jnp.zeros(BINS, values.dtype).at[bins].add(values)


def difficulty_metrics(solve_rates: Float[Array, " M"]) -> Row:
    """How the solve rates of all prompts are distributed."""
    share = jnp.full_like(solve_rates, 1 / len(solve_rates))
    unsolved = pass_at_k(solve_rates, UNSOLVED_AT) < 0.5
    return {
        "solve_rate_histogram": by_solve_rate(share, solve_rates),
        "unsolved_prompts": jnp.sum(unsolved, dtype=solve_rates.dtype),
    }


def batch_metrics(advantages: Float[Array, "P G"], correct: Bool[Array, "P G"], solve_rates: Float[Array, " P"]) -> Row:
    """Where the weight of a batch lies: its masses by difficulty, and how many prompts and rollouts it amounts to.

    The masses of a group are m_S = (1/G) sum of A over its successes and m_F = -(1/G) sum of A over its failures
    ``[fade:masses]``; summed over all bins, they are the batch's mean masses. The effective number of prompts is
    N_eff of ``[fade:eq-10]``, a prompt weighing the mean of abs(A) over its group, m_S + m_F where no sign is odd.
    """
    success = jnp.mean(jnp.where(correct, advantages, 0), axis=1)
    failure = -jnp.mean(jnp.where(correct, 0, advantages), axis=1)
    size = jnp.abs(advantages)
    return {
        "success_mass": by_solve_rate(success / len(success), solve_rates),
        "failure_mass": by_solve_rate(failure / len(failure), solve_rates),
        "effective_prompts": effective_size(jnp.mean(size, axis=1)),
        "effective_rollouts": effective_size(size),
        "unsolved_rate": jnp.mean(~jnp.any(correct, axis=1), dtype=size.dtype),
    }
