"""GGUF files that are damaged or crafted: a model or one line, in time and memory that the file's size bounds."""

import os
import random
import resource
import struct

import jax
import numpy as np
import pytest
from damage import damaged, outcomes
from sweep_cases import refusal
from test_llm_pretrained import write_gguf

from simlab.llm.gguf import read_gguf
from simlab.llm.gguf_file import read_layout

gguf = pytest.importorskip("gguf")

STRING, ARRAY, UINT32, UINT64, UINT8 = 8, 9, 4, 10, 0


def text(value):
    return struct.pack("<Q", len(value)) + value


def entry(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def array(kind, count, values=b""):
    return struct.pack("<IQ", kind, count) + values


def tensor(name, shape, kind=0, offset=0):
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def written(tensors=0, entries=0, body=b"", version=3):
    return b"GGUF" + struct.pack("<IQQ", version, tensors, entries) + body


def ends(body, **counts):
    return written(body=body, **counts), "should follow byte"


HOSTILE = {
    "nothing": (b"", "should follow byte 0"),
    "another format": (b"PK\x03\x04" * 100, "does not begin with the letters GGUF"),
    "the other order of bytes": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "its version is 50331648"),
    "an old version": (written(version=1), "its version is 1"),
    "2^64 - 1 entries": ends(b"", entries=2**64 - 1),
    "2^64 - 1 tensors": ends(b"", tensors=2**64 - 1),
    "a name of 2^63 bytes": ends(struct.pack("<Q", 2**63), entries=1),
    "a text of 2^64 - 1 bytes": ends(entry(b"a", STRING, struct.pack("<Q", 2**64 - 1)), entries=1),
    "2^63 numbers": ends(entry(b"a", ARRAY, array(UINT64, 2**63)), entries=1),
    "2^61 numbers of 8 bytes": ends(entry(b"a", ARRAY, array(UINT64, 2**61)), entries=1),
    "2^63 texts": ends(entry(b"a", ARRAY, array(STRING, 2**63)), entries=1),
    "lists in lists": (written(entries=1, body=entry(b"a", ARRAY, array(ARRAY, 2**60) * 1000)), "a list of kind 9"),
    "an unknown kind": (written(entries=1, body=entry(b"a", 77, b"")), "of kind 77"),
    "a name twice": (written(entries=2, body=entry(b"a", UINT8, b"1") * 2), "the entry 'a' stands twice"),
    "a name that is no UTF-8": (written(entries=1, body=entry(b"\xff", UINT8, b"1")), "can't decode byte 0xff"),
    "a tensor twice": (written(tensors=2, body=tensor(b"a", [1]) * 2 + bytes(64)), "tensor 'a' stands twice"),
    "a tensor of no dimension": (written(tensors=1, body=tensor(b"a", [])), "has 0 dimensions"),
    "a tensor of 2^31 dimensions": (written(tensors=1, body=text(b"a") + struct.pack("<I", 2**31)), "dimensions"),
    "a tensor of 2^64 numbers": (written(tensors=1, body=tensor(b"a", [2**32, 2**32])), "there are 0"),
    "a tensor that overflows": (written(tensors=1, body=tensor(b"a", [2**63, 2**63, 2, 4])), "there are 0"),
    "a tensor of no numbers": (written(tensors=1, body=tensor(b"a", [0])), "allowed: rows of whole blocks"),
    "a tensor of half a block": (written(tensors=1, body=tensor(b"a", [16], kind=8) + bytes(99)), "blocks of 32"),
    "a tensor past the end": (written(tensors=1, body=tensor(b"a", [4], offset=2**63) + bytes(64)), "from byte"),
    "a tensor of an unknown kind": (written(tensors=1, body=tensor(b"a", [4], kind=999) + bytes(99)), "kind 999"),
    "an alignment of 0": (
        written(entries=1, body=entry(b"general.alignment", UINT32, bytes(4))),
        "general.alignment = 0",
    ),
    "an alignment that is a text": (
        written(entries=1, body=entry(b"general.alignment", STRING, text(b"x"))),
        "general.alignment = 'x'",
    ),
    "a thousand tensors in one place": (
        written(tensors=1000, body=b"".join(tensor(b"%d" % i, [4096]) for i in range(1000)) + bytes(2**15)),
        "its tensors overlap",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_crafted_layout_is_refused_in_bounded_memory(case, tmp_path):
    content, message = HOSTILE[case]
    (tmp_path / "model.gguf").write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    line = refusal(read_layout, tmp_path / "model.gguf")
    assert "model.gguf cannot be read as GGUF: " in line
    assert message in line
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "device.gguf").symlink_to("/dev/zero")
    (tmp_path / "folder.gguf").mkdir()
    for name in ("pipe", "device", "folder"):
        assert "is no regular file" in refusal(read_gguf, tmp_path / f"{name}.gguf")


def test_a_header_is_read_as_far_as_its_limit_alone(tmp_path, monkeypatch):
    """A sparse file of a terabyte whose header goes on and on ends where a header must end."""
    with (tmp_path / "model.gguf").open("wb") as file:
        file.write(written(entries=2**64 - 1))
        file.truncate(2**40)
    monkeypatch.setattr("simlab.llm.gguf_file.LARGEST_HEADER", 2**16)
    assert "the entry '' stands twice" in refusal(read_layout, tmp_path / "model.gguf")
    with (tmp_path / "model.gguf").open("r+b") as file:
        file.write(written(entries=1, body=entry(b"a", ARRAY, array(STRING, 2**40))))
    assert "its header is too long" in refusal(read_layout, tmp_path / "model.gguf")


def test_more_than_fits_into_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("simlab.llm.device_memory.free_memory", lambda: 10_000)
    assert "model.gguf needs " in refusal(read_gguf, write_gguf(tmp_path / "model.gguf", "llama"))


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """The bytes of small files that are read: of each architecture, and one in few bits."""
    folder = tmp_path_factory.mktemp("gguf")
    return [write_gguf(folder / f"{name}.gguf", name).read_bytes() for name in ("llama", "qwen2", "qwen3")]


def used(path):
    """Read a file and use what it holds."""
    model, tokenizer = read_gguf(path)
    assert all(bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(model.parameters))
    assert tokenizer.size <= model.config.vocab_size
    tokenizer.decode(tokenizer.encode("abcab"))


def header_of(content):
    """How many bytes stand before the numbers, about: damage there is what a reader has to fear."""
    return content.rindex(b".weight") + 40


def damaged_files(good, path, seed, rounds):
    random_numbers = random.Random(seed)
    for _ in range(rounds):
        content = random_numbers.choice(good)
        end = header_of(content) if random_numbers.random() < 0.9 else len(content)
        path.write_bytes(damaged(content[:end], random_numbers) + content[end:])
        yield path


@pytest.mark.parametrize(
    ("seed", "rounds"), [(0, 100), *(pytest.param(seed, 3000, marks=pytest.mark.slow) for seed in range(1, 5))]
)
def test_a_damaged_file_is_read_or_refused_in_one_line(seed, rounds, good, tmp_path):
    found = outcomes(used, damaged_files(good, tmp_path / "model.gguf", seed, rounds))
    assert min(found["read"], found["refused"]) > rounds / 20


OTHER_TYPES = {
    "tokens that are numbers": ("tokenizer.ggml.tokens", array(UINT32, 2, bytes(8)), "tokens holds other things"),
    "kinds that are texts": ("tokenizer.ggml.token_type", array(STRING, 1, text(b"a")), "holds other things than int"),
    "a single kind": ("tokenizer.ggml.token_type", array(UINT32, 1, bytes(4)), "40 tokens and 1 kinds of tokens"),
    "merges that are numbers": ("tokenizer.ggml.merges", array(UINT8, 1, b"a"), "merges holds other things than str"),
    "a list of kinds of models": ("general.architecture", array(STRING, 1, text(b"llama")), "allowed: str"),
    "a list of ends": ("tokenizer.ggml.eos_token_id", array(UINT32, 1, bytes(4)), "eos_ids = [0] is not a number"),
    "a list of numbers of layers": ("llama.block_count", array(UINT32, 2, bytes(8)), "num_layers = [0, 0] is not a"),
    "heads of each layer": ("llama.attention.head_count_kv", array(UINT32, 2, bytes(8)), "num_kv_heads = [0, 0] is"),
}


@pytest.mark.parametrize("case", OTHER_TYPES)
def test_an_entry_of_another_type_is_named(case, good, tmp_path):
    """The entry is put in front of the file's own, which gets another name."""
    name, values, message = OTHER_TYPES[case]
    spoilt = good[0].replace(text(name.encode()), text(b"x" * len(name)))[24:]
    tensors, entries = struct.unpack("<QQ", good[0][8:24])
    header = written(tensors, entries + 1, entry(name.encode(), ARRAY, values))
    (tmp_path / "model.gguf").write_bytes(header + spoilt + bytes(64))
    assert message in refusal(read_gguf, tmp_path / "model.gguf")
