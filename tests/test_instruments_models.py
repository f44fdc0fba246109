"""Metrics of models: the entropy's change, rare-correct trajectories, the rank of weight changes."""

import json
import math

import jax
import numpy as np
import pytest
from naive_training import sequence_tables
from training_cases import parameters_of, settings, task

from simlab.llm.completions import CompletionBatch
from simlab.llm.config import ModelConfig
from simlab.llm.instruments import model_changes
from simlab.llm.instruments.model_changes import entropy_change, singular_values, weight_change_metrics
from simlab.llm.instruments.rare_solutions import Trajectories, length_normalised_nll, rarest_trajectories
from simlab.llm.model import forward
from simlab.llm.training.evaluate import Evaluator
from simlab.llm.training.setup import Setup

CONFIG = ModelConfig(
    vocab_size=6, hidden_size=8, intermediate_size=12, num_layers=2, num_heads=2, num_kv_heads=1, architecture="qwen2"
)
BATCH = CompletionBatch(
    np.array([[1, 2, 3], [4, 0, 0]]),
    np.array([3, 1]),
    np.array([[[2, 5, 1], [3, 0, 0]], [[1, 1, 4], [0, 3, 0]]]),
    np.array([[[True] * 3, [True, False, False]], [[True] * 3, [True, True, False]]]),
)
ADVANTAGES = np.array([[1.0, -0.5], [0.25, 2.0]])


PARAMETERS, UPDATE = parameters_of(CONFIG, 0.6, seed=0), parameters_of(CONFIG, 0.3, seed=1)
run = jax.jit(forward, static_argnums=1)


pytestmark = pytest.mark.usefixtures("quickly")


def moved(step):
    """The parameters after an update, in float64."""
    return jax.tree.map(
        lambda old, update: np.asarray(old, float) + step * np.asarray(update, float), PARAMETERS, UPDATE
    )


def naive_tokens(parameters, temperature=1.0):
    """Each token's log-probabilities, the log-probability drawn, and its rollout's advantage, in float64."""
    tokens = []
    for p, g in np.ndindex(2, 2):
        prompt = BATCH.prompts[p, : BATCH.lengths[p]].tolist()
        completion = BATCH.tokens[p, g][BATCH.mask[p, g]].tolist()
        whole = np.zeros((1, 7), int)
        whole[0, : len(prompt) + len(completion)] = prompt + completion
        logits = np.asarray(run(parameters, CONFIG, whole), float)[0, len(prompt) - 1 :] / temperature
        for row, token in zip(logits, completion, strict=False):
            logp = row - row.max() - np.log(np.sum(np.exp(row - row.max())))
            tokens.append((logp, logp[token], ADVANTAGES[p, g]))
    return tokens


def naive_entropy(parameters, temperature=1.0):
    return np.mean([-np.sum(np.exp(logp) * logp) for logp, _, _ in naive_tokens(parameters, temperature)])


def covariance(first, second):
    return np.mean(np.multiply(first, second)) - np.mean(first) * np.mean(second)


# The change of entropy


@pytest.fixture
def exactly():
    """Use float64 for small changes."""
    with jax.enable_x64(True):
        yield


def change_of(step, advantages=ADVANTAGES, **choices):
    return entropy_change(moved(0), moved(step), CONFIG, BATCH, advantages, **choices)


def test_the_entropy_changes_by_what_two_forward_passes_say(exactly):
    expected = naive_entropy(moved(0.1), 2.0) - naive_entropy(moved(0), 2.0)
    assert change_of(0.1, temperature=2.0)["entropy_change"] == pytest.approx(expected, rel=1e-9)
    assert abs(expected) > 1e-3


def test_the_prediction_is_the_first_order_of_the_change(exactly):
    """It is linear in the step, and its error falls with the square: 16 times at a quarter of the step, within 15 %."""
    changes = [change_of(step) for step in (0.01, 0.0025, 0.000625)]
    predicted = [change["entropy_change_predicted"] for change in changes]
    errors = [change["entropy_change"] - change["entropy_change_predicted"] for change in changes]
    assert predicted[0] == pytest.approx(16 * predicted[2], rel=1e-9)
    assert errors[0] / errors[1] == pytest.approx(16, rel=0.15)
    assert errors[1] / errors[2] == pytest.approx(16, rel=0.15)


def test_the_covariances_are_those_of_loops_over_tokens(exactly):
    """d log pi by central differences of naive forward passes."""
    tokens = naive_tokens(moved(0))
    logp, advantages = [value for _, value, _ in tokens], [a for _, _, a in tokens]
    later, earlier = ([value for _, value, _ in naive_tokens(moved(step))] for step in (1e-4, -1e-4))
    change = (np.array(later) - np.array(earlier)) / 2e-4
    metrics = change_of(1.0)
    assert metrics["logp_advantage_covariance"] == pytest.approx(covariance(logp, advantages))
    assert metrics["logp_change_covariance"] == pytest.approx(covariance(logp, change), rel=1e-4)
    step = covariance(advantages, change) / covariance(advantages, advantages)
    assert metrics["effective_step"] == pytest.approx(step, rel=1e-4)


def test_no_update_changes_nothing_and_equal_advantages_fit_no_step(exactly):
    metrics = change_of(0, np.ones((2, 2)))
    assert math.isnan(metrics.pop("effective_step"))
    assert set(metrics.values()) == {0.0}


# Rare-correct trajectories

TRAJECTORIES = Trajectories(
    [[1, 2, 3], [4], [1, 2, 3], [4], [5, 5]], [[2, 5, 1], [1, 1, 4], [3], [0, 3], [1, 2, 3, 4, 5]]
)


def test_the_nll_of_a_trajectory_is_the_mean_over_its_tokens(exactly):
    expected = []
    many = Trajectories(*(2 * sequences for sequences in TRAJECTORIES))  # more than are computed at once
    for prompt, completion in zip(*many, strict=True):
        whole = np.zeros((1, 7), int)
        whole[0, : len(prompt) + len(completion)] = prompt + completion
        logits = np.asarray(run(moved(0), CONFIG, whole))[0, len(prompt) - 1 :]
        logp = logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))
        expected.append(-np.mean([row[token] for row, token in zip(logp, completion, strict=False)]))
    nll = length_normalised_nll(moved(0), CONFIG, many)
    np.testing.assert_allclose(nll, expected, rtol=1e-9)


def test_the_rarest_are_those_of_the_highest_nll():
    """They are one percent, rounded down, in their order where they are equal, and one of a few."""
    few = rarest_trajectories(TRAJECTORIES, np.array([1.0, 3.0, 2.0, 3.0, 0.5]))
    assert few == ([[4]], [[1, 1, 4]])
    assert Trajectories(**json.loads(json.dumps(few._asdict()))) == few
    assert rarest_trajectories(Trajectories([], []), np.array([])) == ([], [])
    for hundreds in (1, 7, 29):  # rounding of .01 times a number changes nothing
        numbers = range(100 * hundreds + 99)
        many = Trajectories([[number] for number in numbers], [[2] for _ in numbers])
        nll = np.floor(np.array(numbers) / 200)
        first = int(nll[-1]) * 200
        assert rarest_trajectories(many, nll).prompts == [[number] for number in range(first, first + hundreds)]


# The rank of weight changes


STACKED = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
MATRICES = [*((name, layer) for name in STACKED for layer in (0, 1)), ("embed_tokens", None), ("lm_head", None)]


def matrix_of(parameters, name, layer):
    return parameters[name] if layer is None else parameters["layers"][name][layer]


def with_matrix(name, layer, matrix):
    """The parameters, but for one matrix."""
    copied = jax.tree.map(np.array, PARAMETERS)
    matrix_of(copied, name, layer)[:] = matrix
    return copied


def test_every_matrix_of_every_layer_is_measured():
    """Squared singular values are eigenvalues of change' change; r1, gap and srank follow their definitions."""
    rows, current = [], moved(0.1)
    for name, layer in MATRICES:
        alone = with_matrix(name, layer, matrix_of(current, name, layer))
        change = matrix_of(alone, name, layer).astype(float) - matrix_of(PARAMETERS, name, layer)
        squares = np.sort(np.linalg.eigvalsh(change.T @ change))[::-1][: min(change.shape)]
        values = np.sqrt(squares)
        row = {
            "weight_change_r1": squares[0] / squares.sum(),
            "weight_change_gap": values[0] / values[1],
            "weight_change_srank": next(r for r in range(1, 9) if sum(values[:r]) >= 0.99 * sum(values)),
            "weight_change_norm": np.sqrt(np.sum(change**2)),
        }
        assert weight_change_metrics(PARAMETERS, alone) == pytest.approx(row), "of the one that has changed"
        rows.append(row)
    medians = {name: np.median([row[name] for row in rows]) for name in rows[0]}
    assert weight_change_metrics(PARAMETERS, current) == pytest.approx(medians, rel=1e-5)


def test_a_change_of_rank_1_and_none_at_all():
    assert all(math.isnan(value) for value in weight_change_metrics(PARAMETERS, PARAMETERS).values())
    rank_1 = np.outer(np.arange(8), 2.0 ** np.arange(12))
    start, current = (with_matrix("up_proj", 1, matrix) for matrix in (0, rank_1))
    metrics = weight_change_metrics(start, current)
    assert metrics["weight_change_srank"] == 1
    assert metrics["weight_change_r1"] == pytest.approx(1)
    assert metrics["weight_change_gap"] > 1e14


@pytest.mark.parametrize("shape", [(300, 12), (40, 40)])
def test_the_gram_matrix_gives_the_same_singular_values(shape, monkeypatch):
    """They agree to 1e-7 of the largest, over six orders, at any size."""
    random = np.random.default_rng(0)
    left, _ = np.linalg.qr(random.normal(size=(shape[0], min(shape))))
    right, _ = np.linalg.qr(random.normal(size=(shape[1], min(shape))))
    values = np.logspace(0, -6, min(shape))
    for size in (1e-200, 1.0, 1e200):
        monkeypatch.setattr(model_changes, "LONGEST", 4096)
        np.testing.assert_allclose(singular_values(size * (left * values) @ right.T), size * values, rtol=1e-9)
        monkeypatch.setattr(model_changes, "LONGEST", 1)
        computed = singular_values(size * (left * values) @ right.T)
        np.testing.assert_allclose(computed, size * values, atol=1e-7 * size)
    assert singular_values(np.outer(np.arange(40.0), np.arange(9.0)))[1] == 0
    assert not singular_values(np.zeros((40, 9))).any()


def naive_counts(values, bins):
    """One value after the other: the bin of the tenths below it, the last one without an end."""
    counts = [0] * bins
    for value in values:
        index = 0
        while index < bins - 1 and value >= (index + 1) / 10:
            index += 1
        counts[index] += 1
    return counts


@pytest.mark.slow
def test_an_evaluation_counts_the_tokens_that_it_drew():
    asked = {"evaluation": {"temperature": 0.7}, "record": {"top_n": 2}}
    setup = Setup(settings(asked), task())
    parameters = parameters_of(setup.loaded.config)
    evaluation = Evaluator(setup, 0).evaluate(parameters, 0)["evaluation"]
    tables = [table for _, table, _ in sequence_tables(parameters, setup.loaded.config, evaluation.groups.batch, 0.7)]
    rows = [[math.exp(logp) for logp in row] for table in tables for row in np.asarray(table)]
    entropies = [-sum(p * math.log(p) for p in row) for row in rows]
    assert evaluation.line["entropy_histogram"].tolist() == naive_counts(entropies, 41)
    for rank in range(2):
        chances = [sorted(row)[-1 - rank] for row in rows]
        assert evaluation.line["candidate_histogram"][rank].tolist() == naive_counts(chances, 10)
