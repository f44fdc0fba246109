"""Files appear complete or not at all, and a folder has one writer at a time."""

import errno
import os
import subprocess
import sys

import pytest

from simlab.errors import InputError
from simlab.files import WRITER, file_lock, make_folder, remove_unfinished, set_aside, write_output, write_whole


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_file_as_it_was(step, tmp_path, monkeypatch):
    def fail(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    path, former = tmp_path / "file", f"former, {WRITER}".encode()
    write_whole(path, former)
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(InputError, match=f"cannot write {path}: No space left on device; all is lost"):
        write_output(path, b"half", "all is lost")
    assert names(tmp_path) == ["file"]
    assert path.read_bytes() == former
    monkeypatch.undo()
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"


def test_files_of_killed_writers_are_removed_once_nobody_can_be_writing_them(tmp_path):
    program = "import os, signal, sys; from pathlib import Path; from simlab.files import write_whole\n"
    program += (
        "os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)\nwrite_whole(Path(sys.argv[1]), b'half')"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path / "file"], check=False)
    assert len(names(tmp_path)) == 1
    make_folder(tmp_path)
    assert len(names(tmp_path)) == 1  # its writer may live
    (path,) = tmp_path.iterdir()
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / path.name).touch()
    os.utime(path, (0, 0))
    make_folder(tmp_path)
    assert names(tmp_path) == ["below"]
    remove_unfinished(tmp_path, locked=True)
    assert names(tmp_path / "below") == []


def test_what_is_set_aside_gets_a_free_name(tmp_path):
    for number in range(3):
        (tmp_path / "file").write_text(str(number))
        set_aside(tmp_path / "file")
    assert names(tmp_path) == ["file.damaged", "file.damaged2", "file.damaged3"]
    assert (tmp_path / "file.damaged2").read_text() == "1"


def test_a_folder_has_one_writer_at_a_time_and_a_dead_one_is_none(tmp_path):
    folder = tmp_path / "new" / "folder"
    program = "import os, sys; from pathlib import Path; from simlab.files import WRITER, file_lock\n"
    program += "with file_lock(Path(sys.argv[1])):\n    print('locked', flush=True); sys.stdin.read()"
    other = subprocess.Popen([sys.executable, "-c", program, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout.readline() == b"locked\n"
    with (
        pytest.raises(InputError, match=f"{folder} is being written by another process; allowed: another"),
        file_lock(folder, allowed="another"),
    ):
        pass
    with file_lock(folder, ".lock-1"):
        pass
    other.kill()
    other.communicate()
    with file_lock(folder):
        pass
