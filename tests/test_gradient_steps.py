"""Gradient steps of a batch: isolated tokens, demonstrations, ratios and clips; naive loops are in the contract."""

import dataclasses
import math

import numpy as np
import pytest
from refusals import refusal

from simlab.problems import anchored, custom, tree
from simlab.problems.categorical import Categorical
from simlab.simulator import draw
from simlab.simulator.mismatch import takes_part
from simlab.simulator.runner import simulate
from simlab.simulator.settings import Settings

pytestmark = pytest.mark.usefixtures("quickly")


def test_each_token_takes_part_in_one_turn():
    logp = np.log([0.1, 0.3, 0.5, 0.9, 1.0])
    assert Settings("grpo", isolation=0.5, epochs=3).static.gradient_steps == 6
    first, second = (takes_part(logp, 0.5, turn) for turn in (True, False))
    assert first.tolist() == [True, True, False, False, False]
    np.testing.assert_array_equal(second, ~first)
    # The threshold itself counts as likely, whatever the rounding.
    for dtype in (np.float32, np.float64):
        logp = np.log(np.array([0.3, 0.5, 0.7], dtype))
        for entry, isolation in zip(logp, (0.3, 0.5, 0.7), strict=True):
            assert not takes_part(entry, isolation, True)


ALONE = {"method": "grpo", "group_size": 1, "optimizer": "sgd", "seeds": 2}  # a group of one has no advantage


@pytest.mark.slow
def test_correct_answers_too_rare_for_a_float_are_demonstrated_in_their_proportions():
    """A float32 holds no probability of [e^-300, e^-301, rest] but the rest."""
    problem = custom([-300.0, -301.0, 0.0], [0, 1])
    rate = {"learning_rate": 1.0}
    trained = simulate(
        problem, supervised=1.0, **ALONE, optimizer_parameters=rate, steps=4000, top_n=2, storage="dense"
    )
    assert trained.q_pos.values[..., -1] == pytest.approx(1, abs=1e-3)
    share = 1 / (1 + np.exp(-1))
    np.testing.assert_allclose(np.exp(trained.top_logp.values[:, -1]), [[share, 1 - share]] * 2, atol=0.01)


class Pairs(Categorical):
    """A problem of one's own with two tokens a rollout."""

    tokens = 2


def pairs():
    """Copy the fields of an anchored problem."""
    made = anchored(40, 8, target=2, anchor_logit=1.0, correct_logit=0.4)
    return Pairs(**{field.name: getattr(made, field.name) for field in dataclasses.fields(made) if field.init})


@pytest.mark.parametrize("problem", [tree(depth=1, rewarded="A"), pairs()])
def test_a_problem_without_one_softmax_over_answers_refuses_it(problem):
    assert "supervised = 0.1" in refusal(simulate, problem, "grpo", supervised=0.1, steps=2)


QUICK_STEPS = {"optimizer": "sgd", "optimizer_parameters": {"learning_rate": 0.5}}
QUICK_STEPS |= {"seeds": 3, "steps": 6, "record_every": 2}


@pytest.mark.slow
def test_a_group_that_is_known_by_its_counts_is_split_like_one_that_is_listed(monkeypatch):
    """One group of 5000 rollouts of 40 actions: shares of either draw, within five standard errors of the law."""
    problem = anchored(40, 4).listed()
    settings = QUICK_STEPS | {"steps": 1, "record_every": 1, "group_size": 5000, "storage": "dense", "epochs": 2}
    runs = {"counted": simulate(problem, "grpo", **settings)}
    monkeypatch.setattr(draw, "LEAST_GROUP", 10**9)
    runs["listed"] = simulate(dataclasses.replace(problem, reward_correct=0.5), "grpo", **settings)
    p = np.exp(problem.logits - problem.logits.max())
    p /= p.sum()
    decade = np.searchsorted([0.001, 0.01, 0.1], p, side="right")
    for drawn in runs.values():
        for name, members in (("drawn_correct", problem.correct), ("drawn_wrong", ~problem.correct)):
            for index in range(4):
                q = float(p[members & (decade == index)].sum())
                share = drawn[name][:, -1, index]
                assert (abs(share - q) <= 5 * math.sqrt(q * (1 - q) / 5000) + 1e-6).all(), (name, index)
    assert not np.array_equal(*(drawn.drawn_wrong.values for drawn in runs.values()))
