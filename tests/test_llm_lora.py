"""Adapters of low rank: W + scale A B, their gradient by the chain rule, and a run that trains nothing else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive_training import assert_trees_agree, leaves, naive_gradient
from refusals import refusal
from training_cases import parameters_of, settings, task, trainer_and_state

from simlab.llm.checkpoint import read_checkpoint
from simlab.llm.completions import CompletionBatch, target_logp
from simlab.llm.lora import adapters, merged
from simlab.llm.model import forward, shapes
from simlab.llm.training.gradient import DecoderPolicy
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.run import train
from simlab.llm.training.settings import TrainingSettings

pytestmark = pytest.mark.usefixtures("quickly")
RANK, SCALE = 3, 0.5
MATRICES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@pytest.fixture(scope="module")
def case():
    """A model, adapters without a 0, and a batch with random coefficients."""
    trainer, _ = trainer_and_state("grpo")
    random, config = np.random.default_rng(5), trainer.policy.config
    factors = adapters(config, RANK, jax.random.key(0))
    factors = jax.tree.map(lambda leaf: jnp.asarray(0.3 * random.normal(size=leaf.shape), "float32"), factors)
    mask = np.arange(3) < np.array([[3, 2], [1, 3]])[..., None]
    tokens = random.integers(3, config.vocab_size, size=mask.shape).astype(np.int32)
    prompts = random.integers(3, config.vocab_size, size=(2, 4)).astype(np.int32)
    batch = CompletionBatch(prompts, np.array([4, 3], np.int32), tokens, mask)
    coefficients = np.where(mask, random.normal(size=mask.shape), 0).astype(np.float32)
    return config, parameters_of(config), factors, batch, coefficients


def naive_merged(base, factors):
    """W + scale A B of every matrix, in float64."""
    layers = {name: np.asarray(leaf, float) for name, leaf in base["layers"].items()}
    for name in MATRICES:
        a, b = (np.asarray(factors["layers"][f"{name}_{side}"], float) for side in "ab")
        layers[name] = layers[name] + SCALE * np.einsum("lir,lro->lio", a, b)
    return {**base, "layers": layers}


def policy_with(base, config):
    return DecoderPolicy(config, "float32", 1.0, 8, lora_scale=SCALE, base=base)


def test_merged_adapters_are_added_to_their_matrices_and_nothing_else_changes(case):
    config, base, factors, *_ = case
    assert {name.rsplit("_", 1)[0] for name in factors["layers"]} == set(MATRICES)
    result = merged(base, factors, SCALE)
    assert jax.tree.map(jnp.shape, result) == shapes(config)
    assert_trees_agree(result, naive_merged(base, factors), rtol=1e-6)
    for name, before in leaves(base):
        if name.removeprefix("layers.") not in MATRICES:
            np.testing.assert_array_equal(dict(leaves(result))[name], before)


def test_new_adapters_change_nothing_and_are_others_for_another_key(case):
    """A is normal with a standard deviation of 1 / sqrt(in)."""
    config, base, _, batch, _ = case
    new, other = (adapters(config, RANK, jax.random.key(seed)) for seed in (0, 1))
    scaled = []
    for name in MATRICES:
        a, b = (np.asarray(new["layers"][f"{name}_{side}"]) for side in "ab")
        assert not b.any()
        assert np.abs(a).min() > 0
        scaled.append(a.ravel() * np.sqrt(a.shape[1]))
        assert not np.isin(a, np.asarray(other["layers"][f"{name}_a"])).any()
    assert np.concatenate(scaled).std() == pytest.approx(1, rel=0.1)
    plain = DecoderPolicy(config, "float32", 1.0, 8)
    np.testing.assert_array_equal(policy_with(base, config).logp(new, batch), plain.logp(base, batch))


@pytest.mark.slow
def test_the_gradient_is_that_of_the_merged_model_by_the_chain_rule(case):
    """dA = scale dW B^T and dB = scale A^T dW, with dW from sequences one by one; to 1e-5 of the largest (float32)."""
    config, base, factors, batch, coefficients = case
    whole = jax.tree.map(lambda leaf: jnp.asarray(leaf, "float32"), naive_merged(base, factors))
    slopes, objective = naive_gradient(whole, config, batch, coefficients)
    wanted = {}
    for name in MATRICES:
        a, b = (np.asarray(factors["layers"][f"{name}_{side}"], float) for side in "ab")
        wanted[f"{name}_a"] = SCALE * np.einsum("lio,lro->lir", slopes["layers"][name], b)
        wanted[f"{name}_b"] = SCALE * np.einsum("lir,lio->lro", a, slopes["layers"][name])
    gradient, value = policy_with(base, config).gradient(factors, batch, coefficients)
    assert_trees_agree(gradient, {"layers": wanted}, rtol=1e-5)
    assert value == pytest.approx(objective, rel=1e-5)


def arm(out):
    (folder,) = out.glob("arms/*/seed-0")
    return folder


@pytest.mark.transformers
def test_transformers_opens_the_model_that_a_run_of_adapters_leaves(tmp_path):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    asked = {
        "model": {"lora_rank": RANK, "lora_alpha": 6.0, "gradient_checkpointing": True, "dtype": "bfloat16"},
        "rl": {"epochs": 2}, "arms": ["grpo+kl_penalty(coefficient=0.1)"],
    }  # fmt: skip
    train(settings(asked), tmp_path / "run", own_task=task())
    folder = arm(tmp_path / "run") / "model"
    theirs, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), info
    ours, tokens = read_checkpoint(folder), np.array([[3, 4, 5, 6, 3]])
    with torch.no_grad():
        logits = theirs.float().eval()(torch.from_numpy(tokens)).logits.numpy()
    np.testing.assert_allclose(logits, forward(ours.parameters, ours.config, jnp.asarray(tokens)), atol=1e-5)


@pytest.mark.slow
def test_the_model_that_a_run_leaves_is_the_policy_that_was_trained(tmp_path, monkeypatch):
    seen, step = [], Trainer.step

    def watched(trainer, *arguments):
        state, line = step(trainer, *arguments)
        seen.append((trainer.policy, state.parameters))
        return state, line

    monkeypatch.setattr(Trainer, "step", watched)
    asked = settings({"model": {"lora_rank": RANK, "lora_alpha": 6.0}, "rl": {"learning_rate": 0.1}})
    train(asked, tmp_path / "run", own_task=task())
    (policy, factors), left = seen[-1], read_checkpoint(arm(tmp_path / "run") / "model").parameters
    tokens = np.arange(4, 10, dtype=np.int32).reshape(1, 2, 3)
    batch = CompletionBatch(np.array([[3, 7]], np.int32), np.array([2], np.int32), tokens, np.ones((1, 2, 3), bool))
    before, trained, after = (
        np.asarray(target_logp(parameters, policy.config, batch, tokens[..., None]))
        for parameters in (policy.base, policy.cast(factors), left)
    )
    np.testing.assert_allclose(after, trained, atol=1e-5)
    np.testing.assert_allclose(policy.logp(factors, batch), trained[..., 0], atol=1e-5)
    assert np.abs(after - before).max() > 0.05, "it has been trained"
    for name in MATRICES:
        base, a, b = (
            np.asarray(where["layers"][name + side], float)
            for where, side in ((policy.base, ""), (factors, "_a"), (factors, "_b"))
        )
        product = 6.0 / RANK * np.einsum("lir,lro->lio", a, b)
        np.testing.assert_allclose(left["layers"][name] - base, product, atol=1e-6, err_msg=name)


# Bad input


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"model": {"lora_rank": -1}}, "model.lora_rank = -1 is outside its range [0, inf)"),
        (
            {"model": {"lora_alpha": 8.0}},
            "model.lora_alpha = 8.0 without adapters; allowed: a model.lora_rank above 0",
        ),
    ],
)
def test_settings_that_cannot_be_met_are_refused(data, message):
    assert refusal(TrainingSettings.from_data, data) == message
