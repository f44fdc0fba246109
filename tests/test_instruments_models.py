"""Metrics of models: the entropy's change, rare-correct trajectories, the rank of weight changes."""

import json
import math

import jax
import numpy as np
import pytest
from naive_training import sequence_tables
from sweep_cases import refusal
from training_cases import parameters_of as task_parameters
from training_cases import settings, task

from simlab.llm.completions import CompletionBatch
from simlab.llm.config import ModelConfig
from simlab.llm.instruments import model_changes
from simlab.llm.instruments.model_changes import entropy_change, singular_values, weight_change_metrics, weight_changes
from simlab.llm.instruments.rare_solutions import Trajectories, length_normalised_nll, rarest_trajectories
from simlab.llm.model import forward, named, shapes
from simlab.llm.training.evaluate import Evaluator
from simlab.llm.training.setup import Setup

CONFIG = ModelConfig(
    vocab_size=6,
    hidden_size=8,
    intermediate_size=12,
    num_layers=2,
    num_heads=2,
    num_kv_heads=1,
    head_dim=4,
    max_positions=32,
    architecture="qwen2",
)
BATCH = CompletionBatch(
    np.array([[1, 2, 3], [4, 0, 0]]),
    np.array([3, 1]),
    np.array([[[2, 5, 1], [3, 0, 0]], [[1, 1, 4], [0, 3, 0]]]),
    np.array([[[True] * 3, [True, False, False]], [[True] * 3, [True, True, False]]]),
)
ADVANTAGES = np.array([[1.0, -0.5], [0.25, 2.0]])


def parameters_of(config, seed, scale):
    random = np.random.default_rng(seed)
    return jax.tree.map(
        lambda shape: scale * random.normal(size=shape).astype("float32"),
        shapes(config),
        is_leaf=lambda shape: isinstance(shape, tuple),
    )


PARAMETERS = parameters_of(CONFIG, 0, 0.6)
UPDATE = parameters_of(CONFIG, 1, 0.3)
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


@pytest.mark.parametrize("temperature", [2.0])
def test_the_entropy_changes_by_what_two_forward_passes_say(exactly, temperature):
    expected = naive_entropy(moved(0.1), temperature) - naive_entropy(moved(0), temperature)
    assert change_of(0.1, temperature=temperature)["entropy_change"] == pytest.approx(expected, rel=1e-9)
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
    for prompt, completion in zip(*TRAJECTORIES, strict=True):
        whole = np.zeros((1, 7), int)
        whole[0, : len(prompt) + len(completion)] = prompt + completion
        logits = np.asarray(run(moved(0), CONFIG, whole))[0, len(prompt) - 1 :]
        logp = logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))
        expected.append(-np.mean([row[token] for row, token in zip(logp, completion, strict=False)]))
    nll = length_normalised_nll(moved(0), CONFIG, TRAJECTORIES, at_once=2)
    np.testing.assert_allclose(nll, expected, rtol=1e-9)


def test_the_rarest_are_those_of_the_highest_nll():
    nll = np.array([1.0, 3.0, 2.0, 3.0, 0.5])
    chosen = [rarest_trajectories(TRAJECTORIES, nll, share).completions for share in (0.01, 0.4, 0.6, 0.799, 1.0)]
    order = [TRAJECTORIES.completions[index] for index in (1, 3, 2, 0, 4)]  # equal ones in their order
    assert chosen == [order[:1], order[:2], order[:3], order[:3], order]
    rarest = rarest_trajectories(TRAJECTORIES, nll, 0.4)
    assert rarest.prompts == [[4], [4]]
    assert Trajectories(**json.loads(json.dumps(rarest._asdict()))) == rarest


def test_one_percent_of_hundreds_is_one_of_each():
    """Rounding of .01 times a number changes nothing."""
    for hundreds in (1, 7, 29):
        many = Trajectories([[1]] * 100 * hundreds, [[2]] * 100 * hundreds)
        assert len(rarest_trajectories(many, np.zeros(100 * hundreds)).prompts) == hundreds


# The rank of weight changes


def test_every_matrix_of_every_layer_is_measured_alone():
    """Squared singular values are eigenvalues of change' change; r1, gap and srank follow their definitions."""
    start, current = PARAMETERS, moved(0.1)
    rows = {(row.name, row.layer): row for row in weight_changes(start, current)}
    matrices = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    assert set(rows) == {(f"layers.{name}", layer) for name in matrices for layer in (0, 1)} | {
        ("embed_tokens", None),
        ("lm_head", None),
    }
    old, new = dict(named(start)), dict(named(current))
    for (name, layer), row in rows.items():
        whole = np.asarray(new[name]).astype(float) - np.asarray(old[name])
        change = whole if layer is None else whole[layer]
        squares = np.sort(np.linalg.eigvalsh(change.T @ change))[::-1][: min(change.shape)]
        values = np.sqrt(squares)
        assert row.r1 == pytest.approx(squares[0] / squares.sum())
        assert row.gap == pytest.approx(values[0] / values[1])
        assert row.srank == next(r for r in range(1, 9) if sum(values[:r]) >= 0.99 * sum(values))
        assert row.norm == pytest.approx(np.sqrt(np.sum(change**2)))
    medians = weight_change_metrics(list(rows.values()))
    assert medians["weight_change_r1"] == np.median([row.r1 for row in rows.values()])
    assert medians.keys() == {f"weight_change_{name}" for name in ("r1", "gap", "srank", "norm")}


def test_a_change_of_rank_1_and_none_at_all():
    start = jax.tree.map(np.array, PARAMETERS)
    current = jax.tree.map(np.array, PARAMETERS)
    assert all(math.isnan(row.r1) and row.norm == 0 for row in weight_changes(start, current))
    assert all(math.isnan(value) for value in weight_change_metrics(weight_changes(start, current)).values())
    start["layers"]["up_proj"][1] = 0
    current["layers"]["up_proj"][1] = np.outer(np.arange(8), 2.0 ** np.arange(12))
    changed = [row for row in weight_changes(start, current) if row.norm > 0]
    assert [(row.name, row.layer, row.srank) for row in changed] == [("layers.up_proj", 1, 1)]
    assert changed[0].r1 == pytest.approx(1)
    assert changed[0].gap > 1e14
    assert weight_change_metrics(weight_changes(start, current))["weight_change_srank"] == 1


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
    parameters = task_parameters(setup.loaded.config)
    evaluation, _ = Evaluator(setup, 0).evaluate(parameters, 0)
    tables = [table for _, table, _ in sequence_tables(parameters, setup.loaded.config, evaluation.groups.batch, 0.7)]
    rows = [[math.exp(logp) for logp in row] for table in tables for row in np.asarray(table)]
    entropies = [-sum(p * math.log(p) for p in row) for row in rows]
    assert evaluation.line["entropy_histogram"].tolist() == naive_counts(entropies, 41)
    for rank in range(2):
        chances = [sorted(row)[-1 - rank] for row in rows]
        assert evaluation.line["candidate_histogram"][rank].tolist() == naive_counts(chances, 10)


# Bad input


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: rarest_trajectories(Trajectories([], []), np.zeros(0)), "no correct trajectory"),
        (lambda: rarest_trajectories(TRAJECTORIES, np.zeros(5), 0.0), "share = 0.0"),
        (lambda: weight_changes(PARAMETERS, PARAMETERS | {"embed_tokens": np.full((6, 8), np.nan)}), "embed_tokens"),
    ],
)
def test_bad_input_is_refused(call, names):
    assert names in refusal(call)
