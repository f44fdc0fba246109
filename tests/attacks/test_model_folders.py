"""Folders of models that are damaged, crafted or no folders of models: a model or one line, in bounded time and memory.

A model that is read has finite weights, and its tokenizer encodes and decodes or says in one line that it cannot.
"""

import copy
import json
import os
import random
import shutil
from pathlib import Path

import jax
import ml_dtypes
import numpy as np
import pytest
from damage import damaged, outcomes
from sweep_cases import refusal

from simlab.errors import InputError
from simlab.llm import checkpoint
from simlab.llm.pretrained import load
from simlab.llm.tokenizer import byte_pairs, read_tokenizer, write_tokenizer
from simlab.llm.tokenizer_rules import check_pattern
from simlab.llm.vocabulary import Words

safetensors = pytest.importorskip("safetensors.numpy")
tokenizers = pytest.importorskip("tokenizers")

GOLDEN = Path(__file__).parent.parent / "golden" / "llm" / "llama"
FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
REMOVED = object()


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A folder that is read."""
    folder = tmp_path_factory.mktemp("good")
    for name in ("config.json", "model.safetensors"):
        shutil.copy(GOLDEN / name, folder)
    write_tokenizer(folder, Words(("<pad>", "<bos>", "<eos>", "UP", "DONE")))
    return folder


@pytest.fixture
def folder(good, tmp_path):
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(good, tmp_path / "model"))


def used(folder):
    """Read a folder and use what it holds."""
    model, tokenizer = load(str(folder))
    assert all(bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(model.parameters))
    assert tokenizer.size <= model.config.vocab_size
    assert all(0 <= token < tokenizer.size for token in tokenizer.encode("UP DONE <eos>"))
    tokenizer.decode(list(range(tokenizer.size)))


def changed(path, **entries):
    """A JSON file with some entries changed or removed."""
    content = json.loads(path.read_text()) | entries
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not REMOVED}))


# What is no file


def as_pipe(path):
    os.mkfifo(path)


def as_folder(path):
    path.mkdir()


def as_loop(path):
    path.symlink_to(path)


def as_device(path):
    path.symlink_to("/dev/zero")


def as_sparse_file(path):
    with path.open("wb") as file:
        file.truncate(2**40)


@pytest.mark.parametrize("name", [*FILES, checkpoint.INDEX])
@pytest.mark.parametrize("make", [as_pipe, as_folder, as_loop, as_device, as_sparse_file])
def test_what_stands_in_a_files_place_is_refused(name, make, folder):
    (folder / name).unlink(missing_ok=True)
    make(folder / name)
    assert name in refusal(load, str(folder))


@pytest.mark.parametrize("source", ["", ".", "/dev/zero", "a\0b", "a\ud800", "x" * 5000, "none.gguf", "\n", "/"])
def test_a_source_that_is_no_model_is_refused(source):
    assert refusal(load, source)


# The config

HOSTILE_CONFIGS = {
    "a thousand million layers": {"num_hidden_layers": 10**9},
    "more layers than an int64": {"num_hidden_layers": 10**4000},
    "a size of 4,000 digits": {"hidden_size": 10**4000, "head_dim": 10**4000},
    "heads of 4,000 digits": {"num_attention_heads": 10**4000},
    "no heads": {"num_attention_heads": 0},
    "more heads than width": {"num_attention_heads": 1000, "head_dim": REMOVED},
    "a negative width": {"hidden_size": -16},
    "a broken width": {"hidden_size": 16.5},
    "a width that is true": {"hidden_size": True},
    "a width that is a text": {"hidden_size": "16"},
    "a list of widths": {"hidden_size": [16]},
    "a kind that is a list": {"model_type": ["llama"]},
    "a kind that is an object": {"model_type": {}},
    "kinds of layers that are a number": {"layer_types": 3},
    "kinds of layers that are a text": {"layer_types": "full_attention"},
    "scaling that is a list": {"rope_scaling": [1, 2]},
    "scaling that is a text": {"rope_scaling": "llama3"},
    "a kind of scaling that is a list": {"rope_parameters": {"rope_type": []}},
    "kinds of scaling that cannot be sorted": {"rope_parameters": {"type": 1, "rope_type": "x"}},
    "parameters that are a number": {"rope_parameters": 3},
    "a base that is a text": {"rope_parameters": {"rope_theta": "10000"}},
    "a base that is no number": {"rope_parameters": {"rope_theta": float("nan")}},
    "an infinite base": {"rope_parameters": {"rope_theta": float("inf")}},
    "a base of 4,000 digits": {"rope_parameters": {"rope_theta": 10**4000}},
    "a base of 0": {"rope_parameters": REMOVED, "rope_theta": 0},
    "a base of almost 0": {"rope_parameters": REMOVED, "rope_theta": 1e-300},
    "a base beyond float32": {"rope_parameters": REMOVED, "rope_theta": 1e300},
    "eps that is no number": {"rms_norm_eps": float("nan")},
    "eps beyond float32": {"rms_norm_eps": 1e300},
    "a token that is negative": {"bos_token_id": -1},
    "a token beyond the vocabulary": {"pad_token_id": 10**4000},
    "an end that is an object": {"eos_token_id": {"a": 1}},
    "ends that are lists": {"eos_token_id": [[1]]},
    "tied by a text": {"tie_word_embeddings": "yes"},
    "an entry that is not known": {"attention_chunk_size": [[[[]]]]},
    "a long value": {"hidden_act": "x" * 10**6},
    "a value that breaks lines": {"hidden_act": "\n\r\u2028\x1b[2J"},
}


@pytest.mark.parametrize("case", HOSTILE_CONFIGS)
def test_a_hostile_config_is_refused_in_one_short_line(case, folder):
    changed(folder / "config.json", **HOSTILE_CONFIGS[case])
    line = refusal(load, str(folder))
    assert len(line) < 2000
    assert line.isprintable()


# The weights


def crafted(folder, header, content=b"", length=None):
    """A safetensors file of a header that may lie about its length and about what follows."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    place = folder / "model.safetensors"
    place.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + content)


def tensor(kind, shape, start, end):
    return {"dtype": kind, "shape": shape, "data_offsets": [start, end]}


HOSTILE_WEIGHTS = {
    "nothing": ({}, b"", None),
    "a header of 8 EB": ({}, b"", 2**63),
    "a header that is longer than the file": ({}, b"", 1000),
    "a header that is nested": (b'{"a":' * 50_000, b"", None),
    "a header that is a list": (b"[]", b"", None),
    "a header that is no UTF-8": (b'{"\xff": 1}', b"", None),
    "beyond the end": ({"a": tensor("F32", [4], 0, 16)}, b"", None),
    "overlapping": ({"a": tensor("F32", [2], 0, 8), "b": tensor("F32", [2], 4, 12)}, bytes(12), None),
    "a gap": ({"a": tensor("F32", [1], 0, 4), "b": tensor("F32", [1], 8, 12)}, bytes(12), None),
    "backwards": ({"a": tensor("F32", [1], 4, 0)}, bytes(4), None),
    "a shape that overflows": ({"a": tensor("F32", [2**62, 2**62], 0, 4)}, bytes(4), None),
    "a negative shape": ({"a": tensor("F32", [-1], 0, 4)}, bytes(4), None),
    "an empty tensor": ({"model.norm.weight": tensor("F32", [0], 0, 0)}, b"", None),
    "a kind of number that is not known": ({"a": tensor("F128", [1], 0, 16)}, bytes(16), None),
    "8 bits": ({"model.norm.weight": tensor("F8_E4M3", [16], 0, 16)}, bytes(16), None),
    "whole numbers": ({"model.norm.weight": tensor("I64", [16], 0, 128)}, bytes(128), None),
    "truth values": ({"model.norm.weight": tensor("BOOL", [16], 0, 16)}, bytes(16), None),
}


@pytest.mark.parametrize("case", HOSTILE_WEIGHTS)
def test_a_hostile_file_of_weights_is_refused(case, folder):
    crafted(folder, *HOSTILE_WEIGHTS[case])
    assert refusal(load, str(folder))


@pytest.mark.parametrize("kind", ["int32", "bool", "uint8", "float8_e4m3fn"])
def test_weights_that_are_no_floats_are_named(kind, folder):
    stored = safetensors.load_file(folder / "model.safetensors")
    stored["model.norm.weight"] = np.ones(16, getattr(ml_dtypes, kind, kind))
    safetensors.save_file(stored, folder / "model.safetensors")
    assert "the dtype of tensor model.norm.weight" in refusal(load, str(folder))


@pytest.mark.parametrize(
    ("value", "kind", "dtype"),
    [(np.nan, "f4", "float32"), (-np.inf, "f2", "bfloat16"), (1e39, "f8", "float32"), (1e39, "f8", "bfloat16")],
)
def test_weights_that_are_not_finite_are_named(value, kind, dtype, folder):
    stored = safetensors.load_file(folder / "model.safetensors")
    name = "model.layers.1.mlp.up_proj.weight"
    stored[name] = stored[name].astype(kind)
    stored[name][3, 5] = value
    safetensors.save_file(stored, folder / "model.safetensors")
    assert refusal(load, str(folder), dtype) == f"tensor {name} holds what is no finite number in {dtype}"


def test_a_model_that_does_not_fit_into_memory_is_refused_before_it_is_read(folder, monkeypatch):
    monkeypatch.setattr("simlab.llm.device_memory.free_memory", lambda: 10_000)
    line = refusal(load, str(folder))
    assert line == f"{folder / 'model.safetensors'} needs 22880 bytes of memory; allowed: up to the 10000 that are free"
    monkeypatch.setattr("simlab.llm.device_memory.free_memory", lambda: 25_000)
    assert "this model needs" in refusal(load, str(folder))


HOSTILE_INDEXES = {
    "above": {"model.norm.weight": "../../etc/passwd"},
    "absolute": {"model.norm.weight": "/etc/passwd"},
    "the folder": {"model.norm.weight": ""},
    "its parent": {"model.norm.weight": ".."},
    "another file of it": {"model.norm.weight": "config.json"},
    "no file": {"model.norm.weight": 3},
    "a name that no file can have": {"model.norm.weight": "a\0b"},
    "a surrogate": {"model.norm.weight": "\ud800"},
    "a long name": {"model.norm.weight": "x" * 10_000},
    "nothing": {},
    "a list": [],
    "itself": {"model.norm.weight": checkpoint.INDEX},
    "another tensor": {"none": "model.safetensors"},
}


@pytest.mark.parametrize("case", HOSTILE_INDEXES)
def test_an_index_names_files_of_its_folder_alone(case, folder):
    (folder / checkpoint.INDEX).write_text(json.dumps({"weight_map": HOSTILE_INDEXES[case]}))
    assert refusal(load, str(folder))


# The tokenizer


def byte_level():
    """The rules of a small tokenizer, as ``tokenizer.json`` has them."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    written = byte_pairs([*alphabet, "th", "the", "<end>"], ["t h", "th e"], ["<end>"], "gpt-2", eos=258)
    return json.loads(written.rules.to_str())


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def replace(replaced, content):
    return {"type": "Replace", "pattern": replaced, "content": content}


HOSTILE_RULES = {
    "a merge of unknown tokens": ({("model", "merges"): [["q", "€"]]}, "out of vocabulary"),
    "a merge into an unknown token": ({("model", "merges"): [["a", "b"]]}, "out of vocabulary"),
    "a prefix, which makes the package panic": (
        {("model", "continuing_subword_prefix"): "###############"},
        "continuing_subword_prefix = '###############' is not supported",
    ),
    "a suffix": ({("model", "end_of_word_suffix"): "</w>"}, "end_of_word_suffix"),
    "pairs left out at random": ({("model", "dropout"): 0.5}, "dropout = 0.5 is not supported"),
    "a negative id": ({("model", "vocab", "a"): -1}, "cannot be read"),
    "an id beyond 32 bits": ({("model", "vocab", "a"): 2**32}, "cannot be read"),
    "an unknown model": ({("model", "type"): "Oracle"}, "cannot be read"),
    "no model": ({("model",): None}, "cannot be read"),
    "an unknown normalizer": ({("normalizer",): {"type": "Shout"}}, "cannot be read"),
    "tables, which make the process abort": (
        {("normalizer",): {"type": "Precompiled", "precompiled_charsmap": "//////8AAAAA"}},
        "Precompiled is not supported",
    ),
    "tables inside": (
        {("normalizer",): {"type": "Sequence", "normalizers": [{"type": "Precompiled", "precompiled_charsmap": ""}]}},
        "Precompiled is not supported",
    ),
    "a text that doubles forty times": (
        {("normalizer",): {"type": "Sequence", "normalizers": [replace({"String": "a"}, "aa")] * 40}},
        "can make a text over 256 times longer",
    ),
    "nothing replaced": ({("normalizer",): replace({"String": ""}, "a")}, "replaces an empty text"),
    "pieces of no length": ({("pre_tokenizer",): {"type": "FixedLength", "length": 0}}, "length 0"),
    "a pattern of exponential time": ({("pre_tokenizer",): split("(a+)+$")}, "can take exponential time"),
    "such a pattern in a decoder": ({("decoder",): replace({"Regex": "(a|ab)*$"}, "b")}, "can take exponential time"),
    "a pattern that is broken": ({("pre_tokenizer",): split("[")}, "cannot be read"),
    "a long pattern": ({("pre_tokenizer",): split("a" * 5000)}, "has 5000 characters"),
    "an unknown decoder": ({("decoder",): {"type": "Foo"}}, "cannot be read"),
    "a decoder that is a list": ({("decoder",): []}, "cannot be read"),
    "a version of the future": ({("version",): "9.0"}, "cannot be read"),
}


def with_changes(changes):
    rules = copy.deepcopy(byte_level())
    for path, value in changes.items():
        place = rules
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = value
    return rules


@pytest.mark.parametrize("case", HOSTILE_RULES)
def test_hostile_rules_of_a_tokenizer_are_refused(case, tmp_path):
    changes, message = HOSTILE_RULES[case]
    (tmp_path / "tokenizer.json").write_text(json.dumps(with_changes(changes)))
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "<end>"}')
    assert message in refusal(read_tokenizer, tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {("truncation",): {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 5}},
        {("padding",): {
            "strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "x",
        }},
    ],
    ids=["cut off", "filled up"],
)  # fmt: skip
def test_no_text_is_cut_off_or_filled_up_at_the_files_wish(changes, tmp_path):
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "<end>"}')
    tokens = []
    for rules in (byte_level(), with_changes(changes)):
        (tmp_path / "tokenizer.json").write_text(json.dumps(rules))
        tokens.append(read_tokenizer(tmp_path).encode("the quick fox"))
    assert tokens[0] == tokens[1]


def test_ids_with_gaps_count_to_the_largest(tmp_path):
    """A vocabulary of 259 tokens whose largest id is 999 needs an embedding of 1,000 rows."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(with_changes({("model", "vocab", "q"): 999})))
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "<end>"}')
    assert read_tokenizer(tmp_path).size == 1000


@pytest.mark.parametrize("eos", [5, [], {"content": 5}, {"content": []}, "\ud800", {}, True])
def test_a_special_token_that_is_no_token_is_refused(eos, tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(byte_level()))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": eos}))
    assert "eos_token" in refusal(read_tokenizer, tmp_path)


@pytest.mark.parametrize("text", ["\ud800", "a\udcffb"])
def test_a_text_that_cannot_be_encoded_is_refused(text, good):
    assert "the tokenizer cannot encode this text" in refusal(read_tokenizer(good).encode, text)


def test_rules_that_fail_at_a_text_or_at_tokens_say_so(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "<end>"}')
    words = {"type": "WordLevel", "vocab": {"a": 0, "<end>": 1}, "unk_token": "none"}
    (tmp_path / "tokenizer.json").write_text(json.dumps(with_changes({("model",): words})))
    assert "cannot encode this text: WordLevel error" in refusal(read_tokenizer(tmp_path).encode, "b")
    strip = {"type": "Strip", "content": "a", "start": 10**9, "stop": 10**9}
    (tmp_path / "tokenizer.json").write_text(json.dumps(with_changes({("decoder",): strip})))
    tokenizer = read_tokenizer(tmp_path)
    assert "cannot decode these tokens: index out of bounds" in refusal(tokenizer.decode, tokenizer.encode("a"))


SLOW_PATTERNS = (
    "(a+)+", "(a*)*", "(a|a)*b", "(a|ab)*", "((a{1,9}){1,9}){1,9}", "(a?a)*b", "(?:a+b?)*c", "(?i:a|b)+", "(x(a|b))*",
    r"(a)\1", r"(?<n>a)\k<n>", r"(?<n>a\g<n>?)", "(?>(a+)+)", "((a)b*)+",
)  # fmt: skip
QUICK_PATTERNS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}]*[\p{Ll}\p{M}]+(?i:'s|'t)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s+",
    r"'s|'t| ?\p{L}+| ?\p{N}+|\s+(?!\S)|\s+",
    r"\s?[!-/:-~]+|\s+$|[一-龥]+",
    r" ?[^(\s|[.,!?…。、।])]+",
    r"\d(?=(?:\d{3})+\b)|\(\)+|[(]*[)]+|a\+*",
)


@pytest.mark.parametrize("pattern", SLOW_PATTERNS)
def test_patterns_that_repeat_a_choice_are_refused(pattern):
    assert "the tokenizer's pattern" in refusal(check_pattern, pattern)


@pytest.mark.parametrize("pattern", QUICK_PATTERNS)
def test_patterns_of_published_models_are_taken(pattern):
    check_pattern(pattern)


# Damage at random


def damaged_folders(good, folder, seed, rounds):
    """Copies of a good folder with one of its files damaged, one at a time in the same place."""
    random_numbers = random.Random(seed)
    for _ in range(rounds):
        name = random_numbers.choice(FILES)
        for file in FILES:
            shutil.copyfile(good / file, folder / file)
        (folder / name).write_bytes(damaged((good / name).read_bytes(), random_numbers))
        yield folder


@pytest.mark.parametrize(
    ("seed", "rounds"), [(0, 60), *(pytest.param(seed, 1000, marks=pytest.mark.slow) for seed in range(1, 5))]
)
def test_a_damaged_folder_is_read_or_refused_in_one_line(seed, rounds, good, folder):
    found = outcomes(used, damaged_folders(good, folder, seed, rounds))
    assert found["refused"] > rounds / 4


HOSTILE_VALUES = (
    None, True, -1, 0, 2**31, 2**63, 10**30, 1e308, float("nan"), float("inf"), "", "a", "\0", "\ud800", "x" * 10**4,
    [], [None], [[]], {}, {"a": {}}, [1] * 1000,
)  # fmt: skip


def places(value, path=()):
    """Every place in nested JSON."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield from places(one, (*path, name))


def altered_folders(good, folder, seed, rounds):
    """Copies of a good folder with one value of its JSON files replaced by a hostile one."""
    random_numbers = random.Random(seed)
    whole = {name: json.loads((good / name).read_text()) for name in FILES if name.endswith(".json")}
    whole["tokenizer.json"]["normalizer"] = {"type": "Sequence", "normalizers": [replace({"String": "q"}, "z")]}
    for _ in range(rounds):
        contents = copy.deepcopy(whole)
        name = random_numbers.choice(sorted(contents))
        *path, last = random_numbers.choice([path for path in places(contents[name]) if path])
        place = contents[name]
        for step in path:
            place = place[step]
        place[last] = random_numbers.choice(HOSTILE_VALUES)
        for file, content in contents.items():
            (folder / file).write_text(json.dumps(content))
        yield folder


@pytest.mark.parametrize(
    ("seed", "rounds"), [(0, 100), *(pytest.param(seed, 2000, marks=pytest.mark.slow) for seed in range(1, 5))]
)
def test_a_folder_with_a_hostile_value_is_read_or_refused_in_one_line(seed, rounds, good, folder):
    found = outcomes(used, altered_folders(good, folder, seed, rounds))
    assert min(found["refused"], found["read"]) > rounds / 20


def test_the_folder_that_is_damaged_was_good(good):
    used(good)
    with pytest.raises(InputError):
        used(good / "none")
