"""Advantages of rewards in parts, as a user asks for them: missing parts, trainers' own formulas, rounding residue."""

import math

import array_api_strict
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refusal

import simlab
from simlab.estimators import chain, divide_by_std_of_others, estimator
from simlab.rollouts import Rollouts, is_correct

PARTS = np.array([[[1.0, 0.5], [0.0, 0.25], [0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 0.5], [1.0, 0.5], [0.0, 0.0]]])
WEIGHTS = [1.0, 0.3]
NAN = math.nan


def test_the_total_of_the_parts_is_the_reward_of_other_estimators():
    for name in ("grpo", "rloo", "reinforce"):
        whole = simlab.advantages(name, PARTS @ np.array(WEIGHTS))
        np.testing.assert_allclose(simlab.advantages(name, parts=PARTS, weights=WEIGHTS), whole, rtol=1e-12)
        np.testing.assert_allclose(
            simlab.advantages(name, parts=PARTS[0].tolist(), weights=WEIGHTS), whole[0], rtol=1e-12
        )


def test_a_reward_without_parts_is_the_only_part():
    rewards = PARTS[..., 0]
    advantages = simlab.advantages("gdpo", parts=PARTS[..., :1])
    np.testing.assert_array_equal(simlab.advantages("gdpo", rewards), advantages)
    z = simlab.advantages("grpo", rewards, ddof=1, eps=1e-4)
    np.testing.assert_allclose(advantages, (z - z.mean()) / (z.std(ddof=1) + 1e-4), rtol=1e-12)


@pytest.mark.slow
def test_array_libraries_agree():
    expected = simlab.advantages("gdpo", parts=PARTS, weights=WEIGHTS)
    for xp in (jnp, array_api_strict):
        values = simlab.advantages("gdpo", parts=xp.asarray(PARTS), weights=WEIGHTS)
        assert type(values) is type(xp.asarray(PARTS))
        np.testing.assert_allclose(np.asarray(values), expected, rtol=1e-5)


def test_a_missing_part_adds_nothing_and_counts_in_no_mean():
    """NaN stands there; a rollout without any part does not exist."""
    mask = np.ones_like(PARTS, dtype=bool)
    mask[0, 1, 0] = mask[1, 3] = False
    holes = np.where(mask, PARTS, NAN)
    totals = np.where(mask, PARTS, 0) @ np.array(WEIGHTS)
    present = mask.any(axis=-1)
    np.testing.assert_allclose(
        simlab.advantages("grpo", parts=holes, weights=WEIGHTS, mask=mask),
        simlab.advantages("grpo", totals, mask=present),
        rtol=1e-12,
    )
    advantages = simlab.advantages("gdpo", parts=holes, weights=WEIGHTS, mask=mask)
    z = [
        [simlab.advantages("grpo", PARTS[g, :, k], mask=mask[g, :, k], ddof=1, eps=1e-4) for k in (0, 1)]
        for g in (0, 1)
    ]
    sums = np.einsum("gki,k->gi", np.array(z), WEIGHTS)
    there = sums[present]
    expected = np.where(present, (sums - there.mean()) / (there.std(ddof=1) + 1e-4), 0)
    np.testing.assert_allclose(advantages, expected, rtol=1e-12)


REFUSED = [
    ({"parts": [[1.0, None], [0.0, 1.0]]}, "parts hold NaN or infinity; allowed: finite numbers, but where mask= is"),
    ({"parts": [[1.0, NAN], [0.0, 1.0]]}, "but where mask= is false"),
    ({"parts": np.array([[1, None]])}, "parts have dtype object; allowed: real numbers, and mask= false"),
    ({"parts": np.ma.array([[1.0, 2.0]], mask=[[0, 1]])}, "parts: a masked array; allowed: an array, and mask="),
    ({"parts": [1.0, 0.0]}, "parts have shape (2,); allowed: (G, R) or (P, G, R)"),
    ({"parts": PARTS, "weights": [1.0]}, "allowed: 2 finite numbers, one for each part"),
    ({"parts": PARTS, "weights": [1.0, NAN]}, "allowed: 2 finite numbers, one for each part"),
    ({"parts": PARTS, "rewards": PARTS[..., 0]}, "rewards beside parts; allowed: one of the two"),
    ({"rewards": PARTS[..., 0], "weights": [1.0]}, "weights without parts; allowed: beside parts="),
    ({"parts": PARTS, "mask": np.ones((2, 2), bool)}, "mask has shape (2, 2); allowed: (2, 4)"),
    ({"parts": PARTS, "correct": np.ones((2, 4))}, "correct has dtype float64; allowed: bool"),
    ({}, "rewards are of type NoneType"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_what_fits_no_batch_is_refused(arguments, message):
    assert message in refusal(simlab.advantages, "gdpo", **arguments)


def test_parts_that_fit_no_rollouts_are_refused():
    rewards, chosen = np.zeros((1, 2)), estimator("gdpo")
    for fields, message in (
        ({"parts": np.zeros((1, 3, 2))}, "parts have shape (1, 3, 2); allowed: (1, 2) and then the number of parts"),
        ({"parts": np.zeros((1, 2, 2)), "part_weights": np.zeros((1, 2, 1))}, "part_weights have shape (1, 2, 1)"),
        ({"part_weights": np.zeros((1, 2, 1))}, "rollouts carry no parts"),
    ):
        from simlab.rollouts import check_shapes  # noqa: PLC0415

        assert message in refusal(check_shapes, Rollouts(rewards, **fields), chosen.needs)


def test_correct_is_what_the_engine_says_and_else_a_reward_above_0():
    rewards = np.array([[0.2, 0.9, 0.0]])
    assert is_correct(Rollouts(rewards)).tolist() == [[True, True, False]]
    marked = np.array([[False, True, False]])
    assert is_correct(Rollouts(rewards, correct=marked)).tolist() == marked.tolist()
    plain = simlab.advantages("f_grpo", rewards[0], correct=rewards[0] > 0, base="dr_grpo")
    told = simlab.advantages("f_grpo", rewards[0], correct=marked[0], base="dr_grpo")
    np.testing.assert_allclose(told, 2 * plain, rtol=1e-12)  # 1 - 1/3 in place of 1 - 2/3


# Rounding residue

RESIDUE = np.array([0.35] * 7 + [0.95], dtype=np.float32)


def as_a_difference(rewards):
    """The std of the others by the mean of squares less the square of the mean, in the precision of the rewards."""
    size, kind = len(rewards) - 1, rewards.dtype.type
    mean, squares = ((values.sum() - values) / kind(size) for values in (rewards, rewards**2))
    return np.sqrt(np.maximum(squares - mean**2, 0) * kind(size / (size - 1)))


def test_equal_others_have_no_spread_where_a_difference_of_squares_leaves_some():
    """Seven rewards are .35 and the eighth is .95; a residue beside eps would make a thousandfold of its .6."""
    residue = as_a_difference(RESIDUE)
    naive = (RESIDUE - (RESIDUE.sum() - RESIDUE) / 7)[-1] / (residue[-1] + 1e-6)
    assert residue[-1] > 0
    assert naive > 1000
    for library in (np.float32, np.float64):
        values = simlab.advantages("linked", RESIDUE.astype(library), baseline="leave_one_out", scale="std_of_others")
        assert values[-1] == pytest.approx(0.6, rel=1e-6)
        assert np.abs(values).max() == values[-1]
    np.testing.assert_allclose(values[:7], -0.6 / 7 / (np.std([0.35] * 6 + [0.95], ddof=1) + 1e-6), rtol=1e-6)


def test_the_spread_of_others_is_that_of_others():
    rng = np.random.default_rng(0)
    for rewards in (
        rng.normal(size=6),
        1e-25 * rng.normal(size=5),
        np.array([1.0, 1.0, 0.0, 0.0]),
        np.array([1.0, 0.0]),
    ):
        others = [np.delete(rewards, i) for i in range(len(rewards))]
        std = np.array([np.std(other, ddof=1) if len({*other}) > 1 else 1.0 for other in others])
        link = chain(divide_by_std_of_others(0.0))
        np.testing.assert_allclose(simlab.advantages(link, rewards), rewards / std, rtol=1e-6)
