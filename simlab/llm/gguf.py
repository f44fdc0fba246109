"""Read GGUF files: model and tokenizer in one file, the weights often in a few bits each.

The package ``gguf`` reads the file and turns its blocks into float32. The tensors then get Hugging Face's names and are
checked as those of a checkpoint are. An unknown entry about the architecture is refused by name.
"""

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
from simlab.llm.model import DTYPES
from simlab.llm.tokenizer import Tokenizer, byte_pairs
from simlab.reading import open_regular, reason

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
FLOAT = 4  # bytes of a number in memory
CONTROL, USER_DEFINED = 3, 4  # kinds of tokens that byte pairs never make up


def read_gguf(path: str | os.PathLike, dtype: str = "float32") -> tuple[Model, Tokenizer]:
    """Read the model of a GGUF file, its weights turned into ``dtype``, and its tokenizer.

    Raises:
        InputError: for a file that is missing or broken, an architecture, option or tokenizer that is not supported,
            more than fits into memory, and for a tensor that is missing, left over, of another shape or not finite.
    """
    check_choice("dtype", dtype, DTYPES)
    path = Path(path)
    entries, stored = _read_file(path)
    tensors = {_hugging_face_name(name): tensor for name, tensor in stored.items()}
    config = _config(entries, tensors)
    check_fits(str(path), FLOAT * sum(int(tensor.n_elements) for tensor in tensors.values()))
    arrays = {name: _dequantized(name, tensor) for name, tensor in tensors.items()}
    if config.architecture == "llama":
        _halve_pairs(arrays, config)
    tokenizer = _tokenizer(entries)
    if tokenizer.size > config.vocab_size:
        raise InputError(f"the tokenizer of {path} has {tokenizer.size} tokens; allowed: {config.vocab_size}")
    return Model(config, from_tensors(arrays, config, dtype)), tokenizer


def _read_file(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the entries and the tensors of a file by name; the numbers stay in the file until they are used."""
    gguf = package("gguf")

    class Reader(gguf.GGUFReader):  # type: ignore[misc, name-defined]
        """The package's reader on a plain array: its slices of a vocabulary take a third of the time of a memmap's."""

        @property
        def data(self) -> np.ndarray:
            return self._data

        @data.setter
        def data(self, mapped: np.ndarray) -> None:
            self._data = mapped.view(np.ndarray)

    open_regular(path).close()
    try:
        reader = Reader(path)
        entries = {name: field.contents() for name, field in reader.fields.items()}
    except Exception as error:  # a broken file makes the package raise anything
        raise InputError(f"{path} cannot be read as GGUF: {reason(error)}") from None
    return entries, {tensor.name: tensor for tensor in reader.tensors}


def _dequantized(name: str, tensor: Any) -> np.ndarray:
    """Return a tensor as numbers of 32 bits."""
    try:
        with np.errstate(all="ignore"):  # numbers that are not finite are refused later, by the tensor's name
            values: np.ndarray = package("gguf").dequantize(tensor.data, tensor.tensor_type)
    except NotImplementedError:
        raise InputError(f"tensor {name} is stored as {tensor.tensor_type.name}, which is not supported") from None
    return values


def _entry(entries: Mapping[str, Any], name: str, kind: type) -> Any:
    """Return an entry; raise ``InputError`` if it is missing or of another type."""
    value = entries.get(name)
    if value is None:
        raise InputError(f"the GGUF file has no entry {name}")
    if not isinstance(value, kind):
        raise InputError(f"the GGUF file's entry {name} = {value!r}; allowed: {kind.__name__}")
    return value


def _hugging_face_name(name: str) -> str:
    """Return Hugging Face's name of a tensor.

    >>> _hugging_face_name("blk.3.attn_q.weight")
    'model.layers.3.self_attn.q_proj.weight'
    """
    match name.split("."):
        case [module, kind] if module in OUTSIDE:
            return f"{OUTSIDE[module]}.{kind}"
        case ["blk", layer, module, kind] if module in INSIDE:
            return f"model.layers.{layer}.{INSIDE[module]}.{kind}"
    raise InputError(f"tensor {name} of the GGUF file is not supported")


def _config(entries: Mapping[str, Any], tensors: Mapping[str, Any]) -> ModelConfig:
    architecture = _entry(entries, "general.architecture", str)
    check_choice("the GGUF file's architecture", architecture, CLASSES)
    start = f"{architecture}."
    options = {name.removeprefix(start): value for name, value in entries.items() if name.startswith(start)}
    for name, value in options.items():
        if name not in READ and name not in CHECKED:
            raise InputError(f"the GGUF file's entry {architecture}.{name} = {value!r} is not known or not supported")
    for name in REQUIRED:
        if name not in options:
            raise InputError(f"the GGUF file has no entry {architecture}.{name}")
    if "model.embed_tokens.weight" not in tensors:
        raise InputError("tensor token_embd.weight of the GGUF file is missing")
    eos, bos, pad = (entries.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "bos", "padding"))
    config = checked_config(
        {field: options[name] for name, field in READ.items() if name in options}
        | {"vocab_size": int(tensors["model.embed_tokens.weight"].shape[-1])}
        | {"tie_embeddings": "lm_head.weight" not in tensors, "architecture": architecture}
        | {"bos_id": bos, "pad_id": pad, "eos_ids": () if eos is None else (eos,)}
    )
    expected = {
        "rope.scaling.type": "none",
        "rope.dimension_count": config.head_dim,
        "attention.value_length": config.head_dim,
        "vocab_size": config.vocab_size,
    }
    for name, value in expected.items():
        if options.get(name, value) != value:
            raise InputError(f"the GGUF file's {architecture}.{name} = {options[name]!r}; allowed: {value}")
    return config


def _halve_pairs(arrays: dict[str, np.ndarray], config: ModelConfig) -> None:
    """Reorder Llama's queries and keys, which a GGUF file rotates as neighbours, into two halves.

    The rows of a head of 6 numbers stand as 0 3 1 4 2 5 in the file, and as 0 1 2 3 4 5 afterwards.
    """
    for name, values in arrays.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            if values.ndim != 2 or values.shape[0] % config.head_dim:
                raise InputError(
                    f"tensor {name} has shape {values.shape}; allowed: multiples of {config.head_dim} rows"
                )
            pairs = values.reshape(-1, config.head_dim // 2, 2, values.shape[1])
            arrays[name] = pairs.swapaxes(1, 2).reshape(values.shape)


def _tokenizer(entries: Mapping[str, Any]) -> Tokenizer:
    check_choice("the GGUF file's tokenizer", _entry(entries, "tokenizer.ggml.model", str), ("gpt2",))
    if entries.get("tokenizer.ggml.add_space_prefix"):
        raise InputError("the GGUF file's tokenizer.ggml.add_space_prefix = True is not supported; allowed: False")
    tokens, kinds = (_entry(entries, f"tokenizer.ggml.{name}", list) for name in ("tokens", "token_type"))
    if len(kinds) != len(tokens):
        raise InputError(f"the GGUF file has {len(tokens)} tokens and {len(kinds)} kinds of tokens; allowed: as many")
    return byte_pairs(
        tokens,
        _entry(entries, "tokenizer.ggml.merges", list),
        [token for token, kind in zip(tokens, kinds, strict=True) if kind in (CONTROL, USER_DEFINED)],
        _entry(entries, "tokenizer.ggml.pre", str),
        eos=_entry(entries, "tokenizer.ggml.eos_token_id", int),
        bos=entries.get("tokenizer.ggml.bos_token_id"),
        pad=entries.get("tokenizer.ggml.padding_token_id"),
        chat_template=entries.get("tokenizer.chat_template"),
    )
