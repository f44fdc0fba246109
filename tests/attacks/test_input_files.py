"""Files that are no files, are too large, or hold hostile JSON: one line each, in bounded time and memory."""

import io
import json
import os
import random
import resource
import sys

import numpy as np
import pytest
from damage import damaged, outcomes
from sweep_cases import refusal

from simlab.problems import custom
from simlab.problems.reading import numbers
from simlab.reading import DEEPEST_JSON, open_regular, parse_json, read_bytes, read_json


def pipe(folder):
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def loop(folder):
    (folder / "loop").symlink_to(folder / "loop")
    return folder / "loop"


def sparse(folder):
    with (folder / "sparse").open("wb") as file:
        file.truncate(10 * 2**30)
    return folder / "sparse"


# In the words of Python.
NULL = "open: embedded null character in path" if sys.version_info >= (3, 13) else "embedded null byte"
NO_FILES = {
    "a pipe": (pipe, "is no regular file"),
    "a folder": (lambda folder: folder, "is no regular file"),
    "zeros without end": (lambda _: "/dev/zero", "is no regular file"),
    "noise without end": (lambda _: "/dev/urandom", "is no regular file"),
    "a link to itself": (loop, "cannot be read: Too many levels of symbolic links"),
    "ten gigabytes": (sparse, "has 10737418240 bytes; allowed: up to 67108864"),
    "nothing": (lambda folder: folder / "none", "cannot be read: No such file or directory"),
    "a name that no file can have": (lambda _: "a\0b", f"cannot be read: {NULL}"),
    "a name of a lone surrogate": (lambda _: "a\ud800b", "cannot be read: 'utf-8' codec"),
    "a name that is too long": (lambda _: "x" * 5000, "cannot be read: File name too long"),
    "memory": (lambda _: "/proc/self/mem", "is no JSON"),
}


@pytest.mark.parametrize("case", NO_FILES)
def test_what_is_no_file_of_a_bounded_size_is_refused_before_it_is_read(case, tmp_path):
    make, message = NO_FILES[case]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert message in refusal(read_json, make(tmp_path))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


HOSTILE_JSON = {
    "nested 100,000 deep": (b"[" * 100_000 + b"]" * 100_000, "is nested too deeply"),
    "objects, 100,000 deep": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "is nested too deeply"),
    "just too deep": (b"[" * (DEEPEST_JSON + 1) + b"]" * (DEEPEST_JSON + 1), "is nested too deeply"),
    "5,000 digits": (b'{"a": ' + b"9" * 5000 + b"}", "is no JSON"),
    "no UTF-8": (b'{"a": "\xff"}', "is no JSON"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "is no JSON"),
    "UTF-16": ("{}".encode("utf-16"), "is no JSON"),
    "a name twice": (b'{"hidden_size": 8, "b": 1, "hidden_size": 16}', "the name 'hidden_size' stands twice"),
    "no object": (b"[1]", "holds no JSON object"),
    "nothing": (b"", "is no JSON"),
    "cut off": (b'{"a": ', "is no JSON"),
    "zeros": (bytes(100), "is no JSON"),
}


@pytest.mark.parametrize("case", HOSTILE_JSON)
def test_hostile_json_is_refused_in_one_line(case, tmp_path):
    content, message = HOSTILE_JSON[case]
    (tmp_path / "hostile.json").write_bytes(content)
    line = refusal(read_json, tmp_path / "hostile.json")
    assert line.startswith(f"{tmp_path / 'hostile.json'} ")
    assert message in line


def test_many_repeated_names_are_found_in_one_pass(tmp_path):
    entries = ",".join(f'"{place}":0' for place in range(200_000))
    assert "the name '7' stands twice" in refusal(parse_json, f'{{{entries},"7":0}}', "text")


def test_what_is_well_formed_is_read_as_it_stands(tmp_path):
    entries = {"a": [1, 2.5, None, True, "é"], "b": {"c": {}}, "deep": json.loads("[" * 60 + "]" * 60)}
    (tmp_path / "good.json").write_text(json.dumps(entries))
    assert read_json(tmp_path / "good.json") == entries
    (tmp_path / "link").symlink_to(tmp_path / "good.json")
    assert read_json(tmp_path / "link") == entries


def test_a_file_of_just_the_largest_size_is_read(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 10)
    assert read_bytes(tmp_path / "file", 10) == b"x" * 10
    assert "has 10 bytes; allowed: up to 9" in refusal(read_bytes, tmp_path / "file", 9)
    with open_regular(tmp_path / "file") as file:
        assert file.read() == b"x" * 10


# Lists of numbers


@pytest.mark.parametrize("case", NO_FILES)
def test_no_list_of_numbers_is_read_from_what_is_no_file(case, tmp_path):
    make, _ = NO_FILES[case]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "logit" in refusal(custom, logits=str(make(tmp_path)), correct=[0])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


def npy(descr, shape, content=bytes(80)):
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header + content


LYING_HEADERS = [
    *(npy("'<f8'", shape) for shape in ("(4000000000,)", "(10**9,)", "(99999999999999999999,)", "(-1,)", "(True,)")),
    *(npy("'<f8'", shape) for shape in ("(4294967296, 4294967296)", "()", "(11,)", "(2,5)")),
    *(npy(kind, "(10,)") for kind in ("'|O'", "'<V8'", "'<f3'", "'<U'", "'<c16'", "'<M8'", "'<U1000000000'", "b'<f8'")),
    *(npy(kind, "(10,)") for kind in ("-" * 5000 + "1", "(" * 150 + ")" * 150, "[" * 9000, "('<f8', (999, 999))")),
    b"\x93NUMPY\x02\0" + bytes(100),
]


@pytest.mark.parametrize("place", range(len(LYING_HEADERS)))
def test_an_npy_header_is_not_believed(place, tmp_path):
    (tmp_path / "numbers.npy").write_bytes(LYING_HEADERS[place])
    assert "logits" in refusal(numbers, "logits", str(tmp_path / "numbers.npy"))


@pytest.mark.parametrize("suffix", [".npy", ".txt"])
def test_a_damaged_list_of_numbers_is_read_or_refused_in_one_line(suffix, tmp_path):
    file, random_numbers, path = io.BytesIO(), random.Random(19), tmp_path / f"numbers{suffix}"
    {".npy": np.save, ".txt": np.savetxt}[suffix](file, np.linspace(-1, 1, 10))

    def read(_):
        path.write_bytes(damaged(file.getvalue(), random_numbers))
        numbers("logits", str(path))

    assert min(outcomes(read, range(300)).values()) > 10
