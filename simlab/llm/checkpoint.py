"""Folders of ``config.json`` and safetensors files, as ``transformers`` reads and writes them; they run no code."""

import hashlib
import itertools
import json
import math
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes  # noqa: F401  # so that NumPy knows bfloat16
import numpy as np

from simlab.errors import InputError, check_choice, package
from simlab.files import write_whole
from simlab.llm.config import ModelConfig, from_hugging_face, to_hugging_face
from simlab.llm.model import Parameters, as_tree, named, shapes
from simlab.reading import read_json, reason
from simlab.seals import Damaged, sealed_json, unsealed_json

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
SHARDS = "model-*-of-*.safetensors"
SHARD_BYTES = 5 * 10**9  # of the tensors of a file; an index says which of several files has which
GENERATION = "generation_config.json"
FLOAT = 4  # bytes of a number in memory
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


def check_fits(name: str, needed: int) -> None:
    """Raise ``InputError`` if ``name`` needs more bytes than are free; where that is not known, nothing is refused."""
    free = free_memory()
    if free is not None and needed > free:
        raise InputError(f"{name} needs {needed} bytes of memory; allowed: up to the {free} that are free")


def free_memory() -> int | None:
    """Return the bytes that are free on the device, None where that cannot be known."""
    device = jax.devices()[0]
    statistics = device.memory_stats() if device.platform != "cpu" else None
    if statistics and "bytes_limit" in statistics:
        return int(statistics["bytes_limit"]) - int(statistics.get("bytes_in_use", 0))
    meminfo = Path("/proc/meminfo")
    if device.platform != "cpu" or not meminfo.exists():
        return None
    line = next((line for line in meminfo.read_text().splitlines() if line.startswith("MemAvailable:")), None)
    return None if line is None else 1024 * int(line.split()[1])


def read_checkpoint(folder: str | os.PathLike) -> Model:
    """Read a folder's model in float32; ``Damaged`` for changed files, ``InputError`` for missing or unfit ones."""
    folder = Path(folder)
    _check_files(folder)
    config = from_hugging_face(read_json(folder / "config.json"))
    if (folder / INDEX).exists():
        files = read_json(folder / INDEX).get("weight_map")
        if not isinstance(files, dict):
            raise InputError(f"{folder / INDEX} has no weight_map of tensors and files")
        names = sorted(set(map(str, files.values())))
    elif (folder / WEIGHTS).exists():
        names = [WEIGHTS]
    else:
        raise InputError(f"{folder} has no {WEIGHTS} and no {INDEX}; other formats are not read")
    tensors = dict(itertools.chain.from_iterable(_read_safetensors(folder / name) for name in names))
    return Model(config, from_tensors(tensors, config))


def _read_safetensors(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    safetensors = package("safetensors")
    try:
        check_fits(str(path), path.stat().st_size)
        with safetensors.safe_open(path, framework="np") as file:
            for tensor in file.keys():  # noqa: SIM118  # it is no dict
                check_choice(f"the dtype of tensor {tensor} in {path}", file.get_slice(tensor).get_dtype(), FLOATS)
                yield tensor, file.get_tensor(tensor)
    except (safetensors.SafetensorError, OSError, struct.error) as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None


def from_tensors(tensors: Mapping[str, np.ndarray], config: ModelConfig) -> Parameters:
    """Return the parameters in float32 of Hugging Face's tensors; the head of a tied model may be among them."""
    head = tensors.get(OUTSIDE["lm_head"]) if config.tie_embeddings else None
    if head is not None:
        if not np.array_equal(head, tensors.get(OUTSIDE["embed_tokens"], ())):
            raise InputError("tensor lm_head.weight is not model.embed_tokens.weight, but tie_word_embeddings is true")
        tensors = {name: values for name, values in tensors.items() if name != OUTSIDE["lm_head"]}
    numbers = sum(math.prod(values.shape) for values in tensors.values())
    check_fits("this model", 2 * numbers * FLOAT)  # as they are read, and stacked
    parameters = {name: (shape, tensor_names(name, config)) for name, shape in named(shapes(config))}
    expected = {tensor for _, names in parameters.values() for tensor in names}
    for tensor in sorted(expected ^ tensors.keys()):
        raise InputError(f"tensor {tensor} is {'missing' if tensor in expected else 'none of this model'}")
    return as_tree({name: _stacked(name, *parameter, tensors) for name, parameter in parameters.items()})


def _stacked(name: str, shape: tuple[int, ...], names: list[str], tensors: Mapping[str, np.ndarray]) -> Any:
    """Return one parameter, the tensors of its layers along the first axis."""
    layers, expected = [], shape[1:] if name.startswith("layers.") else shape
    if _is_transposed(name):
        expected = expected[::-1]
    for tensor in names:
        if tensors[tensor].shape != expected:
            raise InputError(f"tensor {tensor} has shape {tensors[tensor].shape}; allowed: {expected}")
        with np.errstate(over="ignore"):  # a number beyond float32 becomes infinite, and is refused
            values = np.asarray(tensors[tensor]).astype("float32", copy=False)
        if not np.isfinite(values).all():
            raise InputError(f"tensor {tensor} holds what is no finite number in float32")
        layers.append(values.T if _is_transposed(name) else values)
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


def _is_transposed(name: str) -> bool:
    return name.endswith("_proj")


def write_checkpoint(folder: str | os.PathLike, model: Model, generation: Mapping[str, Any] | None = None) -> None:
    """Write a folder that ``transformers`` and ``read_checkpoint`` open; ``InputError`` if that cannot be.

    The checksums of all files come last: they mark the folder as complete. A former checkpoint is replaced.
    ``transformers`` and vLLM sample by ``generation``, the content of ``generation_config.json``.
    """
    folder = Path(folder)
    dtype = str(model.parameters["embed_tokens"].dtype)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = _write_weights(folder, model)
        _write_json(folder / "config.json", to_hugging_face(model.config, dtype))
        (folder / GENERATION).unlink(missing_ok=True)
        if generation is not None:
            _write_json(folder / GENERATION, generation)
        files = [name for name in (*files, "config.json", GENERATION, *TOKENIZER) if (folder / name).exists()]
        checksums = {name: _checksum(folder / name) for name in files}
        write_whole(folder / CHECKSUMS, sealed_json(checksums, CHECKSUMS))
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from None


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_whole(path, (json.dumps(dict(content), indent=2) + "\n").encode())


def _write_weights(folder: Path, model: Model) -> list[str]:
    """Write one file, or several with an index, remove those of a former checkpoint, and return the names."""
    numpy_format = package("safetensors.numpy")
    sizes: dict[str, int] = {}
    for name, values in named(model.parameters):
        tensors_of = tensor_names(name, model.config)
        sizes |= dict.fromkeys(tensors_of, values.nbytes // len(tensors_of))
    shards, tensors = shards_of(sizes, SHARD_BYTES), _as_tensors(model)
    files = [f"model-{index + 1:05}-of-{len(shards):05}.safetensors" for index in range(len(shards))]
    files = files if len(shards) > 1 else [WEIGHTS]
    for file, shard in zip(files, shards, strict=True):
        write_whole(folder / file, numpy_format.save(dict(itertools.islice(tensors, len(shard))), {"format": "pt"}))
    if len(shards) > 1:
        places = {tensor: file for file, shard in zip(files, shards, strict=True) for tensor in shard}
        _write_json(folder / INDEX, {"metadata": {"total_size": sum(sizes.values())}, "weight_map": places})
        files.append(INDEX)
    for former in {folder / INDEX, folder / WEIGHTS, *folder.glob(SHARDS)}:
        if former.name not in files:
            former.unlink(missing_ok=True)
    return files


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


def _as_tensors(model: Model) -> Iterator[tuple[str, np.ndarray]]:
    """Yield Hugging Face's tensors with their names."""
    for name, values in named(model.parameters):
        layers = np.asarray(values) if name.startswith("layers.") else [np.asarray(values)]
        for tensor, layer in zip(tensor_names(name, model.config), layers, strict=True):
            yield tensor, np.ascontiguousarray(layer.T if _is_transposed(name) else layer)


def _check_files(folder: Path) -> None:
    """Raise ``Damaged`` for a file that is missing or changed; other programs write no checksums, and pass."""
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
