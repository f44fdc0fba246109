"""What is no file, no JSON or no list of numbers is refused in one line."""

import io
import json
import os
import random

import numpy as np
import pytest
from refusals import refusal

from simlab.errors import InputError
from simlab.problems import custom
from simlab.problems.base import numbers
from simlab.reading import open_regular, read_bytes, read_json


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("pipe", "is no regular file"),
        (".", "is no regular file"),
        ("/dev/zero", "is no regular file"),
        ("loop", "cannot be read: Too many levels of symbolic links"),
        ("sparse", "has 10737418240 bytes; allowed: up to 67108864"),
        ("none", "cannot be read: No such file or directory"),
        ("a\0b", "cannot be read"),
        ("x" * 5000, "cannot be read: File name too long"),
    ],
)
def test_what_is_no_file_of_a_bounded_size_is_refused(path, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    os.symlink("loop", "loop")
    with open("sparse", "wb") as file:
        file.truncate(10 * 2**30)
    assert message in refusal(read_json, path)
    assert "logit" in refusal(custom, logits=path, correct=[0])


def test_what_is_no_json_object_is_refused(tmp_path):
    path = tmp_path / "hostile.json"
    for content, message in (
        (b"[" * 100_000 + b"]" * 100_000, "is nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is no JSON"),
        (b'{"a": "\xff"}', "is no JSON"),
        (b"[1]", "holds no JSON object"),
    ):
        path.write_bytes(content)
        assert refusal(read_json, path) == f"{path} {message}"


def test_what_is_well_formed_is_read_as_it_stands(tmp_path):
    entries = {"a": [1, 2.5, None, True, "é"], "b": {"c": {}}}
    (tmp_path / "good.json").write_text(json.dumps(entries))
    (tmp_path / "link").symlink_to(tmp_path / "good.json")
    assert read_json(tmp_path / "link") == entries
    (tmp_path / "file").write_bytes(b"x" * 10)
    assert read_bytes(tmp_path / "file", 10) == b"x" * 10
    assert "has 10 bytes; allowed: up to 9" in refusal(read_bytes, tmp_path / "file", 9)
    with open_regular(tmp_path / "file") as file:
        assert file.read() == b"x" * 10


@pytest.mark.parametrize("suffix", [".npy", ".txt"])
def test_a_damaged_list_of_numbers_is_read_or_refused_in_one_line(suffix, tmp_path):
    """Up to six bytes of it are changed, and one time in five it is cut off."""
    file, chance, path = io.BytesIO(), random.Random(19), tmp_path / f"numbers{suffix}"
    {".npy": np.save, ".txt": np.savetxt}[suffix](file, np.linspace(-1, 1, 10))
    path.write_bytes(file.getvalue())
    np.testing.assert_array_equal(numbers("logits", str(path)), np.linspace(-1, 1, 10))
    refused = 0
    for _ in range(300):
        content = bytearray(file.getvalue())
        for _ in range(chance.randint(1, 6)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        path.write_bytes(content[: chance.randrange(len(content))] if chance.random() < 0.2 else content)
        try:
            numbers("logits", str(path))
        except InputError:
            refused += 1
    assert 10 < refused < 290
