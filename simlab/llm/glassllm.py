"""The two small models inside the package ``glassllm`` (MIT): Llama's decoder with 0.85 million parameters.

Its weights are float16 arrays in an ``.npz``, read without pickle; its own code is not imported. Its tokenizer merges
characters, with a mark for a space, and is written here as rules of the ``tokenizers`` package.
"""

import zipfile
from pathlib import Path

import numpy as np

from simlab.errors import InputError, check_choice
from simlab.llm.checkpoint import Model, from_tensors
from simlab.llm.config import ModelConfig, checked_config
from simlab.llm.extra import package
from simlab.llm.gguf import halves_from_pairs
from simlab.llm.model import DTYPES
from simlab.llm.tokenizer import Tokenizer, one_line
from simlab.reading import json_object, read_json

LANGUAGES = ("en", "pt")
SPACE = "▁"
SPECIAL = ("<pad>", "<unk>", "<bos>", "<eos>")
FIELDS = {
    "vocab_size": "vocab_size",
    "d_model": "hidden_size",
    "n_layers": "num_layers",
    "n_heads": "num_heads",
    "n_kv_heads": "num_kv_heads",
    "max_len": "max_positions",
    "rope_base": "rope_theta",
    "eps": "rms_norm_eps",
}
NAMES = {
    "norm1.gamma": "input_layernorm.weight",
    "norm2.gamma": "post_attention_layernorm.weight",
    "attn.W_Q": "self_attn.q_proj.weight",
    "attn.W_K": "self_attn.k_proj.weight",
    "attn.W_V": "self_attn.v_proj.weight",
    "attn.W_O": "self_attn.o_proj.weight",
    "ffn.W1": "mlp.gate_proj.weight",
    "ffn.W3": "mlp.up_proj.weight",
    "ffn.W2": "mlp.down_proj.weight",
}


def read_glassllm(folder: Path, language: str = "en", dtype: str = "float32") -> tuple[Model, Tokenizer]:
    """The model and tokenizer of a language, from the folder ``weights`` of the package.

    Raises:
        InputError: for a language that it has not, and for files that are missing or broken.
    """
    check_choice("language", language, LANGUAGES)
    check_choice("dtype", dtype, DTYPES)
    path = folder / f"{language}.npz"
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: np.asarray(values) for name, values in file.items()}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    config = _config(arrays.pop("__config__", np.array("{}")), arrays)
    tensors = {_hugging_face_name(name): values.T if ".W" in name else values for name, values in arrays.items()}
    halves_from_pairs(tensors, config)
    return Model(config, from_tensors(tensors, config, dtype)), _tokenizer(folder / f"{language}.tokenizer.json")


def _config(entries: np.ndarray, arrays: dict[str, np.ndarray]) -> ModelConfig:
    said = json_object(str(entries), "the config of glassllm")
    for name in (*FIELDS, "E", "blocks.0.ffn.W1"):
        if name not in said and name not in arrays:
            raise InputError(f"the file of glassllm has no entry {name}")
    bos, eos, pad = (SPECIAL.index(token) for token in ("<bos>", "<eos>", "<pad>"))
    return checked_config(
        {field: said[name] for name, field in FIELDS.items()}
        | {"intermediate_size": arrays["blocks.0.ffn.W1"].shape[-1], "tie_embeddings": True}
        | {"bos_id": bos, "eos_ids": (eos,), "pad_id": pad}
    )


def _hugging_face_name(name: str) -> str:
    if name in ("E", "norm_f.gamma"):
        return "model.embed_tokens.weight" if name == "E" else "model.norm.weight"
    place, _, rest = name.partition(".")
    layer, _, inner = rest.partition(".")
    if place != "blocks" or inner not in NAMES:
        raise InputError(f"array {name} of glassllm is not supported")
    return f"model.layers.{layer}.{NAMES[inner]}"


def _tokenizer(path: Path) -> Tokenizer:
    entries = read_json(path)
    tokenizers = package("tokenizers")
    with one_line(f"{path} cannot be used"):
        alphabet, merges = entries["alphabet"], [tuple(pair) for pair in entries["merges"]]
        tokens = [*SPECIAL, *alphabet, *("".join(pair) for pair in merges)]
        ids = {token: index for index, token in enumerate(tokens)}
        rules = tokenizers.Tokenizer(tokenizers.models.BPE(ids, merges, unk_token="<unk>"))
    rules.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.NFC(), tokenizers.normalizers.Replace(" ", SPACE)]
    )
    pieces = tokenizers.Regex(f"\n|{SPACE}*[^{SPACE}\n]+|{SPACE}+")
    rules.pre_tokenizer = tokenizers.pre_tokenizers.Split(pieces, behavior="isolated")
    rules.decoder = tokenizers.decoders.Sequence([tokenizers.decoders.Replace(SPACE, " "), tokenizers.decoders.Fuse()])
    return Tokenizer(rules, ids["<eos>"], ids["<bos>"], ids["<pad>"])
