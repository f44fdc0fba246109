"""One token at a time: the keys and values of a prompt are computed once and shared by its group of rollouts.

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
    """What the rollouts see of their prompts: keys and values of every layer, and how many tokens each has."""

    keys: Float[Array, "L P K S E"]
    values: Float[Array, "L P K S E"]
    lengths: Int[Array, " P"]


class Own(NamedTuple):
    """The keys and values of what the rollouts have sampled; those from ``written`` on hold nothing yet.

    A key is a column, so that the scores of all tokens are rows added up; a CPU takes three times as long for rows.
    """

    keys: Float[Array, "L P G K E C"]
    values: Float[Array, "L P G K C E"]
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
    return logits(parameters, last), Prompts(keys, values, lengths)


def nothing_yet(config: ModelConfig, prompts: Prompts, group_size: int, capacity: int) -> Own:
    """Room for ``capacity`` tokens of every rollout."""
    shape = (config.num_layers, len(prompts.lengths), group_size, config.num_kv_heads, capacity, config.head_dim)
    empty = jnp.zeros(shape, prompts.keys.dtype)
    return Own(jnp.swapaxes(empty, -2, -1), empty, jnp.zeros((), jnp.int32))


def read_token(
    parameters: Parameters, config: ModelConfig, tokens: Int[Array, "P G"], prompts: Prompts, own: Own
) -> tuple[Float[Array, "P G V"], Own]:
    """The logits after one more token of every rollout."""
    attend = _Seeing(config, prompts.lengths, own.written)
    positions = jnp.broadcast_to(prompts.lengths[:, None] + own.written, tokens.shape)
    memory = (prompts.keys, prompts.values, own.keys, own.values)
    hidden, new = run_layers(parameters, config, tokens, positions, attend=attend, memory=memory)
    keys = jax.lax.dynamic_update_slice_in_dim(own.keys, new[0][..., None], own.written, axis=5)
    values = jax.lax.dynamic_update_slice_in_dim(own.values, new[1][:, :, :, :, None], own.written, axis=4)
    return logits(parameters, hidden), Own(keys, values, own.written + 1)


@dataclasses.dataclass(frozen=True)
class _Seeing:
    """Attention of one token to the prompt, which its whole group shares, to the rollout's own past, and to itself.

    The new key and value are left behind, to be written for all layers at once: a loop that carried the whole memory
    from layer to layer would copy it each time.
    """

    config: ModelConfig
    lengths: Int[Array, " P"]
    written: Int[Array, ""]

    def __call__(self, queries: Array, keys: Array, values: Array, memory: Any) -> tuple[Array, tuple[Array, Array]]:
        prompt_keys, prompt_values, own_keys, own_values = memory
        scores = [
            jnp.einsum("pgkre,pkse->pgkrs", queries, prompt_keys),
            jnp.einsum("pgkre,pgkec->pgkrc", queries, own_keys),
            jnp.einsum("pgkre,pgke->pgkr", queries, keys)[..., None],
        ]
        visible = [
            jnp.broadcast_to(self._in_prompt(prompt_keys.shape[2]), scores[0].shape),
            jnp.broadcast_to(jnp.arange(own_keys.shape[-1]) < self.written, scores[1].shape),
            jnp.ones(scores[2].shape, bool),
        ]
        together = jnp.concatenate(scores, axis=-1) / math.sqrt(self.config.head_dim)
        weights = attention_weights(together, jnp.concatenate(visible, axis=-1)).astype(values.dtype)
        of_prompt, of_own, of_itself = jnp.split(weights, [prompt_keys.shape[2], together.shape[-1] - 1], axis=-1)
        seen = (
            jnp.einsum("pgkrs,pkse->pgkre", of_prompt, prompt_values)
            + jnp.einsum("pgkrc,pgkce->pgkre", of_own, own_values)
            + of_itself * values[..., None, :]
        )
        return seen, (keys, values)

    def _in_prompt(self, size: int) -> Array:
        return (jnp.arange(size) < self.lengths[:, None])[:, None, None, None]
