"""Decode one token at a time; a prompt's keys and values are computed once and shared by its group of rollouts.

P prompts of at most S tokens, G rollouts of each, room for C tokens of their own; the other letters are those of
``simlab.llm.model``. Token s of the batch goes to slot s mod C of every rollout, so that all write at one place also
when some have begun later than others: a rollout sees the slots that were written since it began.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from simlab.llm.config import ModelConfig
from simlab.llm.model import Parameters, causal_attention, run_layers, shared_weights


class PromptMemory(NamedTuple):
    """Keys and values of the prompts in each layer, and how many tokens each prompt has."""

    keys: tuple[Float[Array, "P K S E"], ...]
    values: tuple[Float[Array, "P K S E"], ...]
    lengths: Int[Array, " P"]


class RolloutMemory(NamedTuple):
    """Keys (as columns: a CPU is faster) and values of the last C tokens sampled, by layer, P K G heads first."""

    keys: tuple[Float[Array, "PKG E C"], ...]
    values: tuple[Float[Array, "PKG C E"], ...]
    written: Int[Array, ""]  # tokens of the batch so far
    since: Int[Array, " P"]  # the token of the batch with which the rollouts of each prompt began

    def grown(self, capacity: int) -> "RolloutMemory":
        """Return the same with more slots."""
        return self._replace(
            keys=tuple(with_slots(field, 2, self.written, capacity) for field in self.keys),
            values=tuple(with_slots(field, 1, self.written, capacity) for field in self.values),
        )


def at_columns(
    field: Float[Array, "PKG ..."], shape: tuple[int, int], rows: Int[Array, "Q H"], columns: Int[Array, "Q H"]
) -> Float[Array, "QKH ..."]:
    """Return keys or values of (P, G) rollouts, of those at some places."""
    heads = field.reshape(shape[0], -1, shape[1], *field.shape[1:])
    chosen = heads[rows[:, None], jnp.arange(heads.shape[1])[None, :, None], columns[:, None]]
    return chosen.reshape(-1, *field.shape[1:])


def with_slots(field: Array, axis: int, written: Int[Array, ""], capacity: int) -> Array:
    """Return a field whose slots along an axis hold the last of the ``written`` tokens, with ``capacity`` slots.

    The latest token that belongs in slot j is the largest s < written with s mod capacity = j; a slot whose token is
    no longer in the field gets anything. Six tokens in four slots are 4 5 2 3, and in eight x x 2 3 4 5 x x.
    """
    slots = jnp.arange(capacity)
    latest = written - 1 - (written - 1 - slots) % capacity
    return jnp.take(field, latest % field.shape[axis], axis=axis)


def read_prompts(
    parameters: Parameters, config: ModelConfig, tokens: Int[Array, "P S"], lengths: Int[Array, " P"]
) -> tuple[Float[Array, "P D"], PromptMemory]:
    """Read prompts, filled up on their right: return the hidden state after each, and its keys and values."""

    def attend(queries: Array, keys: Array, values: Array, _: Any) -> tuple[Array, tuple[Array, Array]]:
        return causal_attention(queries, keys, values), (jnp.swapaxes(keys, 1, 2), jnp.swapaxes(values, 1, 2))

    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    hidden, (keys, values) = run_layers(parameters, config, tokens, positions, attend=attend)
    last = jnp.take_along_axis(hidden, (lengths - 1)[:, None, None], axis=1)[:, 0]
    return last, PromptMemory(tuple(keys), tuple(values), lengths)


def empty_memory(config: ModelConfig, prompts: PromptMemory, group_size: int, capacity: int) -> RolloutMemory:
    """Return room for ``capacity`` tokens of every rollout."""
    shape = (len(prompts.lengths) * group_size * config.num_kv_heads, config.head_dim, capacity)
    keys = tuple(jnp.zeros(shape, of_prompt.dtype) for of_prompt in prompts.keys)
    values = tuple(jnp.swapaxes(empty, 1, 2) for empty in keys)
    return RolloutMemory(keys, values, jnp.zeros((), jnp.int32), jnp.zeros_like(prompts.lengths))


def read_token(
    parameters: Parameters,
    config: ModelConfig,
    tokens: Int[Array, "P G"],
    prompts: PromptMemory,
    rollouts: RolloutMemory,
) -> tuple[Float[Array, "P G D"], RolloutMemory]:
    """Read one more token of every rollout: return the hidden states after it; the parameters are ``apart``."""

    def attend(queries: Array, keys: Array, values: Array, memory: Any) -> tuple[Array, tuple[Array, Array]]:
        return _attend(prompts.lengths, rollouts, (queries, keys, values), memory)

    positions = jnp.broadcast_to((prompts.lengths + rollouts.written - rollouts.since)[:, None], tokens.shape)
    memory = tuple(zip(prompts.keys, prompts.values, rollouts.keys, rollouts.values, strict=True))
    hidden, memories = run_layers(parameters, config, tokens, positions, attend=attend, memory=memory)
    keys, values = zip(*memories, strict=True)
    return hidden, rollouts._replace(keys=keys, values=values, written=rollouts.written + 1)


def _attend(
    lengths: Array, rollouts: RolloutMemory, heads: tuple[Array, Array, Array], memory: Any
) -> tuple[Array, tuple[Array, Array]]:
    """Attend from one token to the prompt, which its whole group shares, and to the rollout's own tokens."""
    prompt_keys, prompt_values, own_keys, own_values = memory
    size, (count, _, capacity) = prompt_keys.shape[2], own_keys.shape
    # A head's rollouts stand together, as its prompt's scores come.
    queries, new_key, new_value = (jnp.swapaxes(array, 1, 2) for array in heads)
    slot, each = rollouts.written % capacity, (count, *queries.shape[3:])
    own_keys = jax.lax.dynamic_update_slice_in_dim(own_keys, new_key.reshape(count, -1, 1), slot, axis=2)
    own_values = jax.lax.dynamic_update_slice_in_dim(own_values, new_value.reshape(count, 1, -1), slot, axis=1)
    in_rows = (*queries.shape[:2], -1)  # P, K, G R
    scores = [
        jnp.einsum("pkqe,pkse->pkqs", queries.reshape(*in_rows, queries.shape[-1]), prompt_keys),
        jnp.einsum("bre,bec->brc", queries.reshape(each), own_keys).reshape(*in_rows, capacity),
    ]
    in_prompt = (jnp.arange(size) < lengths[:, None])[:, None, None]
    age = (rollouts.written - jnp.arange(capacity)) % capacity
    since_it_began = (age <= (rollouts.written - rollouts.since)[:, None])[:, None, None]
    prompt_weights, weights = shared_weights(scores, [in_prompt, since_it_began], heads[2])
    output = jnp.einsum("pkqs,pkse->pkqe", prompt_weights, prompt_values).reshape(queries.shape)
    of_own = jnp.einsum("brc,bce->bre", weights.reshape(*each[:2], capacity), own_values)
    return jnp.swapaxes(output + of_own.reshape(queries.shape), 1, 2), (own_keys, own_values)
