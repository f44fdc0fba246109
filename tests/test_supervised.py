"""Demonstrations mixed into a run: where they lead by themselves, how a sweep asks for them, and what is refused.

That each step is right, in every storage, is in test_problem_contract.py.
"""

import dataclasses

import numpy as np
import pytest
from refusals import refusal

from simlab.problems import anchored, custom, interference, prompt_bank, tree
from simlab.problems.categorical import Categorical
from simlab.simulator.api import simulate
from simlab.sweeps.api import sweep

ALONE = {"method": "grpo", "group_size": 1, "optimizer": "sgd", "seeds": 2}  # a group of one has no advantage
PROBLEMS = {
    "one prompt": anchored(40, 8, target=2, anchor_logit=1.0, correct_logit=0.4),
    "bank": prompt_bank(prompts=3, actions=24),
    "shared features": interference(4, 20, overlap=0.3),
}


IN_ALL_STORAGES = [(name, storage) for name in PROBLEMS for storage in ("dense", "lumped", "sharded")]
QUICK = {("one prompt", "dense")}


@pytest.mark.parametrize(
    ("name", "storage"),
    [pytest.param(*case, marks=[] if case in QUICK else pytest.mark.slow) for case in IN_ALL_STORAGES],
)
def test_demonstrations_alone_raise_the_correct_mass_to_one_and_no_correct_action_ends_below_its_start(name, storage):
    rate = {"learning_rate": 5.0}
    given = ALONE | {"optimizer_parameters": rate, "storage": storage, "steps": 1000, "record_every": 250}
    trained = simulate(PROBLEMS[name], supervised=1.0, **given)
    masses = trained.q_pos.values
    assert (np.diff(masses, axis=-1) >= 0).all()
    assert (masses[..., 0] < 0.9).all()
    assert (masses[..., -1] > 0.99).all()
    np.testing.assert_allclose(trained.retained_mass[..., -1], 1, rtol=1e-3)
    assert np.ptp(simulate(PROBLEMS[name], **given).q_pos.values, axis=-1).max() == 0


def test_correct_answers_too_rare_for_a_float_are_demonstrated_in_their_proportions():
    """The only probabilities in [e^-300, e^-301, rest] that a float32 holds are those of the rest."""
    problem = custom([-300.0, -301.0, 0.0], [0, 1])
    rate = {"learning_rate": 1.0}
    trained = simulate(
        problem, supervised=1.0, **ALONE, optimizer_parameters=rate, steps=4000, top_n=2, storage="dense"
    )
    assert trained.q_pos.values[..., -1] == pytest.approx(1, abs=1e-3)
    share = 1 / (1 + np.exp(-1))
    np.testing.assert_allclose(np.exp(trained.top_logp.values[:, -1]), [[share, 1 - share]] * 2, atol=0.01)


@pytest.mark.slow
def test_a_sweep_over_the_coefficient_has_its_dimension():
    result = sweep(
        "grpo", problem="anchored", actions=40, correct=8, group_size=1, supervised=[0.0, 0.5], seeds=2, steps=20
    )
    assert result.supervised.values.tolist() == [0.0, 0.5]
    without, mixed = (result.q_pos.sel(supervised=s).isel(step=-1).values for s in (0.0, 0.5))
    assert (mixed > without).all()


class Pairs(Categorical):
    """A problem of one's own with two tokens a rollout."""

    tokens = 2


def pairs():
    """Its fields are those of the problem that it is made from."""
    made = PROBLEMS["one prompt"]
    return Pairs(**{field.name: getattr(made, field.name) for field in dataclasses.fields(made) if field.init})


@pytest.mark.parametrize("problem", [tree(), tree(depth=1, rewarded="A"), pairs()])
def test_a_problem_without_one_softmax_over_answers_refuses_it(problem):
    why = f"of a {type(problem).__name__}, whose policy is not one softmax over all answers"
    assert refusal(simulate, problem, "grpo", supervised=0.1, steps=2) == f"supervised = 0.1 {why}; allowed: 0"
