"""Files appear whole or not at all, what dead processes left is removed, and what is written is on the disk."""

import errno
import os
import subprocess
import sys
import threading

import pytest
from sweep_cases import refusal

from simlab.files import make_folder, make_folders, remove_unfinished, write_output, write_whole

# A process that holds an unfinished file until its standard input ends.
WRITING = """
import os, sys
from pathlib import Path
from simlab import files

def wait(source, target):
    print("writing", flush=True)
    sys.stdin.read()
    return replace(source, target)

replace, os.replace = os.replace, wait
files.write_whole(Path(sys.argv[1]), b"new")
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    write_whole(path, b"whole")
    return path


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_file_as_it_was(step, path, monkeypatch):
    def fail(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    assert refusal(write_output, path, b"half", "all is lost") == (
        f"cannot write {path}: No space left on device; all is lost"
    )
    assert names(path.parent) == ["file"]
    assert path.read_bytes() == b"whole"


def synced(monkeypatch):
    """What is synced from now on, in order: (inode, is it a folder)."""
    found, fsync = [], os.fsync

    def record(descriptor):
        found.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    return found


def test_file_and_name_are_on_the_disk_before_anything_counts_on_them(path, monkeypatch):
    found = synced(monkeypatch)
    write_whole(path, b"new")
    assert found == [path.stat().st_ino, path.parent.stat().st_ino]


def test_so_are_new_folders_and_one_whose_maker_was_killed(tmp_path, monkeypatch):
    found = synced(monkeypatch)
    make_folders(tmp_path / "a" / "b")
    assert found == [place.stat().st_ino for place in (tmp_path.parent, tmp_path, tmp_path / "a")]
    found.clear()
    make_folders(tmp_path / "a" / "b")
    assert found == [(tmp_path / "a").stat().st_ino]


def test_what_a_dead_process_left_is_removed_and_what_a_living_one_writes_is_not(path):
    left = path.with_name(".unfinished-of-the-dead")
    left.write_bytes(b"hal")
    writer = subprocess.Popen([sys.executable, "-c", WRITING, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert writer.stdout.readline() == b"writing\n"
    make_folder(path.parent)
    assert not left.exists()
    assert len(names(path.parent)) == 2
    writer.communicate()
    assert writer.returncode == 0
    assert path.read_bytes() == b"new"
    assert names(path.parent) == ["file"]


def test_a_killed_writer_is_dead(path):
    writer = subprocess.Popen([sys.executable, "-c", WRITING, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert writer.stdout.readline() == b"writing\n"
    writer.kill()
    writer.communicate()
    assert len(names(path.parent)) == 2
    remove_unfinished(path.parent)
    assert names(path.parent) == ["file"]


def test_only_a_held_folder_is_searched_below(tmp_path):
    below = tmp_path / "below" / ".unfinished-0"
    below.parent.mkdir()
    below.write_bytes(b"hal")
    remove_unfinished(tmp_path)
    assert below.exists()
    remove_unfinished(tmp_path, below=True)
    assert not below.exists()


def test_writers_and_those_who_clear_up_do_not_disturb_each_other(tmp_path):
    """Thousands of chances for a file to be taken for a dead one's before its writer has locked it."""
    written = threading.Event()

    def clear():
        while not written.is_set():
            remove_unfinished(tmp_path)

    clearing = threading.Thread(target=clear)
    clearing.start()
    try:
        for number in range(1000):
            write_whole(tmp_path / "file", b"%d" % number, durable=False)
            assert (tmp_path / "file").read_bytes() == b"%d" % number
    finally:
        written.set()
        clearing.join()
    assert names(tmp_path) == ["file"]
