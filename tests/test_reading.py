"""A path to no file, no JSON or no list of numbers is refused in one line."""

import json
import os

import pytest
from refusals import refusal

from simlab.problems import custom
from simlab.reading import open_regular, read_bytes, read_json


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("pipe", "is no regular file"),
        (".", "is no regular file"),
        ("sparse", "has 10737418240 bytes; allowed: up to 67108864"),
        ("none", "cannot be read: No such file or directory"),
    ],
)
def test_what_is_no_file_of_a_bounded_size_is_refused(path, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
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
