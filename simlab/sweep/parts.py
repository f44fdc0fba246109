"""Parts: the finished units of a sweep, one file each, written whole or not at all."""

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simlab.errors import InputError
from simlab.files import explained, make_folder, set_aside, write_output
from simlab.seals import Damaged, sealed, sealed_json, unsealed, unsealed_json
from simlab.sweep.grid import Cell, Sweep
from simlab.sweep.own import own_code

MANIFEST = "sweep.json"
MANIFEST_ENTRIES = ("configuration", "code", "own", "platform", "versions", "commit")


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
        write_output(self.path(unit), sealed(buffer.getvalue(), unit.name))

    def load(self, unit: Unit) -> dict[str, np.ndarray]:
        """Read a unit's records.

        Raises:
            Damaged: for a part that is not what was written for the unit.
            InputError: if it cannot be read.
        """
        with np.load(io.BytesIO(self._content(unit)), allow_pickle=False) as part:
            rows = {name: part[name] for name in part.files}
        if any(len(values) != len(unit.seeds) for values in rows.values()):
            raise self._damaged(unit, f"it should hold {len(unit.seeds)} seeds")
        return rows

    def set_aside_if_damaged(self, unit: Unit) -> Damaged | None:
        """Rename a finished unit's part unless it is what was written for it; returns what is wrong with it."""
        try:
            self._content(unit)
        except Damaged as error:
            with explained(f"cannot rename {self.path(unit)}"):
                set_aside(self.path(unit))
            return error
        return None

    def _content(self, unit: Unit) -> bytes:
        with explained(f"cannot read {self.path(unit)}"):
            data = self.path(unit).read_bytes()
        try:
            return unsealed(data, unit.name)
        except Damaged as reason:
            raise self._damaged(unit, str(reason)) from None

    def _damaged(self, unit: Unit, reason: str) -> Damaged:
        return Damaged(f"part {self.path(unit)} is damaged ({reason}); its sweep, run again, computes it anew")

    def save_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write what the folder's latest sweep is, for ``simlab merge``."""
        write_output(self.folder / MANIFEST, sealed_json(manifest, MANIFEST))


def load_manifest(folder: Path) -> dict[str, Any]:
    """Read a folder's manifest.

    Raises:
        InputError: if there is none, or it is damaged.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(f"{folder} holds no {MANIFEST}; allowed: a folder of parts that simlab sweep wrote")
    try:
        manifest = unsealed_json(path.read_bytes(), MANIFEST)
        Sweep.from_configuration(manifest["configuration"])
        return {name: manifest[name] for name in MANIFEST_ENTRIES} | {"own": dict(manifest["own"])}
    except Damaged as error:
        reason = str(error)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
    raise InputError(f"{path} is damaged ({reason}); run the sweep again to write it anew")
