"""Measure how an update changes a model: the entropy of its tokens, and the rank of its weights' change."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from simlab.errors import InputError
from simlab.estimators.tokens import covariance_terms, of_tokens
from simlab.llm.completions import CompletionBatch, completion_states
from simlab.llm.config import ModelConfig
from simlab.llm.distribution import entropy
from simlab.llm.model import Parameters, map_logits, named
from simlab.rollouts import Scalar
from simlab.theory.rank import effective_rank, leading_share, singular_gap

EntropyAndLogp = tuple[Float[Array, "P G T"], Float[Array, "P G T"]]


def entropy_change(
    before: Parameters,
    after: Parameters,
    config: ModelConfig,
    batch: CompletionBatch,
    advantages: Num[np.ndarray, "..."],
    *,
    temperature: float = 1.0,
) -> dict[str, float]:
    """Measure the change of the mean token entropy by an update, at the contexts of some rollouts, and predict it.

    - ``entropy_change``: H(after) - H(before), the mean over tokens of the entropy in nats of all of the vocabulary.
      The contexts stay: that the policy then reaches others is no part of it.
    - ``entropy_change_predicted``: its first order, the derivative of H along after - before.
    - ``logp_advantage_covariance``: Cov(log pi, A) over the sampled tokens, both means over all tokens of the batch.
      The paper's prediction is minus eta times this ``[cw-grpo:entropy-covariance]``: for the natural gradient, which
      changes log pi by eta (A - its mean in the state). The plain gradient does not
      ``[cw-grpo:entropy-covariance-in-grpo]``, and Adam's step is no eta.
    - ``effective_step``: the eta nearest to the update, Cov(d log pi, A) / Var(A) over the sampled tokens,
      d log pi the first-order change; NaN where A is the same everywhere.
    - ``logp_change_covariance``: Cov(log pi, d log pi) over the sampled tokens. In one state the entropy falls at this
      rate, whatever the update; over the tokens of many states there is the covariance between the states too.

    The batch is of the policy before; advantages are (P, G), or (P, G, T) for methods of tokens. All log-probabilities
    are those at the temperature of the sampling.
    """
    mask = np.asarray(batch.mask)
    change = jax.tree.map(jnp.subtract, after, before)
    measured = (
        *_derivative(before, change, config, batch, temperature),
        _entropy_and_logp(after, config, batch, temperature),
    )
    # In float64, for small changes of a mean.
    (first, logp), (rate, logp_change), (last, _) = (map(lambda a: np.asarray(a, float), pair) for pair in measured)
    present = mask.astype(float)
    advantages = of_tokens(advantages).astype(float) * np.ones(mask.shape)

    def covariance(x: np.ndarray, y: np.ndarray) -> float:
        return float(covariance_terms(x, y, present, "batch")[mask].mean())

    variance = covariance(advantages, advantages)
    return {
        "entropy_change": float((last - first)[mask].mean()),
        "entropy_change_predicted": float(rate[mask].mean()),
        "logp_advantage_covariance": covariance(advantages, logp),
        "effective_step": covariance(advantages, logp_change) / variance if variance > 0 else float("nan"),
        "logp_change_covariance": covariance(logp_change, logp),
    }


@functools.partial(jax.jit, static_argnames="config")
def _entropy_and_logp(
    parameters: Parameters, config: ModelConfig, batch: CompletionBatch, temperature: Scalar
) -> EntropyAndLogp:
    def both(logits: Float[Array, "C V"], tokens: Int[Array, " C"]) -> tuple[Float[Array, " C"], Float[Array, " C"]]:
        logp = jax.nn.log_softmax(logits / temperature, axis=-1)
        return entropy(logp), jnp.take_along_axis(logp, tokens[:, None], axis=-1)[:, 0]

    result: EntropyAndLogp = map_logits(
        both, parameters, completion_states(parameters, config, batch), jnp.asarray(batch.tokens)
    )
    return result


@functools.partial(jax.jit, static_argnames="config")
def _derivative(
    parameters: Parameters, change: Parameters, config: ModelConfig, batch: CompletionBatch, temperature: Scalar
) -> tuple[EntropyAndLogp, EntropyAndLogp]:
    """Return the same, and its derivative along a change of the parameters."""
    result: tuple[EntropyAndLogp, EntropyAndLogp] = jax.jvp(
        lambda moved: _entropy_and_logp(moved, config, batch, temperature), (parameters,), (change,)
    )
    return result


# The rank of weight changes: how near to rank 1 the change of each matrix since the start of training is

LONGEST = 4096  # a longer matrix, such as an embedding, is decomposed through its Gram matrix


def weight_change_metrics(start: Parameters, current: Parameters) -> dict[str, float]:
    """Measure current - start of each matrix in float64, and return medians over those that changed; NaN without any.

    ``weight_change_r1`` is the share of the squared norm in the leading direction ``[fade:prop-15.1]``, ``..._gap`` is
    s_1 / s_2, ``..._srank`` counts the directions that hold 99 % of the sum of the singular values (FADE's Figure 5),
    and ``..._norm`` is Frobenius'.

    Raises: InputError: for parameters that are not finite.
    """
    last, rows = dict(named(current)), []
    for name, old in named(start):
        stacked = name.startswith("layers.")
        if old.ndim != 2 + stacked:
            continue
        for before, after in zip(old, last[name], strict=True) if stacked else [(old, last[name])]:
            change = np.asarray(after).astype(float) - np.asarray(before).astype(float)
            if not np.isfinite(change).all():
                raise InputError(f"parameter {name} holds NaN or infinity; allowed: finite numbers")
            spectrum = singular_values(change)
            if spectrum.any():
                measures = leading_share(spectrum), singular_gap(spectrum), effective_rank(spectrum)
                rows.append([*map(float, measures), float(np.linalg.norm(spectrum))])
    medians = np.median(rows, axis=0).tolist() if rows else [np.nan] * 4
    return {
        f"weight_change_{name}": median for name, median in zip(("r1", "gap", "srank", "norm"), medians, strict=True)
    }


def singular_values(matrix: Float[np.ndarray, "m n"]) -> Float[np.ndarray, " R"]:
    """Return singular values, largest first; of longer than ``LONGEST`` by the Gram matrix, rounding read as 0."""
    values: np.ndarray
    if max(matrix.shape) <= LONGEST:
        values = np.linalg.svd(matrix, compute_uv=False)
        return values
    largest = np.abs(matrix).max()
    scaled = matrix / largest if largest > 0 else matrix  # for the squares of small ones to keep their digits
    squares = np.linalg.eigvalsh(scaled @ scaled.T if len(matrix) < matrix.shape[1] else scaled.T @ scaled)[::-1]
    rounding = len(squares) * np.finfo(float).eps * squares[0]
    values = largest * np.sqrt(np.where(squares > rounding, squares, 0.0))
    return values
