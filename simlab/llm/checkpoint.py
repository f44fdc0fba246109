"""Folders of ``config.json`` and safetensors files, as ``transformers`` reads and writes them.

Safetensors hold numbers and nothing else, so a checkpoint cannot run code. Other formats of weights are refused.
"""

import hashlib
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
from simlab.llm.config import ModelConfig, from_hugging_face, to_hugging_face
from simlab.llm.device_memory import check_fits
from simlab.llm.extra import package
from simlab.llm.model import DTYPES, Parameters, as_tree, check_parameters, named, shapes
from simlab.reading import open_regular, read_json, reason
from simlab.seals import Damaged, sealed_json, unsealed_json

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
SHARDS = "model-*-of-*.safetensors"
SHARD_BYTES = 5 * 10**9  # of the tensors of a file
GENERATION = "generation_config.json"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
CHECKSUMS = "checksums.json"
ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")
FEED_FORWARD = ("gate_proj", "up_proj", "down_proj")
FLOATS = ("F64", "F32", "F16", "BF16")  # narrower ones need scales beside them
OUTSIDE = {"embed_tokens": "model.embed_tokens.weight", "norm": "model.norm.weight", "lm_head": "lm_head.weight"}


class Model(NamedTuple):
    """A decoder and its parameters."""

    config: ModelConfig
    parameters: Parameters


def read_checkpoint(folder: str | os.PathLike, dtype: str = "float32") -> Model:
    """Read the model of a folder, its weights turned into ``dtype``.

    Raises:
        Damaged: for a file that differs from what ``write_checkpoint`` wrote.
        InputError: for a file that is missing or broken, a config that is not supported (``from_hugging_face``), more
            than fits into memory, and for a tensor that is missing, left over, of another shape, or not finite; it
            names the tensor.
    """
    check_choice("dtype", dtype, DTYPES)
    folder = Path(folder)
    check_files(folder)
    config = from_hugging_face(read_json(folder / "config.json"))
    return Model(config, from_tensors(_read_tensors(folder), config, dtype))


def from_tensors(tensors: Mapping[str, np.ndarray], config: ModelConfig, dtype: str) -> Parameters:
    """Return the parameters of Hugging Face's tensors; the head of a tied model may be among them.

    Raises:
        InputError: for a tensor that is missing, left over, of another shape, or not finite in this dtype.
    """
    if config.num_layers > len(tensors):  # before the names of so many layers are listed
        raise InputError(f"num_layers = {config.num_layers}, but there are only {len(tensors)} tensors")
    if config.tie_embeddings:
        tensors = _without_tied_head(tensors)
    numbers = sum(math.prod(values.shape) for values in tensors.values())
    check_fits("this model", 2 * numbers * np.dtype(dtype).itemsize)  # in this dtype, and stacked
    expected = {tensor for name, _ in named(shapes(config)) for tensor in tensor_names(name, config)}
    for tensor in sorted(expected ^ tensors.keys()):
        raise InputError(f"tensor {tensor} is {'missing' if tensor in expected else 'none of this model'}")
    return as_tree({name: _stacked(name, shape, tensors, config, dtype) for name, shape in named(shapes(config))})


def _stacked(
    name: str, shape: tuple[int, ...], tensors: Mapping[str, np.ndarray], config: ModelConfig, dtype: str
) -> Any:
    """Return one parameter, the tensors of its layers along the first axis."""
    layers = []
    for tensor in tensor_names(name, config):
        expected = shape[1:] if name.startswith("layers.") else shape
        expected = expected[::-1] if is_transposed(name) else expected
        if tensors[tensor].shape != expected:
            raise InputError(f"tensor {tensor} has shape {tensors[tensor].shape}; allowed: {expected}")
        with np.errstate(over="ignore"):  # a number beyond the dtype becomes infinite, and is refused
            values = np.asarray(tensors[tensor]).astype(dtype, copy=False)
        if not np.isfinite(values).all():
            raise InputError(f"tensor {tensor} holds what is no finite number in {dtype}")
        layers.append(values.T if is_transposed(name) else values)
    return jnp.asarray(np.stack(layers) if name.startswith("layers.") else layers[0])


def tensor_names(name: str, config: ModelConfig) -> list[str]:
    """Return Hugging Face's names of the tensors that one parameter holds: one, or one a layer."""
    if name in OUTSIDE:
        return [OUTSIDE[name]]
    inner = name.removeprefix("layers.")
    if inner.endswith("_bias"):
        tensor = f"self_attn.{inner.removesuffix('_bias')}_proj.bias"
    else:
        module = "self_attn." if inner in ATTENTION else "mlp." if inner in FEED_FORWARD else ""
        tensor = f"{module}{inner}.weight"
    return [f"model.layers.{layer}.{tensor}" for layer in range(config.num_layers)]


def is_transposed(name: str) -> bool:
    """Return True if Hugging Face stores a parameter the other way round."""
    return name.endswith("_proj")


def _read_tensors(folder: Path) -> dict[str, np.ndarray]:
    """Read all tensors of one safetensors file, or of the files that an index names."""
    if not (folder / INDEX).exists():
        if not (folder / WEIGHTS).exists():
            raise InputError(f"{folder} has no {WEIGHTS} and no {INDEX}; other formats are not read")
        return dict(_read_safetensors(folder / WEIGHTS))
    files = read_json(folder / INDEX).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(file, str) for file in files.values()):
        raise InputError(f"{folder / INDEX} has no weight_map of tensors and files")
    tensors: dict[str, np.ndarray] = {}
    for file in sorted(set(files.values())):
        if Path(file).name != file:
            raise InputError(f"{folder / INDEX} names the file {file!r}; allowed: files of its own folder")
        tensors.update(_read_safetensors(folder / file))
    for tensor in sorted(files.keys() ^ tensors.keys()):
        raise InputError(f"tensor {tensor} is {'missing' if tensor in files else 'there'}, unlike {INDEX} has it")
    return tensors


def _read_safetensors(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    safetensors = package("safetensors")
    with open_regular(path) as file:
        check_fits(str(path), os.fstat(file.fileno()).st_size)
    try:
        with safetensors.safe_open(path, framework="np") as file:
            for tensor in file.keys():  # noqa: SIM118  # it is no dict
                check_choice(f"the dtype of tensor {tensor} in {path}", file.get_slice(tensor).get_dtype(), FLOATS)
                yield tensor, file.get_tensor(tensor)
    except (safetensors.SafetensorError, OSError, struct.error) as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None


def _without_tied_head(tensors: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """Drop the head of a tied model, which some checkpoints hold too; it has to be the embedding."""
    head = tensors.get(OUTSIDE["lm_head"])
    if head is not None and not np.array_equal(head, tensors.get(OUTSIDE["embed_tokens"], ())):
        raise InputError("tensor lm_head.weight is not model.embed_tokens.weight, but tie_word_embeddings is true")
    return {name: values for name, values in tensors.items() if name != OUTSIDE["lm_head"]}


def write_checkpoint(
    folder: str | os.PathLike,
    model: Model,
    generation: Mapping[str, Any] | None = None,
    *,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Write a folder that ``transformers`` and ``read_checkpoint`` open; the weights keep their dtype.

    Each file appears whole or not at all. The checksums of all files, those of a tokenizer included, come last: they
    mark the folder as complete. A former checkpoint in the folder is replaced.

    Args:
        folder: to write to.
        model: to be written.
        generation: how ``transformers`` and vLLM are to sample from it by default, which becomes
            ``generation_config.json``; None for no such file.
        shard_bytes: larger weights are written as several files, each of at most so many bytes of tensors, or of one
            larger tensor, and an index says which file has which.

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
        files = [name for name in (*files, "config.json", GENERATION, *TOKENIZER) if (folder / name).exists()]
        checksums = {name: _checksum(folder / name) for name in files}
        write_whole(folder / CHECKSUMS, sealed_json(checksums, CHECKSUMS))
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from None


def _write_weights(folder: Path, model: Model, shard_bytes: int) -> list[str]:
    """Write one file, or several with an index, remove those of a former checkpoint, and return the names."""
    numpy_format = package("safetensors.numpy")
    sizes = dict(_tensor_sizes(model))
    shards = shards_of(sizes, shard_bytes)
    names = [shard_name(index, len(shards)) for index in range(len(shards))]
    tensors = _as_tensors(model)
    for name, shard in zip(names, shards, strict=True):
        shard_tensors = dict(itertools.islice(tensors, len(shard)))
        write_whole(folder / name, numpy_format.save(shard_tensors, metadata={"format": "pt"}))
    if len(shards) > 1:
        files = {tensor: name for name, shard in zip(names, shards, strict=True) for tensor in shard}
        index = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": files}
        write_whole(folder / INDEX, (json.dumps(index, indent=2) + "\n").encode())
        names.append(INDEX)
    for former in {folder / INDEX, folder / WEIGHTS, *folder.glob(SHARDS)}:
        if former.name not in names:
            former.unlink(missing_ok=True)
    return names


def shards_of(sizes: Mapping[str, int], shard_bytes: int) -> list[list[str]]:
    """Cut the names of tensors, in their order, into shards of at most so many bytes; a larger tensor is alone.

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


def shard_name(index: int, count: int) -> str:
    """Return the name that ``transformers`` gives to a file of weights.

    >>> shard_name(0, 1), shard_name(1, 12)
    ('model.safetensors', 'model-00002-of-00012.safetensors')
    """
    return WEIGHTS if count == 1 else f"model-{index + 1:05}-of-{count:05}.safetensors"


def _tensor_sizes(model: Model) -> Iterator[tuple[str, int]]:
    """Yield the name and the bytes of each tensor, in the order of ``_as_tensors``."""
    for name, values in named(model.parameters):
        tensors = tensor_names(name, model.config)
        yield from ((tensor, values.nbytes // len(tensors)) for tensor in tensors)


def _as_tensors(model: Model) -> Iterator[tuple[str, np.ndarray]]:
    """Yield Hugging Face's tensors with their names."""
    for name, values in named(model.parameters):
        layers = np.asarray(values) if name.startswith("layers.") else [np.asarray(values)]
        for tensor, layer in zip(tensor_names(name, model.config), layers, strict=True):
            yield tensor, np.ascontiguousarray(layer.T if is_transposed(name) else layer)


def check_files(folder: Path) -> None:
    """Compare a folder's files with its checksums; a folder that other programs wrote has none, and passes.

    Raises:
        Damaged: for a file that is missing or changed.
        OSError: if one cannot be read.
    """
    path = folder / CHECKSUMS
    if not path.exists():
        return
    try:
        checksums = unsealed_json(path.read_bytes(), CHECKSUMS)
    except Damaged as error:
        raise Damaged(f"{path} is damaged ({error})") from None
    for name, checksum in checksums.items():
        if not (folder / name).is_file():
            raise Damaged(f"{folder / name} is missing, but {CHECKSUMS} has it")
        if _checksum(folder / name) != checksum:
            raise Damaged(f"{folder / name} is damaged (not as {CHECKSUMS} has it, to be deleted if the file is right)")


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
