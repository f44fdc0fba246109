"""Keep the checksums of a model's files beside them, in ``checksums.json``, which other programs ignore."""

import hashlib
from pathlib import Path

from simlab.files import write_whole
from simlab.seals import Damaged, sealed_json, unsealed_json

CHECKSUMS = "checksums.json"


def write_checksums(folder: Path, names: list[str]) -> None:
    """Write the SHA-256 of those of the named files that are there: the folder is whole once this is.

    Raises:
        OSError: if it cannot be written.
    """
    found = {name: _checksum(folder / name) for name in names if (folder / name).exists()}
    write_whole(folder / CHECKSUMS, sealed_json(found, CHECKSUMS))


def check_files(folder: Path) -> None:
    """Compare a folder's files with their checksums; one that has none, as other programs write it, passes.

    Raises:
        Damaged: for a file that is missing or another than was written.
        OSError: if one cannot be read.
    """
    path = folder / CHECKSUMS
    if not path.exists():
        return
    try:
        checksums = unsealed_json(path.read_bytes(), CHECKSUMS)
    except Damaged as reason:
        raise Damaged(f"{path} is damaged ({reason})") from None
    for name, checksum in checksums.items():
        if not (folder / name).is_file():
            raise Damaged(f"{folder / name} is missing, but {CHECKSUMS} has it")
        if _checksum(folder / name) != checksum:
            raise Damaged(f"{folder / name} is damaged (not as {CHECKSUMS} has it, to be deleted if the file is right)")


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
