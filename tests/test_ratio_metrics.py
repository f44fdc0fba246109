"""What is recorded of gradient steps: how far the ratio drifts, and where a clip acts.

That every record is that of naive loops is in test_problem_contract.py.
"""

import dataclasses
import math

import numpy as np
import pytest

from simlab.problems import anchored, custom, interference, prompt_bank
from simlab.simulator import groups as of_groups
from simlab.simulator.api import simulate

pytestmark = pytest.mark.usefixtures("quickly")

SPLIT = [f"{what}_{outcome}" for what in ("clipped", "drawn") for outcome in ("correct", "wrong")]
FAST = {"optimizer": "sgd", "optimizer_parameters": {"learning_rate": 0.5}, "seeds": 3, "steps": 6, "record_every": 2}


def after_steps(result, name):
    return result[name].isel(step=slice(1, None))


@pytest.mark.parametrize("surrogate", ["ppo_clip", "sequence_clip"])
def test_with_one_gradient_step_a_batch_the_ratio_is_1_and_no_clip_acts(surrogate):
    found = simulate(prompt_bank(prompts=6, actions=20), f"grpo+{surrogate}", **FAST)
    for name in ("ratio_drift", "clipped_share"):
        assert (after_steps(found, name) == 0).all(), name
    for name in SPLIT:
        assert np.isnan(found[name]).all(), f"{name} is of off-policy runs"


@pytest.mark.parametrize(
    ("method", "storage"),
    [
        pytest.param("grpo+ppo_clip", "lumped", marks=pytest.mark.slow),
        ("w_reinforce+ppo_clip(eps_low=0.02,eps_high=0.02)", "dense"),
    ],
)
def test_the_split_adds_up_to_all_tokens_and_to_the_clipped_ones(method, storage):
    found = simulate(interference(6, 12), method, epochs=3, minibatches=2, storage=storage, **FAST)
    clipped, wrong, drawn, failed = (after_steps(found, name).sum("decade") for name in SPLIT)
    np.testing.assert_allclose(drawn + failed, 1, rtol=1e-5)
    np.testing.assert_allclose(drawn, after_steps(found, "accepted_rate"), rtol=1e-5)
    np.testing.assert_allclose(clipped + wrong, after_steps(found, "clipped_share"), rtol=1e-5)
    assert (after_steps(found, "clipped_share") > 0).any()
    for outcome in ("correct", "wrong"):
        taught = after_steps(found, f"drawn_{outcome}") - after_steps(found, f"clipped_{outcome}")
        assert (taught >= -1e-6).all()


@pytest.mark.slow
def test_prompts_with_parameters_of_their_own_do_not_drift_in_one_epoch_however_many_minibatches():
    own = simulate(prompt_bank(prompts=6, actions=20), "grpo+ppo_clip", minibatches=3, **FAST)
    shared = simulate(interference(6, 20), "grpo+ppo_clip", minibatches=3, **FAST)
    assert (after_steps(own, "ratio_drift") == 0).all()
    assert (after_steps(shared, "ratio_drift") > 1e-3).all()


@pytest.mark.slow
def test_surrogates_that_never_set_a_coefficient_to_0_clip_nothing():
    for surrogate in ("unclipped", "cispo"):
        found = simulate(interference(6, 12), f"grpo+{surrogate}", epochs=3, **FAST)
        assert (after_steps(found, "clipped_share") == 0).all()
        assert (after_steps(found, "ratio_drift") > 0).all()


def test_groups_that_are_all_right_or_all_wrong_have_no_advantage_and_nothing_to_clip():
    """The bounds are so tight that every token with an advantage would be clipped."""
    problem = custom([0.0, 0.0, 0.0], [0, 1, 2], [0])
    found = simulate(problem, "grpo+ppo_clip(eps_low=0,eps_high=0)", epochs=3, **FAST)
    assert (after_steps(found, "clipped_share") == 0).all()
    assert (after_steps(found, "drawn_correct").sum("decade") == 1).all()


def test_a_clip_of_no_width_acts_on_all_that_a_first_step_has_moved_the_way_it_wanted():
    """One rollout: it becomes likelier (or, with psr, stays); so that all but the first of 4 steps are clipped."""
    problem = custom([0.0, 0.0], [0], [0])
    found = simulate(problem, "psr+ppo_clip(eps_low=0,eps_high=0)", epochs=4, **(FAST | {"group_size": 1}))
    np.testing.assert_allclose(found.clipped_share[:, 1:], 0.75 * found.accepted_rate[:, 1:], rtol=1e-6)


def test_the_drift_of_a_sampler_that_lags_is_that_of_the_ratio_which_the_surrogate_sees():
    """Against the sampler it drifts before the only gradient step; against the policy that learns it does not."""
    settings = FAST | {"lag": 2}
    against, within = (
        simulate(anchored(20, 4), "grpo", correction=name, **settings) for name in ("ratio", "decoupled")
    )
    assert (after_steps(within, "ratio_drift") == 0).all()
    assert (against.ratio_drift[:, -1] > 0.01).all()


def test_a_group_that_is_known_by_its_counts_is_split_like_one_that_is_listed(monkeypatch):
    """One group of 5000 rollouts of 40 actions: shares of either draw, within five standard errors of the law."""
    problem = anchored(40, 4).listed()
    settings = FAST | {"steps": 1, "record_every": 1, "group_size": 5000, "storage": "dense", "epochs": 2}
    found = {"counted": simulate(problem, "grpo", **settings)}
    monkeypatch.setattr(of_groups, "LEAST_GROUP", 10**9)
    found["listed"] = simulate(dataclasses.replace(problem, reward_correct=0.5), "grpo", **settings)
    p = np.exp(problem.logits - problem.logits.max())
    p /= p.sum()
    decade = np.searchsorted([0.001, 0.01, 0.1], p, side="right")
    for drawn in found.values():
        for name, members in (("drawn_correct", problem.correct), ("drawn_wrong", ~problem.correct)):
            for place in range(4):
                q = float(p[members & (decade == place)].sum())
                share = drawn[name][:, -1, place]
                assert (abs(share - q) <= 5 * math.sqrt(q * (1 - q) / 5000) + 1e-6).all(), (name, place)
    assert not np.array_equal(*(drawn.drawn_wrong.values for drawn in found.values()))
