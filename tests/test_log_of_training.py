"""``simlab diagnose`` reads the rollouts of a real training: they say what the trainer recorded of its groups."""

import numpy as np
import pytest
from training_cases import settings, task

from simlab.diagnose.reading import read_log
from simlab.llm.compare.runs import read_run
from simlab.llm.training.run import train

pytestmark = pytest.mark.usefixtures("quickly")


@pytest.mark.slow
def test_the_groups_of_a_run_are_those_that_its_metrics_speak_of(tmp_path):
    """The evaluations of a run without kept rollouts are read."""
    train(settings({"rl": {"steps": 2}, "evaluation": {"every": 1}}), tmp_path / "run", own_task=task())
    training = read_run(tmp_path / "run").arms["grpo"][0]
    recorded, reading = training.metrics, read_log([tmp_path / "run"])
    log = reading.log
    assert (log.format, log.refused.count, set(log.group_size)) == ("simlab", 0, {4})
    assert reading.mean_reward == pytest.approx(recorded["reward"].mean())
    for row, step in enumerate(recorded["step"]):
        mask = log.step == step
        assert mask.sum() == 4
        assert log.correct[mask].mean() / 4 == pytest.approx(recorded["solve_rate"][row])
        assert (log.correct[mask] == 0).mean() == pytest.approx(recorded["all_wrong"][row])
        assert (log.correct[mask] == 4).mean() == pytest.approx(recorded["all_right"][row])
        solutions = [(log.answers.group == group).sum() for group in np.flatnonzero(mask)]
        assert np.mean(solutions) == pytest.approx(recorded["distinct_solutions"][row])
        rollouts, drawn = reading.rollouts, mask[reading.rollouts.group]
        assert rollouts.length[drawn].mean() == pytest.approx(recorded["length"][row])
        per_token = rollouts.log_probability[drawn].sum() / rollouts.length[drawn].sum()
        assert per_token == pytest.approx(recorded["logp"][row], abs=1e-4)
    (tmp_path / "run" / "arms" / "grpo" / "seed-0" / "rollouts.jsonl").unlink()
    log = read_log([tmp_path / "run"]).log
    assert sorted(set(log.step)) == [1, 2]
    for evaluation in training.evaluations:
        np.testing.assert_array_equal(log.correct[log.step == evaluation.step], evaluation.correct)
