"""The logits of completions, their prompts computed once, are those of whole sequences one by one."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simlab.llm.completions import CompletionBatch, completion_states, target_logp
from simlab.llm.config import ModelConfig
from simlab.llm.model import forward, head_of, init, logits_of

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
def completion_logits(parameters, config, given):
    return logits_of(head_of(parameters), completion_states(parameters, config, given))


def whole(parameters, config, given):
    """The logits before each token of each completion, from its sequence as a whole."""
    rows = [
        jnp.pad(jnp.concatenate([prompt[:length], completion]), (0, max(LENGTHS) - length))
        for prompt, length, group in zip(given.prompts, LENGTHS, given.tokens, strict=True)
        for completion in group
    ]
    logits = forward(parameters, config, jnp.stack(rows))
    before = np.repeat(LENGTHS, given.tokens.shape[1])[:, None] - 1 + np.arange(given.tokens.shape[2])
    found = jnp.take_along_axis(logits, before[..., None], axis=1)
    return found.reshape(*given.tokens.shape, -1)


@pytest.mark.parametrize(("architecture", "tokens"), [("llama", 1), ("qwen2", 5), ("qwen3", 5)])
def test_logits_are_those_of_the_whole_sequence(architecture, tokens):
    config, parameters = model(architecture)
    given = batch(tokens)
    shared = completion_logits(parameters, config, given)
    expected = jax.jit(whole, static_argnums=1)(parameters, config, given)
    np.testing.assert_allclose(shared, expected, atol=1e-4)


def test_filling_changes_nothing():
    config, parameters = model("qwen3")
    given = batch(4)
    wider = given._replace(prompts=np.pad(given.prompts, ((0, 0), (0, 5)), constant_values=3))
    longer = wider._replace(tokens=np.pad(wider.tokens, ((0, 0), (0, 0), (0, 2))))
    plain = completion_logits(parameters, config, given)
    np.testing.assert_allclose(completion_logits(parameters, config, longer)[:, :, :4], plain, atol=1e-4)


def test_log_probabilities_of_tokens_at_a_temperature():
    config, parameters = model("llama")
    given = batch(2)
    targets = np.random.default_rng(2).integers(0, 19, (3, 2, 2, 4))
    logits = completion_logits(parameters, config, given)
    expected = np.take_along_axis(np.asarray(jax.nn.log_softmax(logits / 0.5)), targets, axis=-1)
    found = jax.jit(target_logp, static_argnums=1)(parameters, config, given, targets, 0.5)
    np.testing.assert_allclose(found, expected, atol=1e-5)
