"""Logits of completions equal those of whole sequences one by one, and in slices those of all at once."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simlab.llm import model as decoder
from simlab.llm.completions import CompletionBatch, completion_states, target_logp
from simlab.llm.config import ModelConfig
from simlab.llm.model import forward, head_of, init, logits_of, map_logits

CONFIG = {
    "vocab_size": 19,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_layers": 2,
    "num_heads": 4,
    "num_kv_heads": 2,
}


def model(architecture):
    config = ModelConfig(**CONFIG, architecture=architecture, tie_embeddings=architecture == "llama")
    return config, jax.tree.map(lambda leaf: 4 * leaf, init(config, jax.random.key(1)))


def batch(tokens, seed=0):
    random = np.random.default_rng(seed)
    return CompletionBatch(
        random.integers(0, 19, (3, 7)),
        np.array(LENGTHS),
        random.integers(0, 19, (3, 2, tokens)),
        np.ones((3, 2, tokens), bool),
    )


LENGTHS = (7, 1, 4)


@functools.partial(jax.jit, static_argnums=1)
def completion_logits(parameters, config, completions):
    return logits_of(head_of(parameters), completion_states(parameters, config, completions))


def whole(parameters, config, completions):
    rows = [
        jnp.pad(jnp.concatenate([prompt[:length], completion]), (0, max(LENGTHS) - length))
        for prompt, length, group in zip(completions.prompts, LENGTHS, completions.tokens, strict=True)
        for completion in group
    ]
    logits = forward(parameters, config, jnp.stack(rows))
    before = np.repeat(LENGTHS, completions.tokens.shape[1])[:, None] - 1 + np.arange(completions.tokens.shape[2])
    chosen = jnp.take_along_axis(logits, before[..., None], axis=1)
    return chosen.reshape(*completions.tokens.shape, -1)


@pytest.mark.parametrize(("architecture", "tokens"), [("llama", 1), ("qwen2", 5), ("qwen3", 5)])
def test_logits_are_those_of_the_whole_sequence(architecture, tokens):
    config, parameters = model(architecture)
    completions = batch(tokens)
    shared = completion_logits(parameters, config, completions)
    expected = jax.jit(whole, static_argnums=1)(parameters, config, completions)
    np.testing.assert_allclose(shared, expected, atol=1e-4)


def test_log_probabilities_of_tokens_at_a_temperature():
    config, parameters = model("llama")
    completions = batch(2)
    targets = np.random.default_rng(2).integers(0, 19, (3, 2, 2, 4))
    logits = completion_logits(parameters, config, completions)
    expected = np.take_along_axis(np.asarray(jax.nn.log_softmax(logits / 0.5)), targets, axis=-1)
    logp = jax.jit(target_logp, static_argnums=1)(parameters, config, completions, targets, 0.5)
    np.testing.assert_allclose(logp, expected, atol=1e-5)


# Logits in slices of tokens: the same numbers and gradients, in less memory

TOKENS, VOCABULARY, WIDTH = (2, 3, 7), 19, 4


@pytest.fixture
def five_at_once(monkeypatch):
    """Slices of at most five tokens, so that the 42 of a case make nine of them, the last of two."""
    monkeypatch.setattr(decoder, "LOGITS_AT_ONCE", 5 * VOCABULARY)


def numbers(*shape, dtype="float32"):
    return jnp.asarray(np.random.default_rng(math.prod(shape)).normal(size=shape), dtype)


def case(dtype="float32"):
    parameters = {"embed_tokens": numbers(VOCABULARY, WIDTH), "lm_head": numbers(VOCABULARY, WIDTH + 1)[:, :WIDTH]}
    targets = np.random.default_rng(0).integers(0, VOCABULARY, (*TOKENS, 2))
    parameters, hidden = jax.tree.map(lambda leaf: leaf.astype(dtype), (parameters, numbers(*TOKENS, WIDTH)))
    return parameters, hidden, jnp.asarray(targets)


def surprise(scores, targets):
    """Log-probabilities of the targets (C, 2), and the entropy (C,)."""
    logp = jax.nn.log_softmax(scores)
    return jnp.take_along_axis(logp, targets, axis=-1), -jnp.sum(jnp.exp(logp) * logp, axis=-1)


def naive(head, hidden, targets):
    """Loop in float64, token by token."""
    logp, entropy = np.zeros(targets.shape), np.zeros(TOKENS)
    for index in np.ndindex(TOKENS):
        scores = np.asarray(head, float) @ np.asarray(hidden, float)[index]
        row = scores - np.log(np.sum(np.exp(scores)))
        logp[index], entropy[index] = row[targets[index]], -np.sum(np.exp(row) * row)
    return logp, entropy


def weighed(parameters, hidden, targets):
    logp, entropy = map_logits(surprise, parameters, hidden, targets)
    return jnp.sum(numbers(*logp.shape) * logp) + jnp.sum(numbers(*entropy.shape) * entropy)


@pytest.mark.usefixtures("five_at_once")
def test_slices_give_the_numbers_of_each_token():
    parameters, hidden, targets = case()
    for computed, wanted in zip(
        map_logits(surprise, parameters, hidden, targets),
        naive(parameters["lm_head"], hidden, np.asarray(targets)),
        strict=True,
    ):
        np.testing.assert_allclose(computed, wanted, atol=1e-5)
    del parameters["lm_head"]  # a tied model has its embedding
    logp, _ = map_logits(surprise, parameters, hidden, targets)
    wanted, _ = naive(parameters["embed_tokens"], hidden, np.asarray(targets))
    np.testing.assert_allclose(logp, wanted, atol=1e-5)


def test_gradients_of_slices_are_those_of_all_at_once(monkeypatch):
    """Head and hidden states agree to 1e-5 of the largest: they are sums of float32 in another order."""
    parameters, hidden, targets = case()
    whole = jax.jit(jax.grad(weighed, argnums=(0, 1)))(parameters, hidden, targets)
    monkeypatch.setattr(decoder, "LOGITS_AT_ONCE", 5 * VOCABULARY)
    jax.clear_caches()  # the bound is no argument of the program
    sliced = jax.jit(jax.grad(weighed, argnums=(0, 1)))(parameters, hidden, targets)
    for first, second in zip(jax.tree.leaves(sliced), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(first, second, atol=1e-5 * float(jnp.abs(whole[0]["lm_head"]).max()))


def test_in_bfloat16_the_gradient_of_the_head_is_summed_in_float32(monkeypatch):
    """It is rounded once, to 8 bits: a sum of 400 slices in bfloat16 stops growing at 256 times the addend."""
    monkeypatch.setattr(decoder, "LOGITS_AT_ONCE", VOCABULARY)
    parameters = {"embed_tokens": jnp.zeros((VOCABULARY, WIDTH), "bfloat16")}
    hidden = jnp.ones((400, WIDTH), "bfloat16")

    def loss(parameters):
        return jnp.sum(map_logits(lambda scores: scores[:, 0], parameters, hidden))

    gradient = jax.grad(loss)(parameters)["embed_tokens"]
    assert gradient.dtype == jnp.bfloat16
    np.testing.assert_array_equal(gradient[0].astype(float), 400)


def needed(rows, vocabulary):
    array = jax.ShapeDtypeStruct
    parameters = {"embed_tokens": array((vocabulary, 2), jnp.float32)}

    def loss(parameters, hidden, targets):
        return jnp.sum(map_logits(surprise, parameters, hidden, targets)[0])

    lowered = jax.jit(jax.grad(loss)).lower(parameters, array((rows, 2), jnp.float32), array((rows, 1), jnp.int32))
    return lowered.compile().memory_analysis().temp_size_in_bytes


def test_xla_never_holds_the_logits_of_all_tokens(monkeypatch):
    """1,024 tokens of a vocabulary of 32,768 have 128 MiB of logits; slices of 32 tokens have 4 MiB."""
    logits = 4 * 1024 * 32768
    assert needed(1024, 32768) > logits
    monkeypatch.setattr(decoder, "LOGITS_AT_ONCE", 2**20)
    assert needed(1024, 32768) < logits / 8
