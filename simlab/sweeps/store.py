"""Keep the finished units of a sweep, one file each, written whole or not at all."""

import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simlab.errors import InputError
from simlab.files import explained, make_folder, set_aside, write_output
from simlab.seals import Damaged, sealed, sealed_json, unsealed, unsealed_json
from simlab.sweeps.plan import Unit

MANIFEST = "sweep.json"
MANIFEST_ENTRIES = ("configuration", "code", "own", "files", "texts", "platform", "versions", "commit")


class Store:
    """A folder of finished units.

    Raises:
        InputError: if the folder cannot be made or written to.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        make_folder(folder)

    def path(self, unit: Unit) -> Path:
        """Return the path of a unit's file."""
        return self.folder / f"{unit.name}.npz"

    def has(self, unit: Unit) -> bool:
        """Return True if a unit is finished."""
        return self.path(unit).exists()

    def count_foreign_parts(self, units: Iterable[Unit]) -> int:
        """Count the files of other units: of another configuration or another version of the code."""
        names = {unit.name for unit in units}
        return sum(path.stem not in names for path in self.folder.glob("*.npz"))

    def save(self, unit: Unit, rows: Mapping[str, np.ndarray]) -> None:
        """Write a unit's records, (seeds, records, ...) each."""
        buffer = io.BytesIO()
        # In one order in memory, so that equal records are equal files.
        np.savez(buffer, **dict[str, Any]({name: np.ascontiguousarray(values) for name, values in rows.items()}))
        # A zip file does not notice every flipped bit, and goes on without the arrays it cannot find.
        write_output(self.path(unit), sealed(buffer.getvalue(), unit.name))

    def save_together(self, units: Sequence[Unit], rows: Mapping[str, np.ndarray]) -> int:
        """Write the records of units that were simulated together; returns their number of seeds."""
        start = 0
        for unit in units:
            end = start + len(unit.seeds)
            self.save(unit, {name: values[start:end] for name, values in rows.items()})
            start = end
        return start

    def load(self, unit: Unit) -> dict[str, np.ndarray]:
        """Read a unit's records.

        Raises:
            Damaged: for a file that is not what was written for the unit.
            InputError: if it cannot be read.
        """
        with np.load(io.BytesIO(self._content(unit)), allow_pickle=False) as arrays:
            rows = {name: arrays[name] for name in arrays.files}
        if any(len(values) != len(unit.seeds) for values in rows.values()):
            raise self._damaged(unit, f"it should hold {len(unit.seeds)} seeds")
        return rows

    def set_aside_if_damaged(self, unit: Unit) -> Damaged | None:
        """Rename the file of a finished unit if it is damaged; return the damage, or None."""
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
        """Write the manifest of the folder's latest sweep, for ``simlab merge``."""
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
        return {name: manifest[name] for name in MANIFEST_ENTRIES}
    except Damaged as error:
        reason = str(error)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
    raise InputError(f"{path} is damaged ({reason}); run the sweep again to write it anew")
