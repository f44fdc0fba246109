"""The decoder against transformers, its options, its checkpoints, and its refusals."""

import dataclasses
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sweep_cases import refusal

from simlab.llm import checkpoint
from simlab.llm.checkpoint import read_checkpoint, write_checkpoint
from simlab.llm.config import Llama3Scaling, ModelConfig, from_hugging_face, to_hugging_face
from simlab.llm.model import as_tree, forward, frequencies, init, named, shapes

safetensors = pytest.importorskip("safetensors.numpy")

GOLDEN = Path(__file__).parent / "golden" / "llm"
NAMES = sorted(folder.name for folder in GOLDEN.iterdir())
SMALL = ModelConfig(vocab_size=11, hidden_size=8, intermediate_size=12, num_layers=2, num_heads=2)
run = jax.jit(forward, static_argnums=1)


pytestmark = pytest.mark.usefixtures("quickly")


def golden(name):
    with np.load(GOLDEN / name / "golden.npz") as file:
        return file["tokens"], file["logits"]


def entries_of(name):
    return json.loads((GOLDEN / name / "config.json").read_text())


def read(name):
    """Read a golden model, in bfloat16 where its numbers are stored so."""
    model = read_checkpoint(GOLDEN / name)
    dtype = "bfloat16" if name.endswith("bfloat16") else "float32"
    return model._replace(parameters=as_tree({name: leaf.astype(dtype) for name, leaf in named(model.parameters)}))


# The same logits as transformers


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_transformers(name):
    model = read_checkpoint(GOLDEN / name)
    tokens, expected = golden(name)
    assert np.std(expected) > 0.5
    np.testing.assert_allclose(run(model.parameters, model.config, tokens), expected, atol=3e-5)


@pytest.mark.transformers
@pytest.mark.parametrize("name", NAMES)
def test_transformers_opens_what_is_written_here(name, tmp_path, monkeypatch):
    is_sharded = name == "qwen3_sharded"
    monkeypatch.setattr(checkpoint, "SHARD_BYTES", 6000 if is_sharded else checkpoint.SHARD_BYTES)
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    model = read(name)
    write_checkpoint(tmp_path, model)
    assert (tmp_path / checkpoint.INDEX).exists() == is_sharded
    model, info = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values()), info
    tokens, expected = golden(name)
    with torch.no_grad():
        logits = model.float().eval()(torch.from_numpy(tokens)).logits.numpy()
    np.testing.assert_allclose(logits, expected, atol=1e-5)


@pytest.mark.transformers
def test_the_golden_script_still_makes_the_golden_files(tmp_path):
    script = GOLDEN.parent / "make_llm_golden.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, capture_output=True)
    for name in NAMES:
        with np.load(tmp_path / name / "golden.npz") as made:
            np.testing.assert_allclose(made["logits"], golden(name)[1], atol=1e-5)


# The decoder's formulas


def test_llama_3_scales_slow_frequencies_alone():
    """Frequencies of more than 4 turns in 64 positions stay; those of less than one turn are divided by 8."""
    config = dataclasses.replace(SMALL, head_dim=16, rope_theta=100.0, rope_scaling=Llama3Scaling(8.0, 1.0, 4.0, 64))
    for i, frequency in enumerate(frequencies(config)):
        plain = 100.0 ** (-2 * i / 16)
        turns = 64 * plain / (2 * math.pi)
        mixed = (4 - turns) / 3 * plain / 8 + (turns - 1) / 3 * plain
        assert frequency == pytest.approx(plain if turns > 4 else plain / 8 if turns < 1 else mixed, rel=1e-12)


def test_bfloat16_is_float32_with_fewer_digits():
    """Logits of standard deviation one agree to the 2^-8 of a bfloat16, over some ten roundings."""
    tokens, expected = golden("qwen2_bfloat16")
    model = read("qwen2_bfloat16")
    logits = run(model.parameters, model.config, tokens)
    assert logits.dtype == jnp.float32
    assert np.sqrt(np.mean((logits - expected) ** 2)) < 0.04


def test_new_parameters_are_random_where_they_have_to_be():
    config = dataclasses.replace(SMALL, architecture="qwen2", hidden_size=64, intermediate_size=96)
    new, again, other = (
        {name: np.asarray(values) for name, values in named(init(config, jax.random.key(seed)))} for seed in (0, 0, 1)
    )
    assert {name: values.shape for name, values in new.items()} == dict(named(shapes(config)))
    for name, values in new.items():
        spread = 0 if "norm" in name or "bias" in name else 0.02
        assert values.dtype == "float32"
        assert np.std(values) == pytest.approx(spread, rel=0.1)
        np.testing.assert_array_equal(values, again[name])
    assert (new["layers.up_proj"] != other["layers.up_proj"]).mean() > 0.9
    assert (new["layers.up_proj"] != new["layers.gate_proj"]).mean() > 0.9


# Checkpoints


def files_of(folder):
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.parametrize("name", ["llama3_scaled", "qwen2_tied", "qwen2_bfloat16"])
def test_what_is_written_is_read_again_bit_for_bit(name, tmp_path):
    model = read(name)
    write_checkpoint(tmp_path, model)
    again = read_checkpoint(tmp_path)
    assert again.config == model.config
    for (_, before), (_, after) in zip(named(model.parameters), named(again.parameters), strict=True):
        np.testing.assert_array_equal(before, after)
    assert files_of(tmp_path) == ["checksums.json", "config.json", "model.safetensors"]


def test_large_weights_are_written_in_shards_with_an_index_as_transformers_does(tmp_path, monkeypatch):
    model, most = read_checkpoint(GOLDEN / "qwen3_sharded"), 6000
    monkeypatch.setattr(checkpoint, "SHARD_BYTES", most)
    write_checkpoint(tmp_path, model)
    index = json.loads((tmp_path / checkpoint.INDEX).read_text())
    files = sorted(set(index["weight_map"].values()))
    assert files == [f"model-{number:05}-of-{len(files):05}.safetensors" for number in range(1, len(files) + 1)]
    assert files_of(tmp_path) == ["checksums.json", "config.json", *files, checkpoint.INDEX]
    assert len(files) > 2
    total = 0
    for file in files:
        tensors = safetensors.load_file(tmp_path / file)
        assert {tensor for tensor, number in index["weight_map"].items() if number == file} == tensors.keys()
        size = sum(values.nbytes for values in tensors.values())
        assert size <= most or len(tensors) == 1
        total += size
    theirs = json.loads((GOLDEN / "qwen3_sharded" / checkpoint.INDEX).read_text())
    assert index["weight_map"].keys() == theirs["weight_map"].keys()
    assert index["metadata"]["total_size"] == total == theirs["metadata"]["total_size"]
    again = read_checkpoint(tmp_path)
    for (_, before), (_, after) in zip(named(model.parameters), named(again.parameters), strict=True):
        np.testing.assert_array_equal(before, after)
    shard = tmp_path / files[1]
    content = shard.read_bytes()
    shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert f"{shard} is damaged" in refusal(read_checkpoint, tmp_path)
    shard.unlink()
    assert f"{shard} is missing" in refusal(read_checkpoint, tmp_path)
    monkeypatch.setattr(checkpoint, "SHARD_BYTES", 2 * most)
    write_checkpoint(tmp_path, model)
    assert len(files_of(tmp_path)) < len(files) + 3
    assert read_checkpoint(tmp_path).config == model.config
    monkeypatch.undo()
    write_checkpoint(tmp_path, model)
    assert files_of(tmp_path) == ["checksums.json", "config.json", "model.safetensors"]


def test_a_head_stored_twice_is_read_once(tmp_path):
    tensors = safetensors.load_file(GOLDEN / "qwen2_tied" / "model.safetensors")
    for factor in (1, 2):
        broken = tensors | {"lm_head.weight": factor * tensors["model.embed_tokens.weight"]}
        folder = changed(tmp_path / str(factor), "qwen2_tied", broken)
        if factor == 1:
            assert "lm_head" not in read_checkpoint(folder).parameters
        else:
            assert "tie_word_embeddings is true" in refusal(read_checkpoint, folder)


def changed(folder, name, tensors=None, **entries):
    shutil.copytree(GOLDEN / name, folder)
    if tensors is not None:
        safetensors.save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(entries_of(name) | entries))
    return folder


def test_transformers_4_said_the_same_in_other_words():
    entries = entries_of("llama3_scaled")
    numbers = entries.pop("rope_parameters")
    entries["torch_dtype"] = entries.pop("dtype")
    theta = numbers.pop("rope_theta")
    old = entries | {"rope_theta": theta, "rope_scaling": numbers}
    assert from_hugging_face(old) == from_hugging_face(entries_of("llama3_scaled"))
    assert from_hugging_face(to_hugging_face(from_hugging_face(old), "float32")) == from_hugging_face(old)


# Refusals


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"model_type": "mistral"}, "model_type = 'mistral' is unknown; allowed: llama, qwen2, qwen3"),
        ({"use_sliding_window": True}, "use_sliding_window = True"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4}}, "rope_type = 'yarn'"),
        ({"logit_scale": 2.0}, "the config's entry logit_scale = 2.0 is not known"),
        ({"hidden_size": None}, "the config has no entry hidden_size"),
        ({"num_key_value_heads": 3}, "num_kv_heads = 3; allowed: divisors of num_heads = 4"),
    ],
    ids=lambda case: next(iter(case)) if isinstance(case, dict) else "",
)
def test_a_config_that_is_not_supported_is_refused_by_the_name_of_its_entry(entries, message):
    assert message in refusal(from_hugging_face, entries_of("llama") | entries)


NORM = "model.layers.1.input_layernorm.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.pop(NORM), f"tensor {NORM} is missing"),
        (
            lambda tensors: tensors.update({"model.layers.0.self_attn.q_proj.bias": np.ones(16, "f4")}),
            "tensor model.layers.0.self_attn.q_proj.bias is none of this model",
        ),
        (
            lambda tensors: tensors.update({"model.layers.0.mlp.up_proj.weight": np.ones((16, 24), "f4")}),
            "up_proj.weight has shape (16, 24); allowed: (24, 16)",
        ),
    ],
)
def test_tensors_that_do_not_fit_the_config_are_refused_by_name(change, message, tmp_path):
    tensors = safetensors.load_file(GOLDEN / "llama" / "model.safetensors")
    change(tensors)
    assert message in refusal(read_checkpoint, changed(tmp_path / "model", "llama", tensors))


def test_a_checkpoint_that_is_broken_or_of_another_format_is_refused(tmp_path):
    folder = changed(tmp_path / "model", "llama")
    assert "config.json cannot be read: No such file" in refusal(read_checkpoint, tmp_path / "nowhere")
    (folder / "model.safetensors").write_bytes((GOLDEN / "llama" / "model.safetensors").read_bytes()[:5000])
    assert "model.safetensors cannot be read" in refusal(read_checkpoint, folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "has no model.safetensors and no model.safetensors.index.json" in refusal(read_checkpoint, folder)
    (folder / "config.json").write_text("{")
    assert "config.json is no JSON" in refusal(read_checkpoint, folder)
    (folder / "config.json").write_text("[]")
    assert "config.json holds no JSON object" in refusal(read_checkpoint, folder)
