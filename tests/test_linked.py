"""Chains of one link a role equal the named methods that are made of the same links, to the last bit."""

from typing import Any

import numpy as np
import pytest

from simlab import Rollouts, advantages, estimator

BINARY = np.array([[1.0, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
GRADED = np.array([[1.0, 0.5, 0, 0.25], [0.75, 1, 1, 0], [0, 0.125, 0, 0], [0.5, 0.5, 0.5, 0.5]])

# (choices, the named method, its parameters), on any rewards in [0, 1].
EQUAL: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    ({}, "dr_grpo", {}),
    ({"baseline": "none"}, "reinforce", {}),
    ({"baseline": "leave_one_out"}, "rloo", {}),
    ({"baseline": "median"}, "mc_grpo", {}),
    ({"scale": "std"}, "grpo", {}),
    ({"scale": "times_std"}, "skew_r", {}),
    ({"scale": "mean"}, "maxrl", {}),
    ({"scale": "std", "difficulty": "focal"}, "f_grpo", {}),
    ({"scale": "mean", "difficulty": "focal", "gamma": 0.5}, "f_grpo", {"gamma": 0.5, "base": "maxrl"}),
    ({"difficulty": "easy", "gamma": 2.5}, "easy_power", {"alpha": 3.5}),
    ({"difficulty": "asymmetric"}, "asym_power", {}),
    ({"scale": "std", "difficulty": "sqrt_hard"}, "hard_focused", {}),
    ({"scale": "std", "difficulty": "sqrt_easy"}, "easy_focused", {}),
    ({"scale": "std", "difficulty": "shift", "sign": "attenuate"}, "a_grae", {}),
    ({"scale": "std", "difficulty": "history"}, "ha_dw", {}),
    ({"sign": "divide_failures", "delta": 0.25}, "asym_grpo", {"delta": 0.25}),
    ({"sign": "relu"}, "relu", {}),
]

# The same, where only rewards 0 and 1 are allowed, or make them equal.
EQUAL_IF_BINARY: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    ({"scale": "pass_at_k", "k": 3}, "pass_at_k_chen", {"k": 3}),
    ({"difficulty": "focal", "gamma": 2.0}, "power_alpha", {"alpha": 3.0}),
]


@pytest.mark.parametrize(("choices", "name", "parameters"), EQUAL + EQUAL_IF_BINARY)
def test_the_links_of_a_method_are_the_method(choices, name, parameters):
    for rewards in (BINARY,) if (choices, name, parameters) in EQUAL_IF_BINARY else (BINARY, GRADED):
        np.testing.assert_array_equal(advantages("linked", rewards, **choices), advantages(name, rewards, **parameters))


def test_memory_is_carried_as_by_the_method():
    """HA-DW's running mean, over two batches."""
    chosen, named = estimator("linked", scale="std", difficulty="history"), estimator("ha_dw")
    state, memory = chosen.init(), named.init()
    for rewards in (BINARY[[0, 2]], BINARY[:2]):
        found, state = chosen.update(Rollouts(rewards), state)
        expected, memory = named.update(Rollouts(rewards), memory)
        np.testing.assert_array_equal(found, expected)
    assert not np.array_equal(found, advantages("ha_dw", BINARY[:2]))


def test_it_is_defined_for_the_rewards_that_all_its_links_are():
    assert estimator("linked").domain == "any"
    assert estimator("linked", scale="mean", difficulty="focal").domain == "unit"
    assert estimator("linked", scale="pass_at_k", difficulty="easy").domain == "binary"
