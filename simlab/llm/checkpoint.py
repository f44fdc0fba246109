"""Directories of ``config.json`` and safetensors files, as ``transformers`` reads and writes them.

Safetensors hold numbers and nothing else, so a checkpoint cannot run code. Other formats of weights are refused.
"""

import itertools
import json
import math
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import ml_dtypes  # noqa: F401  # so that NumPy knows bfloat16
import numpy as np

from simlab.errors import InputError, check_choice
from simlab.files import write_whole
from simlab.llm.checksums import check_files, write_checksums
from simlab.llm.config import ModelConfig, from_hugging_face, to_hugging_face
from simlab.llm.device_memory import check_fits
from simlab.llm.extra import package
from simlab.llm.model import DTYPES, Parameters, as_tree, check_parameters, named, shapes
from simlab.reading import open_regular, read_json, reason

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
SHARDS = "model-*-of-*.safetensors"
SHARD_BYTES = 5 * 10**9  # of the tensors of a file
GENERATION = "generation_config.json"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")
FEED_FORWARD = ("gate_proj", "up_proj", "down_proj")
FLOATS = ("F64", "F32", "F16", "BF16")  # what weights may be stored as; narrower ones need scales beside them
OUTSIDE = {"embed_tokens": "model.embed_tokens.weight", "norm": "model.norm.weight", "lm_head": "lm_head.weight"}


class Model(NamedTuple):
    """A decoder and its parameters."""

    config: ModelConfig
    parameters: Parameters


def read_checkpoint(folder: str | os.PathLike, dtype: str = "float32") -> Model:
    """The model of a folder, its weights turned into ``dtype``.

    Raises:
        Damaged: for a file that is not as ``write_checkpoint`` wrote it.
        InputError: for a file that is missing or broken, a config that is not supported (``from_hugging_face``), more
            than fits into memory, and for a tensor that is missing, left over, of another shape, or holds what is no
            finite number; it names the tensor.
    """
    check_choice("dtype", dtype, DTYPES)
    folder = Path(folder)
    check_files(folder)
    config = from_hugging_face(read_json(folder / "config.json"))
    return Model(config, from_tensors(_tensors(folder), config, dtype))


def from_tensors(tensors: Mapping[str, np.ndarray], config: ModelConfig, dtype: str) -> Parameters:
    """The parameters of Hugging Face's tensors, among which the head of a tied model may stand or not.

    Raises:
        InputError: for a tensor that is missing, left over, of another shape, or not finite in this dtype.
    """
    if config.num_layers > len(tensors):  # said before all of their names are listed
        raise InputError(f"num_layers = {config.num_layers}, but there are only {len(tensors)} tensors")
    if config.tie_embeddings:
        tensors = _without_tied_head(tensors)
    numbers = sum(math.prod(values.shape) for values in tensors.values())
    check_fits("this model", 2 * numbers * np.dtype(dtype).itemsize)  # in this dtype, and stacked
    wanted = {tensor for name, _ in named(shapes(config)) for tensor in tensor_names(name, config)}
    for tensor in sorted(wanted ^ tensors.keys()):
        raise InputError(f"tensor {tensor} is {'missing' if tensor in wanted else 'none of this model'}")
    return as_tree({name: _stacked(name, shape, tensors, config, dtype) for name, shape in named(shapes(config))})


def _stacked(
    name: str, shape: tuple[int, ...], tensors: Mapping[str, np.ndarray], config: ModelConfig, dtype: str
) -> Any:
    places = tensor_names(name, config)
    one = shape[1:] if name.startswith("layers.") else shape
    for tensor in places:
        stored = one[::-1] if is_transposed(name) else one
        if tensors[tensor].shape != stored:
            raise InputError(f"tensor {tensor} has shape {tensors[tensor].shape}; allowed: {stored}")
    with np.errstate(over="ignore"):  # what does not fit into the dtype becomes infinite, and is refused
        parts = [np.asarray(tensors[tensor]).astype(dtype, copy=False) for tensor in places]
    for tensor, part in zip(places, parts, strict=True):
        if not np.isfinite(part).all():
            raise InputError(f"tensor {tensor} holds what is no finite number in {dtype}")
    parts = [part.T if is_transposed(name) else part for part in parts]
    return jnp.asarray(np.stack(parts) if name.startswith("layers.") else parts[0])


def tensor_names(name: str, config: ModelConfig) -> list[str]:
    """Hugging Face's names of the tensors that one parameter holds: one, or one a layer."""
    if name in OUTSIDE:
        return [OUTSIDE[name]]
    inner = name.removeprefix("layers.")
    if inner.endswith("_bias"):
        tensor = f"self_attn.{inner.removesuffix('_bias')}_proj.bias"
    else:
        place = "self_attn." if inner in ATTENTION else "mlp." if inner in FEED_FORWARD else ""
        tensor = f"{place}{inner}.weight"
    return [f"model.layers.{layer}.{tensor}" for layer in range(config.num_layers)]


def is_transposed(name: str) -> bool:
    """Whether Hugging Face stores a parameter the other way round."""
    return name.endswith("_proj")


def _tensors(folder: Path) -> dict[str, np.ndarray]:
    """All tensors of one safetensors file, or of those that an index names."""
    if not os.path.lexists(folder / INDEX):
        if not os.path.lexists(folder / WEIGHTS):
            raise InputError(f"{folder} has no {WEIGHTS} and no {INDEX}; other formats are not read")
        return dict(_read_safetensors(folder / WEIGHTS))
    places = read_json(folder / INDEX).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise InputError(f"{folder / INDEX} has no weight_map of tensors and files")
    tensors: dict[str, np.ndarray] = {}
    for file in sorted(set(places.values())):
        if Path(file).name != file:
            raise InputError(f"{folder / INDEX} names the file {file!r}; allowed: files of its own folder")
        for tensor, values in _read_safetensors(folder / file):
            if places.get(tensor) != file:
                raise InputError(f"tensor {tensor} is in {file}, but not by {INDEX}")
            tensors[tensor] = values
    for tensor in sorted(places.keys() - tensors.keys()):
        raise InputError(f"tensor {tensor} is missing from {places[tensor]}, where {INDEX} has it")
    return tensors


def _read_safetensors(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    """The tensors of a file. Its header cannot ask for more than there is: the package holds it to the file's size."""
    safetensors = package("safetensors")
    with open_regular(path) as file:  # the package would wait for a pipe
        check_fits(str(path), os.fstat(file.fileno()).st_size)
    try:
        with safetensors.safe_open(path, framework="np") as file:
            for tensor in file.keys():  # noqa: SIM118  # it is no dict
                check_choice(f"the dtype of tensor {tensor} in {path}", file.get_slice(tensor).get_dtype(), FLOATS)
                yield tensor, file.get_tensor(tensor)
    except (safetensors.SafetensorError, OSError, struct.error) as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None


def _without_tied_head(tensors: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """Some checkpoints hold the head of a tied model too; it has to be the embedding."""
    others = {name: values for name, values in tensors.items() if name != OUTSIDE["lm_head"]}
    head = tensors.get(OUTSIDE["lm_head"])
    if head is not None and not np.array_equal(head, tensors.get(OUTSIDE["embed_tokens"], ())):
        raise InputError("tensor lm_head.weight is not model.embed_tokens.weight, but tie_word_embeddings is true")
    return others


def write_checkpoint(
    folder: str | os.PathLike,
    model: Model,
    generation: Mapping[str, Any] | None = None,
    *,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Write a folder that ``transformers`` and ``read_checkpoint`` open; the weights keep their dtype.

    Args:
        folder: to write to.
        model: to be written.
        generation: how ``transformers`` and vLLM are to sample from it unless they are told otherwise, which becomes
            ``generation_config.json``; None for no such file.
        shard_bytes: weights that are larger are written as several files, each of at most so many bytes of tensors, or
            of one larger tensor, and an index says which file has which.

    Each file appears whole or not at all, and last the checksums of all, those of a tokenizer that is there included.
    A folder that has a checkpoint already gets the new one.

    Raises:
        InputError: for parameters that are not the config's, and for a folder that cannot be written.
    """
    check_parameters(model.parameters, model.config)
    folder = Path(folder)
    dtype = str(model.parameters["embed_tokens"].dtype)
    config = json.dumps(to_hugging_face(model.config, dtype), indent=2) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = _write_weights(folder, model, shard_bytes)
        write_whole(folder / "config.json", config.encode())
        (folder / GENERATION).unlink(missing_ok=True)
        if generation is not None:
            write_whole(folder / GENERATION, (json.dumps(dict(generation), indent=2) + "\n").encode())
        write_checksums(folder, [*files, "config.json", GENERATION, *TOKENIZER])
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from None


def _write_weights(folder: Path, model: Model, shard_bytes: int) -> list[str]:
    """Write one file, or several with an index, and remove those of a former checkpoint; the names of what is there."""
    numpy_format = package("safetensors.numpy")
    sizes = dict(_tensor_sizes(model))
    shards = shards_of(sizes, shard_bytes)
    names = [shard_name(place, len(shards)) for place in range(len(shards))]
    tensors = _as_tensors(model)
    for name, shard in zip(names, shards, strict=True):
        own = dict(itertools.islice(tensors, len(shard)))
        write_whole(folder / name, numpy_format.save(own, metadata={"format": "pt"}))
    if len(shards) > 1:
        places = {tensor: name for name, shard in zip(names, shards, strict=True) for tensor in shard}
        index = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": places}
        write_whole(folder / INDEX, (json.dumps(index, indent=2) + "\n").encode())
        names.append(INDEX)
    for former in {folder / INDEX, folder / WEIGHTS, *folder.glob(SHARDS)}:
        if former.name not in names:
            former.unlink(missing_ok=True)
    return names


def shards_of(sizes: Mapping[str, int], shard_bytes: int) -> list[list[str]]:
    """The names of tensors in their order, cut into shards of at most so many bytes; a larger tensor is alone.

    >>> shards_of({"a": 3, "b": 4, "c": 9, "d": 1, "e": 2}, 7)
    [['a', 'b'], ['c'], ['d', 'e']]
    """
    shards: list[list[str]] = [[]]
    room = shard_bytes
    for tensor, size in sizes.items():
        if size > room and shards[-1]:
            shards.append([])
            room = shard_bytes
        shards[-1].append(tensor)
        room -= size
    return shards


def shard_name(place: int, count: int) -> str:
    """The name of a file as ``transformers`` gives it.

    >>> shard_name(0, 1), shard_name(1, 12)
    ('model.safetensors', 'model-00002-of-00012.safetensors')
    """
    return WEIGHTS if count == 1 else f"model-{place + 1:05}-of-{count:05}.safetensors"


def _tensor_sizes(model: Model) -> Iterator[tuple[str, int]]:
    """The bytes of each tensor, in the order of ``_as_tensors``."""
    for name, values in named(model.parameters):
        tensors = tensor_names(name, model.config)
        yield from ((tensor, values.nbytes // len(tensors)) for tensor in tensors)


def _as_tensors(model: Model) -> Iterator[tuple[str, np.ndarray]]:
    for name, values in named(model.parameters):
        parts = np.asarray(values) if name.startswith("layers.") else [np.asarray(values)]
        for tensor, part in zip(tensor_names(name, model.config), parts, strict=True):
            yield tensor, np.ascontiguousarray(part.T if is_transposed(name) else part)
