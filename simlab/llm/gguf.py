"""Read GGUF files: model and tokenizer in one file, the weights often in a few bits each.

The ``gguf`` package turns the blocks of a file into float32; the tensors then get Hugging Face's names and are
checked as those of a checkpoint are. An unknown entry about the architecture is refused by name.
"""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from simlab.errors import InputError, check_choice
from simlab.llm.checkpoint import Model, from_tensors
from simlab.llm.config import CLASSES, ModelConfig, checked_config
from simlab.llm.device_memory import check_fits
from simlab.llm.extra import package
from simlab.llm.gguf_file import Stored, read_layout
from simlab.llm.model import DTYPES
from simlab.llm.tokenizer import Tokenizer, byte_pairs

OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
INSIDE = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
READ = {
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "block_count": "num_layers",
    "attention.head_count": "num_heads",
    "attention.head_count_kv": "num_kv_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "context_length": "max_positions",
    "rope.freq_base": "rope_theta",
}
REQUIRED = ("embedding_length", "feed_forward_length", "block_count", "attention.head_count", "context_length")
CHECKED = {"vocab_size", "rope.dimension_count", "attention.value_length", "rope.scaling.type"}
FLOAT = 4  # bytes of a number once it is read
CONTROL, USER_DEFINED = 3, 4  # kinds of tokens that are not made of pieces


def read_gguf(path: str | os.PathLike, dtype: str = "float32") -> tuple[Model, Tokenizer]:
    """The model of a GGUF file, its weights turned into ``dtype``, and its tokenizer.

    Raises:
        InputError: for a file that is missing or broken, an architecture, option or tokenizer that is not supported,
            more than fits into memory, and for a tensor that is missing, left over, of another shape or not finite.
    """
    check_choice("dtype", dtype, DTYPES)
    path = Path(path)
    entries, stored = read_layout(path)
    tensors = {_hugging_face_name(name): tensor for name, tensor in stored.items()}
    config = _config(entries, tensors)
    check_fits(str(path), FLOAT * sum(math.prod(tensor.shape) for tensor in tensors.values()))
    arrays = {name: _numbers(name, tensor) for name, tensor in tensors.items()}
    if config.architecture == "llama":
        halves_from_pairs(arrays, config)
    tokenizer = _tokenizer(entries)
    if tokenizer.size > config.vocab_size:
        raise InputError(f"the tokenizer of {path} has {tokenizer.size} tokens; allowed: {config.vocab_size}")
    return Model(config, from_tensors(arrays, config, dtype)), tokenizer


def _numbers(name: str, stored: Stored) -> np.ndarray:
    """A tensor as numbers of 32 bits."""
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused later, by the tensor's name
            values: np.ndarray = package("gguf").dequantize(stored.data, stored.kind)
    except NotImplementedError:
        raise InputError(f"tensor {name} is stored as {stored.kind.name}, which is not supported") from None
    return values


def _needed(entries: Mapping[str, Any], name: str, kind: type) -> Any:
    """An entry that has to be there, of this type.

    Raises:
        InputError: if it is not there, or of another type.
    """
    value = entries.get(name)
    if value is None:
        raise InputError(f"the GGUF file has no entry {name}")
    if not isinstance(value, kind):
        raise InputError(f"the GGUF file's entry {name} = {value!r}; allowed: {kind.__name__}")
    return value


def _list_of(entries: Mapping[str, Any], name: str, kind: type) -> list[Any]:
    """An entry that has to be there, a list of this type."""
    values: list[Any] = _needed(entries, name, list)
    if not all(isinstance(value, kind) for value in values):
        raise InputError(f"the GGUF file's entry {name} holds other things than {kind.__name__}")
    return values


def _hugging_face_name(name: str) -> str:
    place, _, rest = name.partition(".")
    if place in OUTSIDE:
        return f"{OUTSIDE[place]}.{rest}"
    layer, _, rest = rest.partition(".")
    inner, _, kind = rest.partition(".")
    if place != "blk" or inner not in INSIDE:
        raise InputError(f"tensor {name} of the GGUF file is not supported")
    return f"model.layers.{layer}.{INSIDE[inner]}.{kind}"


def _config(entries: Mapping[str, Any], tensors: Mapping[str, Stored]) -> ModelConfig:
    architecture = _needed(entries, "general.architecture", str)
    check_choice("the GGUF file's architecture", architecture, CLASSES)
    start = f"{architecture}."
    said = {name.removeprefix(start): value for name, value in entries.items() if name.startswith(start)}
    for name, value in said.items():
        if name not in READ and name not in CHECKED:
            raise InputError(f"the GGUF file's entry {architecture}.{name} = {value!r} is not known or not supported")
    if said.get("rope.scaling.type", "none") != "none":
        raise InputError(f"the GGUF file's rope.scaling.type = {said['rope.scaling.type']!r}; allowed: none")
    for name in REQUIRED:
        if name not in said:
            raise InputError(f"the GGUF file has no entry {architecture}.{name}")
    if "model.embed_tokens.weight" not in tensors:
        raise InputError("tensor token_embd.weight of the GGUF file is missing")
    eos, bos, pad = (entries.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "bos", "padding"))
    config = checked_config(
        {field: said[name] for name, field in READ.items() if name in said}
        | {"vocab_size": tensors["model.embed_tokens.weight"].shape[0]}
        | {"tie_embeddings": "lm_head.weight" not in tensors, "architecture": architecture}
        | {"bos_id": bos, "pad_id": pad, "eos_ids": () if eos is None else (eos,)}
    )
    for name in ("rope.dimension_count", "attention.value_length"):
        if said.get(name, config.head_dim) != config.head_dim:
            raise InputError(f"the GGUF file's {architecture}.{name} = {said[name]}; allowed: {config.head_dim}")
    if said.get("vocab_size", config.vocab_size) != config.vocab_size:
        raise InputError(
            f"the GGUF file's {architecture}.vocab_size = {said['vocab_size']}; allowed: {config.vocab_size}"
        )
    return config


def halves_from_pairs(arrays: dict[str, np.ndarray], config: ModelConfig) -> None:
    """Reorder queries and keys that are rotated as neighbours, as Llama's are in a GGUF file, into two halves."""
    for name, values in arrays.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            if values.ndim != 2 or values.shape[0] % config.head_dim:
                raise InputError(
                    f"tensor {name} has shape {values.shape}; allowed: multiples of {config.head_dim} rows"
                )
            paired = values.reshape(-1, config.head_dim // 2, 2, values.shape[1])
            arrays[name] = paired.swapaxes(1, 2).reshape(values.shape)


def _tokenizer(entries: Mapping[str, Any]) -> Tokenizer:
    kind = _needed(entries, "tokenizer.ggml.model", str)
    check_choice("the GGUF file's tokenizer", kind, ("gpt2",))
    if entries.get("tokenizer.ggml.add_space_prefix"):
        raise InputError("the GGUF file's tokenizer.ggml.add_space_prefix = True is not supported; allowed: False")
    tokens = _list_of(entries, "tokenizer.ggml.tokens", str)
    kinds = _list_of(entries, "tokenizer.ggml.token_type", int)
    if len(kinds) != len(tokens):
        raise InputError(f"the GGUF file has {len(tokens)} tokens and {len(kinds)} kinds of tokens; allowed: as many")
    return byte_pairs(
        tokens,
        _list_of(entries, "tokenizer.ggml.merges", str),
        [token for token, kind in zip(tokens, kinds, strict=True) if kind in (CONTROL, USER_DEFINED)],
        _needed(entries, "tokenizer.ggml.pre", str),
        eos=_needed(entries, "tokenizer.ggml.eos_token_id", int),
        bos=entries.get("tokenizer.ggml.bos_token_id"),
        pad=entries.get("tokenizer.ggml.padding_token_id"),
        chat_template=_chat_template(entries),
    )


def _chat_template(entries: Mapping[str, Any]) -> str | None:
    name = "tokenizer.chat_template"
    source: str | None = _needed(entries, name, str) if entries.get(name) is not None else None
    return source
