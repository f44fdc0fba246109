"""GSPO: with the loss averaged over each sequence, the coefficients are the gradient of the clipped sequence ratio."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from token_batches import PRESENT, clip_objective, ragged

from simlab import Rollouts
from simlab.surrogates import aggregation_weights, sequence_clip


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def tabular(seed: int, step: float) -> tuple[Any, Any, np.ndarray, Rollouts, np.ndarray]:
    """A softmax policy with a row of logits a position, and what it sampled, NaN where it sampled nothing.

    They are the old logits, new ones a ``step`` away, the actions, their record and ratios.
    """
    generator = np.random.default_rng(seed)
    old = generator.normal(size=(PRESENT.shape[-1], 3))
    new = old + step * generator.normal(size=old.shape)
    actions = generator.integers(0, 3, PRESENT.shape)
    batch = ragged()
    old_logp = np.asarray(logp_of(old, actions))
    ratio = np.where(PRESENT, np.exp(logp_of(new, actions) - old_logp), np.nan)
    return old, new, actions, batch.rollouts._replace(old_logp=np.where(PRESENT, old_logp, np.nan)), ratio


def logp_of(logits: Any, actions: np.ndarray) -> Any:
    return jax.nn.log_softmax(jnp.asarray(logits), axis=-1)[np.arange(actions.shape[-1]), actions]


@pytest.mark.parametrize(
    ("bounds", "step"), [((), 1e-3), ((0.2, 0.2), 0.6)], ids=["published bounds", "bounds of tokens"]
)
def test_sequence_clip_averaged_over_sequences_is_the_gradient_of_gspo(bounds: tuple[float, ...], step: float) -> None:
    """``[casp:gspo]``: mean_i min(s_i A_i, clip(s_i) A_i), s_i = exp(mean_t log ratio)."""
    old, new, actions, rollouts, ratio = tabular(3, step)
    advantages = ragged().advantages
    eps_low, eps_high = bounds or (3e-4, 4e-4)
    written = [(p, g) for p, g in np.argwhere(PRESENT.any(axis=-1))]

    def objective(logits: Any) -> Any:
        log_ratio = jnp.where(PRESENT, logp_of(logits, actions) - logp_of(old, actions), 0.0).sum(axis=-1)
        s = jnp.stack([jnp.exp(log_ratio[p, g] / PRESENT[p, g].sum()) for p, g in written])
        return clip_objective(s, np.array([advantages[p, g, 0] for p, g in written]), eps_low, eps_high).mean()

    values = sequence_clip(*bounds).coefficient(ratio, advantages, rollouts)
    coefficients = np.where(PRESENT, values * aggregation_weights(PRESENT, "sequence_mean"), 0)
    actual = np.zeros_like(new)
    probabilities = np.asarray(jax.nn.softmax(new, axis=-1))
    for p, g, t in np.argwhere(PRESENT):
        actual[t] += coefficients[p, g, t] * (np.eye(3)[actions[p, g, t]] - probabilities[t])
    np.testing.assert_allclose(actual, jax.grad(objective)(jnp.asarray(new)), rtol=1e-10, atol=1e-14)
    moved = {(p, g) for p, g in written if advantages[p, g, 0] != 0}
    kept = {(p, g) for p, g in moved if np.any(coefficients[p, g] != 0)}
    assert 0 < len(kept) < len(moved)  # some sequences are clipped and some are not
