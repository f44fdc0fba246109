"""Find the measurements of interference that a trainer has written beside a log, and read the last of them."""

from collections.abc import Sequence
from pathlib import Path

from simlab.interference.record import FOLDER, Record, read_record
from simlab.seals import Damaged

RECENT = 8  # measurements that are read: who harms whom changes as a policy learns
ESTIMATORS = ("full", "head")  # the first that is there


def find_folders(paths: Sequence[Path], files: Sequence[Path]) -> list[Path]:
    """Return the folders of measurements in the folders given, beside the files, and beside the folders of these."""
    near = [path for file in files for path in (file.parent, file.parent.parent)]
    return [folder for path in dict.fromkeys([*paths, *near]) if (folder := path / FOLDER).is_dir()]


def read_probe(paths: Sequence[Path], files: Sequence[Path]) -> tuple[tuple[Record, ...], list[str]]:
    """Read the last measurements by one estimator, by step, if there are any. Also return a line for each left out.

    Of several folders the first counts.
    """
    for folder in find_folders(paths, files):
        for estimator in ESTIMATORS:
            records, notes = list[Record](), list[str]()
            for path in sorted(folder.glob(f"*.{estimator}.npz"))[-RECENT:]:
                try:
                    records.append(read_record(path))
                except Damaged as why:
                    notes.append(f"a measurement of the probe is left out: {why}")
            if records or notes:
                return tuple(records), notes
    return (), []
