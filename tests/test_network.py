"""Prompts that share a network: their start, exact gradients, its limits, and refusals.

test_problem_contract.py has the properties of every problem, every record and enumeration among them.
"""

import itertools

import jax
import jax.numpy as jnp
import naive_network
import naive_simulator
import numpy as np
import pytest
from problem_contract import Bench, Kind, row_of_network
from refusals import refusal

import simlab
from simlab.problems import interference, network
from simlab.problems.network import outputs

KINDS = [*itertools.product(["tanh", "relu", "gelu"], [1, 2], [False, True])]
QUICK = [("tanh", 1, False), ("relu", 2, True), ("gelu", 2, False)]


def small(activation="tanh", layers=1, layer_norm=False, **changes):
    arguments = {
        "prompts": 3,
        "actions": 5,
        "width": 4,
        "hard_rate": 0.1,
        "tolerance": 0.1,
        "network_seed": 1,
    } | changes
    return network(activation=activation, layers=layers, layer_norm=layer_norm, **arguments).listed()


def policies(problem, logits):
    return np.array([naive_simulator.probabilities(row, 1.0) for row in logits])


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"layers": 2, "rare_modes": 1, "actions": 80, "hard_rate": 1e-3, "network_seed": 3},
        {"features": "random", "dimension": 8, "activation": "gelu", "layer_norm": True},
        {"overlap": -0.9, "activation": "relu", "width": 128, "tolerance": 0.001},
    ],
)
def test_a_network_starts_at_the_policies_of_interference(changes):
    of_network = {"layers", "width", "activation", "layer_norm", "network_seed", "tolerance"}
    problem = network(**changes).listed()
    model = interference(**{name: value for name, value in changes.items() if name not in of_network}).listed()
    start = policies(problem, naive_network.logits_of(problem)(naive_network.vector(problem.parameters))[:, 0])
    stated = policies(model, model.features @ model.weights.T)
    tolerance = changes.get("tolerance", 0.01)
    np.testing.assert_allclose(start, stated, rtol=tolerance)
    solved, wanted = (np.where(model.correct, p, 0).sum(axis=1) for p in (start, stated))
    np.testing.assert_allclose(solved / (1 - solved), wanted / (1 - wanted), rtol=tolerance)
    np.testing.assert_array_equal(problem.hard, model.hard)
    np.testing.assert_array_equal(problem.correct, model.correct)


def test_inputs_have_the_angles_of_interference_and_coordinates_of_mean_square_1():
    inputs, model = network(4, overlap=-0.25).inputs, interference(4, overlap=-0.25)
    assert np.mean(inputs**2) == pytest.approx(1)
    np.testing.assert_allclose(inputs @ inputs.T / inputs.shape[1], model.kernel, atol=1e-12)


def test_equal_arguments_give_the_same_network_without_another_fit():
    first = network(6, width=9)
    assert network(6, width=9) is first
    assert network(6, width=9, network_seed=1).fingerprint != first.fingerprint
    assert network(6, width=9, activation="relu").fingerprint != first.fingerprint
    changed = {name: values + (name == "biases_1") for name, values in first.hidden.items()}
    arrays = first.inputs, changed, first.head, first.head_biases, first.correct, first.target, first.hard
    assert type(first)(*arrays, counts=first.counts).fingerprint != first.fingerprint


@pytest.mark.parametrize(
    ("activation", "layers", "layer_norm"),
    [kind if kind in QUICK else pytest.param(*kind, marks=pytest.mark.slow) for kind in KINDS],
)
def test_gradients_are_those_of_finite_differences_and_of_derivatives_by_hand(activation, layers, layer_norm):
    """The function of the logits is random, in float64; differences agree to 1e-8 of the largest."""
    problem, random = small(activation, layers, layer_norm), np.random.default_rng(0)
    start = naive_network.vector(problem.parameters) + random.normal(
        scale=0.1, size=len(naive_network.vector(problem.parameters))
    )
    shapes = {name: np.shape(values) for name, values in problem.parameters.items()}
    prompts, onto = np.array([2, 0]), random.normal(size=(2, problem.actions))
    with jax.enable_x64(True):
        tree = jax.tree.map(jnp.asarray, naive_network.arrays(start, shapes))
        on_device = jax.tree.map(jnp.asarray, problem)
        chosen = jnp.asarray(prompts, jnp.int32)
        logits = np.asarray(on_device.logits_of(tree, chosen))
        gradient = naive_network.vector(jax.tree.map(np.asarray, on_device.pullback(jnp.asarray(onto), tree, chosen)))

    def value(flat):
        return float(np.sum(onto * outputs(naive_network.arrays(flat, shapes), problem.inputs[prompts], activation)))

    steps = 1e-5 * np.eye(len(start))
    differences = np.array([(value(start + step) - value(start - step)) / 2e-5 for step in steps])
    by_hand = np.einsum("epa,pa->e", naive_network.derivatives_of(problem)(start)[:, prompts, 0], onto)
    np.testing.assert_allclose(logits, naive_network.logits_of(problem)(start)[prompts, 0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(gradient, by_hand, rtol=0, atol=1e-12 * np.abs(by_hand).max())
    np.testing.assert_allclose(gradient, differences, rtol=0, atol=1e-8 * np.abs(by_hand).max())


def test_the_row_of_the_head_of_an_action_never_drawn_stays_exactly_where_it_was():
    """Under zero-sum weights and an Adam whose eps is so small that rounding would show."""
    kind = Kind({"estimator": "f_grpo", "optimizer": "adam", "optimizer_parameters": {"eps": 1e-20}, "group_size": 2})
    problem = network(4, 30, width=8)
    bench = Bench(row_of_network(problem), kind, "dense", "float32")
    history, listed = bench.run(3, 4), problem.listed()
    shapes = {name: np.shape(values) for name, values in listed.parameters.items()}
    drawn = {action for groups in history.groups for group in groups.values() for (action,) in group}
    start, after = listed.head.astype(np.float32), naive_network.arrays(history.parameters[-1], shapes)["head"]
    others = [action for action in range(30) if action not in drawn]
    assert len(others) > 5
    np.testing.assert_array_equal(after[others], start[others])
    assert (after[sorted(drawn)] != start[sorted(drawn)]).any()


def trained(problem, method="grpo", **settings):
    usual = {"group_size": 8, "record_every": 1, "steps": 10, "optimizer": "sgd", "seeds": 16}
    return simlab.simulate(problem, method, **usual | settings)


@pytest.mark.slow
def test_easy_prompts_harm_hard_ones_even_where_inputs_point_apart_but_less():
    """By 10 standard errors over ten small steps, which do what first order says, to a hundredth of the largest."""
    harms = []
    for overlap in (0.3, -0.3):
        result = trained(network(overlap=overlap), optimizer_parameters={"learning_rate": 0.003})
        pair = {"source": "easy", "kind": "hard"}
        first_order, measured = (result[name].sel(pair)[:, 1:] for name in ("effect", "effect_measured"))
        means = first_order.mean("step")
        harms.append((-float(means.mean()), float(means.std(ddof=1)) / 4))
        np.testing.assert_allclose(measured, first_order, rtol=0, atol=0.01 * float(abs(first_order).max()))
    (together, error), (apart, other_error) = harms
    assert apart > 10 * other_error
    assert together - apart > 10 * (error**2 + other_error**2) ** 0.5


REFUSED = [
    ({"layers": 3}, "layers = 3 is outside its range [1, 2]"),
    ({"width": 0}, "width = 0 is outside its range [1, "),
    ({"activation": "sine"}, "activation"),
    ({"tolerance": 0.0}, "tolerance = 0.0 is outside its range (0, 1]"),
    ({"overlap": 1.5}, "overlap = 1.5 is outside its range [-1, 1]"),
    (
        {"overlap": 1.0, "prompts": 4, "actions": 8},
        "a network of 1 x 64 units fits 4 prompts with a relative error of ",
    ),
]


@pytest.mark.parametrize(("changes", "line"), REFUSED)
def test_bad_input_is_one_line(changes, line):
    assert refusal(network, **changes).startswith(line)
