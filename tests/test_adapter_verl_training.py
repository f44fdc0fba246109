"""Whole trainings by verl's own command, on a CPU. Run with ``-m "verl and slow"``; a run takes minutes."""

import json

import pytest

pytestmark = [
    pytest.mark.verl,
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # of verl and what it imports
]
pytest.importorskip("verl")

from verl_runs import prepare, train

METRICS = ["actor/grad_norm", "actor/entropy", "critic/score/mean", "critic/advantages/min", "critic/advantages/max"]
OURS = {"trainer.v1.trainer_mode": "simlab_sync"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    one = tmp_path_factory.mktemp("verl")
    prepare(one)
    return one


def shown(steps):
    return [[step[name] for name in METRICS] for step in steps]


def test_grpo_of_ours_trains_as_verls_own(folder):
    """The second step samples from, and differentiates, the policy that the first has left."""
    theirs = train(folder, "theirs", 2, **{"algorithm.adv_estimator": "grpo"})
    settings = {
        "algorithm.adv_estimator": "simlab_grpo", "+algorithm.simlab.ddof": 1,
        "actor_rollout_ref.actor.policy_loss.loss_mode": "simlab_dual_clip",
    }  # fmt: skip
    ours = train(folder, "ours", 2, **OURS, **settings)
    assert len(theirs) == len(ours) == 2
    for found, expected in zip(shown(ours), shown(theirs), strict=True):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert all(step["actor/grad_norm"] > 0.1 for step in theirs)


def test_what_an_estimator_remembers_outlives_the_process(folder):
    """FADE reads the log-probabilities of the batch too, which only this trainer hands to it."""
    settings = OURS | {"algorithm.adv_estimator": "simlab_fade", "+algorithm.simlab.beta": 0.5}
    whole = train(folder, "whole", 3, **settings)
    resumed = {"trainer.resume_mode": "resume_path", "trainer.resume_from_path": folder / "whole" / "global_step_1"}
    again = train(folder, "again", 3, **settings, **resumed)
    for found, expected in zip(shown(again), shown(whole)[1:], strict=True):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)
    kept = [json.loads((folder / name / "global_step_3" / "simlab_estimator.json").read_text())
            for name in ("whole", "again")]  # fmt: skip
    (text, numbers), (same, found) = (next(iter(memory.items())) for memory in kept)
    assert text == same == "fade(beta=0.5)"
    assert found == pytest.approx(numbers, rel=1e-5)
    first = json.loads((folder / "whole" / "global_step_1" / "simlab_estimator.json").read_text())
    assert first[text] != numbers, "the memory has moved since"
