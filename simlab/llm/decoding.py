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
    The first axis has all heads of all rollouts, P G K: were it three, and one of them 1, XLA would drop that one where
    it reads, and copy everything for each token.
    """

    keys: tuple[Float[Array, "PGK E C"], ...]
    values: tuple[Float[Array, "PGK C E"], ...]
    written: Int[Array, ""]

    def chosen(self, shape: tuple[int, ...], prompts: Int[Array, "Q 1"], members: Int[Array, "Q H"]) -> "Own":
        """Those of some of the (P, G) rollouts of a ``shape``."""

        def of_rollouts(field: Array) -> Array:
            rows = field.reshape(*shape, -1, *field.shape[1:])[prompts, members]
            return rows.reshape(-1, *field.shape[1:])

        keys, values = (tuple(map(of_rollouts, fields)) for fields in (self.keys, self.values))
        return Own(keys, values, self.written)


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
    shape = (len(prompts.lengths) * group_size * config.num_kv_heads, config.head_dim, capacity)
    keys = tuple(jnp.zeros(shape, of_prompt.dtype) for of_prompt in prompts.keys)
    return Own(keys, tuple(jnp.swapaxes(empty, 1, 2) for empty in keys), jnp.zeros((), jnp.int32))


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
        heads, size = (len(own_keys), *queries.shape[3:]), prompt_keys.shape[2]
        new_key, new_value = (new.reshape(len(own_keys), -1) for new in (keys, values))
        own_keys = jax.lax.dynamic_update_slice_in_dim(own_keys, new_key[:, :, None], self.written, axis=2)
        own_values = jax.lax.dynamic_update_slice_in_dim(own_values, new_value[:, None], self.written, axis=1)
        of_own = jnp.einsum("bre,bec->brc", queries.reshape(heads), own_keys)
        scores = [
            jnp.einsum("pgkre,pkse->pgkrs", queries, prompt_keys),
            of_own.reshape(*queries.shape[:4], -1),
        ]
        visible = [
            jnp.broadcast_to(self._in_prompt(size), scores[0].shape),
            jnp.broadcast_to(jnp.arange(scores[1].shape[-1]) <= self.written, scores[1].shape),
        ]
        together = jnp.concatenate(scores, axis=-1) / math.sqrt(self.config.head_dim)
        weights = attention_weights(together, jnp.concatenate(visible, axis=-1)).astype(values.dtype)
        seen = jnp.einsum("pgkrs,pkse->pgkre", weights[..., :size], prompt_values)
        of_own = jnp.einsum("brc,bce->bre", weights[..., size:].reshape(*heads[:2], -1), own_values)
        return seen + of_own.reshape(queries.shape), (own_keys, own_values)

    def _in_prompt(self, size: int) -> Array:
        return (jnp.arange(size) < self.lengths[:, None])[:, None, None, None]
