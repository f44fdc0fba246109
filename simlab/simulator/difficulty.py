"""Metrics of a bank of prompts: means over prompts, and what depends on how difficult a prompt is."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from simlab.problems.exact import pass_at_k
from simlab.simulator.metrics import EVERY_STEP, OF_POLICIES, OF_STEPS, OF_UPDATES, POLICY, Metric

BINS = 10  # of the solve rate, each .1 wide
BIN_CENTRES = (np.arange(BINS) + 0.5) / BINS
SINCE = "mean over the steps since the last record"
UNSOLVED_AT = 2**20  # samples, the budget at which pass@k is read to tell whether a prompt is solved at all


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


def success_mass(batch: Any) -> Float[Array, " bins"]:
    """m_S = (1/G) sum of A over the successes of a group, over the prompts of each bin ``[fade:masses]``."""
    mass = batch.mean(jnp.where(batch.correct, batch.advantages[..., 0], 0))
    return by_solve_rate(mass / len(mass), batch.solve_rates)


def failure_mass(batch: Any) -> Float[Array, " bins"]:
    """m_F = -(1/G) sum of A over the failures of a group, over the prompts of each bin ``[fade:masses]``."""
    mass = -batch.mean(jnp.where(batch.correct, 0, batch.advantages[..., 0]))
    return by_solve_rate(mass / len(mass), batch.solve_rates)


def effective_prompts(batch: Any) -> Float[Array, ""]:
    """N_eff of ``[fade:eq-10]``: a prompt weighs the mean of abs(A) over its group, m_S + m_F where no sign is odd."""
    return effective_size(batch.mean(jnp.abs(batch.advantages[..., 0])))


def histogram(whole: Any) -> Float[Array, " bins"]:
    """The share of the prompts in each bin."""
    rates = whole.each["q_pos"]
    return by_solve_rate(jnp.full_like(rates, 1 / len(rates)), rates)


def unsolved_prompts(whole: Any) -> Float[Array, ""]:
    """How many prompts so many samples solve with a chance below 1/2."""
    rates = whole.each["q_pos"]
    return jnp.sum(pass_at_k(rates, UNSOLVED_AT) < 0.5, dtype=rates.dtype)


_SUMMED = "of the groups whose prompt's Q_pos lay in the bin, summed, over all groups of a batch; " + SINCE
OF_PROMPTS = (
    *(metric.described(lambda text: f"{text}; mean over all prompts") for metric in OF_POLICIES),
    *(metric.described(lambda text: f"{text}; mean over the prompts of a batch") for metric in OF_UPDATES),
    *(metric.described(lambda text: f"{text}; mean over the prompts of a batch") for metric in OF_STEPS),
    Metric(
        "solve_rate_histogram",
        "share of the prompts whose Q_pos lies in the bin",
        POLICY,
        histogram,
        ("bin",),
        whole=True,
    ),
    Metric(
        "unsolved_prompts",
        f"prompts that {UNSOLVED_AT} samples solve with a chance below 1/2",
        POLICY,
        unsolved_prompts,
        whole=True,
    ),
    Metric("success_mass", f"m_S (FADE) {_SUMMED}", EVERY_STEP, success_mass, ("bin",)),
    Metric("failure_mass", f"m_F (FADE) {_SUMMED}", EVERY_STEP, failure_mass, ("bin",)),
    Metric(
        "effective_prompts",
        f"Kish's effective number of a batch's prompts, each weighed by its mean |A|; {SINCE}",
        EVERY_STEP,
        effective_prompts,
    ),
    Metric(
        "effective_rollouts",
        f"Kish's effective number of a batch's rollouts, each weighed by |A|; {SINCE}",
        EVERY_STEP,
        lambda batch: effective_size(jnp.abs(batch.advantages[..., 0])),
    ),
    Metric(
        "unsolved_rate",
        "share of groups since the last record without a rollout that is accepted",
        EVERY_STEP,
        lambda batch: jnp.mean(~jnp.any(batch.correct, axis=1), dtype=batch.dtype),
    ),
)
