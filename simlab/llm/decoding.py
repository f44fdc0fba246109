"""Decode one token at a time; a prompt's keys and values are computed once and shared by its group of rollouts.

P prompts of at most S tokens, G rollouts of each, up to C tokens of their own; the other letters are those of
``simlab.llm.model``.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from simlab.llm.config import ModelConfig
from simlab.llm.model import Parameters, attention_weights, causal_attention, logits, run_layers


class Prompts(NamedTuple):
    """What the rollouts see of their prompts: keys and values of each layer, and how many tokens each prompt has."""

    keys: tuple[Float[Array, "P K S E"], ...]
    values: tuple[Float[Array, "P K S E"], ...]
    lengths: Int[Array, " P"]


class Own(NamedTuple):
    """Keys and values of what the rollouts have sampled, of each layer; those from ``written`` on hold nothing yet.

    A key is a column, so that the scores of all tokens are rows added up; a CPU takes three times as long for rows.
    """

    keys: tuple[Float[Array, "P G K E C"], ...]
    values: tuple[Float[Array, "P G K C E"], ...]
    written: Int[Array, ""]


def read_prompts(
    parameters: Parameters, config: ModelConfig, tokens: Int[Array, "P S"], lengths: Int[Array, " P"]
) -> tuple[Float[Array, "P V"], Prompts]:
    """The logits after each prompt, filled up on its right, and what its rollouts will see of it."""

    def attend(queries: Array, keys: Array, values: Array, _: Any) -> tuple[Array, tuple[Array, Array]]:
        return causal_attention(queries, keys, values), (jnp.swapaxes(keys, 1, 2), jnp.swapaxes(values, 1, 2))

    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    hidden, (keys, values) = run_layers(parameters, config, tokens, positions, attend=attend)
    last = jnp.take_along_axis(hidden, (lengths - 1)[:, None, None], axis=1)[:, 0]
    return logits(parameters, last), Prompts(tuple(keys), tuple(values), lengths)


def nothing_yet(config: ModelConfig, prompts: Prompts, group_size: int, capacity: int) -> Own:
    """Room for ``capacity`` tokens of every rollout."""
    shape = (len(prompts.lengths), group_size, config.num_kv_heads, config.head_dim, capacity)
    keys = tuple(jnp.zeros(shape, of_prompt.dtype) for of_prompt in prompts.keys)
    return Own(keys, tuple(jnp.swapaxes(empty, 3, 4) for empty in keys), jnp.zeros((), jnp.int32))


def read_token(
    parameters: Parameters, config: ModelConfig, tokens: Int[Array, "P G"], prompts: Prompts, own: Own
) -> tuple[Float[Array, "P G V"], Own]:
    """The logits after one more token of every rollout; the parameters are ``apart``."""
    attend = _Seeing(config, prompts.lengths, own.written)
    positions = jnp.broadcast_to(prompts.lengths[:, None] + own.written, tokens.shape)
    memory = tuple(zip(prompts.keys, prompts.values, own.keys, own.values, strict=True))
    hidden, left = run_layers(parameters, config, tokens, positions, attend=attend, memory=memory)
    keys, values = zip(*left, strict=True)
    return logits(parameters, hidden), Own(keys, values, own.written + 1)


@dataclasses.dataclass(frozen=True)
class _Seeing:
    """Attention of one token to the prompt, which its whole group shares, and to the rollout's own tokens.

    The new key and value are written before anything is read, so that a loop of tokens writes them in place.
    """

    config: ModelConfig
    lengths: Int[Array, " P"]
    written: Int[Array, ""]

    def __call__(self, queries: Array, keys: Array, values: Array, memory: Any) -> tuple[Array, tuple[Array, Array]]:
        prompt_keys, prompt_values, own_keys, own_values = memory
        own_keys = jax.lax.dynamic_update_slice_in_dim(own_keys, keys[..., None], self.written, axis=4)
        own_values = jax.lax.dynamic_update_slice_in_dim(own_values, values[:, :, :, None], self.written, axis=3)
        scores = [
            jnp.einsum("pgkre,pkse->pgkrs", queries, prompt_keys),
            jnp.einsum("pgkre,pgkec->pgkrc", queries, own_keys),
        ]
        size = prompt_keys.shape[2]
        visible = [
            jnp.broadcast_to(self._in_prompt(size), scores[0].shape),
            jnp.broadcast_to(jnp.arange(own_keys.shape[4]) <= self.written, scores[1].shape),
        ]
        together = jnp.concatenate(scores, axis=-1) / math.sqrt(self.config.head_dim)
        weights = attention_weights(together, jnp.concatenate(visible, axis=-1)).astype(values.dtype)
        seen = jnp.einsum("pgkrs,pkse->pgkre", weights[..., :size], prompt_values)
        seen = seen + jnp.einsum("pgkrc,pgkce->pgkre", weights[..., size:], own_values)
        return seen, (own_keys, own_values)

    def _in_prompt(self, size: int) -> Array:
        return (jnp.arange(size) < self.lengths[:, None])[:, None, None, None]
