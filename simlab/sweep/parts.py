"""Parts: the finished units of a sweep, one file each, written whole or not at all."""

import contextlib
import hashlib
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from simlab.errors import InputError
from simlab.sweep.grid import Cell, Sweep

MANIFEST = "sweep.json"


@dataclass(frozen=True)
class Unit:
    """A cell and a block of seeds: the work that is done, kept or lost as a whole.

    ``name`` is a hash of all its numbers depend on: the cell, the seeds, the recorded steps, the platform and the code.
    """

    index: tuple[int, ...]
    cell: Cell
    seeds: range
    name: str


def units(sweep: Sweep, block: Callable[[Cell], int], code: str) -> list[Unit]:
    """Cut a sweep into units of at most ``block(cell)`` seeds; ``code`` identifies code and platform."""
    shared = {"steps": sweep.steps, "record_every": sweep.record_every, "pass_at_k": sweep.pass_at_k}
    shared |= {"top_n": sweep.top_n, "dtype": sweep.dtype, "code": code}
    shared |= {"surrogate": sweep.surrogate, "optimizer": sweep.optimizer}
    found = []
    for index, cell in sweep.cells():
        size = block(cell)
        for first in range(0, sweep.seeds, size):
            seeds = range(first, min(first + size, sweep.seeds))
            identity = shared | {
                "cell": [cell.estimator, cell.group_size, cell.parameters],
                # What the problem is, not only its name: a file of logits may have changed.
                "problem": sweep.build_problem(cell).fingerprint,
                "seeds": [seeds.start, seeds.stop],
            }
            text = json.dumps(identity, sort_keys=True)
            found.append(Unit(index, cell, seeds, hashlib.sha256(text.encode()).hexdigest()[:24]))
    return found


class Parts:
    """A folder of parts.

    Raises:
        InputError: if the folder cannot be made or written to.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        with _explained(f"cannot write to {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass

    def path(self, unit: Unit) -> Path:
        """Where a unit's part lies, or would."""
        return self.folder / f"{unit.name}.npz"

    def has(self, unit: Unit) -> bool:
        """Whether a unit is finished."""
        return self.path(unit).exists()

    def strangers(self, known: list[Unit]) -> int:
        """How many parts belong to none of the given units: another configuration or another code version."""
        names = {unit.name for unit in known}
        return sum(path.stem not in names for path in self.folder.glob("*.npz"))

    def save(self, unit: Unit, rows: Mapping[str, np.ndarray]) -> None:
        """Write a unit's records, (seeds, records, ...) each."""
        write_atomically(self.path(unit), lambda file: np.savez(file, **dict[str, Any](rows)))

    def load(self, unit: Unit) -> dict[str, np.ndarray]:
        """Read a unit's records.

        Raises:
            InputError: for a part that is damaged or does not hold the unit's seeds.
        """
        path = self.path(unit)
        try:
            with np.load(path, allow_pickle=False) as part:
                rows = {name: part[name] for name in part.files}
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(
                _damaged(path, str(error).splitlines()[0] if str(error) else type(error).__name__)
            ) from None
        if not rows or any(len(values) != len(unit.seeds) for values in rows.values()):
            raise InputError(_damaged(path, f"it should hold {len(unit.seeds)} seeds"))
        return rows

    def save_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write what the folder's latest sweep is, for ``simlab merge``."""
        text = json.dumps(manifest, indent=1, sort_keys=True)
        write_atomically(self.folder / MANIFEST, lambda file: file.write(text.encode()))


def load_manifest(folder: Path) -> dict[str, Any]:
    """Read a folder's manifest.

    Raises:
        InputError: if there is none, or it is damaged.
    """
    try:
        return dict(json.loads((folder / MANIFEST).read_text()))
    except FileNotFoundError:
        raise InputError(f"{folder} holds no {MANIFEST}; allowed: a folder that simlab sweep --shard wrote") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{folder / MANIFEST} is damaged ({error}); run the sweep again to write it anew") from None


def _damaged(path: Path, reason: str) -> str:
    return f"part {path} is damaged ({reason}); delete it and run the same command again: only it is recomputed"


def write_atomically(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """Write a file so that it appears whole or not at all.

    Raises:
        InputError: if it cannot be written, for instance because the disk is full.
    """
    with _explained(f"cannot write {path}"):
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".unfinished-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{what}: {error.strerror or error}; finished parts are kept") from None
