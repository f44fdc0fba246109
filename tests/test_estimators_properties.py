"""Identities between the estimators, and invariances of each, on any rewards."""

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simlab import Rollouts, advantages
from simlab.estimators import center
from simlab.estimators.baseline import BASELINES


def groups(low: float, high: float) -> st.SearchStrategy[np.ndarray]:
    """One group of 1 to 12 rewards."""
    return st.lists(st.floats(low, high), min_size=1, max_size=12).map(np.array)


# Eighths: sums, shifts and scales by whole numbers are exact, so an identity holds to the rounding of the last steps.
EIGHTHS = st.lists(st.integers(0, 8), min_size=1, max_size=12).map(lambda values: np.array(values) / 8)

# Weights that compare a rollout with its group.
COMPARING = [
    "dr_grpo", "grpo", "rloo", "maxrl", "power_alpha", "a_grae", "skew_r", "power_norm", "easy_power", "asym_power",
    "hard_focused", "easy_focused", "positive_dominant", "negative_dominant", "quantile", "mc_grpo", "relu", "softmax",
    "rs_grpo", "log_mean_exp", "ha_dw",
]  # fmt: skip


def assert_sums_to_zero(weights: np.ndarray) -> None:
    assert abs(weights.sum()) <= 1e-12 * np.abs(weights).sum()


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("dr_grpo", {}),
        ("grpo", {}),
        ("grpo", {"ddof": 1, "eps": 0.0}),
        ("rloo", {}),
        ("f_grpo", {"gamma": 0.5}),
        ("skew_r", {}),
        ("softmax", {"beta": 0.01}),
        ("rs_grpo", {"beta": 0.01}),
    ],
)
@given(rewards=groups(-1e3, 1e3))
def test_mean_centred_weights_sum_to_zero(name: str, parameters: dict[str, Any], rewards: np.ndarray) -> None:
    """Otherwise an action that was never sampled would move."""
    assert_sums_to_zero(advantages(name, rewards, **parameters))


@pytest.mark.parametrize("name", ["maxrl", "power_alpha", "easy_power", "power_norm", "hard_focused", "rs_grpo"])
@given(rewards=groups(0, 1))
def test_mean_centred_weights_of_unit_rewards_sum_to_zero(name: str, rewards: np.ndarray) -> None:
    assert_sums_to_zero(advantages(name, rewards))


@pytest.mark.parametrize("name", ["dr_grpo", "grpo", "rloo", "maxrl", "softmax", "rs_grpo", "pass_at_k_chen"])
def test_rounding_of_the_mean_does_not_add_up_over_a_large_group(name: str) -> None:
    """One failure in ten thousand: the float32 mean is wrong by 1e-8, which ten thousand successes repeat."""
    rewards = np.ones(10_007, dtype=np.float32)
    rewards[0] = 0
    weights = advantages(name, rewards).astype(float)
    assert abs(weights.sum()) <= 1e-6 * np.abs(weights).sum()


@given(rewards=groups(-1e3, 1e3))
def test_rloo_is_dr_grpo_times_g_over_g_minus_one(rewards: np.ndarray) -> None:
    size = len(rewards)
    expected = advantages("dr_grpo", rewards) * (size / max(size - 1, 1))
    np.testing.assert_array_equal(advantages("rloo", rewards), expected)


@pytest.mark.parametrize("ddof", [0, 1])
@given(rewards=EIGHTHS, scale=st.integers(1, 100), shift=st.integers(-100, 100))
def test_grpo_ignores_the_unit_and_the_zero_of_the_reward(
    ddof: int, rewards: np.ndarray, scale: int, shift: int
) -> None:
    """With eps = 0; a GRPO advantage knows only how the rewards of a group compare."""
    moved = advantages("grpo", scale * rewards + shift, ddof=ddof, eps=0.0)
    np.testing.assert_allclose(moved, advantages("grpo", rewards, ddof=ddof, eps=0.0), rtol=1e-12, atol=0)


@given(rewards=EIGHTHS, shift=st.integers(-100, 100))
def test_dr_grpo_ignores_the_zero_of_the_reward(rewards: np.ndarray, shift: int) -> None:
    np.testing.assert_allclose(
        advantages("dr_grpo", rewards + shift), advantages("dr_grpo", rewards), rtol=1e-12, atol=1e-15
    )


@given(
    name=st.sampled_from(COMPARING),
    value=st.floats(0, 1),
    size=st.integers(1, 40),
)
def test_equal_rewards_of_any_value_weigh_exactly_nothing(name: str, value: float, size: int) -> None:
    """Also where the mean of equal rewards is rounded away from them: 0.1 three times."""
    np.testing.assert_array_equal(advantages(name, np.full(size, value)), np.zeros(size))


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("shape", [(1, 41), (41, 1)], ids=["group", "batch"])
def test_equal_rewards_weigh_exactly_nothing_under_jit(baseline: str, shape: tuple[int, int]) -> None:
    """XLA divides by 41 through its rounded reciprocal, so that 41 equal rewards differ from their mean."""
    link = center(baseline)
    values = np.random.default_rng(0).random((100, 1, 1), dtype=np.float32)
    batches = np.broadcast_to(values, (100, *shape))
    weights = jax.jit(jax.vmap(lambda rewards: link.update(rewards, Rollouts(rewards), link.init())[0]))(batches)
    np.testing.assert_array_equal(weights, np.zeros_like(batches))
