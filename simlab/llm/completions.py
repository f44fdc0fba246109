"""Compute the hidden states of given completions; each prompt is computed once for its whole group.

Gradients pass through the prompt, so that a training step costs P S + P G T tokens, not P G (S + T). P prompts of at
most S tokens, G rollouts of each, T tokens; the other letters are those of ``simlab.llm.model``.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from simlab.llm.config import ModelConfig
from simlab.llm.model import Parameters, causal_attention, map_logits, run_layers, shared_weights

# A gradient of the maze model's four layers takes .9 of the time without a loop, as long to compile, and half as much
# memory again; thirty layers would take far longer to compile.
FEW_LAYERS = 4


def unrolled(config: ModelConfig, checkpointing: bool) -> bool:
    """Return True if the layers of completions are computed without a loop."""
    return config.num_layers <= FEW_LAYERS and not checkpointing


class CompletionBatch(NamedTuple):
    """Prompts and completions, both filled up on their right with any token."""

    prompts: Int[Any, "P S"]
    lengths: Int[Any, " P"]  # the number of tokens of each prompt, at least 1
    tokens: Int[Any, "P G T"]  # the completions
    mask: Bool[Any, "P G T"]  # true where a completion has a token


def filled_up(sequences: Sequence[Sequence[int]], count: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return sequences as rows (``count``, ``length``), filled up with token 0 on the right, and how long each is."""
    tokens, lengths = np.zeros((count, length), np.int32), np.ones(count, np.int32)
    for row, sequence in enumerate(sequences):
        tokens[row, : len(sequence)], lengths[row] = sequence, len(sequence)
    return tokens, lengths


def longest(sequences: Sequence[Sequence[int]]) -> int:
    """Return the length of the longest sequence; 1 where there is none."""
    return max(map(len, sequences), default=1)


def completion_states(
    parameters: Parameters, config: ModelConfig, batch: CompletionBatch, checkpointing: bool = False
) -> Float[Array, "P G T D"]:
    """Return the hidden states before each token of the completions; they part from prompts only in attention."""
    prompts, lengths = jnp.asarray(batch.prompts), jnp.asarray(batch.lengths)
    # The last token of a completion is predicted and predicts nothing.
    tokens = jnp.asarray(batch.tokens)[:, :, :-1]
    in_prompts = jnp.broadcast_to(jnp.arange(prompts.shape[1]), prompts.shape)
    in_completions = jnp.broadcast_to(lengths[:, None, None] + jnp.arange(tokens.shape[2]), tokens.shape)

    def parted(values: Shaped[Array, "N ..."]) -> tuple[Shaped[Array, "P S ..."], Shaped[Array, "P G T ..."]]:
        in_prompt, in_completion = jnp.split(values, [prompts.size])
        each = values.shape[1:]
        return in_prompt.reshape(*prompts.shape, *each), in_completion.reshape(*tokens.shape, *each)

    def attend(queries: Array, keys: Array, values: Array, _: Any) -> tuple[Array, None]:
        """Attend from each token to its prompt and its completion, up to itself."""
        (prompt_queries, own_queries), (prompt_keys, own_keys) = parted(queries), parted(keys)
        prompt_values, own_values = parted(values)
        of_prompts = causal_attention(prompt_queries, prompt_keys, prompt_values)
        of_completions = _attend(own_queries, own_keys, own_values, (prompt_keys, prompt_values), lengths)
        return _joined(of_prompts, of_completions, queries.ndim - 1), None

    hidden, _ = run_layers(
        parameters,
        config,
        _joined(prompts, tokens),
        _joined(in_prompts, in_completions),
        attend=attend,
        checkpointing=checkpointing,
        unrolled=unrolled(config, checkpointing),
    )
    of_prompts, others = parted(hidden)
    last = jnp.take_along_axis(of_prompts, (lengths - 1)[:, None, None], axis=1)[:, None]
    first = jnp.broadcast_to(last, (*others.shape[:2], 1, last.shape[-1]))
    return jnp.concatenate([first, others], axis=2)


def _joined(
    prompts: Shaped[Array, "P S ..."], completions: Shaped[Array, "P G T ..."], inner: int = 0
) -> Shaped[Array, "N ..."]:
    """Return values of all tokens along one axis, those of prompts first; each has ``inner`` axes."""
    parts = (prompts, completions)
    return jnp.concatenate([part.reshape(-1, *part.shape[part.ndim - inner :]) for part in parts])


def _attend(
    queries: Float[Array, "P G T K R E"],
    keys: Float[Array, "P G T K E"],
    values: Float[Array, "P G T K E"],
    memory: tuple[Float[Array, "P S K E"], Float[Array, "P S K E"]],
    lengths: Int[Array, " P"],
) -> Float[Array, "P G T K R E"]:
    """Attend from tokens of completions to the prompt that their group shares, and to the completion itself."""
    prompt_keys, prompt_values = (jnp.swapaxes(array, 1, 2) for array in memory)
    size, count = prompt_keys.shape[2], keys.shape[2]
    queries = jnp.transpose(queries, (0, 3, 1, 2, 4, 5))
    keys, values = (jnp.transpose(array, (0, 3, 1, 2, 4)) for array in (keys, values))
    # Counted here, since -1 stands for no number where completions have no token that is read.
    in_rows = (*queries.shape[:2], math.prod(queries.shape[2:5]))  # P, K, G T R
    in_groups = (*queries.shape[:3], math.prod(queries.shape[3:5]))  # P, K, G, T R
    width = queries.shape[-1]
    scores = [
        jnp.einsum("pkqe,pkse->pkqs", queries.reshape(*in_rows, width), prompt_keys),
        jnp.einsum("pkgqe,pkgce->pkgqc", queries.reshape(*in_groups, width), keys).reshape(*in_rows, count),
    ]
    in_prompt = (jnp.arange(size) < lengths[:, None])[:, None, None]
    causal = jnp.broadcast_to(jnp.tril(jnp.ones((count, count), bool))[:, None], (*queries.shape[2:5], count))
    prompt_weights, weights = shared_weights(scores, [in_prompt, causal.reshape(in_rows[-1], count)], values)
    of_prompt = jnp.einsum("pkqs,pkse->pkqe", prompt_weights, prompt_values)
    of_own = jnp.einsum("pkgqc,pkgce->pkgqe", weights.reshape(*in_groups, count), values)
    output = of_prompt.reshape(queries.shape) + of_own.reshape(queries.shape)
    return jnp.transpose(output, (0, 2, 3, 1, 4, 5))


def target_logp(
    parameters: Parameters,
    config: ModelConfig,
    batch: CompletionBatch,
    targets: Int[Any, "P G T N"],
    temperature: Float[Array, ""] | float = 1.0,
    *,
    checkpointing: bool = False,
) -> Float[Array, "P G T N"]:
    """Compute log softmax(logits / temperature) of N tokens at each position, in slices of tokens."""

    def chosen(scores: Float[Array, "C V"], targets: Int[Array, "C N"]) -> Float[Array, "C N"]:
        scores = scores / temperature
        selected = jnp.take_along_axis(scores, targets, axis=-1)
        return selected - jax.scipy.special.logsumexp(scores, axis=-1, keepdims=True)

    hidden = completion_states(parameters, config, batch, checkpointing)
    result: Array = map_logits(chosen, parameters, hidden, jnp.asarray(targets))
    return result
