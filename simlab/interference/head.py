"""Features of rollouts for the last layer alone, from hidden states and logits: no gradient is computed.

Of the head (V, D), logits = h head^T, the gradient of a rollout's log-probability is the sum over its tokens of
(e_y - pi) h^T / T, so that two tokens have <h, h'> <e_y - pi, e_y' - pi'>. Summed into one matrix a rollout before any
product is taken, N R rollouts of any length cost N R matrices and no pair of tokens. The vocabulary is projected onto Q
numbers by random signs, whose inner products are right in expectation; one of at most Q tokens stays as it is.

That is the whole truth to first order where the head alone is learned, as in the problems ``linear_softmax`` and
``interference``. In a network it leaves out what all other layers share; it knows no optimiser. It is the last block of
the tangent kernel, and the ghost dot-product of Wang et al. (arXiv:2406.11011) for that block.

Functions take arrays of NumPy, torch or JAX.
"""

from typing import Any

import numpy as np
from array_api_compat import array_namespace
from jaxtyping import Float

PROJECTED = 256  # Q
Array = Any


def projection(vocabulary: int, seed: int = 0, size: int = PROJECTED) -> Float[np.ndarray, "V Q"]:
    """Return the matrix that projects a vocabulary: signs over sqrt(Q), or the identity where V is at most Q.

    >>> projection(2).tolist(), projection(5000).shape
    ([[1.0, 0.0], [0.0, 1.0]], (5000, 256))
    """
    if vocabulary <= size:
        return np.eye(vocabulary, dtype=np.float32)
    signs = np.random.default_rng(seed).integers(0, 2, (vocabulary, size), dtype=np.int8)
    return np.asarray((2 * signs - 1) / np.float32(np.sqrt(size)), np.float32)


def projected_size(vocabulary: int, size: int = PROJECTED) -> int:
    """Return Q, or 0 where nothing is projected."""
    return 0 if vocabulary <= size else size


def residuals(
    logits: Float[Array, "*B V"], tokens: Array, temperature: Any, onto: Float[Array, "V Q"]
) -> Float[Array, "*B Q"]:
    """(e_y - pi) / T of each token, projected; pi = softmax(logits / T)."""
    xp = array_namespace(logits)
    scaled = logits / temperature
    weights = xp.exp(scaled - xp.max(scaled, axis=-1, keepdims=True))
    policy = weights / xp.sum(weights, axis=-1, keepdims=True)
    drawn = xp.reshape(xp.take(onto, xp.reshape(tokens, (-1,)), axis=0), (*tokens.shape, onto.shape[-1]))
    return (drawn - policy @ onto) / temperature


def head_features(
    hidden: Float[Array, "*B T D"], residual: Float[Array, "*B T Q"], mask: Array
) -> Float[Array, "*B F"]:
    """Sum over the tokens of a rollout of h (e_y - pi)^T, as one row of F = D Q numbers."""
    xp = array_namespace(hidden)
    used = hidden * xp.astype(mask, hidden.dtype)[..., None]
    matrix = xp.matrix_transpose(used) @ residual
    return xp.reshape(matrix, (*matrix.shape[:-2], matrix.shape[-2] * matrix.shape[-1]))
