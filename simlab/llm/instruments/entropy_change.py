"""Measure how an update changes the entropy of tokens, beside two predictions: the gradient's and CW-GRPO's."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from simlab.errors import InputError, check_range
from simlab.estimators.tokens import covariance_terms, of_tokens
from simlab.llm.completions import Batch, completion_states
from simlab.llm.config import ModelConfig
from simlab.llm.distribution import entropy
from simlab.llm.instruments.tokens import check_advantages
from simlab.llm.model import Parameters
from simlab.llm.output import of_logits
from simlab.rollouts import Scalar

Seen = tuple[Float[Array, "P G T"], Float[Array, "P G T"]]


def entropy_change(
    before: Parameters,
    after: Parameters,
    config: ModelConfig,
    batch: Batch,
    advantages: Num[np.ndarray, "..."],
    *,
    temperature: float = 1.0,
) -> dict[str, float]:
    """The change of the mean token entropy by an update, at the contexts of some rollouts; and its predictions.

    - ``entropy_change``: H(after) - H(before), the mean over tokens of the entropy in nats of all of the vocabulary.
      The contexts stay: that the policy then reaches others is no part of it.
    - ``entropy_change_predicted``: its first order, the derivative of H along after - before.
    - ``logp_advantage_covariance``: Cov(log pi, A) over the sampled tokens, both means over all tokens of the batch.
      The paper's prediction is minus eta times this ``[cw-grpo:entropy-covariance]``: for the natural gradient, which
      changes log pi by eta (A - its mean in the state). The plain gradient does not
      ``[cw-grpo:entropy-covariance-in-grpo]``, and Adam's step is no eta.
    - ``effective_step``: the eta nearest to what the update did, Cov(d log pi, A) / Var(A) over the sampled tokens,
      d log pi the first-order change; NaN where A is the same everywhere.
    - ``logp_change_covariance``: Cov(log pi, d log pi) over the sampled tokens. In one state the entropy falls at this
      rate, whatever the update; over the tokens of many states there is the covariance between the states too.

    Args:
        before: parameters before the update.
        after: parameters after it.
        config: the config of both.
        batch: rollouts of the policy before.
        advantages: (P, G), or (P, G, T) for methods of tokens.
        temperature: that the rollouts were drawn at; all log-probabilities are those at it.

    Raises:
        InputError: for advantages of another shape, no token at all, or a temperature that is not above 0.
    """
    check_range("temperature", temperature, 0.0, open_low=True)
    mask = np.asarray(batch.mask)
    check_advantages(advantages, mask.shape)
    if not mask.any():
        raise InputError("batch holds no token; allowed: one or more")
    change = jax.tree.map(jnp.subtract, after, before)
    seen, rates = _along(before, change, config, batch, temperature)
    later, _ = _seen(after, config, batch, temperature)
    (first, logp), (rate, logp_change) = (_on_host(values) for values in (seen, rates))
    last = np.asarray(later, float)
    present = mask.astype(float)
    advantages = of_tokens(advantages).astype(float) * np.ones(mask.shape)

    def covariance(one: np.ndarray, other: np.ndarray) -> float:
        return float(covariance_terms(one, other, present, "batch")[mask].mean())

    variance = covariance(advantages, advantages)
    return {
        "entropy_change": float((last - first)[mask].mean()),
        "entropy_change_predicted": float(rate[mask].mean()),
        "logp_advantage_covariance": covariance(advantages, logp),
        "effective_step": covariance(advantages, logp_change) / variance if variance > 0 else float("nan"),
        "logp_change_covariance": covariance(logp_change, logp),
    }


def _on_host(values: Seen) -> tuple[np.ndarray, np.ndarray]:
    """In float64, for small changes of a mean."""
    return np.asarray(values[0], float), np.asarray(values[1], float)


@functools.partial(jax.jit, static_argnames="config")
def _seen(parameters: Parameters, config: ModelConfig, batch: Batch, temperature: Scalar) -> Seen:
    """The entropy at each token, and its log-probability."""

    def both(logits: Float[Array, "C V"], tokens: Int[Array, " C"]) -> tuple[Float[Array, " C"], Float[Array, " C"]]:
        logp = jax.nn.log_softmax(logits / temperature, axis=-1)
        return entropy(logp), jnp.take_along_axis(logp, tokens[:, None], axis=-1)[:, 0]

    found: Seen = of_logits(both, parameters, completion_states(parameters, config, batch), jnp.asarray(batch.tokens))
    return found


@functools.partial(jax.jit, static_argnames="config")
def _along(
    parameters: Parameters, change: Parameters, config: ModelConfig, batch: Batch, temperature: Scalar
) -> tuple[Seen, Seen]:
    """The same, and its derivative along a change of the parameters."""
    found: tuple[Seen, Seen] = jax.jvp(lambda moved: _seen(moved, config, batch, temperature), (parameters,), (change,))
    return found
