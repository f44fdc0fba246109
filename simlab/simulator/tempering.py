"""Temper each prompt by how often it was solved: posterior-tempered group sampling (PTGS, arXiv 2610.01509).

A prompt has counts of its successes and failures, of which ``tempering_memory`` is left when its next group comes. A
solve rate p is drawn from Beta(2 p* + successes, 2 (1 - p*) + failures), p* = ``tempering_target``, and the group is
sampled at T tau^h, h = (p* - p) / p* up to p* and (p* - p) / (1 - p*) above: hotter where a prompt is hardly solved, T
tau at most, colder where it is nearly always, T / tau at least. Gradients are those of the policy that sampled.

``controller.py`` of the authors' package ``ptgs`` was read (Meta, October 2026; ``gamma`` .95 and ``tau`` 1.5 there),
not the paper. There p* grows from .25 to .5 over the run; here it stays.

Example, tau = 1.5, p* = 1/2: p = 0 is sampled at 1.5 T, p = 1/2 at T, and p = 1 at T / 1.5.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from simlab.simulator.settings import TracedSettings

TEMPERING_STREAM = 6  # folded into the key of a prompt's step
PRIOR = 2.0  # the mass of the prior


class Tempering(NamedTuple):
    """Counts of the outcomes of each of the M prompts, and the temperature of its last group."""

    successes: Float[Array, " M"]
    failures: Float[Array, " M"]
    temperatures: Float[Array, " M"]


def tempering_at_start(prompts: int, numbers: TracedSettings, dtype: Any) -> Tempering:
    """Return no counts, and the temperature of all."""
    nothing = jnp.zeros(prompts, dtype)
    return Tempering(nothing, nothing, nothing + numbers.temperature)


def temperature_of(rate: Float[Array, " P"], numbers: TracedSettings) -> Float[Array, " P"]:
    """Return T tau^h of a solve rate."""
    target = numbers.tempering_target
    warmth: Array = (target - rate) / jnp.where(rate <= target, target, 1 - target)
    hotter: Array = numbers.temperature * numbers.tempering**warmth
    return hotter


def draw_temperatures(
    state: Tempering, keys: Key[Array, " P"], prompts: Int[Array, " P"], numbers: TracedSettings
) -> Tempering:
    """Draw a solve rate for each prompt of a batch, and from it the temperature of its group."""
    target = numbers.tempering_target
    right, wrong = PRIOR * target + state.successes[prompts], PRIOR * (1 - target) + state.failures[prompts]
    streams = jax.vmap(lambda key: jax.random.fold_in(key, TEMPERING_STREAM))(keys)
    rates = jax.vmap(jax.random.beta)(streams, right, wrong).astype(right.dtype)
    return state._replace(temperatures=state.temperatures.at[prompts].set(temperature_of(rates, numbers)))


def count_outcomes(
    state: Tempering, prompts: Int[Array, " P"], right: Float[Array, " P"], size: Any, numbers: TracedSettings
) -> Tempering:
    """Add the outcomes of a batch to what is left of the counts of its prompts."""
    kept = numbers.tempering_memory

    def counted(before: Array, more: Array) -> Array:
        return before.at[prompts].set(kept * before[prompts] + more)

    return state._replace(successes=counted(state.successes, right), failures=counted(state.failures, size - right))
