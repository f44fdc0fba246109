"""The decoder: RMS norms, rotary positions, grouped-query attention and a gated feed-forward layer.

The parameters are nested dicts of arrays with Hugging Face's names. A matrix is stored as ``x @ matrix`` wants it,
(in, out), the transpose of Hugging Face's; the embedding and the head are (V, D), as there. The layers are stacked
along a first axis, and ``jax.lax.scan`` goes through them, so that thirty layers compile as fast as one::

    {"embed_tokens": (V, D), "norm": (D,), ["lm_head": (V, D),]
     "layers": {"input_layernorm": (L, D), "q_proj": (L, D, H E), ..., "down_proj": (L, F, D)}}

Shapes: B sequences, T tokens, V vocabulary, D width, F inner width, L layers, H query heads, K key and value heads,
R = H / K queries a key, E numbers a head. A matrix is multiplied in its own dtype; norms, softmax and logits are
computed in float32 at least.
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from simlab.llm.config import ModelConfig
from simlab.llm.product import Transposed, is_product, product, with_rows

LOGITS_AT_ONCE = 2**26  # 256 MiB in float32
INITIAL_SCALE = 0.02  # the standard deviation of every new matrix, as in transformers
Parameters = dict[str, Any]
Rotation = tuple[Array, Array]  # cosine and sine, (*B, E / 2) each
Attend = Callable[..., Any]  # queries, keys, values, memory -> values seen, what is left behind


def shapes(config: ModelConfig) -> dict[str, Any]:
    """Return the shape of every parameter, in the nesting of the parameters."""
    V, D, F = config.vocab_size, config.hidden_size, config.intermediate_size
    queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm": (D,),
        "q_proj": (D, queries),
        "k_proj": (D, keys),
        "v_proj": (D, keys),
        "o_proj": (queries, D),
        "post_attention_layernorm": (D,),
        "gate_proj": (D, F),
        "up_proj": (D, F),
        "down_proj": (F, D),
    }
    if config.attention_bias:
        layer |= {"q_bias": (queries,), "k_bias": (keys,), "v_bias": (keys,)}
    if config.qk_norm:
        layer |= {"q_norm": (config.head_dim,), "k_norm": (config.head_dim,)}
    stacked = {name: (config.num_layers, *shape) for name, shape in layer.items()}
    head = {} if config.tie_embeddings else {"lm_head": (V, D)}
    return {"embed_tokens": (V, D), "layers": stacked, "norm": (D,), **head}


def named(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each leaf of nested dicts with its name, such as ``layers.q_proj``."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", leaf) for inner, leaf in named(value))
        else:
            yield name, value


@functools.partial(jax.jit, static_argnums=0)
def init(config: ModelConfig, key: PRNGKeyArray) -> Parameters:
    """Return new parameters in float32: matrices normal with standard deviation .02, norms 1, biases 0."""
    # All numbers at once: a program for each shape would take far longer to compile than to run.
    leaves = sorted(named(shapes(config)))
    ends = np.cumsum([0, *(math.prod(shape) for _, shape in leaves)])
    numbers = INITIAL_SCALE * jax.random.normal(key, (int(ends[-1]),), "float32")

    def fresh(index: int, name: str, shape: tuple[int, ...]) -> Array:
        if name.endswith("norm"):
            return jnp.ones(shape, "float32")
        if name.endswith("bias"):
            return jnp.zeros(shape, "float32")
        return numbers[ends[index] : ends[index + 1]].reshape(shape)

    return as_tree({name: fresh(i, name, shape) for i, (name, shape) in enumerate(leaves)})


def as_tree(leaves: Mapping[str, Any]) -> Parameters:
    """Return the nested parameters of leaves named as ``named`` names them."""
    tree: Parameters = {"layers": {}}
    for name, leaf in leaves.items():
        inner = name.removeprefix("layers.")
        (tree if inner == name else tree["layers"])[inner] = leaf
    return tree


def forward(parameters: Parameters, config: ModelConfig, tokens: Int[Array, "B T"]) -> Float[Array, "B T V"]:
    """Return the logits after each token, in float32 at least; shorter sequences are filled up on the right."""

    def attend(queries: Array, keys: Array, values: Array, _: Any) -> tuple[Array, None]:
        return causal_attention(queries, keys, values), None

    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    hidden, _ = run_layers(parameters, config, tokens, positions, attend=attend)
    return logits_of(head_of(parameters), hidden)


def head_of(parameters: Parameters) -> Float[Array, "V D"]:
    """Return the matrix of the logits: the head, or the embedding of a tied model."""
    head: Array = parameters["lm_head" if "lm_head" in parameters else "embed_tokens"]
    return head


def logits_of(head: Float[Array, "V D"], hidden: Float[Array, "*B D"]) -> Float[Array, "*B V"]:
    """hidden head^T, in float32 at least."""
    return with_rows(hidden, head, wide(hidden.dtype))


def run_layers(
    parameters: Parameters,
    config: ModelConfig,
    tokens: Int[Array, "*B"],
    positions: Int[Array, "*B"],
    *,
    attend: Attend,
    memory: Any = None,
    checkpointing: bool = False,
    unrolled: bool = False,
) -> tuple[Float[Array, "*B D"], Any]:
    """Return the normalised output of the last layer, and what each layer's attention leaves behind, stacked.

    ``attend(queries (*B, K, R, E), keys (*B, K, E), values (*B, K, E), memory)`` gives the values seen (*B, K, R, E)
    and what it leaves behind; its ``memory`` is its layer's part of the stacked one. With parameters that are
    ``apart``, the memory is a tuple with an entry a layer, and so is what is left behind.

    A gradient keeps what products of matrices gave and computes the rest of a layer a second time; with
    ``checkpointing`` it keeps each layer's input alone. Stacked layers that are ``unrolled`` are computed without a
    loop, and all that they give may be kept.
    """
    angles = positions[..., None].astype(jnp.float32) * jnp.asarray(frequencies(config), jnp.float32)
    rotation = jnp.cos(angles), jnp.sin(angles)

    def layer(hidden: Array, inputs: tuple[Parameters, Any]) -> tuple[Array, Any]:
        weights, remembered = inputs
        normed = rms_norm(hidden, weights["input_layernorm"], config)
        output, behind = attend(*heads(weights, config, normed, rotation), remembered)
        hidden = hidden + linear(weights, "o_proj", output.reshape(*hidden.shape[:-1], -1))
        normed = rms_norm(hidden, weights["post_attention_layernorm"], config)
        inner = jax.nn.silu(linear(weights, "gate_proj", normed)) * linear(weights, "up_proj", normed)
        return hidden + linear(weights, "down_proj", inner), behind

    hidden, layers = parameters["embed_tokens"][tokens], parameters["layers"]
    if isinstance(layers, tuple):
        outputs: Any = ()
        alike = jax.jit(layer)  # traced once for all layers
        for inputs in zip(layers, memory, strict=True):
            hidden, behind = alike(hidden, inputs)
            outputs = (*outputs, behind)
    else:
        policy = None if checkpointing else is_product
        # Inside a loop XLA cannot undo what the checkpoint is for. Without a loop it may: that takes less time.
        each = jax.checkpoint(layer, prevent_cse=False, policy=policy)
        hidden, outputs = jax.lax.scan(each, hidden, (layers, memory), unroll=unrolled)
    return rms_norm(hidden, parameters["norm"], config), outputs


def apart(parameters: Parameters) -> Parameters:
    """Return the same parameters with a tuple of layers, their matrices ``Transposed``, for ``run_layers``."""
    layers = parameters["layers"]
    count = len(layers["input_layernorm"])
    return {**parameters, "layers": tuple(_layer(layers, i) for i in range(count))}


@jax.jit
def _layer(layers: Parameters, i: Int[Array, ""] | int) -> Parameters:
    """One layer: a program of its own copies each matrix once, where NumPy's spelling copies it twice."""

    def unstack(stacked: Array) -> Any:
        values = jax.lax.dynamic_index_in_dim(stacked, i, keepdims=False)
        return Transposed(values.T) if values.ndim == 2 else values

    return {name: unstack(each) for name, each in layers.items()}


def heads(
    weights: Parameters, config: ModelConfig, normed: Float[Array, "*B D"], rotation: Rotation
) -> tuple[Float[Array, "*B K R E"], Float[Array, "*B K E"], Float[Array, "*B K E"]]:
    """Return the queries, keys and values of one layer, with their positions rotated in."""

    def projected(name: str) -> Array:
        flat = linear(weights, f"{name}_proj", normed)
        if f"{name}_bias" in weights:
            flat = flat + weights[f"{name}_bias"]
        return flat.reshape(*normed.shape[:-1], -1, config.head_dim)

    queries, keys, values = map(projected, "qkv")
    if config.qk_norm:
        queries, keys = rms_norm(queries, weights["q_norm"], config), rms_norm(keys, weights["k_norm"], config)
    queries, keys = rotated(queries, rotation), rotated(keys, rotation)
    return queries.reshape(*keys.shape[:-1], -1, config.head_dim), keys, values


def linear(weights: Parameters, name: str, values: Float[Array, "*B D"]) -> Float[Array, "*B F"]:
    """values matrix; and where the matrix has adapters (``simlab.llm.lora``), values a b added to it."""
    out: Array = product(values, weights[name])
    if f"{name}_a" not in weights:
        return out
    return out + product(product(values, weights[f"{name}_a"]), weights[f"{name}_b"])


def causal_attention(
    queries: Float[Array, "B T K R E"], keys: Float[Array, "B T K E"], values: Float[Array, "B T K E"]
) -> Float[Array, "B T K R E"]:
    """Attend from each token to itself and the tokens to its left: softmax(queries keys / sqrt(E)) values."""
    count, repeats, width = queries.shape[1], queries.shape[3], queries.shape[-1]
    queries, keys, values = (jnp.swapaxes(array, 1, 2) for array in (queries, keys, values))
    scores = jnp.einsum("bkqe,bkse->bkqs", queries.reshape(*queries.shape[:2], -1, width), keys)  # q: T R
    causal = jnp.repeat(jnp.tril(jnp.ones((count, count), bool)), repeats, axis=0)
    (weights,) = shared_weights([scores], [causal], values)
    output = jnp.einsum("bkqs,bkse->bkqe", weights, values)
    return jnp.swapaxes(output.reshape(queries.shape), 1, 2)


def shared_weights(
    scores: Sequence[Float[Array, "*B Q _"]], visible: Sequence[Bool[Array, "*_ _"]], values: Float[Array, "*_ E"]
) -> list[Float[Array, "*B Q _"]]:
    """Return one softmax over the keys of several parts, cut into the weights of each, in the dtype of the ``values``.

    ``scores`` are queries keys of each part, and ``visible`` the keys that a query may see, which alone get weight.
    """
    together = jnp.concatenate(scores, axis=-1) / math.sqrt(values.shape[-1])
    masks = [jnp.broadcast_to(mask, segment.shape) for mask, segment in zip(visible, scores, strict=True)]
    masked = jnp.where(jnp.concatenate(masks, axis=-1), together.astype(wide(together.dtype)), -jnp.inf)
    weights = jax.nn.softmax(masked, axis=-1).astype(values.dtype)
    return jnp.split(weights, np.cumsum([segment.shape[-1] for segment in scores])[:-1], axis=-1)


def rms_norm(values: Float[Array, "*B D"], weight: Float[Array, " D"], config: ModelConfig) -> Float[Array, "*B D"]:
    """values / sqrt(mean(values^2) + eps), times a factor for each of the last axis."""
    exact = values.astype(wide(values.dtype))
    scale = jax.lax.rsqrt(jnp.mean(exact**2, axis=-1, keepdims=True) + config.rms_norm_eps)
    normed: Array = weight * (exact * scale).astype(values.dtype)
    return normed


def frequencies(config: ModelConfig) -> np.ndarray:
    """Return the E / 2 frequencies theta^(-2 i / E), as Llama 3 scales them where the config says so.

    Llama 3 divides those by ``factor`` that turn less than ``low_frequency_factor`` times in the original context,
    keeps those that turn more than ``high_frequency_factor`` times, and goes from one to the other linearly.
    """
    plain = config.rope_theta ** -(np.arange(0, config.head_dim, 2) / config.head_dim)
    scaling = config.rope_scaling
    if scaling is None:
        return plain
    turns = scaling.original_positions * plain / (2 * np.pi)
    low, high = scaling.low_frequency_factor, scaling.high_frequency_factor
    share = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return plain * (share + (1 - share) / scaling.factor)


def rotated(values: Float[Array, "*B N E"], rotation: Rotation) -> Float[Array, "*B N E"]:
    """Turn number i of the first half and of the second half of a head as a pair by the i-th angle."""
    cosine, sine = (angle[..., None, :].astype(values.dtype) for angle in rotation)
    first, second = jnp.split(values, 2, axis=-1)
    return jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


def wide(dtype: Any) -> Any:
    """Return the dtype for sums: float32, or float64 where the values have it."""
    return jnp.promote_types(dtype, jnp.float32)


# Logits in slices of tokens, so that those of all tokens never exist together: with a vocabulary of 150 thousand those
# of 128 completions of 1,024 tokens take 80 GB, and their gradient as much again. A slice is computed, reduced to a few
# numbers a token, and dropped; its gradient computes it a second time.


def rows_at_once(rows: int, vocab_size: int) -> int:
    """Return the tokens of a slice: all, or slices of equal size with at most ``LOGITS_AT_ONCE`` logits.

    >>> rows_at_once(300, 50_000), rows_at_once(3000, 50_000)
    (300, 1000)
    """
    return math.ceil(rows / math.ceil(rows / max(1, LOGITS_AT_ONCE // vocab_size)))


def map_logits(
    function: Callable[..., Any], parameters: Parameters, hidden: Float[Array, "*B D"], *others: Array
) -> Any:
    """Apply a function to slices of logits (C, V) and of ``others``, whose rows must not depend on each other."""
    shape, head = hidden.shape[:-1], head_of(parameters)
    count = math.prod(shape)
    rows = [array.reshape(count, *array.shape[len(shape) :]) for array in (hidden, *others)]
    if rows_at_once(count, len(head)) == count:
        results = function(logits_of(head, rows[0]), *rows[1:])
    else:
        results = _in_slices(function, head, rows)
    return jax.tree.map(lambda values: values.reshape(*shape, *values.shape[1:]), results)


def _in_slices(function: Callable[..., Any], head: Float[Array, "V D"], rows: list[Array]) -> Any:
    count = len(rows[0])
    size = rows_at_once(count, len(head))
    slices = math.ceil(count / size)

    def cut(array: Array) -> Array:
        filling = jnp.zeros((slices * size - count, *array.shape[1:]), array.dtype)
        return jnp.concatenate([array, filling]).reshape(slices, size, *array.shape[1:])

    # The head's gradient is a sum over slices: its dtype is that of what the slices are given.
    exact = head.astype(wide(head.dtype))

    @jax.checkpoint
    def reduce_slice(slice_rows: list[Array]) -> Any:
        return function(logits_of(exact.astype(head.dtype), slice_rows[0]), *slice_rows[1:])

    results = jax.lax.map(reduce_slice, [cut(array) for array in rows])
    return jax.tree.map(lambda values: values.reshape(-1, *values.shape[2:])[:count], results)
