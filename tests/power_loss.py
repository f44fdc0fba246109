"""What a power loss could leave of a folder: what was written to it is recorded, and replayed up to any point.

A file's content is on the disk when the file was synced, and a name when its folder was. What came after that may have
been lost, or not; of a content a part may be there, or zeros.
"""

import contextlib
import os
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

Name = tuple[int, str]  # a folder, and what a file or folder is called in it; all by numbers of their own
ROOT = 0


@dataclass
class Disk:
    """Contents and names: those on the disk, and what has happened to them since they were synced."""

    contents: dict[int, bytes] = field(default_factory=dict)
    names: dict[int, dict[str, int]] = field(default_factory=lambda: {ROOT: {}})
    unsynced_contents: dict[int, bytes] = field(default_factory=dict)
    unsynced_names: dict[int, list[tuple[str, int | None]]] = field(default_factory=dict)

    def copy(self) -> "Disk":
        return Disk(
            dict(self.contents),
            {folder: dict(names) for folder, names in self.names.items()},
            dict(self.unsynced_contents),
            {folder: list(changes) for folder, changes in self.unsynced_names.items()},
        )

    def write(self, file: int, content: bytes) -> None:
        self.unsynced_contents[file] = content

    def name(self, folder: int, name: str, what: int | None) -> None:
        """Something has a name in a folder now, or nothing has."""
        self.unsynced_names.setdefault(folder, []).append((name, what))

    def sync(self, what: int) -> None:
        if what in self.unsynced_contents:
            self.contents[what] = self.unsynced_contents.pop(what)
        for name, inner in self.unsynced_names.pop(what, []):
            _rename(self.names.setdefault(what, {}), name, inner)


def _rename(names: dict[str, int], name: str, what: int | None) -> None:
    for other in [other for other, inner in names.items() if inner == what]:
        del names[other]  # a rename takes the old name away at the same moment
    if what is None:
        names.pop(name, None)
    else:
        names[name] = what


class Recorder:
    """Watches a folder while files in it are synced, renamed and removed; ``disks`` are its states, one an event."""

    def __init__(self, root: Path):
        self.root, self.disk, self.disks = root, Disk(), [Disk()]
        self.known: dict[int, int] = {root.stat().st_ino: ROOT}  # numbers by inode
        self.seen: dict[Name, int] = {}
        self.contents: dict[int, bytes] = {}
        self.count = 0

    def look(self) -> None:
        """Note what has been written and named since the last look."""
        found: dict[Name, int] = {}
        for place in sorted(self.root.rglob("*")):
            inode = place.stat().st_ino
            if inode not in self.known:
                self.count += 1
                self.known[inode] = self.count
            number, folder = self.known[inode], self.known[place.parent.stat().st_ino]
            found[folder, place.name] = number
            if place.is_file() and (content := place.read_bytes()) != self.contents.get(number):
                self.contents[number] = content
                self.disk.write(number, content)
                self.note()
        for (folder, name), number in self.seen.items():
            if (folder, name) not in found and number not in found.values():
                self.disk.name(folder, name, None)
                self.note()
        for (folder, name), number in found.items():
            if self.seen.get((folder, name)) != number:
                self.disk.name(folder, name, number)
                self.note()
        self.seen = found
        # The inode of what is gone may be another file's next.
        self.known = {inode: number for inode, number in self.known.items() if number in (ROOT, *found.values())}

    def note(self) -> None:
        self.disks.append(self.disk.copy())

    def synced(self, inode: int) -> None:
        if inode in self.known:
            self.disk.sync(self.known[inode])
            self.note()


@contextlib.contextmanager
def recorded(root: Path) -> Iterator[list[Disk]]:
    """All states of a folder while the body runs, from that before."""
    recorder, fsync, one_at_a_time = Recorder(root), os.fsync, threading.RLock()

    def watched(call: Callable[..., object]) -> Callable[..., object]:
        def calling(*arguments: object, **named: object) -> object:
            with one_at_a_time:
                recorder.look()
                found = call(*arguments, **named)
                recorder.look()
                return found

        return calling

    def synced(file: int) -> None:
        with one_at_a_time:
            recorder.look()
            fsync(file)
            recorder.synced(os.fstat(file).st_ino)

    recorder.look()
    for number in list(recorder.known.values()):
        recorder.disk.sync(number)  # what was there before is on the disk
    recorder.disks[:] = [recorder.disk.copy()]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("replace", "rename", "unlink", "mkdir", "rmdir"):
            patch.setattr(os, name, watched(getattr(os, name)))
        patch.setattr(os, "fsync", synced)
        yield recorder.disks
        recorder.look()


def left(disk: Disk, folder: Path, kind: str, seed: int = 0) -> None:
    """Make what a power loss leaves: ``lost`` what was not synced, or nothing (``kept``), or some (``mixed``)."""
    chance = random.Random(seed)
    disk = disk.copy()
    for number, content in disk.unsynced_contents.items():
        disk.contents[number] = _left_of(content, disk.contents.get(number, b""), kind, chance)
    for inner, changes in disk.unsynced_names.items():
        names = disk.names.setdefault(inner, {})
        for name, what in changes:
            if kind == "kept" or (kind == "mixed" and chance.random() < 0.5):
                _rename(names, name, what)
    _make(disk, ROOT, folder)


def _left_of(content: bytes, before: bytes, kind: str, chance: random.Random) -> bytes:
    if kind != "mixed":
        return content if kind == "kept" else before
    torn = content[: chance.randrange(len(content) + 1)]
    return chance.choice([content, before, torn, torn + bytes(len(content) - len(torn))])


def _make(disk: Disk, number: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, inner in disk.names.get(number, {}).items():
        if inner in disk.contents:
            (folder / name).write_bytes(disk.contents[inner])
        else:
            _make(disk, inner, folder / name)
