"""The simulator checks input from Python as the command line does: one line, before anything runs."""

import math
from collections.abc import Iterator

import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from array_api_compat import array_namespace

import simlab
from simlab import chain
from simlab.errors import InputError
from simlab.estimators import center
from simlab.methods import Method, method
from simlab.problems import Categorical, anchored, linear_softmax, prompt_bank, tree
from simlab.simulator.runner import run, simulate
from simlab.simulator.settings import Settings
from simlab.surrogates import Surrogate, ppo_clip
from simlab.sweeps import Sweep
from simlab.theory import closed_form, masses
from simlab.theory.likeness import trace
from simlab.theory.rank import effective_rank
from simlab.theory.redistribution import first_order_change

SMALL = anchored(60, 6)


@pytest.fixture(autouse=True)
def annotations_are_not_checked() -> Iterator[None]:
    """Check no annotations, as in a user's process: they would refuse a wrong type first, in many lines."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def refused(call, message):
    with pytest.raises(InputError) as refusal:
        call()
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


TOO_SMALL = "allowed: 0, and numbers of size 1.17549e-38 to 3.40282e+38, those of float32"
SETTINGS = [
    ({"temperature": -1.0}, "temperature = -1.0 is outside its range (0, inf)"),
    ({"temperature": "warm"}, "temperature = 'warm' is not a number"),
    ({"temperature": np.ones(3)}, "temperature has shape (3,); allowed: one number"),
    ({"temperature": 1e-42}, f"temperature = 1e-42; {TOO_SMALL}"),
    ({"kl": jnp.float32(-0.5)}, "kl = -0.5 is outside its range [0, inf)"),
    ({"update_norm": -1.0}, "update_norm = -1.0 is outside its range [0, inf)"),
    ({"optimizer_parameters": {"learning_rate": -1.0}}, "learning_rate = -1.0 is outside its range [0, inf)"),
    (
        {"optimizer_parameters": {"learnin_rate": 1.0}},
        "adam has no parameter 'learnin_rate' (did you mean 'learning_rate'?)",
    ),
    ({"optimizer_parameters": {"b1": 1.0}}, "b1 = 1.0 is outside its range [0, 0.99"),
    ({"method": "grpo(eps=1e-50)"}, f"eps = 1e-50; {TOO_SMALL}"),
    ({"method": "grpo(gamma=1.0)"}, "grpo has no parameter 'gamma'; it takes: "),
    ({"method": "grpo+ppo_clip(eps_low=2.0)"}, "eps_low = 2 is outside its range [0, 1]"),
    ({"method": 3}, "method is a int; allowed: text, an Arm or a Method"),
    ({"group_size": 2.5}, "group_size = 2.5 is not a whole number; allowed: whole numbers from 1 up to 16777216"),
    ({"pass_at_k": (2.5,)}, "pass_at_k = 2.5 is not a whole number"),
    (
        {"optimizer": "adamax"},
        "optimizer = 'adamax' is unknown (did you mean 'adam'?); allowed: adam, adamw, momentum, muon, sgd",
    ),
    ({"storage": "thick"}, "storage = 'thick' is unknown; allowed: auto, dense, lumped, sharded"),
]


def test_settings_that_no_run_has():
    for changes, message in SETTINGS:
        refused(lambda changes=changes: Settings(**({"method": "grpo"} | changes)), message)
    refused(lambda: simulate(SMALL, "grpo", **SETTINGS[0][0], steps=2), SETTINGS[0][1])


@pytest.mark.slow
def test_numbers_of_an_array_library_are_numbers():
    numbers = {"temperature": 0.5, "kl": 0.25, "entropy_bonus": 0.125, "supervised": 0.5, "update_norm": 0.25}
    rows = []
    for kind in (float, np.float64, jnp.float32):
        values = {name: kind(value) for name, value in numbers.items()}
        moments = {"learning_rate": kind(0.5)}
        rows.append(simulate(SMALL, "grpo", **values, optimizer_parameters=moments, seeds=1, steps=3).q_pos.values)
    np.testing.assert_array_equal(rows[0], rows[1])
    np.testing.assert_array_equal(rows[0], rows[2])


def test_rewards_that_no_run_has():
    for rewards, message in (
        ({"reward_correct": 1e39}, "reward_correct = 1e+39; allowed: 0, and numbers of size"),
        ({"reward_incorrect": -1e-42}, f"reward_incorrect = -1e-42; {TOO_SMALL}"),
        ({"reward_incorrect": -math.inf}, "reward_incorrect = -inf is outside its range"),
    ):
        refused(lambda rewards=rewards: simulate(anchored(60, 6, **rewards), "w_reinforce", steps=2), message)


@pytest.mark.parametrize("name", ["seeds", "steps", "record_every"])
def test_lengths_of_a_run_that_are_no_lengths(name):
    for value in (0, 2.5, 4.0, "4", True, 10**12, None):
        lengths = {name: value}
        refused(lambda lengths=lengths: simulate(SMALL, "grpo", **{"steps": 4, **lengths}), f"{name} = {value!r}")
        if value is not None or name == "seeds":  # a sweep has usual lengths
            refused(lambda lengths=lengths: Sweep(**lengths), f"{name} = {value!r}")


def test_steps_and_seeds_that_no_run_has():
    for steps, seeds, message in (
        ([], [0], "allowed: one or more whole numbers, increasing"),
        ([0, 2], [0], "steps = [0, 2]; allowed: whole numbers from 1 up, increasing"),
        ([2], [], "there is no seed to run"),
        ([2], [-1], "seed = -1 is outside its range [0, 4294967295]"),
        ([2], [2**32], "seed = 4294967296 is outside its range [0, 4294967295]"),  # JAX would read it as 0
    ):
        arguments = [Settings("grpo")] * len(seeds), seeds, np.array(steps)
        refused(lambda arguments=arguments: run(SMALL, *arguments), message)


def test_problems_that_are_none():
    for call, message in (
        (lambda: anchored(100.5, 10.5), "actions = 100.5 is not a whole number; allowed: whole numbers from 1 up to"),
        (lambda: anchored(100, 10, anchor_logit="high"), "anchor_logit = 'high' is not a number"),
        (lambda: prompt_bank(prompts=2.5), "prompts = 2.5 is not a whole number"),
        (lambda: linear_softmax(prompts=16.5), "prompts = 16.5 is not a whole number"),
        (lambda: tree(depth=2.5), "depth = 2.5 is not a whole number"),
    ):
        refused(call, message)


def test_arrays_of_the_wrong_type_are_no_problem_and_no_silent_one():
    """With 0 and 1 in place of bool, ~1 would be -2, which is true."""
    numbers, marks = np.zeros(2), np.array([1, 0])
    for call, message in (
        (lambda: Categorical(numbers, marks, marks), "correct has dtype int"),
        (lambda: Categorical(np.zeros(2, complex), marks > 0, marks > 0), "logits have dtype complex128"),
        (lambda: Categorical(numbers, marks > 0, marks > 0, counts=np.array([1.5, 1.0])), "counts are float64"),
    ):
        refused(call, message)


def test_methods_that_are_none():
    for call, message in (
        (lambda: Method(simlab.estimator("grpo"), ppo_clip(), "mean"), "aggregation = 'mean' is unknown"),
        (lambda: method("dr_grpo", max_tokens=0), "max_tokens = 0 is outside its range (0, inf)"),
        (lambda: Surrogate(ppo_clip().coefficient, candidates=1.5), "candidates = 1.5 is not a whole number"),
    ):
        refused(call, message)


# Results of a link or a surrogate of one's own.

SHAPES = {
    "one a group": lambda a: a[:, 0],
    "one a group, kept": lambda a: a[:, :1],
    "a number": lambda a: a.sum(),
    "another group's size": lambda a: array_namespace(a).concat([a, a], axis=1),
    "int": lambda a: array_namespace(a).astype(a, array_namespace(a).int32),
    "bool": lambda a: a > 0,
    "complex": lambda a: array_namespace(a).astype(a, array_namespace(a).complex64),
    "a Python number": lambda a: 1.0,
}


def wrong(kind):
    def link(advantages, rollouts):
        return SHAPES[kind](advantages)

    return chain(center("mean"), link)


@pytest.mark.parametrize("kind", SHAPES)
def test_advantages_of_another_shape_or_type_are_refused_everywhere(kind):
    rewards = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    refused(lambda: simlab.advantages(wrong(kind), rewards), "link gave a")
    batch = simlab.Rollouts(rewards)
    chosen = Method(wrong(kind), ppo_clip())
    refused(lambda: chosen.coefficients(np.ones((2, 3, 1)), batch, chosen.estimator.init()), "link gave a")
    if kind != "one a group, kept":
        refused(lambda: simulate(SMALL, chosen, steps=2), "link gave a")


@pytest.mark.parametrize("kind", ["one a group", "int", "a Python number"])
def test_coefficients_of_another_shape_or_type_are_refused(kind):
    mine = Surrogate(lambda ratio, advantages, rollouts: SHAPES[kind](ratio))
    refused(lambda: simulate(SMALL, Method(simlab.estimator("grpo"), mine), steps=2), "surrogate <lambda> gave")


def test_advantages_of_more_tokens_than_there_are_would_be_read_as_candidates():
    def spread(advantages, rollouts):
        return array_namespace(advantages).stack([advantages] * 5, axis=-1)

    chosen = Method(chain(spread), ppo_clip())
    refused(lambda: simulate(SMALL, chosen, group_size=4, steps=2), "coefficients of shape (1, 4, 5)")


def test_theory_checks_what_it_is_given():
    for call, message in (
        (lambda: effective_rank(np.ones(3), delta=2.0), "delta = 2.0 is outside its range [0, 1]"),
        (lambda: trace(chain(center()), 2.5), "group_size = 2.5 is not a whole number"),
        (lambda: first_order_change(np.ones(2) / 2, np.array([0.0, math.nan])), "logit_change holds NaN or infinity"),
        (lambda: masses("grpo", 4.0), "group_size = 4.0 is not a whole number"),
        (lambda: closed_form("grpo", math.nan), "p = nan is outside its range [0, 1]"),
    ):
        refused(call, message)
