"""The files of a checkpoint: one where its numbers fit into that, or else a head and pieces of bounded size beside it.

Pieces have names of their own, by what they hold, so that new ones leave the former ones alone. The head says which
pieces count, and is replaced when all of them are on the disk: a kill or a power loss at any moment leaves a whole
former checkpoint or a whole new one.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from simlab.files import set_aside, write_whole
from simlab.llm.checkpoint import shards_of
from simlab.llm.extra import package
from simlab.seals import CHECKSUM, Damaged, arrays_checksum

FILE_BYTES = 2 * 10**9  # of the numbers of a file
SAID = "state"  # the one entry of the metadata, since safetensors writes several in any order
PIECES, CUT = "pieces", "cut"  # what a head says of pieces: their checksums, and the shapes of arrays in stretches
START = "@"  # in a name: behind it stands the number at which a stretch of an array begins
SHOWN = 16  # digits of a checksum in the name of a file


def write_state_files(path: Path, arrays: Mapping[str, Any], said: Mapping[str, Any]) -> None:
    """Write a checkpoint in place of the former one, whole or not at all.

    Args:
        path: the head.
        arrays: by name, of NumPy or JAX; one that is larger than a file is cut, in its flat order.
        said: what else is kept, as plain data.

    Raises:
        OSError: if it cannot be written, as on a full disk; the former one is kept then.
    """
    head, said = dict(arrays), dict(said)
    if sum(values.nbytes for values in arrays.values()) > FILE_BYTES:
        head, pieces = {}, _write_pieces(path, arrays)
        cut = {name: values.shape for name, values in arrays.items() if values.nbytes > FILE_BYTES}
        said |= {PIECES: pieces, CUT: cut}
    numbers = {name: np.asarray(values) for name, values in head.items()}
    said[CHECKSUM] = arrays_checksum(numbers, said)
    write_whole(path, package("safetensors.numpy").save(numbers, metadata={SAID: json.dumps(said, sort_keys=True)}))
    _remove_all_but(_pieces(path, said), path)


def _write_pieces(path: Path, arrays: Mapping[str, Any]) -> list[str]:
    """Write the files beside the head; the checksum of each."""
    stretches = {name: stretch for array, values in arrays.items() for name, stretch in _stretches(array, values)}
    sizes = {name: (stop - start) * arrays[array].dtype.itemsize for name, (array, start, stop) in stretches.items()}
    files, checksums = shards_of(sizes, FILE_BYTES), list[str]()
    for place, names in enumerate(files):
        own = {name: _numbers(arrays, *stretches[name]) for name in names}
        checksums.append(arrays_checksum(own, {}))
        write_whole(_piece(path, place, len(files), checksums[-1]), package("safetensors.numpy").save(own))
    return checksums


def _stretches(array: str, values: Any) -> list[tuple[str, tuple[str, int, int]]]:
    """The names of the stretches of an array with array, start and stop: all of it, unless it is larger than a file."""
    if values.nbytes <= FILE_BYTES:
        return [(array, (array, 0, values.size))]
    most = max(1, FILE_BYTES // values.dtype.itemsize)
    starts = range(0, values.size, most)
    return [(f"{array}{START}{start}", (array, start, min(start + most, values.size))) for start in starts]


def _numbers(arrays: Mapping[str, Any], array: str, start: int, stop: int) -> np.ndarray:
    values = np.asarray(arrays[array])
    return values if stop - start == values.size else values.reshape(-1)[start:stop]


def read_state_files(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What is said in a checkpoint, and its arrays.

    Raises:
        Damaged: for files that are not as they were written.
    """
    safetensors = package("safetensors")
    try:
        said, found = _read_head(path)
        files = _pieces(path, said)
        checksums, shapes = said.pop(PIECES, []), said.pop(CUT, {})
        for file, checksum in zip(files, checksums, strict=True):
            _put(_read_piece(file, checksum), found, shapes)
    except (safetensors.SafetensorError, OSError, KeyError, ValueError, TypeError, AttributeError) as error:
        reason = str(error) if isinstance(error, Damaged) else f"{type(error).__name__}: {error}".splitlines()[0]
        raise Damaged(f"checkpoint {path} is damaged ({reason})") from None
    return said, {name: values.reshape(shapes.get(name, values.shape)) for name, values in found.items()}


def _read_head(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    with package("safetensors").safe_open(path, framework="np") as file:
        said = json.loads(file.metadata()[SAID])
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dict
    if said.pop(CHECKSUM) != arrays_checksum(found, said):
        raise Damaged("its checksum differs")
    return said, found


def _read_piece(path: Path, checksum: str) -> dict[str, np.ndarray]:
    with package("safetensors").safe_open(path, framework="np") as file:
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dict
    if arrays_checksum(found, {}) != checksum:
        raise Damaged(f"the checksum of {path.name} differs")
    return found


def _put(piece: Mapping[str, np.ndarray], found: dict[str, np.ndarray], shapes: Mapping[str, list[int]]) -> None:
    """Put the arrays of a piece where they belong, stretches into flat arrays of their whole size."""
    for name, values in piece.items():
        array, _, start = name.partition(START)
        if not start:
            found[array] = values
            continue
        if array not in found:
            found[array] = np.empty(math.prod(shapes[array]), values.dtype)
        found[array][int(start) : int(start) + len(values)] = values


def _pieces(path: Path, said: Mapping[str, Any]) -> list[Path]:
    """The files beside a head that it counts on; none of a small checkpoint."""
    checksums = said.get(PIECES, [])
    return [_piece(path, place, len(checksums), checksum) for place, checksum in enumerate(checksums)]


def _piece(path: Path, place: int, count: int, checksum: str) -> Path:
    return path.with_name(f"{path.stem}-{place + 1:05}-of-{count:05}-{checksum[:SHOWN]}{path.suffix}")


def _all_pieces(path: Path) -> list[Path]:
    """The files beside a head that are or were a checkpoint's."""
    digits, sign = "[0-9]" * 5, "[0-9a-f]"
    return sorted(path.parent.glob(f"{path.stem}-{digits}-of-{digits}-{sign * SHOWN}{path.suffix}"))


def _remove_all_but(kept: list[Path], path: Path) -> None:
    for file in set(_all_pieces(path)) - set(kept):
        file.unlink(missing_ok=True)


def remove_leftovers(path: Path) -> None:
    """Remove pieces that a kill has left of another checkpoint than the one that is there, which is whole, or gone."""
    _remove_all_but(_pieces(path, _read_head(path)[0]) if path.exists() else [], path)


def remove_state_files(path: Path) -> None:
    """Remove a checkpoint, and what a kill has left of others."""
    path.unlink(missing_ok=True)
    remove_leftovers(path)


def set_aside_state_files(path: Path) -> None:
    """Rename a damaged checkpoint and all pieces beside it, for its owner to look at."""
    for file in [path, *_all_pieces(path)]:
        set_aside(file)
