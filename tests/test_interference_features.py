"""Features of rollouts whose inner products say how prompts move one another: by all parameters, and by the head."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive_training import leaves, sequence_tables
from training_cases import parameters_of, settings, task, trainer_and_state

from simlab.interference.head import head_features, projected_size, projection, residuals
from simlab.interference.kernel import log_odds
from simlab.llm.lora import adapters, merged
from simlab.llm.training.features import full_features, head_features_of, sketched
from simlab.llm.training.gradient import DecoderPolicy
from simlab.llm.training.setup import Setup
from simlab.problems.interference import interference
from simlab.problems.linear_softmax import linear_softmax
from simlab.theory.interference import expected_advantages

KEY = jax.random.key(5)
UNTIED = {"tie_embeddings": False, "num_layers": 2}

pytestmark = pytest.mark.usefixtures("quickly")


def naive_scores(parameters, config, batch, temperature=1.0):
    """The gradient of each rollout's log-probability, a dict of arrays with an entry each parameter."""
    scores = {}
    for (p, g), _, jacobian in sequence_tables(parameters, config, batch, temperature):
        used = [int(token) for token in batch.tokens[p, g][batch.mask[p, g]]]
        for name, leaf in leaves(jacobian):
            scores[p, g, name] = sum(leaf[t, token] for t, token in enumerate(used))
    return scores


# All parameters


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_full_features_are_gradients_of_each_rollout_layer_by_layer(temperature):
    trainer, state = trainer_and_state("grpo", {"temperature": temperature}, model=UNTIED)
    groups, _, _ = trainer.collect(state, KEY)
    scale = jax.tree.map(lambda leaf: 1 + jnp.arange(leaf.size, dtype=jnp.float32).reshape(leaf.shape) / leaf.size,
                         state.parameters)  # fmt: skip
    features = full_features(trainer.policy, state.parameters, groups.batch, scale, 0)
    scores = naive_scores(state.parameters, trainer.policy.config, groups.batch, temperature)
    names, factors = [name for name, _ in leaves(state.parameters)], dict(leaves(scale))
    outside = sorted(name for name in names if "." not in name)
    inside = sorted(name for name in names if "." in name)
    assert len(features) == 3
    for p, g in np.ndindex(groups.rewards.shape):
        wanted = [np.concatenate([(scores[p, g, name] * factors[name]).ravel() for name in outside])]
        wanted += [
            np.concatenate([(scores[p, g, name] * factors[name])[layer].ravel() for name in inside])
            for layer in range(2)
        ]
        for layer, values in zip(features, wanted, strict=True):
            np.testing.assert_allclose(layer[p, g], values, atol=2e-4 * np.abs(values).max())


def test_of_adapters_they_are_the_gradients_of_the_adapters():
    """d/dA = scale dW B^T and d/dB = scale A^T dW, with dW of the merged model."""
    setup = Setup(settings({"model": {"lora_rank": 2, "num_layers": 2}}), task())
    config, base = setup.loaded.config, parameters_of(setup.loaded.config)
    weights = jax.tree.map(lambda leaf: leaf + 0.1, adapters(config, 2, KEY))
    policy = DecoderPolicy(config, "float32", 1.0, 8, lora_scale=3.0, base=base)
    trainer, state = trainer_and_state("grpo", model={"num_layers": 2})
    groups, _, _ = trainer.collect(state, KEY)
    features = full_features(policy, weights, groups.batch, None, 0)
    scores = naive_scores(merged(base, weights, 3.0), config, groups.batch)
    pairs = {name: np.asarray(leaf, float) for name, leaf in weights["layers"].items()}
    for p, g in [(0, 0), (3, 2)]:
        for layer in range(2):
            wanted = []
            for name in sorted(pairs):
                slope = scores[p, g, f"layers.{name[:-2]}"][layer]
                other = pairs[f"{name[:-1]}{'b' if name.endswith('a') else 'a'}"][layer]
                wanted.append((3 * (slope @ other.T if name.endswith("a") else other.T @ slope)).ravel())
            wanted = np.concatenate(wanted)
            np.testing.assert_allclose(features[layer][p, g], wanted, atol=3e-4 * np.abs(wanted).max())
    assert len(features) == 2, "nothing outside of the layers is trained"


def test_a_sketch_keeps_inner_products_up_to_what_it_says():
    """300 pairs of matrices with equal columns, the worst case for buckets: sqrt((x^2 y^2 + (x y)^2) / size)."""
    random = np.random.default_rng(0)
    misses = []
    for _ in range(300):
        x, y = (random.normal(size=(1, 64, 64)) * random.exponential(size=(1, 1, 64)) for _ in range(2))
        y = y + 0.3 * x
        trees = [{"layers": {"w": jnp.asarray(each, jnp.float32)}, "norm": jnp.asarray(each[0, 0])} for each in (x, y)]
        (_, first), (_, second) = ([np.asarray(layer[0]) for layer in sketched(tree, 251)] for tree in trees)
        exact = (x * y).sum()
        misses.append((first @ second - exact) / np.sqrt(((x**2).sum() * (y**2).sum() + exact**2) / 251))
    assert abs(np.mean(misses)) < 4 / np.sqrt(300)
    assert 0.85 < np.std(misses) < 1.15


# The head


def test_head_features_are_the_gradients_of_the_head():
    trainer, state = trainer_and_state("grpo", {"temperature": 0.7}, model=UNTIED)
    groups, _, _ = trainer.collect(state, KEY)
    (features,) = head_features_of(trainer.policy, state.parameters, groups.batch)
    scores = naive_scores(state.parameters, trainer.policy.config, groups.batch, 0.7)
    for p, g in np.ndindex(groups.rewards.shape):
        wanted = scores[p, g, "lm_head"].T.ravel()
        np.testing.assert_allclose(features[p, g], wanted, atol=2e-4 * np.abs(wanted).max())


def test_a_projected_vocabulary_keeps_inner_products_in_expectation():
    random = np.random.default_rng(1)
    logits, hidden = random.normal(size=(2, 5, 400)), random.normal(size=(2, 5, 3))
    tokens, mask = random.integers(400, size=(2, 5)), np.arange(5) < [[5], [3]]
    policies = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    matrices = [
        sum(np.outer(hidden[r, t], np.eye(400)[tokens[r, t]] - policies[r, t]) for t in range(5) if mask[r, t])
        for r in range(2)
    ]
    exact = (matrices[0] * matrices[1]).sum()
    products = []
    for seed in range(300):
        onto = projection(400, seed, 64)
        first, second = head_features(hidden, residuals(logits, tokens, 1.0, onto), mask)
        products.append(first @ second)
    error = np.std(products) / np.sqrt(300)
    assert abs(np.mean(products) - exact) < 4 * error
    bound = np.sqrt(((matrices[0] ** 2).sum() * (matrices[1] ** 2).sum() + exact**2) / 64)
    assert np.std(products) < bound
    assert (projected_size(400, 64), projected_size(64, 64)) == (64, 0)


def solve_rates(problem, weights):
    logits = problem.features @ weights.T + np.log(problem.each)
    policies = np.exp(logits - logits.max(axis=1, keepdims=True))
    policies /= policies.sum(axis=1, keepdims=True)
    return np.where(problem.correct, policies, 0).sum(axis=1)


class Head:
    """A problem's head, features and answers in plain arrays; a class of c alike actions has log c in its logit."""

    def __init__(self, problem):
        self.features, self.correct, self.weights = problem.features, problem.correct, problem.weights
        self.each = np.ones(len(problem.weights)) if problem.counts is None else problem.counts
        self.teaching = np.asarray(problem.teaching)


@pytest.mark.parametrize("overlap", [0.4, -0.3])
@pytest.mark.parametrize("name", ["linear_softmax", "interference"])
def test_the_head_is_the_whole_truth_in_problems_with_one_head(name, overlap):
    """K by the features of all actions against differences of solve rates after a step by each prompt's update."""
    if name == "linear_softmax":
        head = Head(linear_softmax(4, 12, failure_modes=2, wrong_answers=3, shared=1 + overlap))
    else:
        head = Head(interference(4, 4, overlap=overlap, solve_rates=(0.5, 0.3, 0.1, 0.05)))
    assert name == "linear_softmax" or (head.each == 1).all()
    logits = head.features @ head.weights.T + np.log(head.each)
    policies = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    prompts, actions = policies.shape
    rates = solve_rates(head, head.weights)
    expected = expected_advantages("grpo", 8, rates)
    advantages = np.where(head.correct, expected.success[:, None], expected.failure[:, None])
    tokens = np.broadcast_to(np.arange(actions), (prompts, actions))[..., None]
    seen = np.broadcast_to(logits[:, None, None], (prompts, actions, 1, actions))
    hidden = np.broadcast_to(head.teaching[:, None, None], (prompts, actions, 1, head.teaching.shape[1]))
    residual = residuals(seen, tokens, 1.0, projection(actions).astype(float))
    features = head_features(hidden, residual, np.ones(tokens.shape, bool))
    updates = np.einsum("pa,pa,paf->pf", policies, advantages, features)
    gradients = np.einsum("pa,pa,paf->pf", policies, head.correct, features)
    kernel = updates @ gradients.T
    step = 1e-5
    for i in range(prompts):
        direction = updates[i].reshape(-1, actions).T
        moved = [solve_rates(head, head.weights + sign * step * direction) for sign in (1, -1)]
        np.testing.assert_allclose(kernel[i], (moved[0] - moved[1]) / (2 * step), rtol=1e-6, atol=1e-9)
        odds = [np.log(each / (1 - each)) for each in moved]
        np.testing.assert_allclose(log_odds(kernel[i], rates), (odds[0] - odds[1]) / (2 * step), rtol=1e-6, atol=1e-8)
    assert name == "linear_softmax" or (kernel < 0).any()


@pytest.mark.torch
def test_torch_computes_the_same_features_of_the_head():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(2)
    logits, hidden = random.normal(size=(2, 5, 300)), random.normal(size=(2, 5, 3))
    tokens, mask, onto = random.integers(300, size=(2, 5)), np.arange(5) < [[5], [3]], projection(300).astype(float)
    plain = head_features(hidden, residuals(logits, tokens, 0.7, onto), mask)
    tensors = [torch.tensor(each) for each in (logits, tokens, onto, hidden, mask)]
    features = head_features(tensors[3], residuals(*tensors[:2], 0.7, tensors[2]), tensors[4])
    np.testing.assert_allclose(features.numpy(), plain, rtol=1e-9)
