"""A sampler that is not the policy: its draws, and the weights of its tokens under corrections.

test_problem_contract.py compares each step with the naive one.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from refusals import refusal

from simlab.problems import anchored, custom
from simlab.simulator.mismatch import importance_weights, sampler_logits
from simlab.simulator.resources import resolved
from simlab.simulator.runner import simulate
from simlab.simulator.settings import Settings

pytestmark = pytest.mark.usefixtures("quickly")


FLAT = custom([0.0] * 60, list(range(6)), [5])  # Q_pos .1
FAST = {"optimizer": "sgd", "optimizer_parameters": {"learning_rate": 2.0}, "group_size": 64}


@given(arrays(float, (2, 6), elements=st.sampled_from([-2.0, -1.0, 0.0, 0.5, 3.0])), st.floats(0.01, 1))
def test_a_nucleus_is_the_shortest_row_of_likeliest_actions_that_reaches_its_share(logits, share):
    """A loop over sizes agrees; among equal actions the lower numbers come first."""
    with jax.enable_x64(True):
        truncated = np.asarray(sampler_logits("top_p", jnp.asarray(logits), 1.0, share))
    for row, cut in zip(logits, truncated, strict=True):
        p = np.exp(row) / np.exp(row).sum()
        order = sorted(range(6), key=lambda action: (-row[action], action))
        size = next((n for n in range(1, 7) if sum(p[order[:n]]) >= share - 1e-12), 6)
        if not any(abs(sum(p[order[:n]]) - share) < 1e-9 for n in range(1, 7)):
            assert {*np.flatnonzero(cut > -1e29).tolist()} == {*order[:size]}
        np.testing.assert_array_equal(cut[cut > -1e29], row[cut > -1e29])


def test_auto_is_dense_storage_for_a_truncated_sampler_and_others_are_refused_in_one_line():
    problem = anchored(200_000, 20)
    truncated = {"sampler": "top_k", "top_k": 5}
    assert resolved(problem, Settings("grpo"), 10).storage == "lumped"
    assert resolved(problem, Settings("grpo", **truncated), 10).storage == "dense"
    assert "sampler = 'top_k'" in refusal(simulate, problem, "grpo", steps=1, storage="lumped", **truncated)


LOG_RATIOS = arrays(float, (2, 3, 4), elements=st.floats(-3, 3))
UNITS = st.sampled_from(["token", "sequence"])


@given(LOG_RATIOS, UNITS, st.floats(1, 5))
def test_a_truncated_weight_is_at_most_its_bound_and_a_masked_one_between_both_or_nothing(log_ratio, unit, bound):
    whole, cut, masked = (
        np.asarray(importance_weights(jnp.asarray(log_ratio), name, unit, bound), float)
        for name in ("decoupled", "truncated", "masked")
    )
    assert (cut <= bound * (1 + 1e-6)).all()
    np.testing.assert_allclose(cut, np.minimum(whole, bound), rtol=1e-6)
    positive = masked > 0
    assert ((masked[positive] <= bound * (1 + 1e-6)) & (masked[positive] >= (1 - 1e-6) / bound)).all()
    np.testing.assert_allclose(masked[positive], whole[positive], rtol=1e-6)
    assert whole.shape == ((2, 3, 1) if unit == "sequence" else (2, 3, 4))


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["dense", pytest.param("lumped", marks=pytest.mark.slow)])
def test_a_sampler_draws_from_the_policy_of_as_many_steps_before(storage):
    """The share accepted at step t, in the mean over 40 seeds, is Q_pos at the start of step t - lag."""
    lag, steps = 3, 12
    result = simulate(FLAT, "grpo", **FAST, lag=lag, storage=storage, seeds=40, steps=steps, record_every=1)
    mass, drawn = result.q_pos.mean("seed").values, result.accepted_rate.mean("seed").values
    for step in range(1, steps + 1):
        expected = mass[max(step - 1 - lag, 0)]
        assert abs(drawn[step] - expected) <= 5 * math.sqrt(expected * (1 - expected) / (40 * 64)) + 1e-9
    assert mass[steps - 1] > mass[steps - 1 - lag] + 0.02
