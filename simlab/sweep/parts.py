"""Parts: the finished units of a sweep, one file each, written whole or not at all."""

import contextlib
import hashlib
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import numpy as np

from simlab.errors import InputError
from simlab.sweep.grid import Cell, Sweep
from simlab.sweep.own import own_code

MANIFEST = "sweep.json"
MANIFEST_ENTRIES = ("configuration", "code", "own", "platform", "versions", "commit")
CHECKSUM = hashlib.sha256


@dataclass(frozen=True)
class Unit:
    """A cell and a block of seeds: the work that is done, kept or lost as a whole.

    ``name`` is a hash of all its numbers depend on: the cell, the seeds, the recorded steps, the platform and the code,
    the library's and the user's own.
    """

    index: tuple[int, ...]
    cell: Cell
    seeds: range
    name: str


def units(sweep: Sweep, block: Callable[[Cell], int], code: str) -> list[Unit]:
    """Cut a sweep into units of at most ``block(cell)`` seeds; ``code`` identifies code and platform."""
    shared = {"steps": sweep.steps, "record_every": sweep.record_every, "pass_at_k": sweep.pass_at_k}
    shared |= {"top_n": sweep.top_n, "dtype": sweep.dtype, "code": code}
    shared |= {"optimizer": sweep.optimizer}
    found = []
    for index, cell in sweep.cells():
        size = block(cell)
        what = {
            "cell": [cell.estimator, cell.surrogate, cell.group_size, cell.parameters],
            "engine": sweep.program(cell).engine,
            # What the problem is, not only its name: a file of logits may have changed.
            "problem": sweep.build_problem(cell).fingerprint,
            "own": own_code(sweep, cell),
        }
        for first in range(0, sweep.seeds, size):
            seeds = range(first, min(first + size, sweep.seeds))
            text = json.dumps(shared | what | {"seeds": [seeds.start, seeds.stop]}, sort_keys=True)
            found.append(Unit(index, cell, seeds, hashlib.sha256(text.encode()).hexdigest()[:24]))
    return found


class Parts:
    """A folder of parts.

    Raises:
        InputError: if the folder cannot be made or written to.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        make_folder(folder)

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
        buffer = io.BytesIO()
        np.savez(buffer, **dict[str, Any](rows))
        # A zip file does not notice every flipped bit, and goes on without the arrays it cannot find.
        content = buffer.getvalue()
        write_atomically(self.path(unit), lambda file: file.write(content + CHECKSUM(content).digest()))

    def load(self, unit: Unit) -> dict[str, np.ndarray]:
        """Read a unit's records.

        Raises:
            InputError: for a part that is damaged or does not hold the unit's seeds.
        """
        path = self.path(unit)
        with _explained(f"cannot read {path}"):
            data = path.read_bytes()
        size = CHECKSUM().digest_size
        content, checksum = data[:-size], data[-size:]
        if CHECKSUM(content).digest() != checksum:
            raise InputError(_damaged(path, "its checksum differs"))
        with np.load(io.BytesIO(content), allow_pickle=False) as part:
            rows = {name: part[name] for name in part.files}
        if any(len(values) != len(unit.seeds) for values in rows.values()):
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
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(f"{folder} holds no {MANIFEST}; allowed: a folder of parts that simlab sweep wrote")
    try:
        manifest = dict(json.loads(path.read_text()))
        Sweep.from_configuration(manifest["configuration"])
        return {name: manifest[name] for name in MANIFEST_ENTRIES} | {"own": dict(manifest["own"])}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(f"{path} is damaged ({reason}); run the sweep again to write it anew") from None


def _damaged(path: Path, reason: str) -> str:
    return f"part {path} is damaged ({reason}); delete it and run the same command again: only it is recomputed"


def make_folder(folder: Path) -> None:
    """Make a folder if need be, and make sure that files can be written to it.

    Raises:
        InputError: if it cannot be made or written to.
    """
    with _explained(f"cannot write to {folder}"):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"cannot write to {folder}: it is not a folder; allowed: a folder, or a new path")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


def check_replaceable(path: Path) -> None:
    """Raise ``InputError`` if something other than a file stands at ``path``, such as a folder or a device."""
    with _explained(f"cannot write {path}"):
        if path.exists() and not path.is_file():
            raise InputError(f"cannot write {path}: it is not a regular file; allowed: a new path, or that of a file")


def write_atomically(path: Path, write: Callable[[BinaryIO], Any], kept: str = "finished parts are kept") -> None:
    """Write a file so that it appears whole or not at all.

    Args:
        path: the file.
        write: writes its content to an open file.
        kept: what the complaint says of work already done.

    Raises:
        InputError: if it cannot be written, for instance because the disk is full.
    """
    with _explained(f"cannot write {path}", kept):
        temporary = path.parent / f".unfinished-{uuid4().hex}"
        try:
            with temporary.open("xb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


@contextlib.contextmanager
def _explained(what: str, kept: str = "finished parts are kept") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{what}: {error.strerror or error}; {kept}") from None
